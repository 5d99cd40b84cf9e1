use std::{
    sync::{Arc, atomic::AtomicUsize, mpsc},
    thread,
};

use futures_util::FutureExt;
use lock_core::{Claim, Entry, EntryId, LockName, session_pool::PooledMember};

use super::{super::member::Member, *};
use crate::keys::Keys;

const START: BootTime = BootTime::new(Duration::from_secs(1_000));

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A shared lease of 12 s that was proved at [`START`].
fn shared() -> Arc<Session> {
    Arc::new(Session::new(0x1f, s(12), START, Some((b"s1/1f".to_vec(), 7))))
}

fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

fn entry(id: u128, lock: &str, claim: Claim) -> Entry {
    Entry::new(name(lock), EntryId::new(id), claim, s(10))
}

fn member(session: &Arc<Session>, entry: &Entry) -> Member {
    Member::new(entry, Keys::new("p/", &entry.name), session, START)
}

fn add_member(session: &Arc<Session>, id: u128) -> Member {
    member(session, &entry(id, "job", Claim::mutex()))
}

fn key(member: &Member) -> String {
    String::from_utf8(member.key.clone()).unwrap()
}

#[test]
fn a_key_names_its_lease_and_goes_to_the_next_when_its_owner_is_gone() {
    let session = shared();
    let (one, other) = (add_member(&session, 1), add_member(&session, 2));
    assert_eq!((key(&one), key(&other)), ("p/q1/job/m/1/1f/0".into(), "p/q1/job/m/1/1f/1".into()));
    assert!(one.give_back());
    assert_eq!(key(&add_member(&session, 3)), "p/q1/job/m/1/1f/0");
}

/// The delete does not check whose key it is: if it arrives late, the key must not exist.
#[test]
fn a_key_with_a_delete_that_was_not_answered_is_nobodys_any_more() {
    let session = shared();
    let one = add_member(&session, 1);
    one.begin_delete();
    assert!(!one.give_back());
    let next = add_member(&session, 2);
    assert_eq!(key(&next), "p/q1/job/m/1/1f/1");
    next.begin_delete();
    next.delete_answered();
    assert!(next.give_back());
    assert_eq!(key(&add_member(&session, 3)), "p/q1/job/m/1/1f/1", "an answered one is over");
}

/// One task has seen that the entry is gone, while another one is about to remove it.
#[test]
fn a_member_that_has_released_its_key_deletes_nothing_any_more() {
    let session = shared();
    let one = add_member(&session, 1);
    assert!(one.give_back());
    let next = add_member(&session, 2);
    assert_eq!(key(&next), key(&one));
    assert!(!one.begin_delete() && next.begin_delete());
}

/// Two leaves may be in flight: that of a dropped release, and that of the keeper.
#[test]
fn a_key_waits_for_the_answers_to_all_deletes_of_it() {
    let session = shared();
    let one = add_member(&session, 1);
    one.begin_delete();
    one.begin_delete();
    assert!(one.delete_answered(), "the other one");
    assert!(!one.give_back());
    assert_eq!(key(&add_member(&session, 2)), "p/q1/job/m/1/1f/1");
}

#[test]
fn locks_and_claims_have_numbers_of_their_own() {
    let session = shared();
    let reader = entry(1, "job", Claim::reader());
    let writer = entry(2, "job", Claim::writer());
    let pool = entry(3, "pool", Claim::semaphore(2, 5).unwrap());
    assert_eq!(key(&member(&session, &reader)), "p/q1/job/r/1/1f/0");
    assert_eq!(key(&member(&session, &writer)), "p/q1/job/r/w/1f/0");
    assert_eq!(key(&member(&session, &pool)), "p/q1/pool/s5/2/1f/0");
}

/// PR01.
#[test]
fn a_lease_is_relied_on_from_its_last_proof_for_the_ttl_at_most() {
    let session = shared();
    let margin = |ttl: Duration| ttl.saturating_sub(session.valid_until(ttl).since(START));
    assert_eq!(session.valid_until(s(10)), START + s(10) - margin(s(10)));
    assert!(margin(s(10)) > Duration::ZERO && margin(s(10)) < Duration::from_millis(500));
    assert_eq!(session.valid_until(s(60)), session.valid_until(s(12)), "more than was granted");
    assert!(session.is_alive(START + s(11)));
    assert!(!session.is_alive(START + s(12)), "its margin is over before");
}

