//! [`Distlock`]: the driver of our locks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, SystemEntropy};

use super::{
    contenders::Contenders,
    driver::{Driver, LibraryDriver, Lock, Role, System, now},
    held_locks::HeldLocks,
    link::Link,
    protocol::{Request, Response},
};
use crate::{
    error::Result,
    store::{ForwardingRound, Store},
    timestamp::Timestamp,
};

/// The permits of a semaphore, in all languages.
pub(crate) const PERMITS: usize = 8;

/// Handles the optional requests, too: those that only the rows need.
pub(crate) struct Distlock {
    store: Arc<dyn Store>,
    /// Takes pairs, and contends for `compare`.
    library: LibraryDriver,
    held: HeldLocks,
    /// Those that joined.
    contenders: Option<Contenders>,
    link: Link,
}

impl Distlock {
    /// With a client of its own.
    pub(crate) fn new(store: Arc<dyn Store>, ttl: Duration) -> Result<Self> {
        let options = AcquireOptions::new().ttl(ttl);
        let locks =
            Locks::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy)).with_options(options);
        Ok(Self {
            store,
            library: LibraryDriver::new(Library(locks.clone())),
            held: HeldLocks::new(locks),
            contenders: None,
            link: Link::default(),
        })
    }

    async fn join(&mut self, name: &str) -> Result<()> {
        let contenders = match &mut self.contenders {
            Some(contenders) => contenders,
            none => none.insert(Contenders::new(&*self.store, name)?),
        };
        contenders.join().await
    }

    async fn take_turns(&mut self, hold: Duration, length: Duration) -> Result<Response> {
        let contenders = self.contenders.as_mut().ok_or("there are no contenders")?;
        Ok(Response::Tenures(contenders.run(hold, length).await?))
    }

    async fn disband(&mut self) -> Result<()> {
        self.contenders.take().ok_or("there are no contenders")?.finish().await
    }
}

#[async_trait]
impl Driver for Distlock {
    async fn handle(&mut self, request: Request) -> Result<Response> {
        let mut lost = 0;
        match request {
            Request::Pairs(_) | Request::Contend(_) => return self.library.handle(request).await,
            Request::Hold { name } => {
                self.held.hold(&name).await?;
                return Ok(Response::Acquired { at_ns: now() });
            }
            Request::NextRenewal {} => {
                let Timestamp(until_ns) = self.held.next_renewal().await?;
                return Ok(Response::Renewed { until_ns });
            }
            Request::Keep { name, count } => self.held.keep(&name, count).await?,
            Request::GiveBack {} => lost = self.held.give_back().await?,
            Request::Join { name } => self.join(&name).await?,
            Request::TakeTurns { hold_us, run_ms } => {
                let (hold, length) = (Duration::from_micros(hold_us), Duration::from_millis(run_ms));
                return self.take_turns(hold, length).await;
            }
            Request::Disband {} => self.disband().await?,
            Request::Listen { from, to } => self.link.listen(&*self.store, &from, &to).await?,
            Request::PassOn { first, hold_us, until_ns } => {
                let (hold, until) = (Duration::from_micros(hold_us), Timestamp(until_ns));
                return self.link.pass_on(ForwardingRound { first, hold, until }).await;
            }
        }
        Ok(Response::Done { lost })
    }
}

/// Our locks as any other library.
struct Library(Locks);

#[async_trait]
impl System for Library {
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>> {
        let lock: Arc<dyn DistributedLock> = match role {
            Role::Mutex => Arc::new(self.0.mutex(name)?),
            Role::Read => Arc::new(self.0.rwlock(name)?.read()),
            Role::Write => Arc::new(self.0.rwlock(name)?.write()),
            Role::Permit => Arc::new(self.0.semaphore(name, u32::try_from(PERMITS)?)?.permits(1)?),
        };
        Ok(Box::new(Contender { lock, guard: None }))
    }
}

struct Contender {
    lock: Arc<dyn DistributedLock>,
    guard: Option<Guard>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let guard = self.guard.take().ok_or("not held")?;
        Ok(guard.release().await?.confirmed().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{self, StoreKind};

    #[tokio::test]
    async fn the_next_renewal_of_a_lock_that_is_held_is_waited_for() {
        let store = Arc::from(store::start(StoreKind::Memory).await.unwrap());
        let mut driver = Distlock::new(store, Duration::from_secs(2)).unwrap();
        driver.handle(Request::Hold { name: "held".to_owned() }).await.unwrap();
        let mut deadlines = Vec::new();
        for _ in 0..2 {
            match driver.handle(Request::NextRenewal {}).await.unwrap() {
                Response::Renewed { until_ns } => deadlines.push(Timestamp(until_ns)),
                other => panic!("{other:?}"),
            }
        }
        assert!(deadlines[1].since(deadlines[0]) > Duration::from_millis(300), "{deadlines:?}");
    }
}
