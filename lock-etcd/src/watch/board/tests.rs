use std::{
    pin::pin,
    sync::mpsc,
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use lock_core::{Claim, Entry, FencingToken, LockName};

use super::{super::attending::Told, *};
use crate::keys::Keys;

const ME: EntryId = EntryId::new(1);
const OTHER: EntryId = EntryId::new(2);
const TOKEN: FencingToken = FencingToken::new(90);
const LOOKED: i64 = 100;

/// Behind one who has the lock.
fn behind(blocker: &str, own: &str) -> Sight {
    Sight {
        revision: LOOKED,
        token: TOKEN,
        claim: Claim::mutex(),
        own: own.into(),
        blockers: vec![(blocker.into(), 1)],
        scout: None,
        sum: Some(1),
    }
}

/// What is to be sent, as text.
fn sent(commands: &mut UnboundedReceiver<Command>) -> Vec<String> {
    let text = |command| match command {
        Command::Watch { id, key } => format!("watch {id} {}", String::from_utf8(key).unwrap()),
        Command::Cancel { id } => format!("cancel {id}"),
        Command::Progress => "progress".into(),
    };
    std::iter::from_fn(|| commands.try_recv().ok()).map(text).collect()
}

fn told(attending: &mut Attending) -> Option<Told> {
    attending.next().now_or_never().flatten()
}

const CHANGED: Option<Told> = Some(Told::Changed);

/// There is room since this revision, if one's own entry stands.
fn room(own: &str, revision: i64) -> Told {
    Told::Room(Room { own: own.into(), token: TOKEN, revision })
}

/// Up to where its look has to reach: `Err` if it is not known yet.
async fn watched(board: &Board, entry: EntryId) -> Result<Option<i64>, ()> {
    let keeper = Keeper::start().unwrap();
    // What is known is known at once, on a busy machine, too.
    let until = keeper.now() + Duration::from_millis(500);
    let since = board.watched(entry, &keeper, until).await;
    if since.is_none() && keeper.now() >= until { Err(()) } else { Ok(since) }
}

fn session(lease: i64) -> Arc<Session> {
    let key = format!("s1/{lease:x}").into_bytes();
    Arc::new(Session::new(lease, Duration::from_secs(12), BootTime::FAR_FUTURE, Some((key, 7))))
}

#[tokio::test]
async fn a_delete_behind_the_look_is_the_grant_and_one_before_it_nothing() {
    let board = Arc::new(Board::default());
    let (mut commands, _) = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
    assert_eq!(watched(&board, ME).await, Err(()), "no watch is there yet");
    board.take_in(2, News::Created(98));
    board.take_in(3, News::Created(99));
    assert_eq!(watched(&board, ME).await, Ok(Some(99)));
    board.arm(ME);
    board.take_in(2, News::Deleted(LOOKED));
    assert_eq!(told(&mut me), None, "the look knew of it");
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), Some(room("b", LOOKED + 1)));
}

/// PR27.
#[tokio::test]
async fn what_came_before_the_sight_was_good_is_told_when_it_is() {
    let board = Arc::new(Board::default());
    let (_commands, _) = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), None);
    board.take_in(3, News::Created(99));
    board.arm(ME);
    assert_eq!(told(&mut me), Some(room("b", LOOKED + 1)));
}

#[tokio::test]
async fn many_who_wait_for_one_share_a_watch_and_the_last_to_go_ends_it() {
    let board = Arc::new(Board::default());
    let (mut commands, _) = board.opened();
    let me = board.attend(ME, behind("a", "b"));
    let other = board.attend(OTHER, behind("a", "c"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b", "watch 4 c"]);
    drop(me);
    assert_eq!(sent(&mut commands), ["cancel 3"]);
    drop(other);
    assert_eq!(sent(&mut commands), ["cancel 2", "cancel 4"]);
    assert!(board.lock().vigils.is_empty() && board.lock().watches.is_empty());
}

#[tokio::test]
async fn whoever_comes_to_a_watch_that_has_told_of_a_delete_is_told_of_it_too() {
    let board = Arc::new(Board::default());
    let (_commands, _) = board.opened();
    let _me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(LOOKED + 1));
    let mut other = board.attend(OTHER, behind("a", "c"));
    board.take_in(4, News::Created(99));
    board.arm(OTHER);
    assert_eq!(told(&mut other), Some(room("c", LOOKED + 1)));
}

#[tokio::test]
async fn another_look_moves_the_watches_to_whom_it_showed() {
    let board = Arc::new(Board::default());
    let (mut commands, _) = board.opened();
    let _me = board.attend(ME, behind("a", "c"));
    sent(&mut commands);
    board.see(ME, Sight { revision: LOOKED + 5, ..behind("b", "c") });
    assert_eq!(sent(&mut commands), ["cancel 2", "watch 4 b"]);
}

/// PR18.
#[tokio::test]
async fn whose_own_entry_was_deleted_is_not_granted_anything() {
    let board = Arc::new(Board::default());
    let (_commands, _) = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.arm(ME);
    board.take_in(3, News::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), CHANGED);
    board.take_in(2, News::Deleted(LOOKED + 2));
    assert_eq!(told(&mut me), None);
}

