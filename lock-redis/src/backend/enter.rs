//! `enter`: stands in the queue, or looks again from the place taken.

use std::time::Duration;

use lock_core::{BackendError, Entry, Holder, Kind, Standing, Step, WaitMode, valid_until};

use super::{arguments::millis, redis::Redis};
use crate::{
    notify::Subscriber,
    reply::{self, EnterReply},
    request::Request,
};

/// How often a process without hints polls in total, whatever the number of its waiting entries.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(super) async fn enter(
    redis: &Redis,
    entry: &Entry,
    step: Step,
    wait: WaitMode,
) -> Result<Standing, BackendError> {
    // C6: an entry that may have to wait subscribes first.
    let (subscriber, hints) = match wait {
        WaitMode::Try => (redis.notifications.current(), None),
        WaitMode::Queue => {
            let (subscriber, hints) = redis.notifications.listen(entry.id).await;
            (subscriber, Some(hints))
        }
    };
    let own = redis.keys(&entry.name);
    let keys = [own.lock(), own.queue(), own.entries(), own.counter(), own.tombstone(entry.id)];
    let mode = match wait {
        WaitMode::Try => 't',
        WaitMode::Queue if subscriber.is_live() => 'q',
        WaitMode::Queue => 'p',
    };
    let kind = letter(entry.claim.kind());
    let (permits, limit) = (entry.claim.permits(), entry.claim.limit());
    let place = match step {
        Step::Create => format!("{mode} {kind} {permits} {limit}"),
        Step::Again(token) => format!("{mode} {kind} {permits} {limit} {token}"),
    };
    let owner = match &entry.label {
        None => entry.id.to_string(),
        Some(label) => format!("{}:{label}", entry.id),
    };
    let args = [owner.into_bytes(), millis(entry.ttl), place.into_bytes(), subscriber.channel().to_vec()];
    let creates = (step == Step::Create).then_some(entry.id);
    let sent = redis.keeper.now();
    let answer = redis.client.execute(Request::enter(creates, keys, args)).await?;
    let reply = reply::enter(&answer, redis.client.server())?;
    let valid_until = valid_until(sent, entry.ttl, entry.ttl);
    if let EnterReply::Waiting { holder: Some(Holder::Foreign { expires: false }), .. } = reply {
        redis.foreign_holders.observe(redis.prefix(), entry, redis.keeper.now());
    }
    Ok(match reply {
        EnterReply::Admitted { token } => Standing::Admitted { token, ttl: entry.ttl, valid_until },
        EnterReply::Waiting { token, ahead, look_again, holder, unnotified } => Standing::Waiting {
            token,
            ttl: entry.ttl,
            valid_until,
            ahead,
            holder,
            // Counted from now and not from when the request was sent: a look that is too early has to be repeated.
            look_again: redis.keeper.now()
                + if unnotified { look_again.max(poll_interval(&subscriber)) } else { look_again },
            // A try never waits.
            hints: hints.unwrap_or_else(|| Box::pin(futures_util::stream::empty())),
        },
        EnterReply::Busy => Standing::Busy,
        EnterReply::Gone => Standing::Gone,
    })
}

/// How long one waiter pauses between two looks, so that all waiters of the subscriber together look once per [`POLL_INTERVAL`].
fn poll_interval(subscriber: &Subscriber) -> Duration {
    POLL_INTERVAL.saturating_mul(u32::try_from(subscriber.waiters()).unwrap_or(u32::MAX))
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Mutex => 'm',
        Kind::RwLock => 'r',
        Kind::Semaphore => 's',
    }
}
