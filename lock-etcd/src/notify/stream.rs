//! [`WatchStream`]: the one stream on which etcd sends events.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use etcd_client::{WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use futures_channel::mpsc::UnboundedReceiver;
use futures_util::{
    StreamExt,
    future::{AbortHandle, AbortRegistration, Abortable, pending},
};
use lock_core::{
    Alarms, BackOff, BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy, isolate, sync::Mutex,
};
use tokio::sync::watch;

use super::{
    catch_up::CatchUp,
    hub::{EVICTIONS, WatchHub},
    hub_state::Command,
    later_looks::{LookLater, later_looks},
};
use crate::{
    client::{Client, ConnectionHandle},
    error::{Cause, Failure},
    keys,
};

const BACK_OFF: BackOff =
    BackOff { least: std::time::Duration::from_millis(50), most: std::time::Duration::from_secs(2) };

/// One stream for all watches of this process, which the keeper drives and replaces.
///
/// A new stream does not report what happened before it. So every new stream is followed by a [look](CatchUp) for all waiters, and a
/// waiter for which this look is not enough looks again by itself (PR14). While there is no stream, waiters poll: correctness does not
/// depend on the stream. Dropping this value closes the stream.
pub(crate) struct WatchStream {
    hub: Arc<WatchHub>,
    client: Client,
    prefix: String,
    phase: watch::Sender<Phase>,
    started: AtomicBool,
    task: AbortHandle,
    registration: Mutex<Option<AbortRegistration>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No attempt has ended yet.
    Starting,
    Live,
    /// An attempt failed, or a stream ended. Another attempt follows.
    Down,
}

impl WatchStream {
    /// No stream is opened yet.
    pub(crate) fn new(client: Client, prefix: String) -> Self {
        let (task, registration) = AbortHandle::new_pair();
        Self {
            hub: Arc::default(),
            client,
            prefix,
            phase: watch::Sender::new(Phase::Starting),
            started: AtomicBool::new(false),
            task,
            registration: Mutex::new(Some(registration)),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<WatchHub> {
        &self.hub
    }

    /// Opens the stream if it was not opened before, and waits until that has succeeded or failed once, but not beyond `until`.
    /// Without a stream there are no hints, and a waiter polls; it gets a hint when there is a stream again.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn wait_live(&self, until: BootTime) {
        self.start();
        if *self.phase.borrow() != Phase::Starting {
            return;
        }
        let mut phase = self.phase.subscribe();
        // The waiter continues in any case. The sender is in `self`, so the channel never closes.
        let _ =
            self.client.keeper().timeout_at(until, phase.wait_for(|phase| *phase != Phase::Starting)).await;
    }

    /// Entries that may have been lost, from now on. Opens the stream if it was not opened before, and does not wait.
    pub(crate) fn alarms(&self) -> Alarms {
        self.start();
        self.hub.alarms()
    }

    /// Opens the stream if it was not opened before.
    pub(crate) fn start(&self) {
        if self.started.load(Ordering::Relaxed) {
            return;
        }
        let registration = self.registration.lock().take();
        if let Some(registration) = registration {
            self.started.store(true, Ordering::Relaxed);
            let stream = WatchTask {
                hub: Arc::clone(&self.hub),
                client: self.client.clone(),
                evictions: keys::evictions(&self.prefix),
                phase: self.phase.clone(),
            };
            let listening = Abortable::new(stream.run(), registration);
            self.client.keeper().spawn(async move { listening.await.unwrap_or_default() });
        }
    }
}

/// The task of a [`WatchStream`].
struct WatchTask {
    hub: Arc<WatchHub>,
    client: Client,
    evictions: Vec<u8>,
    phase: watch::Sender<Phase>,
}

impl WatchTask {
    /// Opens a new stream whenever one has ended or failed.
    async fn run(self) {
        let keeper = self.client.keeper().clone();
        let mut failures: u32 = 0;
        loop {
            let failure = match self.open(&keeper).await {
                Ok((handle, sender, responses)) => {
                    let (commands, watched) = self.hub.on_stream_opened();
                    self.phase.send_replace(Phase::Live);
                    isolate(|| {
                        tracing::debug!(member = %handle.channel.address, "etcd watch stream is live");
                    });
                    let began = keeper.now();
                    let failure = self
                        .listen(&keeper, &handle, (sender, responses), commands, CatchUp::new(watched))
                        .await;
                    if keeper.now().since(began) > BACK_OFF.most {
                        failures = 0;
                    }
                    match failure.cause() {
                        // A new stream is authenticated with the token of that time, which nothing renews (E11).
                        Cause::StaleToken => self.refresh_token(&keeper, &handle).await,
                        _ => handle.fail(),
                    }
                    failure
                }
                Err(failure) => failure,
            };
            self.hub.on_stream_closed();
            self.phase.send_replace(Phase::Down);
            let cluster = Arc::clone(self.client.cluster());
            self.client.warn("stream down", move |times| {
                let cluster = &cluster.config;
                tracing::warn!(%cluster, times, "the etcd watch stream is down, waiters poll: {failure}");
            });
            failures = failures.saturating_add(1);
            let pause = BACK_OFF.pause(failures, SystemEntropy.bits() as u64);
            keeper.sleep_until(keeper.now() + pause).await;
        }
    }

