//! [`Witness`]: how long a cluster took no writes, measured without locks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::sync::Mutex;
use tokio::task::JoinSet;

use super::Admin;

/// Writes all the time, by each member, past the proxies of the clients.
#[derive(Debug)]
pub(crate) struct Witness {
    seen: Arc<Mutex<Seen>>,
    /// Ends with it.
    _writers: JoinSet<()>,
}

#[derive(Debug)]
struct Seen {
    last: Instant,
    longest: Duration,
}

impl Seen {
    fn written(&mut self, at: Instant) {
        self.longest = self.longest.max(at.saturating_duration_since(self.last));
        self.last = self.last.max(at);
    }
}

impl Witness {
    /// Begins to write. When this returns, a write was taken.
    pub(super) async fn start(members: impl IntoIterator<Item = Admin>) -> Self {
        let seen = Arc::new(Mutex::new(Seen { last: Instant::now(), longest: Duration::ZERO }));
        let mut writers = JoinSet::new();
        let mut first = JoinSet::new();
        for admin in members {
            let (written, begun) = tokio::sync::oneshot::channel();
            let mut written = Some(written);
            let seen = Arc::clone(&seen);
            writers.spawn(async move {
                loop {
                    // Again after every failure: how a client finds its way back is not what is measured.
                    if let Ok(mut client) = admin.try_client().await {
                        while client.put("witness", "", None).await.is_ok() {
                            seen.lock().written(Instant::now());
                            if let Some(written) = written.take() {
                                // The receiver may be gone.
                                let _ = written.send(());
                            }
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
            first.spawn(begun);
        }
        first.join_next().await.expect("a cluster has members").expect("it writes on").expect("it writes");
        // The start is no outage.
        seen.lock().longest = Duration::ZERO;
        Self { seen, _writers: writers }
    }

    /// The longest time for which no write was taken, from the start to now.
    pub(crate) fn longest_outage(&self) -> Duration {
        let seen = self.seen.lock();
        seen.longest.max(seen.last.elapsed())
    }
}
