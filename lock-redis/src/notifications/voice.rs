//! [`Voice`]: whether we may tell others anything.

use std::{
    mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use lock_core::{BackendErrorKind as Kind, Keeper, Paced};
use redis::Cmd;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    connection::{Endpoint, handshake},
    error::Failure,
    keys,
};

/// How long, in ms, all waiters of a prefix look by themselves after somebody has marked that he may not publish.
const MARKED_FOR: u32 = 60_000;

/// What a process has to say, and what it has said about that to people.
///
/// Whoever may not publish hands locks on without a word to those who wait, who hear everybody else. So it leaves a mark in the
/// store, which says for a while that not everybody speaks.
#[derive(Debug)]
pub(super) struct Voice {
    mute: AtomicBool,
    /// Where subscriptions come and go, each end is news.
    lines: Paced<Cause>,
    /// Why there are no notifications, as far as people were told.
    told: Mutex<Vec<Kind>>,
    /// People were told that we may not publish.
    told_of_mute: AtomicBool,
}

/// What people are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    Deaf(mem::Discriminant<Kind>),
    Mute,
}

impl Voice {
    /// Nothing is said yet.
    pub(super) fn new(keeper: &Keeper) -> Self {
        let (mute, told, told_of_mute) = (AtomicBool::new(false), Mutex::default(), AtomicBool::new(false));
        Self { mute, lines: Paced::new(keeper), told, told_of_mute }
    }

    /// Whether we may not publish, as far as we know.
    pub(super) fn is_mute(&self) -> bool {
        self.mute.load(Ordering::Relaxed)
    }

    /// Says something to nobody, and leaves the mark if we may not.
    pub(super) async fn try_out(
        &self,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
        endpoint: &Endpoint,
        channel: &[u8],
    ) -> Result<(), Failure> {
        let mute = is_refused(socket, endpoint, channel).await?;
        self.mute.store(mute, Ordering::Relaxed);
        if mute {
            let mut mark = Cmd::new();
            mark.arg("SET")
                .arg(keys::mark_of_the_mute(&endpoint.config.prefix))
                .arg("")
                .arg("PX")
                .arg(MARKED_FOR);
            let answer = handshake::ask(socket, endpoint, &mark).await?;
            if answer != "+OK" {
                tracing::debug!(server = %endpoint.address, "redis took no mark: {answer:?}");
            }
        } else {
            self.told_of_mute.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// There are no notifications. People are told once for each cause until there are some again, and at most once a second.
    pub(super) fn is_deaf(&self, endpoint: &Endpoint, failure: &Failure) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let known = told.contains(failure.kind());
        if !known {
            told.push(failure.kind().clone());
        }
        drop(told);
        if known {
            let why = failure.message();
            tracing::debug!(server = %endpoint.address, "redis notifications are still down: {why}");
            return;
        }
        let (server, why) = (endpoint.address.clone(), failure.message().to_owned());
        self.lines.note(Cause::Deaf(mem::discriminant(failure.kind())), move |times| {
            tracing::warn!(%server, times, "redis notifications are down, waiters poll: {why}");
        });
    }

    /// There are notifications. People are told once if it is only from others.
    pub(super) fn hears(&self, endpoint: &Endpoint) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.is_mute() && !self.told_of_mute.swap(true, Ordering::Relaxed) {
            let (server, what) = (endpoint.address.clone(), refused(endpoint, PUBLISH));
            self.lines.note(Cause::Mute, move |times| tracing::warn!(%server, times, "{what}"));
        }
    }
}

pub(super) const PUBLISH: &str = "publish to its channels, so those who wait for our locks poll";
pub(super) const SUBSCRIBE: &str = "subscribe to its channels";

/// What is not permitted, and how to permit it.
pub(super) fn refused(endpoint: &Endpoint, what: &str) -> String {
    let (address, config) = (&endpoint.address, &endpoint.config);
    let (user, prefix) = (config.user.as_deref().unwrap_or("default"), &config.prefix);
    format!(
        "{address} does not let the user `{user}` {what}: permit it with `ACL SETUSER {user} +publish +subscribe &{prefix}*`"
    )
}

/// Whether we may not publish. Anything but that is no reason to go without notifications.
pub(super) async fn is_refused(
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

    /// Of how many things each of our warnings tells.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<u64>>>);

    impl Warnings {
        fn times(&self) -> u64 {
            self.0.lock().unwrap().iter().sum()
        }

        /// The first may come at once, and each of the others a second after the one before at the earliest.
        fn assert_paced(&self, began: Instant) {
            let lines = self.0.lock().unwrap().len() as u64;
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
            *metadata.level() == Level::WARN && metadata.target().ends_with("::voice")
        }

        fn event(&self, event: &Event<'_>) {
            let mut times = Times(1);
            event.record(&mut times);
            self.0.lock().unwrap().push(times.0);
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    /// As behind a proxy that takes every connection, and ends it soon.
    #[test]
    fn subscriptions_that_come_and_go_are_told_once_a_second() {
        let warnings = Warnings::default();
        let _default = tracing::subscriber::set_default(warnings.clone());
        runtime().block_on(async {
            // On this thread, so that what it tells later is heard as well.
            let keeper = Keeper::on_current_runtime(Arc::new(SystemClock));
            let (voice, endpoint) = (Voice::new(&keeper), endpoint("redis://127.0.0.1:1"));
            let failure = Failure::new(Kind::Unreachable, "the connection ended");
            let began = Instant::now();
            for _ in 0..ENDS {
                voice.hears(&endpoint);
                voice.is_deaf(&endpoint, &failure);
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
