//! Who holds this lock, who waits for it, and how do I take it away?
//!
//! ```sh
//! cargo run --example who_holds_it
//! ```

use std::{error::Error, time::Duration};

use distlock::{AcquireOptions, DistributedLock, LockName};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    let stuck = locks.mutex("deploy/eu")?.acquire_with(&AcquireOptions::new().label("ci-17, stuck")).await?;
    let other = locks.mutex("deploy/us")?.acquire_with(&AcquireOptions::new().label("ci-18")).await?;

    // The error of a wait that is over names the holder.
    let impatient = AcquireOptions::new().wait(Duration::from_millis(50)).label("ci-19");
    match locks.mutex("deploy/eu")?.acquire_with(&impatient).await {
        Err(timeout @ distlock::Error::WaitTimeout { .. }) => println!("{timeout}"),
        other => return Err(format!("it should have waited in vain: {other:?}").into()),
    }

    // The interface for people and tools.
    let operator = locks.operator();
    for name in operator.list("deploy/").await? {
        for row in operator.queue(&name).await? {
            let role = if row.admitted { "held by" } else { "waited for by" };
            println!("{name} {role} {:?}, lease ends in {:?}", row.label, row.lease_left);
        }
    }
    let name = LockName::new("deploy/eu")?;
    println!("evict: {:?}", operator.evict(&name, stuck.entry_id()).await?);
    println!("the evicted one knows: {}", stuck.lost().await);
    let next = locks.mutex(&name)?.acquire().await?;
    println!("the next one has it, token {}", next.token());

    let diagnosis = operator.diagnose().await?;
    println!("the store: {:?}; problems: {:?}", diagnosis.facts, diagnosis.problems);
    println!("what it promises:\n{}", locks.guarantees());
    drop((stuck, other, next));
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}
