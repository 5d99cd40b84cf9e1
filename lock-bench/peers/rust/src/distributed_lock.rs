//! `distributed-lock`: a loop around `try_acquire`, because `acquire(None)`, which is documented to wait forever, fails immediately
//! on a lock that is held (0.2.0). The pause is the first one of the library's own bounded `acquire`.

use std::time::Duration;

use async_trait::async_trait;
use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;
use tokio::time::sleep;

use crate::{
    driver::{Lock, Result, Role, System},
    setting::Setting,
};

const PAUSE: Duration = Duration::from_millis(10);

struct Provider(RedisLockProvider);

type Mutex = <RedisLockProvider as LockProvider>::Lock;

pub(crate) async fn connect(setting: &Setting) -> Result<impl System + use<>> {
    let url = format!("redis://{}/", setting.address);
    let provider = RedisLockProvider::builder()
        .url(url)
        .expiry(setting.ttl)
        .extension_cadence(setting.ttl / 3)
        .build()
        .await?;
    Ok(Provider(provider))
}

#[async_trait]
impl System for Provider {
    async fn lock(&self, name: &str, _: Role) -> Result<Box<dyn Lock>> {
        Ok(Box::new(Contender { mutex: self.0.create_lock(name), held: None }))
    }
}

struct Contender {
    mutex: Mutex,
    held: Option<<Mutex as DistributedLock>::Handle>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        loop {
            self.held = self.mutex.try_acquire().await?;
            if self.held.is_some() {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    async fn release(&mut self) -> Result<bool> {
        let held = self.held.take().ok_or("not held")?;
        let kept = !*held.lost_token().borrow();
        held.release().await?;
        Ok(kept)
    }
}
