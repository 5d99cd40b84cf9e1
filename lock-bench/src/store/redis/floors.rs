//! [`RedisFloors`]: what the server does without locks, over the same crate and with the same settings.

use std::time::Instant;

use async_trait::async_trait;
use redis::{Client, Cmd, Script, aio::MultiplexedConnection};

use super::client::connect;
use crate::{
    error::Result,
    samples::Samples,
    store::{Floors, Stop},
};

/// A client without locks: one pipelined connection, as the client of our locks has.
#[derive(Clone, Debug)]
pub(super) struct RedisFloors {
    connection: MultiplexedConnection,
}

/// The usual way to release a lock that was taken with `SET NX`.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

const TTL_MS: u32 = 30_000;

impl RedisFloors {
    pub(super) async fn connect(client: &Client) -> Result<Self> {
        let mut connection = connect(client).await?;
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
        let (mut connection, mut samples) = (self.connection.clone(), Samples::default());
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            let () = ping.query_async(&mut connection).await?;
            samples.record(started.elapsed());
        }
        Ok(samples)
    }

    /// `SET NX PX` and the script that compares and deletes, one pair after the other. Each pair has a value of its own to
    /// compare. The value is a counter and not random, because a floor is as fast as possible.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples> {
        let script = Script::new(COMPARE_AND_DELETE);
        let sha = script.get_hash();
        let (mut connection, mut samples) = (self.connection.clone(), Samples::default());
        while stop.should_continue(samples.len()) {
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
}