/// What one transaction deletes comes in no order: that there is room is a question, until it is known that one stands.
#[tokio::test]
async fn who_is_deleted_with_the_one_ahead_is_not_granted_anything() {
    for listens_between in [false, true] {
        let board = Arc::new(Board::default());
        let (_commands, _) = board.opened();
        let mut me = board.attend(ME, behind("a", "b"));
        board.arm(ME);
        board.take_in(2, News::Deleted(LOOKED + 1));
        if listens_between {
            assert_eq!(told(&mut me), Some(room("b", LOOKED + 1)));
        }
        board.take_in(3, News::Deleted(LOOKED + 1));
        let rest: Vec<_> = std::iter::from_fn(|| told(&mut me)).collect();
        assert!(!rest.is_empty() && rest.iter().all(|told| *told == Told::Changed), "{rest:?}");
    }
}

/// Drops a waiter when it wakes somebody, as an executor may that has no use for its tasks any more.
struct Drops(Mutex<Option<Attending>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let dropped = self.0.lock().unwrap().take();
        drop(dropped);
    }
}

#[test]
fn whoever_is_woken_may_drop_another_waiter() {
    let happens: [fn(&Board); 3] = [
        |board| board.take_in(3, News::Created(98)),
        |board| board.take_in(3, News::Canceled),
        Board::closed,
    ];
    for happens in happens {
        let (done, over) = mpsc::channel();
        // Where it hangs, so does whatever has to do with this board.
        thread::spawn(move || {
            let (board, keeper) = (Arc::new(Board::default()), Keeper::start().unwrap());
            let (_commands, _) = board.opened();
            let _me = board.attend(ME, behind("a", "b"));
            let dropped = Drops(Mutex::new(Some(board.attend(OTHER, behind("a", "c")))));
            let waker = Waker::from(Arc::new(dropped));
            let mut watched = pin!(board.watched(ME, &keeper, keeper.now() + Duration::from_secs(3600)));
            assert!(watched.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            happens(&board);
            done.send(board.lock().vigils.len()).unwrap();
        });
        let left = over.recv_timeout(Duration::from_secs(20)).expect("the keeper goes on");
        assert_eq!(left, 1, "the other one was not dropped");
    }
}

/// Waits behind `a`, and has a good sight; then the stream ends, and there is another.
fn behind_on_a_new_stream() -> (Arc<Board>, Attending, UnboundedReceiver<Command>) {
    let board = Arc::new(Board::default());
    let (commands, _) = board.opened();
    let me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(3, News::Created(99));
    board.arm(ME);
    drop(commands);
    board.closed();
    let (commands, _) = board.opened();
    (board, me, commands)
}

/// The answer to a look at revision 200.
fn stood<const N: usize>(rows: [(&str, Option<i64>); N]) -> Stood {
    rows.into_iter().map(|(key, created)| (key.into(), (200, created))).collect()
}

/// PR14: what happened without a stream is not told by the next one.
#[tokio::test]
async fn without_a_stream_nobody_is_watched_and_with_the_next_one_everybody_is_again() {
    let (board, mut me, mut commands) = behind_on_a_new_stream();
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
    board.take_in(2, News::Created(150));
    board.take_in(3, News::Created(151));
    board.caught_up(&stood([("a", Some(50)), ("b", Some(90))]));
    assert_eq!(told(&mut me), None, "nothing has changed");
    board.take_in(2, News::Deleted(201));
    assert_eq!(told(&mut me), Some(room("b", 201)));
}

#[tokio::test]
async fn who_left_while_there_was_no_stream_is_found_missing() {
    // Gone; or gone, and the key is that of somebody who came later.
    for left in [None, Some(120)] {
        let (board, mut me, _commands) = behind_on_a_new_stream();
        board.take_in(2, News::Created(150));
        board.take_in(3, News::Created(151));
        assert_eq!(told(&mut me), None);
        board.caught_up(&stood([("a", left), ("b", Some(90))]));
        assert_eq!(told(&mut me), Some(room("b", 200)), "{left:?}");
    }
    let (board, mut me, _commands) = behind_on_a_new_stream();
    board.take_in(2, News::Created(150));
    board.take_in(3, News::Created(151));
    board.caught_up(&stood([("a", Some(50)), ("b", None)]));
    assert_eq!(told(&mut me), CHANGED, "its own entry is gone");
}

/// A delete on the new stream counts, but not before everything is known.
#[tokio::test]
async fn who_leaves_while_it_is_caught_up_is_told_of_when_it_is_over() {
    let (board, mut me, _commands) = behind_on_a_new_stream();
    board.take_in(2, News::Created(150));
    board.take_in(3, News::Created(151));
    board.take_in(2, News::Deleted(201));
    assert_eq!(told(&mut me), None);
    board.caught_up(&stood([("a", Some(50)), ("b", Some(90))]));
    assert_eq!(told(&mut me), Some(room("b", 201)));
}

/// The look failed, or is from before a watch, or the server refuses a watch.
#[tokio::test]
async fn who_cannot_be_caught_up_with_looks_for_itself() {
    let all = || stood([("a", Some(50)), ("b", Some(90))]);
    for (refused, since, stood) in [(false, 150, Stood::new()), (false, 201, all()), (true, 150, all())] {
        let (board, mut me, _commands) = behind_on_a_new_stream();
        board.take_in(2, News::Created(since));
        board.take_in(3, if refused { News::Canceled } else { News::Created(since) });
        board.all_watched(&[b"a".to_vec(), b"b".to_vec()]).await;
        board.caught_up(&stood);
        assert_eq!(told(&mut me), CHANGED, "{refused} {since}");
        assert!(board.attend_on(ME).is_none(), "it has to look at the queue");
    }
}

/// What it saw is not what there is now.
#[tokio::test]
async fn who_has_looked_again_meanwhile_is_left_alone() {
    let (board, mut me, _commands) = behind_on_a_new_stream();
    board.see(ME, Sight { revision: 180, ..behind("a", "b") });
    board.take_in(2, News::Created(150));
    board.take_in(3, News::Created(151));
    board.caught_up(&stood([("a", None), ("b", Some(90))]));
    assert_eq!(told(&mut me), None);
    board.arm(ME);
    board.take_in(2, News::Deleted(190));
    assert_eq!(told(&mut me), Some(room("b", 190)));
}

/// Without a stream a waiter asks for those whom it knows, not for the queue.
#[tokio::test]
async fn who_polls_attends_on_to_those_whom_it_has_seen() {
    let board = Arc::new(Board::default());
    let _me = board.attend(ME, behind("a", "b"));
    let (attending, keys) = board.attend_on(ME).expect("nothing is watched, and nobody has left");
    assert_eq!(keys, [b"a".to_vec(), b"b".to_vec()]);
    let (_commands, _) = board.opened();
    drop(attending);
    assert!(board.attend_on(ME).is_some(), "it is being caught up with");
    board.caught_up(&Stood::new());
    assert!(board.attend_on(ME).is_none());
}

#[tokio::test]
async fn a_watch_that_the_server_ends_has_its_waiters_look_again_and_one_that_it_refuses_has_them_poll() {
    let board = Arc::new(Board::default());
    let (_commands, _) = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Canceled);
    assert_eq!(told(&mut me), CHANGED);
    assert_eq!(watched(&board, ME).await, Ok(None));
    let mut other = board.attend(OTHER, behind("c", "d"));
    board.take_in(4, News::Canceled);
    assert_eq!(told(&mut other), None, "asked again, it would be refused again");
    assert_eq!(watched(&board, OTHER).await, Ok(None));
    // It is over: nothing is heard of it any more.
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(told(&mut me), None);
}

