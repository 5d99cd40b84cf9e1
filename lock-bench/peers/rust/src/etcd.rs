//! `etcd-client`: the lock service of the server (v3lock). Each contender has a lease of its own, because the service treats two
//! requests with one lease and one name as the same contender, and grants both.

use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, LockOptions};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    driver::{Lock, Result, Role, System},
    setting::Setting,
};

struct Connected {
    client: Client,
    ttl: Duration,
}

pub(crate) async fn connect(setting: &Setting) -> Result<impl System + use<>> {
    Ok(Connected { client: Client::connect([&setting.address], None).await?, ttl: setting.ttl })
}

#[async_trait]
impl System for Connected {
    async fn lock(&self, name: &str, _: Role) -> Result<Box<dyn Lock>> {
        let mut client = self.client.clone();
        let lease = client.lease_grant(i64::try_from(self.ttl.as_secs())?, None).await?.id();
        let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
        let every = self.ttl / 3;
        let kept = tokio::spawn(async move {
            while keeper.keep_alive().await.is_ok() && matches!(answers.message().await, Ok(Some(_))) {
                sleep(every).await;
            }
        });
        Ok(Box::new(Contender { client, lease, kept, name: name.to_owned(), key: Vec::new() }))
    }
}

struct Contender {
    client: Client,
    lease: i64,
    kept: JoinHandle<()>,
    name: String,
    key: Vec<u8>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        let options = LockOptions::new().with_lease(self.lease);
        self.key = self.client.lock(self.name.as_str(), Some(options)).await?.key().to_vec();
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        self.client.unlock(std::mem::take(&mut self.key)).await?;
        Ok(true)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.kept.abort();
    }
}
