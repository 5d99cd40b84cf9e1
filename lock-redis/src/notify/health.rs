//! [`Health`]: whether this process may publish and receives notifications, and what it has logged about that.

use std::{
    mem,
    sync::atomic::{AtomicBool, Ordering},
};

use lock_core::{BackendErrorKind as Kind, Keeper, LogThrottle, isolate, sync::Mutex};
use redis::Cmd;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    client::{Endpoint, handshake},
    error::Failure,
    keys,
};

/// How long, in ms, all waiters of a prefix poll after a process has marked that it may not publish.
const MARK_TTL_MS: u32 = 60_000;

/// Whether the notifications of one process work, both ways.
///
/// A process that may not publish hands locks to waiters without notifying them, and the waiters cannot detect that. So the process
/// writes a mark into the store: while the mark exists, all waiters of the prefix poll.
#[derive(Debug)]
pub(super) struct Health {
    publish_denied: AtomicBool,
    /// Limits the lines: if subscriptions come and go, each end would be one.
    log: LogThrottle<Cause>,
    /// The causes of missing notifications that were logged.
    logged: Mutex<Vec<Kind>>,
    /// Whether it was logged that this process may not publish.
    logged_denied: AtomicBool,
}

/// A cause that is logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    Down(mem::Discriminant<Kind>),
    PublishDenied,
}

impl Health {
    /// Nothing is logged yet.
    pub(super) fn new(keeper: &Keeper) -> Self {
        let (publish_denied, logged, logged_denied) =
            (AtomicBool::new(false), Mutex::default(), AtomicBool::new(false));
        Self { publish_denied, log: LogThrottle::new(keeper), logged, logged_denied }
    }

    /// Whether this process may not publish, as far as it knows.
    pub(super) fn is_publish_denied(&self) -> bool {
        self.publish_denied.load(Ordering::Relaxed)
    }

    /// Publishes an empty message, and writes the mark if that is denied.
    pub(super) async fn check_publish(
        &self,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
        endpoint: &Endpoint,
        channel: &[u8],
    ) -> Result<(), Failure> {
        let publish_denied = is_publish_denied(socket, endpoint, channel).await?;
        self.publish_denied.store(publish_denied, Ordering::Relaxed);
        if publish_denied {
            let mut mark = Cmd::new();
            mark.arg("SET")
                .arg(keys::publish_denied_mark(&endpoint.config.prefix))
                .arg("")
                .arg("PX")
                .arg(MARK_TTL_MS);
            let answer = handshake::ask(socket, endpoint, &mark).await?;
            if answer != "+OK" {
                isolate(|| tracing::debug!(server = %endpoint.address, "redis took no mark: {answer:?}"));
            }
        } else {
            self.logged_denied.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Records that there are no notifications. Logs each cause once until notifications are live again, and at most once a second.
    pub(super) fn mark_down(&self, endpoint: &Endpoint, failure: &Failure) {
        let mut logged = self.logged.lock();
        let known = logged.contains(failure.kind());
        if !known {
            logged.push(failure.kind().clone());
        }
        drop(logged);
        if known {
            let why = failure.message();
            isolate(|| {
                tracing::debug!(server = %endpoint.address, "redis notifications are still down: {why}");
            });
            return;
        }
        let (server, why) = (endpoint.address.clone(), failure.message().to_owned());
        self.log.note(Cause::Down(mem::discriminant(failure.kind())), move |times| {
            tracing::warn!(%server, times, "redis notifications are down, waiters poll: {why}");
        });
    }

    /// Records that notifications are live. Logs once if this process may not publish any.
    pub(super) fn mark_live(&self, endpoint: &Endpoint) {
        self.logged.lock().clear();
        if self.is_publish_denied() && !self.logged_denied.swap(true, Ordering::Relaxed) {
            let (server, what) = (endpoint.address.clone(), not_permitted(endpoint, PUBLISH));
            self.log.note(Cause::PublishDenied, move |times| tracing::warn!(%server, times, "{what}"));
        }
    }
}

pub(super) const PUBLISH: &str = "publish to its channels, so the waiters for our locks poll";
pub(super) const SUBSCRIBE: &str = "subscribe to its channels";

/// Says what is not permitted, and how to permit it.
pub(super) fn not_permitted(endpoint: &Endpoint, what: &str) -> String {
    let (address, config) = (&endpoint.address, &endpoint.config);
    let (user, prefix) = (config.server.user.as_deref().unwrap_or("default"), &config.prefix);
    format!(
        "{address} does not let the user `{user}` {what}: permit it with `ACL SETUSER {user} +publish +subscribe &{prefix}*`"
    )
}

/// Whether publishing is denied. Any other refusal is no reason to go without notifications.
pub(super) async fn is_publish_denied(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    endpoint: &Endpoint,
    channel: &[u8],
) -> Result<bool, Failure> {
    let mut publish = Cmd::new();
    publish.arg("PUBLISH").arg(channel).arg("");
    Ok(handshake::ask(socket, endpoint, &publish).await?.starts_with("-NOPERM"))
}

#[cfg(test)]
mod tests {
    use std::{
        fmt,
        sync::Arc,
        time::{Duration, Instant},
    };

    use lock_core::SystemClock;
    use tracing::{
        Event, Level, Metadata, Subscriber,
        field::{Field, Visit},
        span,
    };

    use super::*;
    use crate::testing::{LATE, endpoint, runtime};

    const ENDS: u64 = 20;

    /// The number of events that each of our warnings reports.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<u64>>>);

    impl Warnings {
        fn times(&self) -> u64 {
            self.0.lock().iter().sum()
        }

        /// The first warning may come at once, each other one at the earliest a second after the one before.
        fn assert_paced(&self, began: Instant) {
            let lines = self.0.lock().len() as u64;
            let seconds = began.elapsed().as_secs();
            assert!(lines <= seconds + 1, "{lines} lines in {seconds} s");
        }
    }

    struct Times(u64);

    impl Visit for Times {
        fn record_u64(&mut self, field: &Field, value: u64) {
            if field.name() == "times" {
                self.0 = value;
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN && metadata.target().ends_with("::health")
        }

        fn event(&self, event: &Event<'_>) {
            let mut times = Times(1);
            event.record(&mut times);
            self.0.lock().push(times.0);
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    /// This happens behind a proxy that accepts every connection and closes it soon.
    #[test]
    fn subscriptions_that_come_and_go_are_told_once_a_second() {
        let warnings = Warnings::default();
        let _default = tracing::subscriber::set_default(warnings.clone());
        runtime().block_on(async {
            // On this thread, so that its later events are recorded as well.
            let keeper = Keeper::on_current_runtime(Arc::new(SystemClock));
            let (health, endpoint) = (Health::new(&keeper), endpoint("redis://127.0.0.1:1"));
            let failure = Failure::new(Kind::Unreachable, "the connection ended");
            let began = Instant::now();
            for _ in 0..ENDS {
                health.mark_live(&endpoint);
                health.mark_down(&endpoint, &failure);
            }
            warnings.assert_paced(began);
            while warnings.times() < ENDS {
                assert!(began.elapsed() < LATE, "told of {} of {ENDS}", warnings.times());
                keeper.sleep_until(keeper.now() + Duration::from_millis(10)).await;
            }
            warnings.assert_paced(began);
            assert_eq!(warnings.times(), ENDS);
        });
    }
}
