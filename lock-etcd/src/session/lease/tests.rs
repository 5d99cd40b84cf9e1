use lock_core::{Claim, LockName};

use super::*;

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

fn admit(session: &Arc<Session>, id: u128) -> Arc<Member> {
    let entry = entry(id, "job", Claim::mutex());
    session.admit(&entry, Keys::new("p/", &entry.name), START)
}

fn key(member: &Member) -> String {
    String::from_utf8(member.key.clone()).unwrap()
}

#[test]
fn a_key_names_its_lease_and_goes_to_the_next_when_its_owner_is_gone() {
    let session = shared();
    let (one, other) = (admit(&session, 1), admit(&session, 2));
    assert_eq!((key(&one), key(&other)), ("p/q1/job/m/1/1f/0".into(), "p/q1/job/m/1/1f/1".into()));
    session.dismiss(&one);
    assert_eq!(key(&admit(&session, 3)), "p/q1/job/m/1/1f/0");
}

/// The delete does not ask whose the key is: should it come late, it must find nobody.
#[test]
fn a_key_with_a_delete_that_was_not_answered_is_nobodys_any_more() {
    let session = shared();
    let one = admit(&session, 1);
    one.deletes();
    session.dismiss(&one);
    let next = admit(&session, 2);
    assert_eq!(key(&next), "p/q1/job/m/1/1f/1");
    next.deletes();
    next.deleted();
    session.dismiss(&next);
    assert_eq!(key(&admit(&session, 3)), "p/q1/job/m/1/1f/1", "an answered one is over");
}

/// Somebody saw that it is gone, while somebody else was about to leave for it.
#[test]
fn who_has_yielded_its_key_deletes_nothing_any_more() {
    let session = shared();
    let one = admit(&session, 1);
    session.dismiss(&one);
    let next = admit(&session, 2);
    assert_eq!(key(&next), key(&one));
    assert!(!one.deletes() && next.deletes());
}

/// A session does not grow for ever, however often answers to deletes are lost.
#[test]
fn a_key_that_is_nobodys_any_more_takes_a_seat() {
    let session = shared();
    assert!(session.take_seat(2));
    let one = admit(&session, 1);
    one.deletes();
    session.dismiss(&one);
    assert!(session.take_seat(2) && !session.take_seat(2));
    session.dismiss(&admit(&session, 2));
    assert!(session.close_if_empty(), "nobody sits there");
}

/// Two may leave for one: whoever dropped a release, and the keeper.
#[test]
fn a_key_waits_for_the_answers_to_all_deletes_of_it() {
    let session = shared();
    let one = admit(&session, 1);
    one.deletes();
    one.deletes();
    assert!(one.deleted(), "the other one");
    session.dismiss(&one);
    session.dismiss(&one);
    assert_eq!(key(&admit(&session, 2)), "p/q1/job/m/1/1f/1");
}

#[test]
fn locks_and_claims_have_slots_of_their_own() {
    let session = shared();
    let keys = |lock: &str| Keys::new("p/", &name(lock));
    let reader = entry(1, "job", Claim::reader());
    let writer = entry(2, "job", Claim::writer());
    let pool = entry(3, "pool", Claim::semaphore(2, 5).unwrap());
    assert_eq!(key(&session.admit(&reader, keys("job"), START)), "p/q1/job/r/1/1f/0");
    assert_eq!(key(&session.admit(&writer, keys("job"), START)), "p/q1/job/r/w/1f/0");
    assert_eq!(key(&session.admit(&pool, keys("pool"), START)), "p/q1/pool/s5/2/1f/0");
}

/// PR01.
#[test]
fn a_lease_is_relied_on_from_its_last_proof_and_no_longer_than_was_asked_for() {
    let session = shared();
    let margin = |ttl: Duration| ttl.saturating_sub(session.valid_until(ttl).since(START));
    assert_eq!(session.valid_until(s(10)), START + s(10) - margin(s(10)));
    assert!(margin(s(10)) > Duration::ZERO && margin(s(10)) < Duration::from_millis(500));
    assert_eq!(session.valid_until(s(60)), session.valid_until(s(12)), "more than was granted");
    assert!(session.is_alive(START + s(11)));
    assert!(!session.is_alive(START + s(12)), "its margin is over before");
}

#[test]
fn what_has_ended_is_never_alive_again_and_tells_whom_it_kept() {
    let session = shared();
    let one = admit(&session, 1);
    assert_eq!(session.end(), [one.entry.id]);
    assert!(session.has_ended() && !session.is_alive(START));
    assert!(!one.is_alive(START));
}

#[test]
fn there_are_so_many_seats_and_a_session_that_nobody_sits_in_can_be_closed_for_good() {
    let session = shared();
    assert!(session.take_seat(2) && session.take_seat(2) && !session.take_seat(2));
    let (one, other) = (admit(&session, 1), admit(&session, 2));
    assert!(!session.close_if_empty());
    session.dismiss(&one);
    session.dismiss(&one);
    assert!(!session.close_if_empty(), "the seat of one is free, not that of the other");
    assert!(session.take_seat(2) && !session.take_seat(2));
    session.dismiss(&admit(&session, 3));
    session.dismiss(&other);
    assert!(session.close_if_empty() && session.has_ended());
}

#[test]
fn who_was_dismissed_takes_nothing_from_another_life_of_its_id() {
    let session = shared();
    let former = admit(&session, 1);
    session.dismiss(&former);
    let now = admit(&session, 1);
    session.dismiss(&former);
    assert!(session.has_key(&now.key));
}

/// PR08.
#[test]
fn an_epoch_only_grows_until_the_door_is_lost() {
    let session = shared();
    let epoch = || session.epoch().map(|(_, epoch)| epoch);
    session.saw_epoch(9);
    session.saw_epoch(8);
    assert_eq!(epoch(), Some(9), "an older answer came late");
    session.lost_epoch();
    assert_eq!(epoch(), Some(0));
    session.saw_epoch(12);
    assert_eq!(epoch(), Some(12));
    assert!(Session::new(1, s(12), START, None).epoch().is_none());
}

#[test]
fn a_doubt_is_asked_about_once() {
    let session = shared();
    session.doubt();
    assert!(session.is_doubted());
    assert!(!session.is_doubted());
}
