use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lock_core::{Claim, Entry, FencingToken, LockName};

use super::*;
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

fn hint(attending: &mut Attending) -> Option<Hint> {
    attending.next().now_or_never().flatten()
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
    let mut commands = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
    assert_eq!(watched(&board, ME).await, Err(()), "no watch is there yet");
    board.take_in(2, News::Created(98));
    board.take_in(3, News::Created(99));
    assert_eq!(watched(&board, ME).await, Ok(Some(99)));
    board.arm(ME);
    board.take_in(2, News::Deleted(LOOKED));
    assert_eq!(hint(&mut me), None, "the look knew of it");
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(hint(&mut me), Some(Hint::Admitted { token: TOKEN }));
}

/// PR27.
#[tokio::test]
async fn what_came_before_the_sight_was_good_is_told_when_it_is() {
    let board = Arc::new(Board::default());
    let _commands = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(hint(&mut me), None);
    board.take_in(3, News::Created(99));
    board.arm(ME);
    assert_eq!(hint(&mut me), Some(Hint::Admitted { token: TOKEN }));
}

#[tokio::test]
async fn many_who_wait_for_one_share_a_watch_and_the_last_to_go_ends_it() {
    let board = Arc::new(Board::default());
    let mut commands = board.opened();
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
    let _commands = board.opened();
    let _me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(LOOKED + 1));
    let mut other = board.attend(OTHER, behind("a", "c"));
    board.take_in(4, News::Created(99));
    board.arm(OTHER);
    assert_eq!(hint(&mut other), Some(Hint::Admitted { token: TOKEN }));
}

#[tokio::test]
async fn another_look_moves_the_watches_to_whom_it_showed() {
    let board = Arc::new(Board::default());
    let mut commands = board.opened();
    let _me = board.attend(ME, behind("a", "c"));
    sent(&mut commands);
    board.see(ME, Sight { revision: LOOKED + 5, ..behind("b", "c") });
    assert_eq!(sent(&mut commands), ["cancel 2", "watch 4 b"]);
}

/// PR18.
#[tokio::test]
async fn whose_own_entry_was_deleted_is_not_granted_anything() {
    let board = Arc::new(Board::default());
    let _commands = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.arm(ME);
    board.take_in(3, News::Deleted(LOOKED + 1));
    assert_eq!(hint(&mut me), Some(Hint::Changed));
    board.take_in(2, News::Deleted(LOOKED + 2));
    assert_eq!(hint(&mut me), None);
}

/// PR14: what happened without a stream is not told.
#[tokio::test]
async fn without_a_stream_nobody_is_watched_and_with_the_next_one_everybody_looks_again() {
    let board = Arc::new(Board::default());
    let commands = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    drop(commands);
    board.closed();
    assert_eq!(watched(&board, ME).await, Ok(None), "it polls");
    let mut commands = board.opened();
    assert_eq!(hint(&mut me), Some(Hint::Changed));
    assert_eq!(sent(&mut commands), [""; 0]);
    board.see(ME, behind("a", "b"));
    assert_eq!(sent(&mut commands), ["watch 2 a", "watch 3 b"]);
}

#[tokio::test]
async fn a_watch_that_the_server_ends_has_its_waiters_look_again_and_one_that_it_refuses_has_them_poll() {
    let board = Arc::new(Board::default());
    let _commands = board.opened();
    let mut me = board.attend(ME, behind("a", "b"));
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Canceled);
    assert_eq!(hint(&mut me), Some(Hint::Changed));
    assert_eq!(watched(&board, ME).await, Ok(None));
    let mut other = board.attend(OTHER, behind("c", "d"));
    board.take_in(4, News::Canceled);
    assert_eq!(hint(&mut other), None, "asked again, it would be refused again");
    assert_eq!(watched(&board, OTHER).await, Ok(None));
    // It is over: nothing is heard of it any more.
    board.take_in(2, News::Deleted(LOOKED + 1));
    assert_eq!(hint(&mut me), None);
}

/// Whoever holds under it learns of that before anybody was asked.
#[tokio::test]
async fn a_session_is_over_when_its_key_is_deleted() {
    let board = Arc::new(Board::default());
    let mut commands = board.opened();
    let session = session(0x1f);
    let now = BootTime::new(Duration::from_secs(1_000));
    let entry = Entry::new(LockName::new("job").unwrap(), ME, Claim::mutex(), Duration::from_secs(10));
    let member = session.admit(&entry, Keys::new("", &entry.name), now);
    let (mut alarms, mut hints) = (board.alarms(), board.hints.listen(ME));
    board.watch_session(&session);
    board.take_in(2, News::Created(98));
    board.take_in(2, News::Deleted(7));
    assert!(session.is_alive(now) && session.is_doubted(), "it was put again since");
    board.take_in(2, News::Deleted(99));
    assert!(!session.is_alive(now) && session.is_doubted());
    assert_eq!(alarms.next().now_or_never(), Some(Some(member.entry.id)));
    assert_eq!(hints.next().now_or_never(), Some(Some(Hint::Changed)));
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f", "cancel 2"]);
}

#[tokio::test]
async fn a_session_is_asked_about_when_its_key_may_have_been_deleted() {
    let board = Arc::new(Board::default());
    let mut commands = board.opened();
    let session = session(0x1f);
    board.watch_session(&session);
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    board.take_in(2, News::Created(98));
    assert!(!session.is_doubted());
    board.closed();
    let mut commands = board.opened();
    assert!(session.is_doubted(), "nothing is known of the time between");
    assert_eq!(sent(&mut commands), ["watch 2 s1/1f"]);
    board.session_ended(&session);
    assert_eq!(sent(&mut commands), ["cancel 2"]);
}