/// Whoever holds under it learns of that before anybody was asked.
#[tokio::test]
async fn a_session_is_over_when_its_key_is_deleted() {
    let board = Arc::new(Board::default());
    let (mut commands, _) = board.opened();
    let session = session(0x1f);
    let now = BootTime::new(Duration::from_secs(1_000));
    let entry = Entry::new(LockName::new("job").unwrap(), ME, Claim::mutex(), Duration::from_secs(10));
    let member = session.admit(&entry, Keys::new("", &entry.name), now);
    let (mut alarms, mut hints) = (board.alarms(), board.hints.listen(ME));
    board.watch_session(&session);
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(7));
    assert!(session.is_alive(now) && session.is_doubted(), "it was put since");
    board.take_in(2, News::Deleted(99));
    assert!(!session.is_alive(now) && session.is_doubted());
    assert_eq!(alarms.next().now_or_never(), Some(Some(member.entry.id)));
    assert_eq!(hints.next().now_or_never(), Some(Some(Hint::Changed)));
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f", "cancel 2"]);
}

#[tokio::test]
async fn a_session_is_asked_about_when_its_key_may_have_been_deleted() {
    let board = Arc::new(Board::default());
    let (mut commands, _) = board.opened();
    let session = session(0x1f);
    board.watch_session(&session);
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    board.take_in(2, News::Created(98));
    assert!(!session.is_doubted());
    board.closed();
    let (mut commands, _) = board.opened();
    assert!(session.is_doubted(), "nothing is known of the time between");
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    board.session_ended(&session);
    assert_eq!(sent(&mut commands), ["cancel 2"]);
}
