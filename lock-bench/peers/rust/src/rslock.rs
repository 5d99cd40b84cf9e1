//! `rslock`: `LockManager::acquire`, which tries until it has the lock. It renews nothing.

use std::time::Duration;

use async_trait::async_trait;
use rslock::{Lock as Held, LockManager};

use crate::{
    driver::{Lock, Result, Role, System},
    setting::Setting,
};

struct Manager {
    manager: LockManager,
    ttl: Duration,
}

pub(crate) fn connect(setting: &Setting) -> Result<impl System + use<>> {
    let manager = LockManager::new(vec![format!("redis://{}/", setting.address)]);
    Ok(Manager { manager, ttl: setting.ttl })
}

#[async_trait]
impl System for Manager {
    async fn lock(&self, name: &str, _: Role) -> Result<Box<dyn Lock>> {
        Ok(Box::new(Contender {
            manager: self.manager.clone(),
            ttl: self.ttl,
            name: name.to_owned(),
            held: None,
        }))
    }
}

struct Contender {
    manager: LockManager,
    ttl: Duration,
    name: String,
    held: Option<Held>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        let held = self.manager.acquire_no_guard(self.name.as_bytes(), self.ttl).await;
        self.held = Some(held.map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let held = self.held.take().ok_or("not held")?;
        // The library does not tell whether it was still held.
        held.release().await;
        Ok(true)
    }
}
