//! How does a write to etcd succeed only while the lock is held, whatever happened meanwhile?
//!
//! etcd checks the lock in the transaction that writes. That needs no clock, and no trust in the clock of the writer.
//!
//! ```sh
//! cargo run --example etcd_fenced_write --features etcd -- etcd://127.0.0.1:2379
//! ```

use std::{env, error::Error, sync::Arc, time::Duration};

use distlock::{
    AcquireOptions, DistributedLock, Guard, Keeper, Locks, SystemEntropy,
    etcd::{Etcd, EtcdConfig, HeldKey},
};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

const BALANCE: &str = "example/balance";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).unwrap_or_else(|| "etcd://127.0.0.1:2379".to_owned());
    let config = EtcdConfig::from_url(&url)?;
    // The data is in the same cluster as the lock.
    let endpoints: Vec<String> = config.endpoints.iter().map(ToString::to_string).collect();
    let mut client = Client::connect(endpoints, None).await?;
    client.put(BALANCE, "100", None).await?;

    let etcd = Arc::new(Etcd::connect(config, &Keeper::shared()).await?);
    let locks = Locks::with(Arc::clone(&etcd) as _, Keeper::shared(), Arc::new(SystemEntropy));

    let paused = take(&locks).await?;
    println!(
        "token {}: the balance is {}, I take 80 … and am paused",
        paused.token(),
        read(&mut client).await?
    );

    // The write of the paused holder compares this key, which ends with its lease.
    let late = etcd.held(&paused.hold()).ok_or("the lock is lost")?;

    // The lease of the paused holder ends, so the next one in the queue is admitted.
    let quick = take(&locks).await?;
    let left = read(&mut client).await? - 50;
    let held = etcd.held(&quick.hold()).ok_or("the lock is lost")?;
    assert!(write(&held, &mut client, left).await?, "the lock is held, so this is written");
    println!("token {}: I have taken 50, the balance is {left}", quick.token());

    // The paused process goes on with its old balance.
    if write(&late, &mut client, 100 - 80).await? {
        return Err("a late write was taken".into());
    }
    println!("token {}: refused, because the lock is not held any more", paused.token());
    println!("balance: {}", read(&mut client).await?);
    drop((paused, quick));
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// A short lease without renewal: it ends as if the whole process was stopped.
async fn take(locks: &Locks) -> Result<Guard, distlock::Error> {
    let options = AcquireOptions::new().ttl(Duration::from_secs(1)).renew(false);
    locks.mutex("example/account")?.acquire_with(&options).await
}

async fn read(client: &mut Client) -> Result<i64, Box<dyn Error>> {
    let answer = client.get(BALANCE, None).await?;
    Ok(answer.kvs().first().ok_or("somebody has deleted the balance")?.value_str()?.parse()?)
}

/// Writes if the lock is held at the moment of the write, as etcd sees it. Returns whether it was held.
async fn write(held: &HeldKey, client: &mut Client, balance: i64) -> Result<bool, Box<dyn Error>> {
    let still_held = Compare::create_revision(held.key(), CompareOp::Equal, held.create_revision());
    let put = TxnOp::put(BALANCE, balance.to_string(), None);
    let answer = client.txn(Txn::new().when([still_held]).and_then([put])).await?;
    Ok(answer.succeeded())
}
