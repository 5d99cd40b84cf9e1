//! Only one at a time, and nobody in between.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lock_core::{
    BackendErrorKind, Claim, Creates, Departure, DistributedLock, Entry, Error, HoldState, LockName,
    LostReason, Release, Standing, Step, WaitMode,
};
use tokio::task::JoinSet;

use crate::{
    Case, Client, Command, Critical, Fault, Faulty, Reply, Side, Verb, World,
    audit::{assert_free, assert_queue_empties, await_queue, soon},
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
            a_hundred_contenders_lose_no_count ["X04"]
            a_try_is_refused_while_the_lock_is_held ["X05"]
            a_try_is_refused_only_if_somebody_else_was_there ["X06"]
            a_refused_try_leaves_nothing_behind ["X06"]
            locks_of_different_names_do_not_meet ["X07"]
            names_that_begin_alike_do_not_meet ["X08"]
            a_second_acquisition_through_the_same_lock_waits_for_the_first ["X09"]
            whoever_does_not_hold_the_lock_cannot_release_it ["X10"]
            a_release_that_comes_after_the_lease_leaves_the_next_holder_alone ["X10"]
            a_lock_that_was_released_can_be_taken_at_once ["X11"]
            data_of_others_gives_a_typed_error_and_stays_untouched ["X12"]
            a_grant_that_comes_after_its_own_lease_is_not_taken ["X13"]
            a_waiter_whose_lease_has_ended_is_not_admitted ["X14"]
            an_entry_that_died_comes_back_as_a_new_one_behind_the_others ["X15"]
        } }
    };
}

pub(super) const CASES: &[Case] = exclusion_cases!(list);

pub(super) async fn two_tasks_of_one_client_are_never_inside_together(world: World) {
    let client = world.client().await;
    contend(&world, &[client.clone(), client], 25).await;
}

pub(super) async fn two_clients_of_one_process_are_never_inside_together(world: World) {
    let clients = [world.client().await, world.client().await];
    contend(&world, &clients, 25).await;
}

/// One task for each client goes in and out, and somebody is always about to go in.
async fn contend(world: &World, clients: &[Client], rounds: u64) {
    let (name, section) = (world.name("section"), Critical::new(1));
    let mut tasks = JoinSet::new();
    for client in clients {
        let (lock, section) = (client.mutex(&name), section.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                let guard = lock.acquire().await.unwrap();
                let inside = section.enter(1);
                tokio::task::yield_now().await;
                drop(inside);
                assert_eq!(guard.release().await.unwrap(), Release::Released);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), rounds * clients.len() as u64);
    assert_free(&clients[0], &name).await;
}

pub(super) async fn two_processes_never_count_at_the_same_time(world: World) {
    const ROUNDS: u32 = 50;
    let file = Scratch::new("0");
    let options = world.options();
    let (name, path) = (world.name("counter"), file.0.clone());
    let count = Command::Count { name, options, file: path, rounds: ROUNDS };
    let (mut one, mut two) = (world.process().await, world.process().await);
    one.tell(&count);
    two.tell(&count);
    assert_eq!(one.reply().await, Reply::Counted);
    assert_eq!(two.reply().await, Reply::Counted);
    let counted = std::fs::read_to_string(&file.0).unwrap();
    assert_eq!(counted, (2 * ROUNDS).to_string(), "counts were lost");
}

