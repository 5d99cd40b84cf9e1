//! How does a write to ZooKeeper succeed only while the lock is held, whatever happened meanwhile?
//!
//! ZooKeeper checks the lock in the transaction that writes. That needs no clock, and no trust in the clock of the writer.
//!
//! ```sh
//! cargo run --example zk_fenced_write --features zk -- zk://127.0.0.1:2181
//! ```

use std::{env, error::Error, sync::Arc, time::Duration};

use distlock::{
    AcquireOptions, DistributedLock, Guard, Keeper, Locks, SystemEntropy,
    zk::{ZkConfig, ZooKeeper},
};
use zookeeper_client::{Acls, Client, CreateMode, MultiWriteError};

const BALANCE: &str = "/example-balance";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).unwrap_or_else(|| "zk://127.0.0.1:2181".to_owned());
    let config = ZkConfig::from_url(&url)?;
    // The data is in the same ensemble as the lock.
    let servers: Vec<String> = config.endpoints.iter().map(ToString::to_string).collect();
    let client = Client::connect(&servers.join(",")).await?;
    let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(BALANCE, &node).await?;
    client.set_data(BALANCE, b"100", None).await?;

    let zookeeper = Arc::new(ZooKeeper::connect(config, &Keeper::shared()).await?);
    let locks = Locks::with(Arc::clone(&zookeeper) as _, Keeper::shared(), Arc::new(SystemEntropy));

    let paused = take(&locks).await?;
    println!("token {}: the balance is {}, I take 80 … and am paused", paused.token(), read(&client).await?);
    // The write of the paused holder checks this node, which ends with its lease.
    let late = zookeeper.held(&paused.hold()).ok_or("the lock is lost")?;

    // The lease of the paused holder ends, so the next one in the queue is admitted.
    let quick = take(&locks).await?;
    let left = read(&client).await? - 50;
    let held = zookeeper.held(&quick.hold()).ok_or("the lock is lost")?;
    assert!(write(&held, &client, left).await?, "the lock is held, so this is written");
    println!("token {}: I have taken 50, the balance is {left}", quick.token());

    // The paused process goes on with its old balance.
    if write(&late, &client, 100 - 80).await? {
        return Err("a late write was taken".into());
    }
    println!("token {}: refused, because the lock is not held any more", paused.token());
    println!("balance: {}", read(&client).await?);
    drop((paused, quick));
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// A short lease without renewal: it ends as if the whole process was stopped.
async fn take(locks: &Locks) -> Result<Guard, distlock::Error> {
    let options = AcquireOptions::new().ttl(Duration::from_secs(1)).renew(false);
    locks.mutex("example/account")?.acquire_with(&options).await
}

async fn read(client: &Client) -> Result<i64, Box<dyn Error>> {
    let (data, _) = client.get_data(BALANCE).await?;
    Ok(String::from_utf8(data)?.parse()?)
}

/// Writes if the lock is held at the moment of the write, as ZooKeeper sees it. Returns whether it was held.
async fn write(held: &distlock::zk::HeldNode, client: &Client, balance: i64) -> Result<bool, Box<dyn Error>> {
    let mut write = client.new_multi_writer();
    write.add_check_version(held.path(), held.version())?;
    write.add_set_data(BALANCE, balance.to_string().as_bytes(), None)?;
    match write.commit().await {
        Ok(_) => Ok(true),
        // The first operation is the check.
        Err(MultiWriteError::OperationFailed { index: 0, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