#[test]
fn a_session_that_has_ended_stays_so_and_its_task_is_told() {
    let session = shared();
    let one = add_member(&session, 1);
    session.end();
    assert!(session.has_ended() && !session.is_alive(START));
    assert!(!one.is_alive(START));
    session.ended().now_or_never().expect("it is told, though it did not wait yet");
}

/// One thread checks whether an entry is alive while another one removes it.
#[test]
fn a_check_and_a_removal_of_a_member_do_not_wait_for_each_other() {
    let session = shared();
    let members: Arc<Vec<_>> = Arc::new((0..500).map(|id| add_member(&session, id)).collect());
    let (asked, dismissed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (done, over) = mpsc::channel();
    thread::spawn({
        let (members, asked, dismissed) = (Arc::clone(&members), Arc::clone(&asked), Arc::clone(&dismissed));
        move || {
            for (i, one) in members.iter().enumerate() {
                asked.store(i + 1, Ordering::Release);
                while dismissed.load(Ordering::Acquire) <= i {
                    one.is_alive(START);
                }
            }
        }
    });
    thread::spawn(move || {
        for (i, one) in members.iter().enumerate() {
            while asked.load(Ordering::Acquire) <= i {
                thread::yield_now();
            }
            assert!(one.give_back());
            dismissed.store(i + 1, Ordering::Release);
        }
        done.send(()).unwrap();
    });
    over.recv_timeout(s(60)).expect("each has what the other waits for");
}

/// PR08.
#[test]
fn a_tombstone_concerns_its_member_and_the_next_one() {
    let session = shared();
    let tombstone = |member: &Member| {
        member.tombstone_key().map(|(key, set_at)| (String::from_utf8(key).unwrap(), set_at))
    };
    let (one, other) = (add_member(&session, 1), add_member(&session, 2));
    one.mark_tombstone_set(9);
    let found = [tombstone(&one), tombstone(&other)];
    let as_they_came = [("s1/1f/0".to_owned(), 0_i64), ("s1/1f/1".to_owned(), 0)];
    assert_eq!(found, as_they_came.map(Some), "what is sent compares a tombstone as it was");
    assert!(one.give_back());
    let (next, fresh) = (add_member(&session, 3), add_member(&session, 4));
    assert_eq!(tombstone(&next), Some(("s1/1f/0".to_owned(), 9)));
    assert_eq!(tombstone(&fresh), Some(("s1/1f/2".to_owned(), 0)), "a tombstone has one owner at a time");
}

/// Two tasks may remove one entry, and one has seen that it is gone. If its tombstone may still be set, no other member may get it.
#[test]
fn a_tombstone_that_may_still_be_set_is_nobodys_any_more() {
    let session = shared();
    let one = add_member(&session, 1);
    assert!(one.begin_delete());
    assert!(!one.give_back());
    assert_ne!(add_member(&session, 2).tombstone_key(), one.tombstone_key());
}

#[test]
fn an_entry_with_a_lease_of_its_own_has_no_tombstone() {
    let session = Arc::new(Session::new(1, s(12), START, None));
    assert_eq!(add_member(&session, 1).tombstone_key(), None);
}

/// A grant that arrives after the revoke creates the lease again, and a create that arrives after that finds the lease.
#[test]
fn the_key_of_a_session_has_to_stand_while_a_grant_may_come_late() {
    let mut session = Session::new(1, s(12), START, Some((b"s".to_vec(), 7)));
    assert_eq!(session.key_guard(START), None);
    session.late_grant = Some(START + s(60));
    assert_eq!(session.key_guard(START + s(59)), Some((&b"s"[..], 7)));
    assert_eq!(session.key_guard(START + s(60)), None);
    let mut alone = Session::new(1, s(12), START, None);
    alone.late_grant = Some(START + s(60));
    assert_eq!(alone.key_guard(START), None, "its own revoke is repeated");
}

#[test]
fn a_session_ends_with_its_key_that_was_put_when_it_began() {
    let session = shared();
    assert!(session.ends_with_its_key(8) && !session.ends_with_its_key(7));
}

#[test]
fn a_doubt_is_asked_about_once() {
    let session = shared();
    session.mark_doubtful();
    assert!(session.take_doubt());
    assert!(!session.take_doubt());
}
