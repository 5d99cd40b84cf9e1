//! Wakers are code of the user, and run on the thread that wakes: the keeper, or a listener for hints. Whatever they do there, no lock is
//! lost.

use std::{
    future::{Future, poll_fn},
    mem::ManuallyDrop,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use lock_core::{
    AcquireOptions, DistributedLock, Error, Guard, Locks, Lost, Memory, Sleep, SystemEntropy, sync::Mutex,
};

use crate::{
    Client, SLACK, ScriptedFaults, TestEnv, Verb,
    audit::{eventually, soon},
    cases::steps::{brief, faulty, freed, mutex, queue_of, take, take_free},
};

/// A waker that panics, as that of an executor whose queue is closed may do.
#[derive(Default)]
struct Panicking(AtomicUsize);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
        // Without the panic hook: printing a backtrace can take seconds, in which the keeper renews nothing.
        resume_unwind(Box::new("an ordered panic of a waker"));
    }
}

/// A waker that drops a value, as that of an executor that drops a task instead of running it.
#[derive(Default)]
struct Dropping {
    guards: Mutex<Vec<Guard>>,
    done: AtomicUsize,
}

impl Wake for Dropping {
    fn wake(self: Arc<Self>) {
        let guards = std::mem::take(&mut *self.guards.lock());
        drop(guards);
        self.done.fetch_add(1, Ordering::AcqRel);
    }
}

/// A pending acquisition.
type Acquisition = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

/// A waker that drops a task which holds a lock and waits for another one.
struct DroppingATask {
    task: Mutex<Option<(Guard, Acquisition)>>,
    done: AtomicBool,
}

impl Wake for DroppingATask {
    fn wake(self: Arc<Self>) {
        let task = self.task.lock().take();
        if task.is_some() {
            drop(task);
            self.done.store(true, Ordering::Release);
        }
    }
}

/// Locks that are renewed all the time: one of the client itself, and one of another client on the same keeper. Their leases are longer than
/// a thread waits for a core on a busy machine.
async fn kept(client: &Client, env: &TestEnv) -> [Guard; 2] {
    let options = AcquireOptions::new().ttl(Duration::from_millis(3600));
    let beside = Locks::with(Arc::new(Memory::new()), client.keeper.clone(), Arc::new(SystemEntropy));
    let beside = beside.mutex(env.name("beside")).unwrap().with_options(options.clone());
    [take_free(&mutex(client, &env.name("kept")).with_options(options)).await, take_free(&beside).await]
}

/// Waits until a lease is extended, which only a renewal does.
async fn renewed(guard: &Guard) {
    let mut last = guard.remaining();
    eventually(&format!("a renewal of `{}`", guard.name()), guard.ttl(), || {
        assert!(guard.is_held(), "`{}` was lost by a waker: {:?}", guard.name(), guard.state());
        let before = std::mem::replace(&mut last, guard.remaining());
        std::future::ready(last > before)
    })
    .await;
}

/// Checks that the clients still work: leases are renewed, and locks are acquired, waited for and handed off.
async fn assert_all_goes_on(client: &Client, other: &Client, kept: [Guard; 2], env: &TestEnv) {
    let name = env.name("after");
    let held = take_free(&mutex(other, &name)).await;
    let next = mutex(client, &name);
    let waiting = tokio::spawn(async move { next.acquire().await.unwrap() });
    queue_of(2, &mutex(other, &name)).await;
    held.release().await.unwrap();
    soon("the next hand-over", waiting).await.unwrap().release().await.unwrap();
    for guard in &kept {
        // The first renewal may have been in flight before.
        renewed(guard).await;
        renewed(guard).await;
    }
    for guard in kept {
        guard.release().await.unwrap();
    }
}

/// A lock whose lease ends, with its signal.
async fn ending(client: &Client, name: &str) -> (Guard, Lost) {
    let guard = take_free(&mutex(client, name).with_options(brief().renew(false))).await;
    let lost = guard.lost();
    (guard, lost)
}

/// Polls a future that is not ready with this waker.
fn leave_with<T>(future: &mut (impl Future<Output = T> + Unpin), waker: &Waker) {
    let polled = Pin::new(future).poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending(), "it is ready too early");
}

/// An acquisition that has to wait, with no request in flight: the next wake-up is a hint, or the time of its next look.
async fn told_to_wait(client: &Client, asked: &ScriptedFaults, name: &str) -> Acquisition {
    let (lock, before) = (mutex(client, name), asked.calls(Verb::Enter));
    let mut waiting: Acquisition = Box::pin(async move { lock.acquire().await });
    let at_rest = poll_fn(|cx| {
        assert!(waiting.as_mut().poll(cx).is_pending(), "the lock is held, and was granted");
        let calls = asked.calls(Verb::Enter);
        if calls > before && asked.answers(Verb::Enter) == calls { Poll::Ready(()) } else { Poll::Pending }
    });
    soon("the word to wait", at_rest).await;
    waiting
}

