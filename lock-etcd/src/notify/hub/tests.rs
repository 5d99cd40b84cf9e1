mod later_looks;

use std::{
    pin::pin,
    sync::mpsc,
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use lock_core::{Claim, FencingToken};

use super::{
    super::subscription::{Subscription, WaitEvent},
    *,
};

const ME: EntryId = EntryId::new(1);
const OTHER: EntryId = EntryId::new(2);
const TOKEN: FencingToken = FencingToken::new(90);
const LOOKED: i64 = 100;

/// A waiter behind a holder.
fn behind(blocker: &str, own: &str) -> Snapshot {
    Snapshot {
        revision: LOOKED,
        token: TOKEN,
        claim: Claim::mutex(),
        own: own.into(),
        blockers: vec![(blocker.into(), 1)],
        lookahead: None,
        sum: Some(1),
    }
}

/// The messages to be sent, as text.
fn sent(commands: &mut UnboundedReceiver<Command>) -> Vec<String> {
    let text = |command| match command {
        Command::Watch { id, key } => format!("watch {id} {}", String::from_utf8(key).unwrap()),
        Command::Cancel { id } => format!("cancel {id}"),
        Command::Progress => "progress".into(),
    };
    std::iter::from_fn(|| commands.try_recv().ok()).map(text).collect()
}

fn told(subscription: &mut Subscription) -> Option<WaitEvent> {
    subscription.next().now_or_never().flatten()
}

const CHANGED: Option<WaitEvent> = Some(WaitEvent::Changed);

/// There is room since this revision, if the waiter's own entry exists.
fn admissible(own: &str, revision: i64) -> WaitEvent {
    WaitEvent::Admissible(GrantCondition { own: own.into(), token: TOKEN, revision })
}

/// The revision that the waiter's look has to reach. `Err` if it is not known yet.
async fn watched(hub: &WatchHub, entry: EntryId) -> Result<Option<i64>, ()> {
    let keeper = Keeper::start().unwrap();
    // If it is known, it is returned immediately, on a busy machine, too.
    let until = keeper.now() + Duration::from_millis(500);
    let since = hub.watching_since(entry, &keeper, until).await;
    if since.is_none() && keeper.now() >= until { Err(()) } else { Ok(since) }
}

fn session(lease: i64) -> Arc<Session> {
    let key = format!("s1/{lease:x}").into_bytes();
    Arc::new(Session::new(lease, Duration::from_secs(12), BootTime::FAR_FUTURE, Some((key, 7))))
}

#[tokio::test]
async fn a_delete_behind_the_look_is_the_grant_and_one_before_it_nothing() {
    let hub = Arc::new(WatchHub::default());
    let (mut commands, _) = hub.on_stream_opened();
    let mut me = Subscription::new(&hub, ME, behind("a", "b"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
    assert_eq!(watched(&hub, ME).await, Err(()), "no watch is there yet");
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(3, WatchEvent::Created(99));
    assert_eq!(watched(&hub, ME).await, Ok(Some(99)));
    hub.arm(ME);
    hub.on_event(2, WatchEvent::Deleted(LOOKED));
    assert_eq!(told(&mut me), None, "the look knew of it");
    hub.on_event(2, WatchEvent::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), Some(admissible("b", LOOKED + 1)));
}

/// PR27.
#[tokio::test]
async fn what_came_before_the_snapshot_was_good_is_told_when_it_is() {
    let hub = Arc::new(WatchHub::default());
    let (_commands, _) = hub.on_stream_opened();
    let mut me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(2, WatchEvent::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), None);
    hub.on_event(3, WatchEvent::Created(99));
    hub.arm(ME);
    assert_eq!(told(&mut me), Some(admissible("b", LOOKED + 1)));
}

#[tokio::test]
async fn many_who_wait_for_one_share_a_watch_and_the_last_to_go_ends_it() {
    let hub = Arc::new(WatchHub::default());
    let (mut commands, _) = hub.on_stream_opened();
    let me = Subscription::new(&hub, ME, behind("a", "b"));
    let other = Subscription::new(&hub, OTHER, behind("a", "c"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b", "watch 4 c"]);
    drop(me);
    assert_eq!(sent(&mut commands), ["cancel 3"]);
    drop(other);
    assert_eq!(sent(&mut commands), ["cancel 2", "cancel 4"]);
    assert!(hub.lock().waiters.is_empty() && hub.lock().watches.is_empty());
}

#[tokio::test]
async fn a_waiter_that_comes_to_a_watch_after_a_delete_is_told_of_it_too() {
    let hub = Arc::new(WatchHub::default());
    let (_commands, _) = hub.on_stream_opened();
    let _me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(2, WatchEvent::Deleted(LOOKED + 1));
    let mut other = Subscription::new(&hub, OTHER, behind("a", "c"));
    hub.on_event(4, WatchEvent::Created(99));
    hub.arm(OTHER);
    assert_eq!(told(&mut other), Some(admissible("c", LOOKED + 1)));
}

#[tokio::test]
async fn another_look_moves_the_watches_to_the_entries_that_it_showed() {
    let hub = Arc::new(WatchHub::default());
    let (mut commands, _) = hub.on_stream_opened();
    let _me = Subscription::new(&hub, ME, behind("a", "c"));
    sent(&mut commands);
    hub.update(ME, Snapshot { revision: LOOKED + 5, ..behind("b", "c") });
    assert_eq!(sent(&mut commands), ["cancel 2", "watch 4 b"]);
}

/// PR18.
#[tokio::test]
async fn a_waiter_whose_own_entry_was_deleted_is_not_granted_anything() {
    let hub = Arc::new(WatchHub::default());
    let (_commands, _) = hub.on_stream_opened();
    let mut me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.arm(ME);
    hub.on_event(3, WatchEvent::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), CHANGED);
    hub.on_event(2, WatchEvent::Deleted(LOOKED + 2));
    assert_eq!(told(&mut me), None);
}

/// The deletes of one transaction are reported in no order: room ahead is only a question until the own entry is known to exist.
#[tokio::test]
async fn a_waiter_deleted_with_the_one_ahead_is_not_granted_anything() {
    for listens_between in [false, true] {
        let hub = Arc::new(WatchHub::default());
        let (_commands, _) = hub.on_stream_opened();
        let mut me = Subscription::new(&hub, ME, behind("a", "b"));
        hub.arm(ME);
        hub.on_event(2, WatchEvent::Deleted(LOOKED + 1));
        if listens_between {
            assert_eq!(told(&mut me), Some(admissible("b", LOOKED + 1)));
        }
        hub.on_event(3, WatchEvent::Deleted(LOOKED + 1));
        let rest: Vec<_> = std::iter::from_fn(|| told(&mut me)).collect();
        assert!(!rest.is_empty() && rest.iter().all(|told| *told == WaitEvent::Changed), "{rest:?}");
    }
}

/// Drops a waiter when it is woken, as an executor may that drops its tasks.
struct Drops(Mutex<Option<Subscription>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let dropped = self.0.lock().take();
        drop(dropped);
    }
}

#[test]
fn a_task_that_is_woken_may_drop_another_waiter() {
    let happens: [fn(&WatchHub); 3] = [
        |hub| drop(hub.on_event(3, WatchEvent::Created(98))),
        |hub| drop(hub.on_event(3, WatchEvent::Canceled)),
        WatchHub::on_stream_closed,
    ];
    for happens in happens {
        let (done, over) = mpsc::channel();
        // On a thread of its own, because a hang blocks everything that uses this hub.
        thread::spawn(move || {
            let (hub, keeper) = (Arc::new(WatchHub::default()), Keeper::start().unwrap());
            let (_commands, _) = hub.on_stream_opened();
            let _me = Subscription::new(&hub, ME, behind("a", "b"));
            let dropped = Drops(Mutex::new(Some(Subscription::new(&hub, OTHER, behind("a", "c")))));
            let waker = Waker::from(Arc::new(dropped));
            let mut watched = pin!(hub.watching_since(ME, &keeper, keeper.now() + Duration::from_secs(3600)));
            assert!(watched.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            happens(&hub);
            done.send(hub.lock().waiters.len()).unwrap();
        });
        let left = over.recv_timeout(Duration::from_secs(20)).expect("the keeper goes on");
        assert_eq!(left, 1, "the other one was not dropped");
    }
}

/// A waiter behind `a` with an armed snapshot, after the stream has ended and been replaced.
fn behind_on_a_new_stream() -> (Arc<WatchHub>, Subscription, UnboundedReceiver<Command>) {
    let hub = Arc::new(WatchHub::default());
    let (commands, _) = hub.on_stream_opened();
    let me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(3, WatchEvent::Created(99));
    hub.arm(ME);
    drop(commands);
    hub.on_stream_closed();
    let (commands, _) = hub.on_stream_opened();
    (hub, me, commands)
}

/// The answer to a look at revision 200.
fn presence<const N: usize>(rows: [(&str, Option<i64>); N]) -> Presence {
    rows.into_iter().map(|(key, created)| (key.into(), (200, created))).collect()
}

/// PR14: a new stream does not report what happened before it.
#[tokio::test]
async fn every_key_that_was_watched_is_watched_again_on_the_next_stream() {
    let (hub, mut me, mut commands) = behind_on_a_new_stream();
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
    hub.on_event(2, WatchEvent::Created(150));
    hub.on_event(3, WatchEvent::Created(151));
    hub.caught_up(&presence([("a", Some(50)), ("b", Some(90))]));
    assert_eq!(told(&mut me), None, "nothing has changed");
    hub.on_event(2, WatchEvent::Deleted(201));
    assert_eq!(told(&mut me), Some(admissible("b", 201)));
}

#[tokio::test]
async fn an_entry_that_left_while_there_was_no_stream_is_found_missing() {
    // The entry is gone, or it is gone and its key belongs to a later entry.
    for left in [None, Some(120)] {
        let (hub, mut me, _commands) = behind_on_a_new_stream();
        hub.on_event(2, WatchEvent::Created(150));
        hub.on_event(3, WatchEvent::Created(151));
        assert_eq!(told(&mut me), None);
        hub.caught_up(&presence([("a", left), ("b", Some(90))]));
        assert_eq!(told(&mut me), Some(admissible("b", 200)), "{left:?}");
    }
    let (hub, mut me, _commands) = behind_on_a_new_stream();
    hub.on_event(2, WatchEvent::Created(150));
    hub.on_event(3, WatchEvent::Created(151));
    hub.caught_up(&presence([("a", Some(50)), ("b", None)]));
    assert_eq!(told(&mut me), CHANGED, "its own entry is gone");
}

/// A delete on the new stream counts, but not before the catch-up is complete.
#[tokio::test]
async fn an_entry_that_leaves_during_the_catch_up_is_told_of_after_it() {
    let (hub, mut me, _commands) = behind_on_a_new_stream();
    hub.on_event(2, WatchEvent::Created(150));
    hub.on_event(3, WatchEvent::Created(151));
    hub.on_event(2, WatchEvent::Deleted(201));
    assert_eq!(told(&mut me), None);
    hub.caught_up(&presence([("a", Some(50)), ("b", Some(90))]));
    assert_eq!(told(&mut me), Some(admissible("b", 201)));
}

/// The look failed, or came before a watch, or the server refuses a watch.
#[tokio::test]
async fn a_waiter_that_cannot_catch_up_looks_for_itself() {
    let all = || presence([("a", Some(50)), ("b", Some(90))]);
    for (refused, since, presence) in [(false, 150, Presence::new()), (false, 201, all()), (true, 150, all())]
    {
        let (hub, mut me, _commands) = behind_on_a_new_stream();
        hub.on_event(2, WatchEvent::Created(since));
        hub.on_event(3, if refused { WatchEvent::Canceled } else { WatchEvent::Created(since) });
        hub.until_watched(&[b"a".to_vec(), b"b".to_vec()]).await;
        hub.caught_up(&presence);
        assert_eq!(told(&mut me), CHANGED, "{refused} {since}");
        assert!(Subscription::again(&hub, ME).is_none(), "it has to look at the queue");
    }
}

/// The catch-up is about an older look than the waiter's latest one.
#[tokio::test]
async fn a_waiter_that_has_looked_again_meanwhile_is_left_alone() {
    let (hub, mut me, _commands) = behind_on_a_new_stream();
    hub.update(ME, Snapshot { revision: 180, ..behind("a", "b") });
    hub.on_event(2, WatchEvent::Created(150));
    hub.on_event(3, WatchEvent::Created(151));
    hub.caught_up(&presence([("a", None), ("b", Some(90))]));
    assert_eq!(told(&mut me), None);
    hub.arm(ME);
    hub.on_event(2, WatchEvent::Deleted(190));
    assert_eq!(told(&mut me), Some(admissible("b", 190)));
}

/// Without a stream, a waiter reads the entries that it knows, not the queue.
#[tokio::test]
async fn a_waiter_that_polls_keeps_its_watches() {
    let hub = Arc::new(WatchHub::default());
    let _me = Subscription::new(&hub, ME, behind("a", "b"));
    let (subscription, keys) =
        Subscription::again(&hub, ME).expect("nothing is watched, and nobody has left");
    assert_eq!(keys, [b"a".to_vec(), b"b".to_vec()]);
    let (_commands, _) = hub.on_stream_opened();
    drop(subscription);
    assert!(Subscription::again(&hub, ME).is_some(), "it is being caught up with");
    hub.caught_up(&Presence::new());
    assert!(Subscription::again(&hub, ME).is_none());
}

#[tokio::test]
async fn a_watch_that_ends_makes_waiters_look_and_one_that_is_refused_poll() {
    let hub = Arc::new(WatchHub::default());
    let (_commands, _) = hub.on_stream_opened();
    let mut me = Subscription::new(&hub, ME, behind("a", "b"));
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(2, WatchEvent::Canceled);
    assert_eq!(told(&mut me), CHANGED);
    assert_eq!(watched(&hub, ME).await, Ok(None));
    let mut other = Subscription::new(&hub, OTHER, behind("c", "d"));
    hub.on_event(4, WatchEvent::Canceled);
    assert_eq!(told(&mut other), None, "asked again, it would be refused again");
    assert_eq!(watched(&hub, OTHER).await, Ok(None));
    // The watch has ended: its events are ignored.
    hub.on_event(2, WatchEvent::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), None);
}

/// The session ends without a request for its lease.
#[tokio::test]
async fn a_session_is_over_when_its_key_is_deleted() {
    let hub = Arc::new(WatchHub::default());
    let (mut commands, _) = hub.on_stream_opened();
    let session = session(0x1f);
    let now = BootTime::new(Duration::from_secs(1_000));
    let (mut alarms, mut hints) = (hub.alarms(), hub.notifier.listen(ME));
    hub.watch_session(&session);
    hub.on_event(2, WatchEvent::Created(98));
    hub.on_event(2, WatchEvent::Deleted(7));
    assert!(session.is_alive(now) && session.take_doubt(), "it was put since");
    hub.on_event(2, WatchEvent::Deleted(99));
    assert!(!session.is_alive(now));
    session.ended().now_or_never().expect("its task is told");
    hub.session_ended(&session, &[ME]);
    assert_eq!(alarms.next().now_or_never(), Some(Some(ME)));
    assert_eq!(hints.next().now_or_never(), Some(Some(Hint::Changed)));
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f", "cancel 2"]);
}

#[tokio::test]
async fn a_session_is_asked_about_when_its_key_may_have_been_deleted() {
    let hub = Arc::new(WatchHub::default());
    let (mut commands, _) = hub.on_stream_opened();
    let session = session(0x1f);
    hub.watch_session(&session);
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    hub.on_event(2, WatchEvent::Created(98));
    assert!(!session.take_doubt());
    hub.on_stream_closed();
    let (mut commands, _) = hub.on_stream_opened();
    assert!(session.take_doubt(), "nothing is known of the time between");
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    hub.session_ended(&session, &[]);
    assert_eq!(sent(&mut commands), ["cancel 2"]);
}

/// Nobody is left who could say that it has ended.
#[tokio::test]
async fn a_session_that_was_dropped_is_not_watched_on_the_next_stream() {
    let hub = Arc::new(WatchHub::default());
    let (_commands, _) = hub.on_stream_opened();
    let (dropped, kept) = (session(0x1f), session(0x2f));
    hub.watch_session(&dropped);
    hub.watch_session(&kept);
    drop(dropped);
    hub.on_stream_closed();
    let (mut commands, _) = hub.on_stream_opened();
    assert_eq!(sent(&mut commands), ["watch 2 s1/2f"]);
    assert_eq!(hub.lock().sessions.len(), 1);
}