/// A file that goes away with the case.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(text: &str) -> Self {
        use lock_core::{Entropy, SystemEntropy};
        let path = std::env::temp_dir().join(format!("distlock-count-{:032x}", SystemEntropy.bits()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) async fn a_hundred_contenders_lose_no_count(world: World) {
    let name = world.name("counter");
    let (number, section) = (Arc::new(AtomicU64::new(0)), Critical::new(1));
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(world.client().await);
    }
    let mut tasks = JoinSet::new();
    for i in 0..100 {
        let (lock, number, section) = (clients[i % 4].mutex(&name), Arc::clone(&number), section.clone());
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let inside = section.enter(1);
            let read = number.load(Ordering::SeqCst);
            tokio::task::yield_now().await;
            number.store(read + 1, Ordering::SeqCst);
            drop(inside);
            // Half of them by drop, which the keeper carries out.
            if i % 2 == 0 {
                assert_eq!(guard.release().await.unwrap(), Release::Released);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(number.load(Ordering::SeqCst), 100);
    assert_eq!(section.visits(), 100);
    assert_free(&clients[0], &name).await;
}

pub(super) async fn a_try_is_refused_while_the_lock_is_held(world: World) {
    let (holder, other) = (world.client().await, world.client().await);
    let name = world.name("held");
    let guard = holder.mutex(&name).acquire().await.unwrap();
    for client in [&holder, &other] {
        for _ in 0..5 {
            assert!(client.mutex(&name).try_acquire().await.unwrap().is_none());
        }
    }
    assert!(guard.is_held());
    await_queue(&other, &name, 1).await;
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(other.mutex(&name).try_acquire().await.unwrap().is_some());
}

pub(super) async fn a_try_is_refused_only_if_somebody_else_was_there(world: World) {
    let name = world.name("tried");
    let mut tasks = JoinSet::new();
    for task in 0..3_u64 {
        let client = world.client().await;
        let lock = client.mutex(&name);
        tasks.spawn(async move {
            let mut stays = Vec::new();
            for round in 0..40_u64 {
                let from = Instant::now();
                let granted = lock.try_acquire().await.unwrap();
                let refused = granted.is_none();
                if let Some(guard) = granted {
                    assert_eq!(guard.release().await.unwrap(), Release::Released);
                }
                stays.push((from, Instant::now(), refused));
                // Uneven, so that now all meet, and now nobody is there.
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
            assert!(met, "a try was refused while nobody else was there");
        }
    }
    let granted = all.iter().flatten().filter(|(_, _, refused)| !refused).count();
    assert!(granted > 0, "nobody was ever granted the lock");
}

pub(super) async fn a_refused_try_leaves_nothing_behind(world: World) {
    let (holder, trier, third) = (world.client().await, world.client().await, world.client().await);
    let name = world.name("tried");
    for _ in 0..10 {
        let guard = holder.mutex(&name).try_acquire().await.unwrap().expect("it is free");
        assert!(trier.mutex(&name).try_acquire().await.unwrap().is_none());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        // At once: what a try leaves would be in the way now, even if somebody removed it later.
        let guard = third.mutex(&name).try_acquire().await.unwrap().expect("it is free again");
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

pub(super) async fn locks_of_different_names_do_not_meet(world: World) {
    let (one, two) = (world.client().await, world.client().await);
    let names: Vec<_> = (0..40).map(|i| world.name(&i.to_string())).collect();
    let mut guards = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let client = if i % 2 == 0 { &one } else { &two };
        guards.push(client.mutex(name).try_acquire().await.unwrap().expect("nobody holds this name"));
    }
    for (released, guard) in guards.drain(..).enumerate().collect::<Vec<_>>() {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        let Some(next) = names.get(released + 1) else { break };
        assert!(one.mutex(next).try_acquire().await.unwrap().is_none(), "`{next}` was freed with another");
    }
}

pub(super) async fn names_that_begin_alike_do_not_meet(world: World) {
    let client = world.client().await;
    let base = world.name("a");
    let tails = ["", "/", "/b", "/b/c", "//", ":", ":b", "b", "{", "{a}", "*", " ", "\0", "-q", ":t", "/0"];
    let names: Vec<_> = tails.iter().map(|tail| format!("{base}{tail}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        let guard = client.mutex(name).try_acquire().await.unwrap();
        guards.push((name, guard.unwrap_or_else(|| panic!("{name:?} is taken by another name"))));
    }
    for (name, guard) in guards {
        assert_eq!(guard.release().await.unwrap(), Release::Released, "{name:?}");
        let rows = client.mutex(name).queue().await.unwrap();
        assert!(rows.is_empty(), "{name:?} shows the queue of another name: {rows:?}");
    }
}

pub(super) async fn a_second_acquisition_through_the_same_lock_waits_for_the_first(world: World) {
    let client = world.client().await;
    let name = world.name("twice");
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
    assert_eq!(first.release().await.unwrap(), Release::Released);
    let second = soon("the second acquisition", second).await.unwrap();
    assert!(second.token() > token);
}

pub(super) async fn whoever_does_not_hold_the_lock_cannot_release_it(world: World) {
    let (holder, other) = (world.client().await, world.client().await);
    let name = world.name("kept");
    let guard = holder.mutex(&name).acquire().await.unwrap();
    let ttl = Duration::from_secs(5);
    // A stranger that never stood in the queue, and a waiter that goes away.
    let stranger = other.entry(&name, Claim::mutex(), ttl);
    for creates in [Creates::Answered, Creates::InDoubt] {
        assert_eq!(other.backend.leave(&stranger, creates).await.unwrap(), Departure::Absent);
    }
    let waiter = other.entry(&name, Claim::mutex(), ttl);
    let standing = other.backend.enter(&waiter, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
    assert_eq!(other.backend.leave(&waiter, Creates::Answered).await.unwrap(), Departure::Left);
    assert_eq!(other.backend.leave(&waiter, Creates::Answered).await.unwrap(), Departure::Absent);

    assert!(other.mutex(&name).try_acquire().await.unwrap().is_none());
    let rows = other.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].entry, Some(guard.entry_id()));
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

pub(super) async fn a_release_that_comes_after_the_lease_leaves_the_next_holder_alone(world: World) {
    let (slow, next) = (world.client().await, world.client().await);
    let name = world.name("passed-on");
    let short = world.options().ttl(Duration::from_millis(200)).renew(false);
    let late = slow.mutex(&name).acquire_with(&short).await.unwrap();
    let guard = soon("the next holder", next.mutex(&name).acquire()).await.unwrap();
    assert_eq!(late.state(), HoldState::Lost(LostReason::Expired));
    assert!(late.token() < guard.token());
    let (late_name, late_id) = (late.name().clone(), late.entry_id());
    assert_eq!(late.release().await.unwrap(), Release::AlreadyLost);
    // What a release that was under way for long would still send.
    let entry = Entry::new(late_name, late_id, Claim::mutex(), Duration::from_millis(200));
    for creates in [Creates::Answered, Creates::InDoubt] {
        assert_eq!(slow.backend.leave(&entry, creates).await.unwrap(), Departure::Absent);
    }

    assert!(guard.is_held());
    let rows = next.mutex(&name).queue().await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].entry, Some(guard.entry_id()));
    assert!(guard.extend().await.is_ok());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

pub(super) async fn a_lock_that_was_released_can_be_taken_at_once(world: World) {
    let clients = [world.client().await, world.client().await];
    let name = world.name("again");
    let mut last = None;
    for i in 0..20 {
        let guard = clients[i % 2].mutex(&name).try_acquire().await.unwrap().expect("nobody holds it");
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

pub(super) async fn data_of_others_gives_a_typed_error_and_stays_untouched(world: World) {
    let client = world.client().await;
    let name = world.name("foreign");
    let locked = LockName::new(&name).unwrap();
    world.server().put_foreign(&locked).await.unwrap();
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
    assert!(world.server().has_foreign(&locked).await.unwrap(), "the data of others was touched");
}

pub(super) async fn a_grant_that_comes_after_its_own_lease_is_not_taken(world: World) {
    let honest = world.client().await;
    let mut faulty = None;
    let slow = world.client_through(|backend| Arc::new(faulty.insert(Faulty::new(backend)).clone())).await;
    let faulty = faulty.expect("it was just put there");
    let name = world.name("late");
    let options = world.options().ttl(Duration::from_millis(150));
    let late = Fault::DelayReply(Duration::from_millis(200));

    faulty.next(Verb::Enter, late.clone());
    let guard = slow.mutex(&name).acquire_with(&options).await.unwrap();
    assert!(guard.is_held(), "a guard was given out after its deadline");
    assert!(faulty.calls(Verb::Enter) >= 2, "an answer that came too late was taken");
    assert_eq!(guard.release().await.unwrap(), Release::Released);

    faulty.always(Verb::Enter, late);
    let answer = soon("the end of hopeless tries", slow.mutex(&name).acquire_with(&options)).await;
    assert!(matches!(&answer, Err(Error::TooSlow { .. })), "{answer:?}");
    let answer = soon("the end of a hopeless try", slow.mutex(&name).try_acquire_with(&options)).await;
    assert!(matches!(&answer, Err(Error::TooSlow { .. })), "{answer:?}");
    assert_free(&honest, &name).await;
}

pub(super) async fn a_waiter_whose_lease_has_ended_is_not_admitted(world: World) {
    let client = world.client().await;
    let name = world.name("dead");
    let holder = client.entry(&name, Claim::mutex(), Duration::from_secs(10));
    let waiter = client.entry(&name, Claim::mutex(), Duration::from_millis(200));
    let backend = &client.backend;
    let held = backend.enter(&holder, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(held, Standing::Admitted { .. }), "{held:?}");
    let Standing::Waiting { token, .. } =
        backend.enter(&waiter, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a second one was admitted")
    };
    // Nobody enters for it again: its lease ends while the other one holds.
    await_queue(&client, &name, 1).await;
    assert_eq!(backend.leave(&holder, Creates::Answered).await.unwrap(), Departure::Left);
    let again = backend.enter(&waiter, Step::Again(token), WaitMode::Queue).await.unwrap();
    assert!(matches!(again, Standing::Gone), "{again:?}");
    assert_queue_empties(&client, &name).await;
}

pub(super) async fn an_entry_that_died_comes_back_as_a_new_one_behind_the_others(world: World) {
    let client = world.client().await;
    let name = world.name("reborn");
    let backend = &client.backend;
    let dying = client.entry(&name, Claim::mutex(), Duration::from_millis(200));
    let Standing::Admitted { token: old, .. } =
        backend.enter(&dying, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a free name was refused")
    };
    assert_queue_empties(&client, &name).await;
    let next = client.entry(&name, Claim::mutex(), Duration::from_secs(10));
    let Standing::Admitted { token: taken, .. } =
        backend.enter(&next, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("a free name was refused")
    };
    // A creating request that is repeated, because its answer was lost with the session.
    let Standing::Waiting { token: new, .. } =
        backend.enter(&dying, Step::Create, WaitMode::Queue).await.unwrap()
    else {
        panic!("the dead one was admitted beside the living")
    };
    assert!(old < taken && taken < new, "{old} {taken} {new}");
    let again = backend.enter(&dying, Step::Again(old), WaitMode::Queue).await.unwrap();
    assert!(matches!(again, Standing::Gone), "its former life answered: {again:?}");
    for entry in [&dying, &next] {
        backend.leave(entry, Creates::Answered).await.unwrap();
    }
    assert_queue_empties(&client, &name).await;
}
