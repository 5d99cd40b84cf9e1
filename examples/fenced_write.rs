//! What if a holder is paused past its lease, and then goes on writing to a file, or to a database?
//!
//! No lock can stop it: the process does not know that time has passed. The file or database can, if it compares tokens.
//!
//! ```sh
//! cargo run --example fenced_write
//! cargo run --example fenced_write --features redis -- redis://127.0.0.1:6379
//! ```

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use distlock::{AcquireOptions, DistributedLock, FencingToken, Guard, Locks};
use rusqlite::Connection;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let locks = distlock::connect(&url).await?;
    let folder = std::env::temp_dir().join(format!("distlock-fenced-{}", std::process::id()));

    let paused = take(&locks).await?;
    let mut accounts: [Box<dyn Account>; 2] =
        [Box::new(InFiles::new(&folder)?), Box::new(InSql::new(paused.token())?)];
    println!("token {}: the balance is 100, I take 80 … and the process is paused", paused.token());

    // The lease of the paused holder ends, so the next one in the queue is admitted.
    let quick = take(&locks).await?;
    for account in &mut accounts {
        account.write(quick.token(), 50)?;
        // The paused process goes on with its old balance, and would overwrite the new one.
        let late = account.write(paused.token(), 20);
        let refused =
            late.map_or_else(|error| error.to_string(), |()| "taken, and read by nobody".to_owned());
        println!("{}: token {}: {refused}; balance: {}", account.name(), paused.token(), account.balance()?);
        assert_eq!(account.balance()?, 50);
    }
    drop((paused, quick));
    fs::remove_dir_all(folder)?;
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// A short lease without renewal: it ends as if the whole process was stopped.
async fn take(locks: &Locks) -> Result<Guard, distlock::Error> {
    let options = AcquireOptions::new().ttl(Duration::from_millis(300)).renew(false);
    locks.mutex("examples/account/7")?.acquire_with(&options).await
}

trait Account {
    fn name(&self) -> &'static str;
    fn balance(&self) -> Outcome<i64>;
    fn write(&mut self, token: FencingToken, balance: i64) -> Outcome<()>;
}

/// A file cannot compare tokens. So each write creates a new file, whose name is its token, and the file with the largest token counts. A
/// write is one rename, so nothing can happen between a check and the write.
struct InFiles(PathBuf);

impl InFiles {
    fn new(folder: &Path) -> Outcome<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self(folder.to_owned()))
    }
}

impl Account for InFiles {
    fn name(&self) -> &'static str {
        "in files"
    }

    fn balance(&self) -> Outcome<i64> {
        let names =
            fs::read_dir(&self.0)?.map(|file| Ok(file?.file_name().into_string().unwrap_or_default()));
        let names = names.collect::<Outcome<Vec<_>>>()?;
        let newest = names.iter().filter_map(|name| name.parse::<u64>().ok()).max();
        newest.map_or(Ok(100), |newest| Ok(fs::read_to_string(self.0.join(newest.to_string()))?.parse()?))
    }

    fn write(&mut self, token: FencingToken, balance: i64) -> Outcome<()> {
        let half = self.0.join(format!("{token}.half"));
        fs::write(&half, balance.to_string())?;
        Ok(fs::rename(half, self.0.join(token.to_string()))?)
    }
}

/// A row keeps the newest token beside the data, and one statement compares and writes.
struct InSql(Connection);

impl InSql {
    fn new(token: FencingToken) -> Outcome<Self> {
        let sql = Connection::open_in_memory()?;
        sql.execute_batch("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER)")?;
        sql.execute("INSERT INTO account VALUES (7, 100, ?1)", [token.get().cast_signed()])?;
        Ok(Self(sql))
    }
}

impl Account for InSql {
    fn name(&self) -> &'static str {
        "in SQL"
    }

    fn balance(&self) -> Outcome<i64> {
        Ok(self.0.query_row("SELECT balance FROM account WHERE id = 7", [], |row| row.get(0))?)
    }

    fn write(&mut self, token: FencingToken, balance: i64) -> Outcome<()> {
        // Tokens are far below 2^63.
        let written = self.0.execute(
            "UPDATE account SET balance = ?1, token = ?2 WHERE id = 7 AND token <= ?2",
            [balance, token.get().cast_signed()],
        )?;
        if written == 0 { Err("refused, the token is old".into()) } else { Ok(()) }
    }
}
