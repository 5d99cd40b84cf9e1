//! `zookeeper-client`: `Client::lock`. It is released by a drop, which deletes the node in the background: a release cannot be
//! awaited.

use async_trait::async_trait;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use crate::{
    driver::{Lock, Result, Role, System},
    setting::Setting,
};

struct Session(Client);

pub(crate) async fn connect(setting: &Setting) -> Result<impl System + use<>> {
    Ok(Session(Client::connector().with_session_timeout(setting.ttl).connect(&setting.address).await?))
}

#[async_trait]
impl System for Session {
    async fn lock(&self, name: &str, _: Role) -> Result<Box<dyn Lock>> {
        Ok(Box::new(Contender {
            client: self.0.clone(),
            folder: format!("/zookeeper-client/{name}"),
            held: None,
        }))
    }
}

struct Contender {
    client: Client,
    folder: String,
    held: Option<OwnedLockClient>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        let all = Acls::anyone_all();
        let options = LockOptions::new(all).with_ancestor_options(CreateMode::Persistent.with_acls(all))?;
        let prefix = LockPrefix::new_curator(&self.folder, "lock-")?;
        self.held = Some(self.client.lock(prefix, b"", options).await?.into_owned());
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        drop(self.held.take().ok_or("not held")?);
        Ok(true)
    }
}
