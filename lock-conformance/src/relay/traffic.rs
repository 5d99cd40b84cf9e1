//! [`Traffic`]: what a relay has to do, and what it has done.

use std::{collections::BTreeMap, fmt::Display, io, net::SocketAddr, time::Duration};

use lock_core::sync::{Mutex, MutexGuard};
use tokio::{net::TcpStream, sync::watch, time::timeout};

use crate::Gate;

/// A server that has not answered after this time never will. Then the harness has failed. Nothing else depends on this time.
const NEVER: Duration = Duration::from_secs(30);

/// What all connections of a [`Relay`](super::Relay) share. The [`Framing`](super::Framing) reports requests, answers and hints to it.
#[derive(Debug)]
pub struct Traffic {
    doubles: bool,
    never: Duration,
    counts: Mutex<Counts>,
    failure: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) asked: BTreeMap<String, u64>,
    pub(super) doubled: BTreeMap<String, u64>,
    pub(super) held: BTreeMap<String, u64>,
    pub(super) hints: u64,
    /// Where answers wait: those to requests of this name, or all.
    gate: Option<(Option<String>, Gate)>,
}

impl Traffic {
    pub(super) fn new(doubles: bool) -> Self {
        Self { doubles, never: NEVER, counts: Mutex::default(), failure: watch::Sender::new(None) }
    }

    /// With less patience, for tests of the relay itself.
    #[cfg(test)]
    pub(super) fn impatient(never: Duration) -> Self {
        Self { never, ..Self::new(true) }
    }

    /// Whether every request has to reach the server twice.
    #[must_use]
    pub fn doubles(&self) -> bool {
        self.doubles
    }

    /// Counts a request that is forwarded.
    pub fn asked(&self, name: &str) {
        count(&mut self.counts().asked, name);
    }

    /// Counts a hint from the server.
    pub fn hint(&self) {
        self.counts().hints += 1;
    }

    /// Waits until a request that is sent for the second time is answered in full. If it is not, the relay fails.
    ///
    /// # Errors
    /// Why it is not.
    ///
    /// # Cancel safety
    /// Safe to drop; then nothing is counted.
    pub async fn double<T>(&self, name: &str, again: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let failure = match timeout(self.never, again).await {
            Ok(Ok(answer)) => {
                self.doubled(name);
                return Ok(answer);
            }
            Ok(Err(error)) => format!("`{name}` could not be sent twice: {error}"),
            Err(_) => format!("the second `{name}` was not answered in full within {:?}", self.never),
        };
        Err(self.fault(&failure))
    }

    /// Counts a request that was answered twice.
    pub(super) fn doubled(&self, name: &str) {
        count(&mut self.counts().doubled, name);
    }

    /// Opens the connection on which requests are sent for the second time. If it cannot, the relay fails.
    ///
    /// # Errors
    /// Why it cannot be opened.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn second_connection(&self, server: SocketAddr) -> io::Result<TcpStream> {
        let connected = TcpStream::connect(server).await.and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        connected.map_err(|error| self.fault(&format_args!("there is no second connection: {error}")))
    }

    /// Records that the relay cannot do what it was told, which is no fault of the store. The error is for the connection.
    pub fn fault(&self, failure: &dyn Display) -> io::Error {
        let failure = failure.to_string();
        // The first tells why the others happened.
        self.failure.send_if_modified(|known| known.is_none() && known.replace(failure.clone()).is_none());
        io::Error::other(failure)
    }

    /// The gate that an answer has to pass, if there is one.
    #[must_use]
    pub fn gate(&self, name: &str) -> Option<Gate> {
        let mut counts = self.counts();
        let gate = match &counts.gate {
            Some((only, gate)) if only.as_deref().is_none_or(|only| only == name) => Some(gate.clone()),
            _ => None,
        };
        if gate.is_some() {
            count(&mut counts.held, name);
        }
        gate
    }

    /// Holds the answers to requests of this name, or all.
    pub(super) fn hold(&self, only: Option<&str>, gate: &Gate) {
        self.counts().gate = Some((only.map(str::to_owned), gate.clone()));
    }

    /// Waits until something goes wrong, and says what.
    pub(super) async fn failure(&self) -> String {
        let mut failure = self.failure.subscribe();
        // The sender lives in `self`, so that there is always an answer.
        let failed = failure.wait_for(Option::is_some).await;
        failed.ok().and_then(|failure| failure.clone()).unwrap_or_default()
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => drop(counts.insert(name.to_owned(), 1)),
    }
}
