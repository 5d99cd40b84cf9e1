//! [`RedisStore`]: a Redis server.

mod floors;
mod server;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::{Backend, Keeper};
use lock_redis::{Redis, RedisConfig};
use redis::{
    Client, IntoConnectionInfo,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
    io::tcp::TcpSettings,
};
use tokio::time::{Instant, sleep_until, timeout};

use self::{floors::RedisFloors, server::Server};
use super::{Commands, Floors, Leg, Noise, Relay, Store};
use crate::{Result, args::StoreKind, timestamp::Timestamp};

#[derive(Debug)]
pub(crate) struct RedisStore {
    url: String,
    client: Client,
    /// Known if the server is ours.
    version: Option<String>,
    /// It lives as long as this. Last: the clients go before their server.
    server: Option<Server>,
}

impl RedisStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = Server::start().await?;
        let store = Self::at(&server.url())?;
        let info = RedisFloors::connect(&store.client).await?.ask(redis::cmd("INFO").arg("server")).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let version = version.ok_or("the server does not say its version")?.trim().to_owned();
        Ok(Self { version: Some(version), server: Some(server), ..store })
    }

    pub(crate) fn at(url: &str) -> Result<Self> {
        // As ours: without delay, RESP2.
        let settings = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(settings))?;
        Ok(Self { url: url.to_owned(), client, version: None, server: None })
    }
}

#[async_trait]
impl Store for RedisStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Redis
    }

    fn about(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.version.as_deref().unwrap_or("of somebody else");
        format!("Redis {version}, without persistence, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let config: RedisConfig = self.url.parse()?;
        Ok(Arc::new(Redis::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(RedisFloors::connect(&self.client).await?)))
    }

    async fn noise(&self) -> Result<Option<Noise>> {
        Ok(None)
    }

    async fn relay(&self, from: &str, to: &str) -> Result<Option<Box<dyn Relay>>> {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let publisher = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let (mut sink, messages) = self.client.get_async_pubsub().await?.split();
        sink.subscribe(from).await?;
        Ok(Some(Box::new(RedisRelay { publisher, messages, to: to.to_owned(), sink })))
    }

    async fn commands(&self) -> Result<Option<Commands>> {
        let floors = RedisFloors::connect(&self.client).await?;
        let info = floors.ask(redis::cmd("INFO").arg("commandstats")).await?;
        count(&info).map(Some)
    }
}

/// What the server says about each command: `cmdstat_evalsha:calls=12,usec=…`.
fn count(info: &str) -> Result<Commands> {
    let mut commands = Commands::default();
    for line in info.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, figures) = line.split_once(":calls=").ok_or("commandstats is not as it was")?;
        let calls: u64 = figures.split(',').next().unwrap_or_default().parse()?;
        match name {
            "evalsha" | "eval" => commands.sent += calls,
            // What connections say for themselves: ours when they are opened, and what this count itself takes.
            "info" | "ping" | "auth" | "select" | "subscribe" | "hello" => {}
            _ if name.starts_with("client|") || name.starts_with("script|") => {}
            _ => commands.inside += calls,
        }
    }
    Ok(commands)
}

/// The floor of a hand-off: `PUBLISH` on one connection, the subscription on another.
struct RedisRelay {
    publisher: MultiplexedConnection,
    messages: PubSubStream,
    to: String,
    /// The subscription lasts as long as this.
    #[expect(dead_code, reason = "only its drop does something")]
    sink: PubSubSink,
}

impl fmt::Debug for RedisRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRelay").field("to", &self.to).finish_non_exhaustive()
    }
}

/// What ends a chain.
const END: Timestamp = Timestamp(0);

#[async_trait]
impl Relay for RedisRelay {
    async fn run(&mut self, leg: Leg) -> Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        let mut ended = false;
        let mut arrived = if leg.first {
            self.publish_and_receive(Timestamp::now()).await?
        } else {
            self.receive().await?
        };
        loop {
            let (sent, received) = arrived;
            if sent == END {
                if !ended {
                    self.publish(END).await?;
                }
                return Ok(latencies);
            }
            latencies.push(received.since(sent));
            if !leg.hold.is_zero() {
                sleep_until(Instant::now() + leg.hold).await;
            }
            let now = Timestamp::now();
            ended = now >= leg.until;
            // The end goes once round the whole chain, so that nothing is left of it for the next round.
            arrived = self.publish_and_receive(if ended { END } else { now }).await?;
        }
    }
}

impl RedisRelay {
    /// At the same time: the message may come before the answer to the call that publishes it.
    async fn publish_and_receive(&mut self, message: Timestamp) -> Result<(Timestamp, Timestamp)> {
        let Self { publisher, messages, to, .. } = self;
        let (published, received) = tokio::join!(publish(publisher, to, message), receive(messages));
        published?;
        received
    }

    async fn publish(&mut self, message: Timestamp) -> Result<()> {
        publish(&mut self.publisher, &self.to, message).await
    }

    async fn receive(&mut self) -> Result<(Timestamp, Timestamp)> {
        receive(&mut self.messages).await
    }
}

async fn publish(publisher: &mut MultiplexedConnection, to: &str, message: Timestamp) -> Result<()> {
    let listeners: u64 = redis::cmd("PUBLISH").arg(to).arg(message.0).query_async(publisher).await?;
    if listeners == 1 { Ok(()) } else { Err(format!("{listeners} listen to a channel of the relay").into()) }
}

async fn receive(messages: &mut PubSubStream) -> Result<(Timestamp, Timestamp)> {
    let message = timeout(Duration::from_secs(10), messages.next()).await;
    let received = Timestamp::now();
    let message = message.map_err(|_| "a message of the relay was lost")?.ok_or("the relay was cut")?;
    Ok((Timestamp(message.get_payload()?), received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_call_is_counted_apart_from_what_clients_send() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=3,usec=9\r\ncmdstat_set:calls=5,usec=1\r\n\
                    cmdstat_info:calls=7,usec=1\r\ncmdstat_client|setname:calls=2,usec=1\r\ncmdstat_publish:calls=1,usec=1\r\n";
        assert_eq!(count(info).unwrap(), Commands { sent: 3, inside: 6 });
    }
}
