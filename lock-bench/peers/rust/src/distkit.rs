//! `distkit`: `Mutex::lock`, and `RwLock`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use distkit::{
    DistkitRedisKey,
    lock::{LockGuardState, LockOptions, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use redis::aio::ConnectionManager;

use crate::{
    driver::{Lock, Result, Role, System},
    setting::Setting,
};

struct Connected {
    connection: ConnectionManager,
    ttl: Duration,
}

pub(crate) async fn connect(setting: &Setting) -> Result<impl System + use<>> {
    let client = redis::Client::open(format!("redis://{}/", setting.address))?;
    Ok(Connected { connection: client.get_connection_manager().await?, ttl: setting.ttl })
}

#[async_trait]
impl System for Connected {
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>> {
        let key = DistkitRedisKey::try_from(name.to_owned())?;
        let options = LockOptions::builder(key, self.connection.clone()).ttl(self.ttl).build();
        let lock = match role {
            Role::Read => DistkitLock::Read(RwLock::new(options)),
            Role::Write => DistkitLock::Write(RwLock::new(options)),
            _ => DistkitLock::Mutex(Mutex::new(options)),
        };
        Ok(Box::new(Contender { lock, held: None }))
    }
}

struct Contender {
    lock: DistkitLock,
    held: Option<Held>,
}

enum DistkitLock {
    Mutex(Arc<Mutex>),
    Read(Arc<RwLock>),
    Write(Arc<RwLock>),
}

enum Held {
    Mutex(MutexGuard),
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        self.held = Some(match &self.lock {
            DistkitLock::Mutex(mutex) => Held::Mutex(mutex.lock().await?),
            DistkitLock::Read(lock) => Held::Read(lock.read().await?),
            DistkitLock::Write(lock) => Held::Write(lock.write().await?),
        });
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let state = match self.held.take().ok_or("not held")? {
            Held::Mutex(guard) => guard.release().await?,
            Held::Read(guard) => guard.release().await?,
            Held::Write(guard) => guard.release().await?,
        };
        Ok(!matches!(state, LockGuardState::Lost))
    }
}
