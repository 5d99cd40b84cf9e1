//! When a lease ends, and when it does not.

mod dead_entries;
mod deadlines;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::poll_fn;
use lock_core::{
    AcquireOptions, Claim, DistributedLock, Entry, Error, InputError, Lease, MAX_TTL, MIN_TTL, Renewal,
    Standing, Step, WaitMode,
};

use self::{
    dead_entries::{
        a_former_life_of_an_entry_does_nothing_to_a_later_one, a_hint_for_a_former_life_grants_nothing,
        the_dead_are_out_although_nobody_has_removed_them, the_dead_do_not_count_against_those_behind_them,
    },
    deadlines::{
        a_deadline_comes_from_an_answered_look_and_not_from_one_that_was_lost,
        a_machine_that_slept_past_a_deadline_is_told_of_it_within_a_second,
        a_place_that_was_handed_the_lock_keeps_it_as_long_as_it_was_promised,
        a_promise_is_counted_from_the_last_proof_and_kept_when_proofs_end, a_shorter_renewal_cuts_nothing,
        a_waiter_with_a_shorter_lease_is_covered_for_the_longer_one,
    },
};
use super::{
    altered::{Alter, altered},
    jumping_clock,
    lease::{assert_covered, deadline_at_least, deadline_at_most, ms, now, queued_behind, row, snatch},
    stall_tolerant::stall_tolerant,
    steps::{assert_held_alone, faulty, refused, take_free},
};
use crate::{
    CaseTest, Client, Fault, SLACK, TestEnv, Verb,
    audit::{assert_queue_empties, await_queue, safety, soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! expiry_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] expiry {
            the_lock_of_a_dead_client_is_free_at_the_end_of_its_ttl_not_before ["E01"]
            a_lock_is_refused_to_others_until_its_deadline_has_passed ["E02"]
            what_remains_only_shrinks_and_is_never_more_than_the_store_keeps ["E03"]
            an_answer_that_comes_late_moves_no_deadline ["E04"]
            an_answer_that_is_read_late_moves_no_deadline ["E04"]
            a_ttl_out_of_range_is_refused_and_nothing_is_sent ["E05"]
            a_lease_shorter_than_asked_is_renewed_in_time_and_not_too_often ["E06"]
            a_ttl_that_the_store_makes_longer_is_shown_and_not_relied_on ["E06"]
            the_longest_of_all_durations_work ["E07"]
            a_jump_of_the_wall_clock_moves_no_deadline ["E10"]
            a_promise_is_counted_from_the_last_proof_and_kept_when_proofs_end ["PR01"]
            a_deadline_comes_from_an_answered_look_and_not_from_one_that_was_lost ["PR02"]
            a_hint_for_a_former_life_grants_nothing ["PR03"]
            a_former_life_of_an_entry_does_nothing_to_a_later_one ["PR03"]
            a_shorter_renewal_cuts_nothing ["PR04"]
            a_place_that_was_handed_the_lock_keeps_it_as_long_as_it_was_promised ["PR04"]
            a_waiter_with_a_shorter_lease_is_covered_for_the_longer_one ["PR04"]
            a_machine_that_slept_past_a_deadline_is_told_of_it_within_a_second ["PR05"]
            the_dead_are_out_although_nobody_has_removed_them ["PR06"]
            the_dead_do_not_count_against_those_behind_them ["PR06"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = expiry_cases!(list);

/// The waiter is in the queue when the holder dies, so it is the first to learn that the lock is free.
pub(super) async fn the_lock_of_a_dead_client_is_free_at_the_end_of_its_ttl_not_before(env: TestEnv) {
    let (dying, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let guard = dying.mutex(&name).acquire_with(&dying.options().ttl(ms(600))).await.unwrap();
    let waiter = tokio::spawn({
        let lock = other.mutex(&name);
        async move { lock.acquire().await }
    });
    queued_behind(&other, &guard.hold()).await;
    dying.crash().await;

    let next =
        within("the end of a dead client's lease", guard.ttl() + SLACK, waiter).await.unwrap().unwrap();
    assert!(!guard.is_held(), "granted {:?} before the dead client's deadline", guard.remaining());
    assert!(next.token() > guard.token());
}

/// The holder lives, but does not renew: the lease still ends at its ttl, and not before.
pub(super) async fn a_lock_is_refused_to_others_until_its_deadline_has_passed(env: TestEnv) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let options = holder.options().renew(false);
    for ttl in [MIN_TTL, ms(150), ms(450)] {
        let guard = holder.mutex(&name).acquire_with(&options.clone().ttl(ttl)).await.unwrap();
        let next = snatch(&other, &name, guard.ttl() + SLACK).await;
        assert!(!guard.is_held(), "granted {:?} before the holder's deadline", guard.remaining());
        next.release().await.unwrap();
    }
}

/// Compares the guard with the store, again and again until the lease ends.
pub(super) async fn what_remains_only_shrinks_and_is_never_more_than_the_store_keeps(env: TestEnv) {
    let client = env.client().await;
    // On a busy machine, a look may take longer than a short ttl.
    for ttl in [ms(500), ms(4000), ms(30_000)] {
        if looks_at_what_remains(&client, &env.name(&format!("job {ttl:?}")), ttl).await > 1 {
            return;
        }
    }
    panic!("only one look in half a minute");
}

/// Returns the number of looks.
async fn looks_at_what_remains(client: &Client, name: &str, ttl: Duration) -> usize {
    let options = client.options().ttl(ttl).renew(false);
    let guard = client.mutex(name).acquire_with(&options).await.unwrap();
    let (mut last, mut looks) = (guard.ttl(), 0);
    loop {
        let remaining = guard.remaining();
        assert!(remaining <= last, "{remaining:?} remained after {last:?}");
        last = remaining;
        let row = row(client, guard.name(), guard.entry_id()).await;
        // Read after the store has looked, so it must not be more than the store saw.
        let remaining = guard.remaining();
        if remaining.is_zero() {
            break;
        }
        let left = row.expect("the entry is there while the lock is held").lease_left.unwrap();
        assert!(remaining <= left, "the guard counted on {remaining:?} when the store had {left:?} left");
        looks += 1;
        tokio::time::sleep(ms(5)).await;
    }
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    looks
}

/// The answers to the acquisition and to a renewal take a third of the ttl to arrive.
pub(super) async fn an_answer_that_comes_late_moves_no_deadline(env: TestEnv) {
    stall_tolerant(env, ms(4500), answered_late).await;
}

async fn answered_late(env: TestEnv, ttl: Duration) {
    let (client, faults) = faulty(&env).await;
    let name = env.name(&format!("job {ttl:?}"));
    let options = client.options().ttl(ttl).renew(false);
    faults.next(Verb::Enter, Fault::DelayReply(ttl / 3));
    let guard = client.mutex(&name).acquire_with(&options).await.unwrap();
    safety(guard.remaining() <= ttl * 2 / 3, "more is counted on than a late grant proves");
    assert_covered(&client, &guard.hold(), "after a late grant").await;

    faults.next(Verb::Renew, Fault::DelayReply(ttl / 3));
    let remaining = guard.extend().await.unwrap();
    safety(remaining <= ttl * 2 / 3, "more is counted on than a late renewal proves");
    assert_covered(&client, &guard.hold(), "after a late renewal").await;
}

/// The answers arrive soon, but the task gets no processor to read them. This is repeated, because an answer that is there at the first
/// poll shows nothing.
pub(super) async fn an_answer_that_is_read_late_moves_no_deadline(env: TestEnv) {
    stall_tolerant(env, ms(3000), read_late).await;
}

async fn read_late(env: TestEnv, ttl: Duration) {
    let client = env.client().await;
    let lock = client.mutex(&env.name(&format!("job {ttl:?}")));
    // Connections are open from here on, so that the next request leaves at the first poll.
    lock.acquire().await.unwrap().release().await.unwrap();
    let options = client.options().ttl(ttl).renew(false);
    for _ in 0..4 {
        let guard = slowly(ms(150), lock.acquire_with(&options)).await.unwrap();
        assert_covered(&client, &guard.hold(), "after a grant that was read late").await;
        slowly(ms(150), guard.extend()).await.unwrap();
        assert_covered(&client, &guard.hold(), "after a renewal that was read late").await;
        guard.release().await.unwrap();
    }
}

/// Polls a future at once, and then again only when a time has passed, as on a runtime that is busy with other things.
async fn slowly<T>(every: Duration, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return output;
        }
        tokio::time::sleep(every).await;
    }
}

/// Ttls just below and just above the range, and the shortest and longest durations.
pub(super) async fn a_ttl_out_of_range_is_refused_and_nothing_is_sent(env: TestEnv) {
    let (client, faults) = faulty(&env).await;
    let name = env.name("job");
    let lock = client.mutex(&name);
    let nanosecond = Duration::from_nanos(1);
    for ttl in
        [Duration::ZERO, nanosecond, MIN_TTL.saturating_sub(nanosecond), MAX_TTL + nanosecond, Duration::MAX]
    {
        let options = client.options().ttl(ttl);
        for error in
            [refused(lock.acquire_with(&options).await), refused(lock.try_acquire_with(&options).await)]
        {
            let Error::Input(InputError::Duration { option: "ttl", given, least: MIN_TTL, most: MAX_TTL }) =
                error
            else {
                panic!("a ttl of {ttl:?} gave {error:?}")
            };
            assert_eq!(given, ttl);
        }
    }
    assert_eq!(faults.calls(Verb::Enter), 0, "the store was asked");
    assert_queue_empties(&client, &name).await;
    for ttl in [MIN_TTL, MAX_TTL] {
        let granted = lock.acquire_with(&client.options().ttl(ttl)).await.unwrap();
        granted.release().await.unwrap();
    }
}

/// A store that grants only half of each ttl, as with sessions whose last heartbeat is old.
#[derive(Debug, Default)]
struct HalfAsFar {
    renewals: AtomicUsize,
}

impl Alter for HalfAsFar {
    fn standing(&self, entry: &Entry, mut standing: Standing) -> Standing {
        if let Standing::Admitted { valid_until, .. } = &mut standing {
            *valid_until = *valid_until - entry.ttl / 2;
        }
        standing
    }

    fn renewal(&self, lease: &Lease, renewal: Renewal) -> Renewal {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        match renewal {
            Renewal::Renewed { valid_until } => {
                Renewal::Renewed { valid_until: valid_until - lease.entry.ttl / 2 }
            }
            Renewal::Lost => Renewal::Lost,
        }
    }
}

/// There are about three renewals for each granted lease, and not as many as the store can answer.
pub(super) async fn a_lease_shorter_than_asked_is_renewed_in_time_and_not_too_often(env: TestEnv) {
    stall_tolerant(env, ms(2000), reaching_less_far).await;
}

async fn reaching_less_far(env: TestEnv, ttl: Duration) {
    let half = Arc::new(HalfAsFar::default());
    let client = altered(&env, Arc::clone(&half)).await;
    let guard = client
        .mutex(&env.name(&format!("job {ttl:?}")))
        .acquire_with(&client.options().ttl(ttl))
        .await
        .unwrap();
    let end_time = now() + ttl * 3 / 2;
    while now() < end_time {
        let remaining = guard.remaining();
        safety(
            remaining <= ttl / 2,
            format_args!("{remaining:?} were counted on when the proof reached {:?}", ttl / 2),
        );
        assert!(guard.is_held(), "lost: {:?}", guard.state());
        tokio::time::sleep(ms(20)).await;
    }
    let renewals = half.renewals.load(Ordering::Relaxed);
    // Three times half a ttl has passed.
    assert!((3..=30).contains(&renewals), "{renewals} renewals, where about 9 are due");
}

/// A store that reports every ttl as granted three times as long.
#[derive(Debug)]
struct Longer;

impl Alter for Longer {
    fn standing(&self, _entry: &Entry, mut standing: Standing) -> Standing {
        if let Standing::Admitted { ttl, .. } | Standing::Waiting { ttl, .. } = &mut standing {
            *ttl *= 3;
        }
        standing
    }
}

/// Also checks that the store's own answers are of that kind, with a ttl that no store has among its steps.
pub(super) async fn a_ttl_that_the_store_makes_longer_is_shown_and_not_relied_on(env: TestEnv) {
    let plain = env.client().await;
    let name = env.name("job");
    let asked = ms(1234);
    let entry = plain.entry(&name, Claim::mutex(), asked);
    match plain.backend.enter(&entry, Step::Create, WaitMode::Try).await.unwrap() {
        Standing::Admitted { ttl, valid_until, .. } => {
            assert!(ttl >= asked, "a ttl of {asked:?} was granted as {ttl:?}");
            assert!(valid_until < now() + asked, "the deadline is later than the requested ttl allows");
        }
        other => panic!("the name is free, and the answer is {other:?}"),
    }

    let longer = altered(&env, Arc::new(Longer)).await;
    let lock = longer.mutex(&env.name("longer"));
    let guard = lock.acquire_with(&longer.options().ttl(asked).renew(false)).await.unwrap();
    assert!(guard.ttl() >= asked * 3, "the ttl is shown as {:?}", guard.ttl());
    assert!(guard.remaining() < asked);
    let deadline = deadline_at_least(&guard.hold());
    soon("the loss of a lock whose ttl was made longer", guard.lost()).await;
    assert!(now() >= deadline, "it was lost before its deadline");
}

/// Deadlines and timers that far away must neither overflow nor fire, and a waiter with them is still granted immediately.
pub(super) async fn the_longest_of_all_durations_work(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("job");
    let longest = AcquireOptions::new().ttl(MAX_TTL).wait(Duration::MAX).max_hold(Duration::MAX);
    let guard = client.mutex(&name).acquire_with(&longest).await.unwrap();
    assert!(guard.remaining() > MAX_TTL / 100 * 98 && guard.remaining() < MAX_TTL, "{:?}", guard.remaining());
    let before = deadline_at_least(&guard.hold());
    guard.extend().await.unwrap();
    assert!(deadline_at_most(&guard.hold()) >= before);
    assert_covered(&client, &guard.hold(), "at the longest ttl").await;

    let waiter = tokio::spawn({
        let (lock, longest) = (other.mutex(&name), longest.clone());
        async move { lock.acquire_with(&longest).await }
    });
    await_queue(&client, &name, 2).await;
    tokio::time::sleep(ms(50)).await;
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap();
    let next = soon("the grant after a release", waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    take_free(&other.mutex(&name)).await.release().await.unwrap();
}

/// Runs itself once more in a process whose wall clock jumps by hours all the time, while the boot clock goes on.
pub(super) async fn a_jump_of_the_wall_clock_moves_no_deadline(env: TestEnv) {
    if !jumping_clock::jumps_here() {
        return jumping_clock::run_where_it_jumps("expiry::a_jump_of_the_wall_clock_moves_no_deadline").await;
    }
    jumping_clock::assert_jumping().await;
    stall_tolerant(env, ms(3000), while_the_wall_clock_jumps).await;
}

async fn while_the_wall_clock_jumps(env: TestEnv, ttl: Duration) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name(&format!("kept {ttl:?}"));
    let guard = client.mutex(&name).acquire_with(&client.options().ttl(ttl)).await.unwrap();
    let end_time = now() + ttl * 5 / 2;
    while now() < end_time {
        safety(guard.remaining() < ttl, "more is counted on than the ttl");
        assert_held_alone(&guard, &other.mutex(&name)).await;
    }
    let started = now();
    let error = refused(other.mutex(&name).acquire_with(&other.options().wait(ms(400))).await);
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    let waited = now().since(started);
    safety(waited >= ms(400), format_args!("a wait of 400 ms took {waited:?}"));
    assert!(waited < ms(400) + SLACK, "a wait of 400 ms took {waited:?}");
    guard.release().await.unwrap();

    let name = env.name(&format!("let go {ttl:?}"));
    let guard = client.mutex(&name).acquire_with(&client.options().ttl(ms(600)).renew(false)).await.unwrap();
    let next = snatch(&other, &name, guard.ttl() + SLACK).await;
    safety(!guard.is_held(), format_args!("granted {:?} before the holder's deadline", guard.remaining()));
    next.release().await.unwrap();
}
