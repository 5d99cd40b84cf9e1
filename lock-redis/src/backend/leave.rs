//! `leave`: leaves the queue, holding or waiting.

use std::time::Duration;

use lock_core::{BackendError, Creates, Departure, Entry};

use super::{
    arguments::{millis, mutex_flag, text},
    redis::Redis,
};
use crate::{reply, request::Request};

/// The minimum ttl of a tombstone. It is longer than a server can be slow before clients give up their connections to it.
const MIN_TOMBSTONE_TTL: Duration = Duration::from_secs(60);

pub(super) async fn leave(redis: &Redis, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
    let own = redis.keys(&entry.name);
    let [lock, queue, entries] = [own.lock(), own.queue(), own.entries()];
    let subscriber = redis.notifications.current();
    let [id, fast] = [text(entry.id), mutex_flag(entry.claim.kind())];
    let channel = subscriber.channel().to_vec();
    let request = if creates == Creates::InDoubt {
        let tombstone_ttl = millis(entry.ttl.max(MIN_TOMBSTONE_TTL));
        let keys = [lock, queue, entries, own.tombstone(entry.id)];
        Request::leave_in_doubt(keys, [id, fast, channel, tombstone_ttl])
    } else {
        Request::leave([lock, queue, entries], [id, fast, channel])
    };
    let answer = redis.client.execute(request).await?;
    if let Some(hint) = reply::hint(&answer) {
        subscriber.deliver(hint);
    }
    let departure = reply::departure(&answer, redis.client.server())?;
    if creates == Creates::InDoubt {
        redis.client.delete_tombstone(entry.id, &own.tombstone(entry.id));
    }
    Ok(departure)
}
