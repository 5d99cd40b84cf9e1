//! [`RedisFloors`]: what the server does without us, over the same crate and with the same settings.

use std::time::Instant;

use async_trait::async_trait;
use redis::{Client, Cmd, Script, aio::MultiplexedConnection};

use crate::{
    Result,
    samples::Samples,
    store::{Floors, Rival},
    uncontended::Stop,
};

/// A client without locks: one pipelined connection, as ours is.
#[derive(Clone, Debug)]
pub(super) struct RedisFloors {
    connection: MultiplexedConnection,
}

/// The release that everybody writes who takes a lock with `SET NX`.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

const TTL_MS: u32 = 30_000;

impl RedisFloors {
    pub(super) async fn connect(client: &Client) -> Result<Self> {
        // As our own connections: no timer of the driver for each command.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let loaded: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
        if loaded != Script::new(COMPARE_AND_DELETE).get_hash() {
            return Err("the server has another digest of the script".into());
        }
        Ok(Self { connection })
    }

    pub(super) async fn ask(&self, command: &Cmd) -> Result<String> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }
}

#[async_trait]
impl Floors for RedisFloors {
    /// `PING` after `PING`.
    async fn pings(&self, stop: Stop) -> Result<Samples> {
        let ping = redis::cmd("PING");
        let (mut connection, mut samples) = (self.connection.clone(), Samples::new());
        while stop.goes_on(samples.len()) {
            let started = Instant::now();
            let () = ping.query_async(&mut connection).await?;
            samples.record(started.elapsed());
        }
        Ok(samples)
    }

    /// `SET NX PX` and the script that compares and deletes, one pair after the other. Each time with another value, or
    /// there would be nothing to compare; it is only counted, not drawn at random, for a floor is what cannot be done
    /// faster.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples> {
        let script = Script::new(COMPARE_AND_DELETE);
        let sha = script.get_hash();
        let (mut connection, mut samples) = (self.connection.clone(), Samples::new());
        while stop.goes_on(samples.len()) {
            let started = Instant::now();
            let value = format!("{:032x}", samples.len());
            let mut take = redis::cmd("SET");
            take.arg(key).arg(&value).arg("NX").arg("PX").arg(TTL_MS);
            let taken: Option<String> = take.query_async(&mut connection).await?;
            let mut give_back = redis::cmd("EVALSHA");
            give_back.arg(sha).arg(1).arg(key).arg(&value);
            let deleted: i64 = give_back.query_async(&mut connection).await?;
            samples.record(started.elapsed());
            if taken.is_none() || deleted != 1 {
                return Err(format!("the raw pair on `{key}` was disturbed").into());
            }
        }
        Ok(samples)
    }

    async fn rival(&self, _rival: Rival, _name: &str, _stop: Stop) -> Result<Option<Samples>> {
        Ok(None)
    }
}
