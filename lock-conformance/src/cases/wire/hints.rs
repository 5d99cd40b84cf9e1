//! Hints that are lost, late or early cost a bounded time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Backend, BackendError, BootTime, DistributedLock, Entry, Guard, Locks, Outage, Standing, Step,
    SystemEntropy, WaitMode, sync::Mutex,
};
use tokio::task::JoinHandle;

use super::proxied::ProxiedClient;
use crate::{
    Client, Flow, Gate, HintsOnly, Layer, Layered, Links, NoHints, Relay, SLACK, TestEnv, Verb, Way,
    audit::{eventually, soon, within},
    cases::{
        lease::{ms, now},
        steps::{long, mutex, queue_of, take_free},
    },
};

/// With this ttl, a waiter without hints looks again long after [`SLACK`], unless the store asks for an earlier look. By then, checks that
/// depend on a hint have failed.
const FAR: Duration = Duration::from_secs(120);

/// The locks of a client with one more layer in front of its store.
fn through(client: &Client, layer: Arc<dyn Layer>) -> Locks {
    let store = Layered::new(Arc::clone(&client.backend), layer);
    Locks::with(Arc::new(store), client.keeper.clone(), Arc::new(SystemEntropy))
}

/// A waiter behind a holder of `other`. It waits through outages: its entry is in the queue before the answer arrives, so a fault may hit
/// its first request and the repeated one.
async fn behind(locks: &Locks, other: &Client, name: &str, ttl: Duration) -> JoinHandle<Guard> {
    let lock = locks.mutex(name).unwrap().with_options(long().ttl(ttl).outage(Outage::Wait));
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    queue_of(2, &mutex(other, name)).await;
    waiting
}

/// Also if hints never come again. A waiter looks again when the store says, and after a third of its ttl at the latest.
pub(crate) async fn a_lost_hint_delays_a_hand_over_by_a_third_of_the_ttl_at_most(env: TestEnv) {
    let ttl = ms(6000);
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let held = take_free(&mutex(&other, &name)).await;
    let seen = Arc::new(Looks { ttl, ..Looks::default() });
    let mut store: Arc<dyn Backend> = Arc::clone(&proxied.client.backend);
    if proxied.proxy.is_shared() {
        // If hints cannot be lost without losing commands, they are lost on the way from the backend to the waiter.
        store = Arc::new(Layered::new(store, Arc::new(NoHints::default())));
    }
    let store = Layered::new(store, Arc::clone(&seen) as Arc<dyn Layer>);
    let locks = Locks::with(Arc::new(store), proxied.client.keeper.clone(), Arc::new(SystemEntropy));
    let waiting = behind(&locks, &other, &name, ttl).await;
    // If a look takes several requests, the entry is in the queue before the waiter has its answer: the first look finds a release before
    // that, and no second look is needed.
    eventually("it is told that it waits", SLACK, || async { !seen.is_empty() }).await;
    if !proxied.proxy.is_shared() {
        proxied.proxy.order(Links::Hints, Way::Replies, &Flow::Lose);
    }
    held.release().await.unwrap().confirmed().unwrap();
    let guard = within("the grant", ttl / 3 + SLACK, waiting).await.unwrap();
    guard.release().await.unwrap();
    seen.assert_kept();
}

/// When a waiter looked, and when it was to look again.
#[derive(Debug, Default)]
struct Looks {
    ttl: Duration,
    seen: Mutex<Vec<(BootTime, Option<BootTime>)>>,
}

#[async_trait]
impl Layer for Looks {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let asked = now();
        let answer = store.enter(entry, step, wait).await;
        let due = match &answer {
            Ok(Standing::Waiting { look_again, .. }) => Some((*look_again).min(asked + self.ttl / 3)),
            _ => None,
        };
        self.seen.lock().push((asked, due));
        answer
    }
}

impl Looks {
    fn is_empty(&self) -> bool {
        self.seen.lock().is_empty()
    }

    /// Checks that each look came in time after the previous one.
    fn assert_kept(&self) {
        let looks = self.seen.lock();
        assert!(looks.len() > 1, "it never looked again: {looks:?}");
        for pair in looks.windows(2) {
            if let Some(due) = pair[0].1 {
                assert!(pair[1].0 <= due + SLACK, "it looked again too late: {looks:?}");
            }
        }
    }
}

