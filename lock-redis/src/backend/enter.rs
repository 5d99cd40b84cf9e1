//! `enter`: stands in the queue, or looks again from the place taken.

use std::time::Duration;

use lock_core::{
    BackendError, BootTime, Entry, FencingToken, Holder, Kind, Standing, Step, WaitMode, valid_until,
};
use redis::Value;

use super::{arguments::millis, redis::Redis};
use crate::{
    client::{PlainOutcome, Undecided},
    keys::Keys,
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
    let now = redis.keeper.now();
    if step == Step::Create && redis.tombstones.lock().contains(entry.id, now) {
        return Ok(Standing::Gone);
    }
    let keys = redis.keys(&entry.name);
    if step == Step::Create
        && let Some(token) = redis.plain_grants.of(entry.id)
    {
        // C3: a create that is repeated keeps its token, which only this process may know.
        let found = enter_by_script(redis, entry, Step::Again(token), wait, &keys, None).await?;
        if !matches!(found, Standing::Gone) {
            return Ok(found);
        }
        redis.plain_grants.remove(entry.id);
    }
    let may_be_free = step == Step::Create
        && entry.claim.kind() == Kind::Mutex
        && !redis.contended.contains(&entry.name, now);
    let mut undecided = None;
    if may_be_free {
        if wait == WaitMode::Queue {
            redis.notifications.hear_of_evictions().await;
        }
        match redis.client.create_plainly(entry.id, plain_create(entry, &keys)).await? {
            PlainOutcome::Granted(token) => {
                redis.plain_grants.insert(entry.id, token);
                return Ok(admitted(entry, token, now));
            }
            PlainOutcome::Undecided(create) => undecided = Some(create),
            PlainOutcome::NotSent => {}
        }
    }
    enter_by_script(redis, entry, step, wait, &keys, undecided).await
}

fn plain_create(entry: &Entry, own: &Keys) -> Request {
    let value = match &entry.label {
        None => format!("{}:", entry.id),
        Some(label) => format!("{}::{label}", entry.id),
    };
    let keys = [own.queue(), own.counter(), own.lock()];
    Request::create_plainly(entry.id, keys, [value.into_bytes(), millis(entry.ttl)])
}

fn admitted(entry: &Entry, token: FencingToken, sent: BootTime) -> Standing {
    Standing::Admitted { token, ttl: entry.ttl, valid_until: valid_until(sent, entry.ttl, entry.ttl) }
}

/// The general case. `undecided`: plain commands were tried before, on a connection that gets the script, too.
async fn enter_by_script(
    redis: &Redis,
    entry: &Entry,
    step: Step,
    wait: WaitMode,
    keys: &Keys,
    undecided: Option<Undecided<'_>>,
) -> Result<Standing, BackendError> {
    // C6: an entry that may have to wait subscribes first.
    let (subscriber, hints) = match wait {
        WaitMode::Try => (redis.notifications.current(), None),
        WaitMode::Queue => {
            let (subscriber, hints) = redis.notifications.listen(entry.id).await;
            (subscriber, Some(hints))
        }
    };
    let request = request(redis, entry, step, wait, keys, &subscriber);
    let sent = redis.keeper.now();
    let answer: Value = match undecided {
        Some(create) => create.decide(request).await?,
        None => redis.client.execute(request).await?,
    };
    let reply = reply::enter(&answer, redis.client.server())?;
    if let EnterReply::Waiting { holder: Some(Holder::Foreign { expires: false }), .. } = reply {
        redis.foreign_holders.observe(redis.prefix(), entry, redis.keeper.now());
    }
    if matches!(reply, EnterReply::Waiting { .. } | EnterReply::Busy) {
        redis.contended.remember(&entry.name, redis.keeper.now());
    }
    Ok(match reply {
        EnterReply::Admitted { token } => admitted(entry, token, sent),
        EnterReply::Waiting { token, ahead, look_again, holder, unnotified } => Standing::Waiting {
            token,
            ttl: entry.ttl,
            valid_until: valid_until(sent, entry.ttl, entry.ttl),
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

fn request(
    redis: &Redis,
    entry: &Entry,
    step: Step,
    wait: WaitMode,
    own: &Keys,
    subscriber: &Subscriber,
) -> Request {
    let keys = [own.lock(), own.queue(), own.entries(), own.counter(), own.tombstone(entry.id)];
    let mode = match wait {
        WaitMode::Try => 't',
        WaitMode::Queue if subscriber.is_live() => 'q',
        WaitMode::Queue => 'p',
    };
    let kind = letter(entry.claim.kind());
    let (permits, limit) = (entry.claim.permits(), entry.claim.limit());
    let claim = match step {
        Step::Create => format!("{mode} {kind} {permits} {limit}"),
        Step::Again(token) => {
            let unwritten = if redis.plain_grants.of(entry.id) == Some(token) { "u" } else { "" };
            format!("{mode} {kind} {permits} {limit} {token}{unwritten}")
        }
    };
    let owner = match &entry.label {
        None => entry.id.to_string(),
        Some(label) => format!("{}:{label}", entry.id),
    };
    let args = [owner.into_bytes(), millis(entry.ttl), claim.into_bytes(), subscriber.channel().to_vec()];
    Request::enter((step == Step::Create).then_some(entry.id), keys, args)
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