    /// Gets a new token. If that fails, the next stream is refused too, and this is called again.
    async fn refresh_token(&self, keeper: &Keeper, handle: &ConnectionHandle) {
        let limit = self.client.cluster().config.server.command_timeout;
        let etcd = handle.channel.client();
        if keeper.timeout_at(keeper.now() + limit, etcd.refresh_token()).await.is_none() {
            handle.fail();
        }
    }

    /// Opens a stream with the watch on evictions.
    async fn open(
        &self,
        keeper: &Keeper,
    ) -> Result<(ConnectionHandle, WatchRequestSender, WatchResponseStream), Failure> {
        let handle = self.client.connection().await?;
        let limit = self.client.cluster().config.server.command_timeout;
        let mut watches = handle.channel.watch.clone();
        let options = WatchOptions::new().with_watch_id(EVICTIONS);
        let opened = watches.watch(self.evictions.clone(), Some(options));
        match keeper.timeout_at(keeper.now() + limit, opened).await {
            Some(Ok(stream)) => {
                let (sender, responses) = stream.split();
                Ok((handle, sender, responses))
            }
            Some(Err(error)) => {
                handle.fail();
                Err(Failure::of(&handle.channel.address, &error))
            }
            None => {
                handle.fail();
                Err(Failure::timed_out(&handle.channel.address, "opening a watch stream", limit))
            }
        }
    }

    /// Delivers events until the stream ends or does not answer.
    async fn listen(
        &self,
        keeper: &Keeper,
        handle: &ConnectionHandle,
        (mut sender, mut responses): (WatchRequestSender, WatchResponseStream),
        mut commands: UnboundedReceiver<Command>,
        catch_up: CatchUp,
    ) -> Failure {
        let address = &handle.channel.address;
        let every = self.client.cluster().config.heartbeat;
        let heard = Mutex::new(keeper.now());
        let last = || *heard.lock();
        let writing = async {
            while let Some(command) = commands.next().await {
                if let Err(error) = send(&mut sender, command).await {
                    return Failure::of(address, &error);
                }
            }
            Failure::new(Kind::Unreachable, "the watch stream was given up")
        };
        let heartbeats = async {
            // When the first request for progress was sent after the last message of the stream.
            let mut asked = keeper.now();
            keeper.sleep_until(asked + every / 2).await;
            loop {
                let now = keeper.now();
                if last() >= asked {
                    asked = now;
                } else if now >= asked + every {
                    return Failure::timed_out(address, "a sign of life of the watch stream", every);
                }
                self.hub.ask_for_progress();
                keeper.sleep_until((now + every / 2).min((asked + every).max(now + every / 4))).await;
            }
        };
        let (look_later, later) = later_looks(keeper);
        let reading = self.read(address, &mut responses, &heard, &look_later);
        let looking_later = async {
            later.run(&self.hub, keeper).await;
            pending().await
        };
        let catching_up = async {
            catch_up.run(&self.hub, &self.client).await;
            pending().await
        };
        tokio::select! {
            failure = writing => failure,
            failure = heartbeats => failure,
            failure = reading => failure,
            failure = catching_up => failure,
            failure = looking_later => failure,
        }
    }

    /// Handles messages until the stream ends.
    async fn read(
        &self,
        address: &str,
        responses: &mut WatchResponseStream,
        heard: &Mutex<BootTime>,
        look_later: &LookLater,
    ) -> Failure {
        loop {
            match responses.message().await {
                Ok(Some(response)) => {
                    *heard.lock() = self.client.keeper().now();
                    if let Some(failure) = refusal(address, &response) {
                        return failure;
                    }
                    look_later.add(self.hub.on_response(&response));
                }
                Ok(None) => {
                    return Failure::new(Kind::Unreachable, format!("{address} ended the watch stream"));
                }
                Err(error) => return Failure::of(&address, &error),
            }
        }
    }
}

/// The failure in a message by which the server refuses all watches of this stream, so that the stream is unusable.
fn refusal(address: &str, response: &WatchResponse) -> Option<Failure> {
    let reason = response.cancel_reason();
    if !response.canceled() || reason.is_empty() {
        return None;
    }
    // The refusal is only text, and the stream stays open as if nothing had happened (E11).
    let code = if reason.contains("auth token") || reason.contains("auth store is old") {
        tonic::Code::Unauthenticated
    } else if reason.contains("no leader") {
        tonic::Code::Unavailable
    } else if response.watch_id() == EVICTIONS {
        tonic::Code::PermissionDenied
    } else {
        return None;
    };
    let status = tonic::Status::new(code, reason);
    Some(Failure::of(&address, &etcd_client::Error::GRpcStatus(status)))
}

async fn send(sender: &mut WatchRequestSender, command: Command) -> Result<(), etcd_client::Error> {
    match command {
        Command::Watch { id, key } => {
            // From now on. A watch from a past revision would be served by a slow loop (E14, PR27).
            let options = WatchOptions::new().with_watch_id(id).with_filters([WatchFilterType::NoPut]);
            sender.watch(key, Some(options)).await
        }
        Command::Cancel { id } => sender.cancel(id).await,
        Command::Progress => sender.request_progress().await,
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("phase", &*self.phase.borrow()).finish_non_exhaustive()
    }
}