/// Nothing arrives on the connection in either direction. When that is noticed, all its waiters look again, long before their next look is
/// due.
pub(crate) async fn a_silent_notification_connection_is_noticed_in_the_promised_time(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let (held, waiting) = three_behind(&env, &other, &proxied, 0).await;
    let promised = env.wire().noticed_within();
    proxied.proxy.silence(Links::OpenHints);
    for guard in held {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    let looks = async {
        for waiter in waiting {
            waiter.await.unwrap().release().await.unwrap().confirmed().unwrap();
        }
    };
    within("the silence is noticed", promised + SLACK, looks).await;
}

/// Three locks that are held, and a waiter for each that looks again only on a hint.
async fn three_behind(
    env: &TestEnv,
    other: &Client,
    proxied: &ProxiedClient,
    round: usize,
) -> (Vec<Guard>, Vec<JoinHandle<Guard>>) {
    let hinted = through(&proxied.client, Arc::new(HintsOnly));
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for tag in ["one", "two", "three"] {
        let name = env.name(&format!("{tag} {round}"));
        held.push(take_free(&mutex(other, &name)).await);
        let answered = proxied.asked.answers(Verb::Enter);
        waiting.push(behind(&hinted, other, &name, FAR).await);
        // Its entry is in the queue before the answer arrives, and until then it does not listen.
        eventually("a place in the queue", SLACK, || async { proxied.asked.answers(Verb::Enter) > answered })
            .await;
    }
    (held, waiting)
}

/// Hints that were sent while there was no connection are lost.
pub(crate) async fn all_waiters_look_again_when_their_notifications_come_back(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    for round in 0..3 {
        let (held, waiting) = three_behind(&env, &other, &proxied, round).await;
        // From now on no hint arrives, and new connections get no answer.
        proxied.proxy.order(Links::Hints, Way::Replies, &Flow::Lose);
        proxied.proxy.reset(Links::OpenHints);
        for guard in held {
            guard.release().await.unwrap().confirmed().unwrap();
        }
        proxied.proxy.heal();
        proxied.proxy.reset(Links::OpenHints);
        for waiter in waiting {
            let guard = soon("the grant", waiter).await.unwrap();
            guard.release().await.unwrap().confirmed().unwrap();
        }
    }
}

/// The store judged the look before the release, and its answer arrives after the release. If answers and hints share one stream of bytes,
/// the hint arrives right after the answer; otherwise it arrives first.
pub(crate) async fn a_hint_that_overtakes_the_answer_to_a_look_is_not_lost(env: TestEnv) {
    let (other, relay) = (env.client().await, env.relay());
    let name = env.name("job");
    let held = take_free(&mutex(&other, &name)).await;
    let (gate, relay) = (Gate::new(), Arc::new(relay));
    let late =
        Arc::new(SecondLook { relay: Arc::clone(&relay), gate: gate.clone(), looks: AtomicUsize::new(0) });
    let client = env.client_by(relay.address(), late).await;
    relay
        .watch(async {
            let waiting = behind(&client.locks, &other, &name, FAR).await;
            eventually("an answer to a look that is held back", SLACK, || async {
                let held = relay.held();
                env.wire().requests(Verb::Enter).iter().any(|request| held.contains_key(*request))
            })
            .await;
            let hints = relay.hints();
            held.release().await.unwrap().confirmed().unwrap();
            eventually("the hint", SLACK, || async { relay.hints() > hints }).await;
            assert!(!waiting.is_finished(), "nothing has answered its look");
            gate.open();
            let guard = soon("the grant", waiting).await.unwrap();
            guard.release().await.unwrap().confirmed().unwrap();
        })
        .await;
}

/// A waiter looks again at once, and gets no answer until the gate opens. After that, it only looks on a hint.
#[derive(Debug)]
struct SecondLook {
    relay: Arc<Relay>,
    gate: Gate,
    looks: AtomicUsize,
}

#[async_trait]
impl Layer for SecondLook {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let first = self.looks.fetch_add(1, Ordering::SeqCst) == 0;
        if !first {
            self.relay.hold(&self.gate);
        }
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { look_again, .. } = &mut standing {
            *look_again = if first { now() } else { BootTime::FAR_FUTURE };
        }
        Ok(standing)
    }
}
