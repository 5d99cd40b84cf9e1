//! [`Voice`]: whether we may tell others anything.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use lock_core::BackendErrorKind as Kind;
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
#[derive(Debug, Default)]
pub(super) struct Voice {
    mute: AtomicBool,
    /// Why there are no notifications, as far as people were told.
    told: Mutex<Vec<Kind>>,
    /// People were told that we may not publish.
    told_of_mute: AtomicBool,
}

impl Voice {
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

    /// There are no notifications. People are told once for each cause.
    pub(super) fn is_deaf(&self, endpoint: &Endpoint, failure: &Failure) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let known = told.contains(failure.kind());
        if !known {
            told.push(failure.kind().clone());
        }
        drop(told);
        let why = failure.message();
        if known {
            tracing::debug!(server = %endpoint.address, "redis notifications are still down: {why}");
        } else {
            tracing::warn!(server = %endpoint.address, "redis notifications are down, waiters poll: {why}");
        }
    }

    /// There are notifications. People are told once if it is only from others.
    pub(super) fn hears(&self, endpoint: &Endpoint) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.is_mute() && !self.told_of_mute.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = %endpoint.address, "{}", refused(endpoint, PUBLISH));
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
