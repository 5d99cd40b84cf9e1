//! Mutual exclusion.

mod contention;
mod entries;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{BackendErrorKind, DistributedLock, Error, LockName};
use tokio::task::JoinSet;

pub(super) use self::contention::a_hundred_contenders_lose_no_count;
use self::{
    contention::{
        two_clients_of_one_process_are_never_inside_together, two_processes_never_count_at_the_same_time,
        two_tasks_of_one_client_are_never_inside_together,
    },
    entries::{
        a_client_that_does_not_hold_a_lock_cannot_release_it,
        a_grant_that_comes_after_its_own_lease_is_not_taken,
        a_release_that_comes_after_the_lease_leaves_the_next_holder_alone,
        a_try_that_starts_over_does_not_find_itself_in_the_way,
        a_try_whose_answer_was_lost_is_not_called_busy, a_waiter_whose_lease_has_ended_is_not_admitted,
        an_entry_that_died_comes_back_as_a_new_one_behind_the_others,
    },
};
use super::steps::lasting;
use crate::{
    CaseTest, Side, TestEnv,
    audit::{await_queue, soon},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! exclusion_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] exclusion {
            two_tasks_of_one_client_are_never_inside_together ["X01"]
            two_clients_of_one_process_are_never_inside_together ["X02"]
            two_processes_never_count_at_the_same_time ["X03"]
            a_try_is_refused_while_the_lock_is_held ["X05"]
            a_try_is_refused_only_if_somebody_else_was_there ["X06"]
            a_refused_try_leaves_nothing_behind ["X06"]
            a_try_that_starts_over_does_not_find_itself_in_the_way ["X06"]
            a_try_whose_answer_was_lost_is_not_called_busy ["X06"]
            locks_of_different_names_do_not_meet ["X07"]
            names_that_begin_alike_do_not_meet ["X08"]
            a_second_acquisition_through_the_same_lock_waits_for_the_first ["X09"]
            a_client_that_does_not_hold_a_lock_cannot_release_it ["X10"]
            a_release_that_comes_after_the_lease_leaves_the_next_holder_alone ["X10"]
            every_kind_of_lock_excludes_others_for_as_long_as_it_is_renewed ["R01"]
            a_lock_that_was_released_can_be_taken_at_once ["X11"]
            data_of_others_gives_a_typed_error_and_stays_untouched ["X12"]
            a_grant_that_comes_after_its_own_lease_is_not_taken ["X13"]
            a_waiter_whose_lease_has_ended_is_not_admitted ["X14"]
            an_entry_that_died_comes_back_as_a_new_one_behind_the_others ["X15"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = exclusion_cases!(list);

pub(super) async fn a_try_is_refused_while_the_lock_is_held(env: TestEnv) {
    let (holder, other) = (env.client().await, env.client().await);
    let name = env.name("held");
    let guard = holder.mutex(&name).acquire().await.unwrap();
    for client in [&holder, &other] {
        for _ in 0..5 {
            assert!(client.mutex(&name).try_acquire().await.unwrap().is_none());
        }
    }
    assert!(guard.is_held());
    await_queue(&other, &name, 1).await;
    guard.release().await.unwrap().confirmed().unwrap();
    assert!(other.mutex(&name).try_acquire().await.unwrap().is_some());
}

pub(super) async fn a_try_is_refused_only_if_somebody_else_was_there(env: TestEnv) {
    let name = env.name("tried");
    let mut tasks = JoinSet::new();
    for task in 0..3_u64 {
        let client = env.client().await;
        let lock = client.mutex(&name);
        tasks.spawn(async move {
            let mut stays = Vec::new();
            for round in 0..40_u64 {
                let from = Instant::now();
                let granted = lock.try_acquire().await.unwrap();
                let refused = granted.is_none();
                if let Some(guard) = granted {
                    guard.release().await.unwrap().confirmed().unwrap();
                }
                stays.push((from, Instant::now(), refused));
                // Uneven pauses, so that sometimes all tries collide, and sometimes none do.
                tokio::time::sleep(Duration::from_micros((round * 7 + task * 11) % 13 * 300)).await;
            }
            stays
        });
    }
    let all: Vec<Vec<_>> = tasks.join_all().await;
    for (me, stays) in all.iter().enumerate() {
        let others: Vec<_> = all.iter().enumerate().filter(|(i, _)| *i != me).flat_map(|(_, s)| s).collect();
        for (from, to, _) in stays.iter().filter(|(_, _, refused)| *refused) {
            let met = others.iter().any(|(came, went, _)| came <= to && went >= from);
            assert!(met, "a try was refused while no other entry was in the queue");
        }
    }
    let granted = all.iter().flatten().filter(|(_, _, refused)| !refused).count();
    assert!(granted > 0, "no try was ever granted the lock");
}

pub(super) async fn a_refused_try_leaves_nothing_behind(env: TestEnv) {
    let (holder, trier, third) = (env.client().await, env.client().await, env.client().await);
    let name = env.name("tried");
    for _ in 0..10 {
        let guard = holder.mutex(&name).try_acquire().await.unwrap().expect("it is free");
        assert!(trier.mutex(&name).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap().confirmed().unwrap();
        // At once: a leftover of the try would be in the way now, even if it were removed later.
        let guard = third.mutex(&name).try_acquire().await.unwrap().expect("it is free again");
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

pub(super) async fn locks_of_different_names_do_not_meet(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let names: Vec<_> = (0..40).map(|i| env.name(&i.to_string())).collect();
    let mut guards = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let client = if i % 2 == 0 { &one } else { &two };
        guards.push(client.mutex(name).try_acquire().await.unwrap().expect("this name is free"));
    }
    for (released, guard) in guards.drain(..).enumerate().collect::<Vec<_>>() {
        guard.release().await.unwrap().confirmed().unwrap();
        let Some(next) = names.get(released + 1) else { break };
        assert!(one.mutex(next).try_acquire().await.unwrap().is_none(), "`{next}` was freed with another");
    }
}

pub(super) async fn names_that_begin_alike_do_not_meet(env: TestEnv) {
    let client = env.client().await;
    let base = env.name("a");
    let tails = ["", "/", "/b", "/b/c", "//", ":", ":b", "b", "{", "{a}", "*", " ", "\0", "-q", ":t", "/0"];
    let names: Vec<_> = tails.iter().map(|tail| format!("{base}{tail}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        let guard = client.mutex(name).try_acquire().await.unwrap();
        guards.push((name, guard.unwrap_or_else(|| panic!("{name:?} is taken by another name"))));
    }
    for (name, guard) in guards {
        assert!(guard.release().await.unwrap().confirmed().is_ok(), "{name:?}");
        let rows = client.mutex(name).queue().await.unwrap();
        assert!(rows.is_empty(), "{name:?} shows the queue of another name: {rows:?}");
    }
}

pub(super) async fn a_second_acquisition_through_the_same_lock_waits_for_the_first(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("twice");
    let lock = Arc::new(client.mutex(&name));
    let first = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let second = tokio::spawn({
        let lock = Arc::clone(&lock);
        async move { lock.acquire().await.unwrap() }
    });
    await_queue(&client, &name, 2).await;
    let rows = lock.queue().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.admitted).collect::<Vec<_>>(), [true, false]);
    assert!(!second.is_finished(), "the second acquisition was granted beside the first");
    let token = first.token();
    first.release().await.unwrap().confirmed().unwrap();
    let second = soon("the second acquisition", second).await.unwrap();
    assert!(second.token() > token);
}

/// Each lock is held for longer than its first ttl, which needs no renewal.
pub(super) async fn every_kind_of_lock_excludes_others_for_as_long_as_it_is_renewed(env: TestEnv) {
    let (holder, other) = (env.client().await, env.client().await);
    let options = lasting();
    let most = Side::Permits { permits: 2, limit: 3 };
    // Each lock that is held, and those that it excludes.
    let pairs =
        [(Side::Mutex, Side::Mutex), (Side::Read, Side::Write), (Side::Write, Side::Read), (most, most)];
    let (mut guards, mut refused) = (Vec::new(), Vec::new());
    for (i, (held, kept_out)) in pairs.into_iter().enumerate() {
        let name = env.name(&i.to_string());
        let lock = held.lock(&holder.locks, &name).unwrap();
        guards.push(lock.try_acquire_with(&options).await.unwrap().expect("it is free"));
        refused.push(kept_out.lock(&other.locks, &name).unwrap());
    }
    let end = Instant::now() + options.ttl * 4 / 3;
    while Instant::now() < end {
        for (guard, lock) in guards.iter().zip(&refused) {
            let granted = lock.try_acquire().await.unwrap().is_some();
            // On a machine that stands still for longer than the ttl, another client may hold it, and the guard reports the loss.
            assert!(!granted || !guard.is_held(), "`{}` was granted twice", guard.name());
            assert!(guard.is_held(), "`{}` was not renewed: {:?}", guard.name(), guard.state());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (guard, lock) in guards.into_iter().zip(refused) {
        guard.release().await.unwrap().confirmed().unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    }
}

pub(super) async fn a_lock_that_was_released_can_be_taken_at_once(env: TestEnv) {
    let clients = [env.client().await, env.client().await];
    let name = env.name("again");
    let mut last = None;
    for i in 0..20 {
        let guard = clients[i % 2].mutex(&name).try_acquire().await.unwrap().expect("it is free");
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

pub(super) async fn data_of_others_gives_a_typed_error_and_stays_untouched(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("foreign");
    let locked = LockName::new(&name).unwrap();
    env.server().put_foreign(&locked).await.unwrap();
    let portion = Side::Permits { permits: 1, limit: 3 };
    for side in [Side::Mutex, Side::Read, Side::Write, portion] {
        let lock = side.lock(&client.locks, &name).unwrap();
        let tried = lock.try_acquire().await.map(drop);
        let acquired = soon("an answer about data of others", lock.acquire()).await.map(drop);
        for answer in [tried, acquired] {
            let Err(Error::Backend { name: found, source }) = &answer else { panic!("{side:?}: {answer:?}") };
            assert_eq!(*source.kind(), BackendErrorKind::ForeignData, "{side:?}: {source}");
            assert_eq!(*found, locked);
            assert!(!source.is_transient());
        }
    }
    assert!(env.server().has_foreign(&locked).await.unwrap(), "the data of others was touched");
    env.server().delete(&locked).await.unwrap();
}
