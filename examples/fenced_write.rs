//! What if a holder is paused past its lease, and then goes on writing?
//!
//! No lock can stop it: the process does not know that time has passed. What it writes to can, if it compares tokens.
//!
//! ```sh
//! cargo run --example fenced_write
//! ```

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use distlock::{AcquireOptions, DistributedLock, FencingToken, Guard, Locks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    let account = Account::default();

    let paused = take(&locks).await?;
    let seen = account.balance();
    println!("token {}: the balance is {seen}, I take 80 … and the process is paused", paused.token());

    // The lease of the paused one ends, so the next one in the queue is admitted.
    let quick = take(&locks).await?;
    account.write(quick.token(), account.balance() - 50)?;
    println!("token {}: I have taken 50, the balance is {}", quick.token(), account.balance());

    // The paused one comes back in the middle of its thought. Without the token it would undo what was written.
    match account.write(paused.token(), seen - 80) {
        Ok(()) => return Err("a late write was taken".into()),
        Err(refused) => println!("token {}: {refused}", paused.token()),
    }
    println!("balance: {}", account.balance());
    assert_eq!(account.balance(), 50);
    drop((paused, quick));
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Short and without renewal, so that the lease runs out as it does when the whole process is stopped.
async fn take(locks: &Locks) -> Result<Guard, distlock::Error> {
    let options = AcquireOptions::new().ttl(Duration::from_millis(300)).renew(false);
    locks.mutex("account/7")?.acquire_with(&options).await
}

/// A resource that keeps the newest token beside the data, and compares them in one step. In SQL:
///
/// ```sql
/// UPDATE account SET balance = $1, token = $2 WHERE id = 7 AND token <= $2
/// ```
///
/// No row updated: the token is old.
struct Account(Mutex<(FencingToken, i64)>);

impl Default for Account {
    fn default() -> Self {
        Self(Mutex::new((FencingToken::new(0), 100)))
    }
}

impl Account {
    fn balance(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn write(&self, token: FencingToken, balance: i64) -> Result<(), String> {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if token < row.0 {
            return Err(format!("refused: token {token} is older than {}", row.0));
        }
        *row = (token, balance);
        Ok(())
    }
}
