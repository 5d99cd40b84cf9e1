//! `leave`: leaves the queue, holding or waiting.

use std::time::Duration;

use lock_core::{BackendError, Creates, Departure, Entry, Kind};
use redis::Value;

use super::{
    arguments::{millis, mutex_flag, text},
    redis::Redis,
};
use crate::{keys::Keys, reply, request::Request};

/// The minimum ttl of a tombstone. It is longer than a server can be slow before clients give up their connections to it.
const MIN_TOMBSTONE_TTL: Duration = Duration::from_secs(60);

pub(super) async fn leave(redis: &Redis, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
    redis.plain_grants.remove(entry.id);
    let keys = redis.keys(&entry.name);
    if creates == Creates::InDoubt {
        return leave_in_doubt(redis, entry, &keys).await;
    }
    let now = redis.keeper.now();
    if entry.claim.kind() == Kind::Mutex && !redis.contended.contains(&entry.name, now) {
        if release(redis, entry, &keys).await? {
            return Ok(Departure::Left);
        }
        redis.contended.remember(&entry.name, now);
    }
    let channel = redis.channel();
    let answer = redis.client.execute(request(entry, &keys, channel, false)).await?;
    departure(redis, &answer)
}

/// Releases a mutex for which nobody waits. False if a waiter has marked the value, or it is not that of this entry.
async fn release(redis: &Redis, entry: &Entry, keys: &Keys) -> Result<bool, BackendError> {
    let unmarked = format!("{}:", entry.id).into_bytes();
    let answer = redis.client.execute(Request::release(keys.lock(), unmarked)).await?;
    reply::released(&answer, redis.client.server())
}

async fn leave_in_doubt(redis: &Redis, entry: &Entry, keys: &Keys) -> Result<Departure, BackendError> {
    // First: a create of this entry that is asked for from now on is late.
    redis.tombstones.lock().insert(entry.id, entry.ttl, redis.keeper.now());
    let channel = redis.channel();
    let leave = |tombstone| request(entry, keys, channel.clone(), tombstone);
    let answer = redis.client.leave_in_doubt(entry.id, leave).await?;
    let departure = departure(redis, &answer)?;
    redis.client.forget(entry.id, &keys.tombstone(entry.id));
    Ok(departure)
}

/// The general case, with a tombstone if a script may still create the entry.
fn request(entry: &Entry, own: &Keys, channel: Vec<u8>, tombstone: bool) -> Request {
    let [lock, queue, entries] = [own.lock(), own.queue(), own.entries()];
    let [id, fast] = [text(entry.id), mutex_flag(entry.claim.kind())];
    if !tombstone {
        return Request::leave([lock, queue, entries], [id, fast, channel]);
    }
    let keys = [lock, queue, entries, own.tombstone(entry.id)];
    Request::leave_in_doubt(keys, [id, fast, channel, millis(entry.ttl.max(MIN_TOMBSTONE_TTL))])
}

/// Delivers the hint in the answer, if the lock went to an entry of this process.
fn departure(redis: &Redis, answer: &Value) -> Result<Departure, BackendError> {
    if let Some(hint) = reply::hint(answer) {
        redis.notifications.current().deliver(hint);
    }
    reply::departure(answer, redis.client.server())
}
