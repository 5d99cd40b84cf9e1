//! [`RedisStore`]: a Redis server.

mod client;
mod floors;
mod forwarder;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Backend, Keeper};
use lock_redis::{Redis, RedisConfig};
use redis::Client;

use self::{
    client::{open, url},
    floors::RedisFloors,
    forwarder::RedisForwarder,
};
use super::{CommandCounts, Floors, Forwarder, Store, StoreKind, started_server::StartedServer};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct RedisStore {
    address: String,
    client: Client,
    /// The server that this process started. Last: clients are dropped before their server.
    server: Option<StartedServer>,
}

impl RedisStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = server::start().await?;
        let store = Self::at(server.address())?;
        Ok(Self { server: Some(server), ..store })
    }

    pub(crate) fn at(address: &str) -> Result<Self> {
        Ok(Self { address: address.to_owned(), client: open(address)?, server: None })
    }
}

#[async_trait]
impl Store for RedisStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Redis
    }

    fn description(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.server.as_ref().map_or("of another process", StartedServer::version);
        format!("Redis {version}, without persistence, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(StartedServer::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let config: RedisConfig = url(&self.address).parse()?;
        Ok(Arc::new(Redis::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(RedisFloors::connect(&self.client).await?)))
    }

    async fn forwarder(&self, from: &str, to: &str) -> Result<Option<Box<dyn Forwarder>>> {
        Ok(Some(Box::new(RedisForwarder::new(&self.client, from, to).await?)))
    }

    async fn command_counts(&self) -> Result<Option<CommandCounts>> {
        let floors = RedisFloors::connect(&self.client).await?;
        let info = floors.ask(redis::cmd("INFO").arg("commandstats")).await?;
        count(&info).map(Some)
    }
}

/// Counts the calls in lines such as `cmdstat_evalsha:calls=12,usec=…`.
fn count(info: &str) -> Result<CommandCounts> {
    let mut commands = CommandCounts::default();
    for line in info.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, figures) = line.split_once(":calls=").ok_or("cannot read `INFO commandstats`")?;
        let calls: u64 = figures.split(',').next().unwrap_or_default().parse()?;
        match name {
            // A transaction is sent in one go, so `EXEC` stands for all of it.
            "evalsha" | "eval" | "exec" => commands.sent += calls,
            // The rest of a transaction, the commands that open a connection, and those of this count itself.
            "multi" | "info" | "ping" | "auth" | "select" | "subscribe" | "hello" => {}
            _ if name.starts_with("client|") || name.starts_with("script|") => {}
            _ => commands.inside += calls,
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_call_is_counted_apart_from_what_clients_send() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=3,usec=9\r\ncmdstat_set:calls=5,usec=1\r\n\
                    cmdstat_info:calls=7,usec=1\r\ncmdstat_client|setname:calls=2,usec=1\r\ncmdstat_publish:calls=1,usec=1\r\n\
                    cmdstat_multi:calls=2,usec=1\r\ncmdstat_exec:calls=2,usec=1\r\n";
        assert_eq!(count(info).unwrap(), CommandCounts { sent: 5, inside: 6 });
    }
}