/// A timer of the keeper that is about to end.
fn soon_over(client: &Client) -> Sleep {
    client.keeper.sleep_until(client.keeper.now() + Duration::from_millis(300))
}

/// It is woken by the end of a lease, by a timer, and by a hint.
pub(in crate::cases) async fn a_waker_that_panics_costs_nobody_a_lock(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let kept = kept(&client, &env).await;
    let panicking = Arc::new(Panicking::default());
    let waker = Waker::from(Arc::clone(&panicking));

    let (_lost_guard, mut lost) = ending(&client, &env.name("ending")).await;
    let mut timer = soon_over(&client);
    leave_with(&mut lost, &waker);
    leave_with(&mut timer, &waker);
    let name = env.name("queue");
    let (lock, theirs) = (mutex(&client, &name), mutex(&other, &name));
    let held = take_free(&theirs).await;
    let mut waiting = lock.acquire();
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        _ = queue_of(2, &theirs) => {}
    }
    // The answer to a look may wake it, too.
    leave_with(&mut waiting, &waker);
    held.release().await.unwrap();

    // On a store without hints, it is woken by its next look.
    eventually("three panics", lock.options().ttl / 3 + SLACK, || async {
        panicking.0.load(Ordering::Acquire) >= 3
    })
    .await;
    soon("the turn of the waiter", waiting).await.unwrap().release().await.unwrap();
    soon("the signal", lost).await;
    soon("the timer", timer).await;
    assert_all_goes_on(&client, &other, kept, &env).await;
}

/// It drops a guard of the same client, one of another client on the same keeper, and one of a client on another keeper. If the case fails,
/// its other locks are not dropped: if the waker is deadlocked, dropping them would hang as well, without any message.
pub(in crate::cases) async fn a_waker_that_drops_guards_ends_and_costs_nobody_a_lock(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let kept = ManuallyDrop::new(kept(&client, &env).await);
    let beside = Locks::with(Arc::new(Memory::new()), client.keeper.clone(), Arc::new(SystemEntropy));
    let beside = beside.mutex(env.name("beside")).unwrap();
    for what in ["signal", "timer"] {
        let own = mutex(&client, &env.name("own"));
        let elsewhere = mutex(&other, &env.name("elsewhere"));
        let dropping = Arc::new(Dropping::default());
        for lock in [&own, &elsewhere, &beside] {
            let guard = take(lock).await;
            dropping.guards.lock().push(guard);
        }
        let waker = Waker::from(Arc::clone(&dropping));
        let (guard, mut lost) = ending(&client, &env.name(what)).await;
        let guard = ManuallyDrop::new(guard);
        let mut timer = soon_over(&client);
        if what == "signal" {
            leave_with(&mut lost, &waker);
        } else {
            leave_with(&mut timer, &waker);
        }
        eventually(&format!("the end of a waker, by a {what}"), SLACK, || async {
            dropping.done.load(Ordering::Acquire) == 1
        })
        .await;
        soon("the signal", lost).await;
        soon("the timer", timer).await;
        drop(ManuallyDrop::into_inner(guard));
        for lock in [&own, &elsewhere, &beside] {
            freed(lock).await;
        }
    }
    assert_all_goes_on(&client, &other, ManuallyDrop::into_inner(kept), &env).await;
}

/// When the hint arrives that its turn has come, an executor drops another task, which also waits, and holds another lock. The other client
/// releases on its own keeper: with a store in this process, a deadlocked waker hangs there. If the case fails, values whose drop would hang
/// as well are not dropped.
pub(in crate::cases) async fn a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock(env: TestEnv) {
    let ((client, asked), other) = (faulty(&env).await, env.client().await);
    let kept = ManuallyDrop::new(kept(&client, &env).await);
    let names = ["turn", "queue", "own"].map(|name| env.name(name));
    let [turn, queue, own] = names.each_ref().map(|name| mutex(&other, name));
    let (held, ahead) = (take_free(&turn).await, take_free(&queue).await);
    let guard = take_free(&mutex(&client, &names[2])).await;
    let task = (guard, told_to_wait(&client, &asked, &names[1]).await);
    let dropping = Arc::new(DroppingATask { task: Mutex::new(Some(task)), done: AtomicBool::new(false) });

    let mut waiting = ManuallyDrop::new(told_to_wait(&client, &asked, &names[0]).await);
    leave_with(&mut *waiting, &Waker::from(Arc::clone(&dropping)));
    drop(held);
    // On a store without hints, a look wakes it.
    eventually("the end of a waker, by a hint", turn.options().ttl / 3 + SLACK, || async {
        dropping.done.load(Ordering::Acquire)
    })
    .await;
    drop(ManuallyDrop::into_inner(waiting));
    ahead.release().await.unwrap();
    for lock in [&turn, &queue, &own] {
        freed(lock).await;
    }
    assert_all_goes_on(&client, &other, ManuallyDrop::into_inner(kept), &env).await;
}
