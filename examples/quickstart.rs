//! What does a distributed lock do? Two contenders, a hand-off, fencing tokens and a lost lock, on the memory backend.
//!
//! ```sh
//! cargo run --example quickstart
//! ```

use std::{
    error::Error,
    time::{Duration, Instant},
};

use distlock::{AcquireOptions, DistributedLock, FencingToken, Guard, Lock, Locks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The same code runs on a server: only the URL changes.
    let locks = distlock::connect("memory:").await?;
    let lock = locks.mutex("invoices/42")?;

    let (anna, bert) = two_contenders(&lock).await?;
    let bert = hand_off(anna, bert).await?;
    let carl = lost(&locks, &lock, bert).await?;
    carl.release().await?;

    // A process that exits without `close` may leave a lock behind until its ttl ends.
    locks.close(Duration::from_secs(5)).await?;
    println!("\nEverything is released. Next: `cargo run --example stop_when_lost`, or README.md.");
    Ok(())
}

type Waiting = tokio::task::JoinHandle<Result<(Guard, Instant), distlock::Error>>;

async fn two_contenders(lock: &Lock) -> Result<(Guard, Waiting), Box<dyn Error>> {
    println!("1. Two contenders, one lock: `{}`", lock.name());
    let anna = lock.acquire_with(&called("anna")).await?;
    println!("   anna has it, token {}, for {:?} unless it is renewed", anna.token(), anna.ttl());

    let tried = lock.try_acquire_with(&called("bert")).await?;
    println!("   bert tries: {}", if tried.is_some() { "granted" } else { "busy, and waits in the queue" });
    let contender = lock.clone();
    let bert = tokio::spawn(async move {
        let guard = contender.acquire_with(&called("bert")).await?;
        Ok((guard, Instant::now()))
    });
    show_queue(lock, 2).await?;
    Ok((anna, bert))
}

async fn hand_off(anna: Guard, bert: Waiting) -> Result<Guard, Box<dyn Error>> {
    println!("\n2. The hand-off");
    let token = anna.token();
    let since = Instant::now();
    let released = anna.release().await?;
    let (bert, granted) = bert.await??;
    println!("   anna: {released:?}; bert has it {:?} later, nobody polled", granted - since);
    println!("   bert's token {} is greater than anna's, {token}: it grows with every grant", bert.token());
    assert!(bert.token() > token && bert.is_held());
    Ok(bert)
}

async fn lost(locks: &Locks, lock: &Lock, bert: Guard) -> Result<Guard, Box<dyn Error>> {
    println!("\n3. A lock that is lost");
    let mut invoice = Invoice::default();
    invoice.write(bert.token(), "written by bert")?;
    let lost = bert.lost();
    println!("   an operator takes the lock away from bert, by force");
    locks.operator().evict(lock.name(), bert.entry_id()).await?;
    println!("   bert's guard says so: lost, because {}; held: {}", lost.await, bert.is_held());

    let carl = lock.acquire_with(&called("carl")).await?;
    invoice.write(carl.token(), "written by carl")?;
    println!("   carl has it, token {}, and has written the invoice", carl.token());
    match invoice.write(bert.token(), "written by bert, too late") {
        Ok(()) => return Err("the invoice took a write with an old token".into()),
        Err(refused) => println!("   bert writes nevertheless, and is refused: {refused}"),
    }
    match bert.release().await {
        Err(error @ distlock::Error::Lost { .. }) => println!("   bert releases: {error}"),
        other => return Err(format!("bert's lock was lost: {other:?}").into()),
    }
    println!("   carl still holds it: {}", carl.is_held());
    Ok(carl)
}

/// The resource that the lock protects. It refuses old tokens, so that a holder that has not noticed its loss does no harm.
#[derive(Default)]
struct Invoice {
    newest: Option<FencingToken>,
    text: &'static str,
}

impl Invoice {
    fn write(&mut self, token: FencingToken, text: &'static str) -> Result<(), String> {
        match self.newest {
            Some(newest) if token < newest => {
                Err(format!("token {token} is older than {newest}; the invoice stays `{}`", self.text))
            }
            _ => {
                (self.newest, self.text) = (Some(token), text);
                Ok(())
            }
        }
    }
}

fn called(label: &str) -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(10)).wait(Duration::from_secs(30)).label(label)
}

/// Shows the queue as soon as there are `expected` in it.
async fn show_queue(lock: &Lock, expected: usize) -> Result<(), distlock::Error> {
    let mut rows = lock.queue().await?;
    while rows.len() < expected {
        tokio::time::sleep(Duration::from_millis(1)).await;
        rows = lock.queue().await?;
    }
    for row in rows {
        let role = if row.admitted { "holds it" } else { "waits" };
        println!("   queue: {} {role}", row.label.as_deref().unwrap_or("somebody"));
    }
    Ok(())
}
