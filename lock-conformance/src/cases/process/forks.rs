//! A fork has a copy of its parent's guards and connections, and must not use them.

use crate::TestEnv;

/// The child sees that its locks are lost, and cannot take any, nor look at a queue or evict. Whatever it drops or releases, the parent
/// keeps its locks.
#[cfg(unix)]
pub(in crate::cases) async fn a_fork_holds_no_lock_of_its_parent_and_costs_it_none(env: TestEnv) {
    use lock_core::DistributedLock;

    use crate::{
        SLACK,
        audit::soon,
        cases::steps::{mutex, on_a_thread, queue_of, take_free},
    };

    let client = env.client().await;
    let locks = ["released", "dropped", "wanted"].map(|tag| mutex(&client, &env.name(tag)));
    let wanted = locks[2].clone();
    let held = [take_free(&locks[0]).await, take_free(&locks[1]).await];
    let taken = take_free(&wanted).await;
    let waiter = wanted.clone();
    let mut waiting = Box::pin(async move { waiter.acquire().await });
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        _ = queue_of(2, &wanted) => {}
    }

    let (lock, own) = (wanted.clone(), client.locks.clone());
    let (held, waiting) = on_a_thread(move || {
        let fork::Fork::Parent(child) = fork::fork().expect("a process can be forked") else {
            child::end(&own, &lock, held, waiting);
        };
        assert_eq!(child::outcome(child, SLACK), child::ALL_WELL, "the child found something wrong, or hung");
        (held, waiting)
    })
    .await;
    for (lock, guard) in locks.iter().zip(held) {
        assert!(guard.is_held(), "the fork cost its parent a lock");
        assert_eq!(queue_of(1, lock).await[0].entry, Some(guard.entry_id()));
        guard.release().await.unwrap().confirmed().unwrap();
    }
    assert_eq!(queue_of(2, &wanted).await[0].entry, Some(taken.entry_id()));
    taken.release().await.unwrap();
    soon("the turn of the waiter", waiting).await.unwrap().release().await.unwrap();
}

/// On the shared keeper, which the parent has used. The child drops its copies, connects, and acquires, renews, waits for and releases a
/// lock. The locks of the parent are not affected.
#[cfg(unix)]
pub(in crate::cases) async fn a_fork_that_connects_again_has_locks_of_its_own(env: TestEnv) {
    use lock_core::Keeper;

    use crate::{
        SLACK,
        audit::soon,
        cases::steps::{freed, mutex, on_a_thread, queue_of, take, take_free},
    };

    let client = env.client_on(Keeper::shared(), &[]).await;
    let other = env.client().await;
    let held = take_free(&mutex(&client, &env.name("parents"))).await;
    let forked = env.clone();
    let (outcome, client, held) = on_a_thread(move || {
        let fork::Fork::Parent(child) = fork::fork().expect("a process can be forked") else {
            drop((client, held));
            child::start_over(&forked);
        };
        (child::outcome(child, SLACK * 3), client, held)
    })
    .await;
    assert_eq!(outcome, child::ALL_WELL, "the child found something wrong, or hung");
    // The parent still has its connections, its keeper and its hints, and everything works as before.
    assert!(held.is_held(), "the fork cost its parent a lock: {:?}", held.state());
    assert!(soon("an extension", held.extend()).await.is_ok());
    let (parents, theirs) = (mutex(&client, &env.name("parents")), mutex(&other, &env.name("parents")));
    soon("the release", held.release()).await.unwrap().confirmed().unwrap();
    let before = take_free(&theirs).await;
    let waiting = tokio::spawn(async move { take(&parents).await });
    queue_of(2, &theirs).await;
    before.release().await.unwrap();
    soon("the turn of the parent", waiting).await.unwrap().release().await.unwrap();
    freed(&theirs).await;
    freed(&mutex(&other, &env.name("own"))).await;
}

/// A store that cannot serve a fork says so, and does not hang.
#[cfg(unix)]
pub(in crate::cases) async fn a_fork_that_connects_again_is_served_or_told_why_not(env: TestEnv) {
    use lock_core::Keeper;

    use crate::{
        SLACK,
        cases::steps::{mutex, on_a_thread, take_free},
    };

    let client = env.client_on(Keeper::shared(), &[]).await;
    let held = take_free(&mutex(&client, &env.name("parents"))).await;
    let forked = env.clone();
    let (outcome, client, held) = on_a_thread(move || {
        let fork::Fork::Parent(child) = fork::fork().expect("a process can be forked") else {
            drop((client, held));
            child::ask(&forked);
        };
        (child::outcome(child, SLACK * 2), client, held)
    })
    .await;
    assert_eq!(outcome, child::ALL_WELL, "the child was told something else, or hung");
    held.release().await.unwrap().confirmed().unwrap();
    drop(client);
}

/// There is no fork on this platform.
#[cfg(not(unix))]
pub(in crate::cases) async fn a_fork_that_connects_again_is_served_or_told_why_not(env: TestEnv) {
    crate::ran_nothing(&env.case(), "there is no fork on this platform");
}

/// There is no fork on this platform.
#[cfg(not(unix))]
pub(in crate::cases) async fn a_fork_that_connects_again_has_locks_of_its_own(env: TestEnv) {
    crate::ran_nothing(&env.case(), "there is no fork on this platform");
}

/// There is no fork on this platform.
#[cfg(not(unix))]
pub(in crate::cases) async fn a_fork_holds_no_lock_of_its_parent_and_costs_it_none(env: TestEnv) {
    crate::ran_nothing(&env.case(), "there is no fork on this platform");
}

#[cfg(unix)]
mod child {
    use std::{
        fmt,
        panic::{AssertUnwindSafe, catch_unwind},
        time::{Duration, Instant},
    };

    use futures_util::FutureExt;
    use lock_core::{
        BackendError, BackendErrorKind, DistributedLock, Error, Guard, HoldState, Keeper, Lock, Locks,
        LostReason,
    };

    use crate::{
        SLACK, TestEnv,
        audit::soon,
        cases::steps::{is_busy, long, mutex, take, take_free},
    };

    pub(super) const ALL_WELL: &str = "exit 0";

    /// What the child does instead of continuing the test: it checks what it inherited, and ends.
    pub(super) fn end(
        locks: &Locks,
        lock: &Lock,
        held: [Guard; 2],
        waiting: impl Future<Output = Result<Guard, Error>>,
    ) -> ! {
        let well = catch_unwind(AssertUnwindSafe(|| look(locks, lock, held, waiting))).is_ok();
        std::process::exit(i32::from(!well));
    }

    /// Every future here has to be ready at once: no other thread of this process could wake it.
    fn look(
        locks: &Locks,
        lock: &Lock,
        [released, dropped]: [Guard; 2],
        waiting: impl Future<Output = Result<Guard, Error>>,
    ) {
        let granted = lock.try_acquire().now_or_never().expect("it does not ask the store");
        assert!(matches!(granted, Err(Error::Forked { .. })));
        let queue = lock.queue().now_or_never().expect("it does not ask the store");
        assert!(matches!(queue, Err(Error::Forked { .. })));
        let operator = locks.operator();
        assert_forked(operator.queue(lock.name()));
        assert_forked(operator.list(""));
        assert_forked(operator.evict(lock.name(), released.entry_id()));
        assert_forked(operator.diagnose());
        for guard in [&released, &dropped] {
            assert_eq!(guard.state(), HoldState::Lost(LostReason::Forked));
            assert!(!guard.is_held() && guard.remaining().is_zero());
            assert_eq!(guard.lost().now_or_never(), Some(LostReason::Forked));
            let extended = guard.extend().now_or_never().expect("it does not ask the store");
            assert!(matches!(extended, Err(Error::Forked { .. })));
        }
        let release = released.release().now_or_never().expect("it does not ask the store");
        assert!(matches!(release, Err(Error::Forked { .. })), "{release:?}");
        drop(dropped);
        drop(waiting);
    }

    /// An operator is told that this is a fork.
    fn assert_forked<T: fmt::Debug>(asked: impl Future<Output = Result<T, BackendError>>) {
        let answer = asked.now_or_never().expect("it does not ask the store");
        let is_told = answer.as_ref().is_err_and(|error| *error.kind() == BackendErrorKind::Forked);
        assert!(is_told, "{answer:?}");
    }

    /// What the child does instead of continuing the test: it connects and uses locks like a process that was not forked, and ends.
    pub(super) fn start_over(env: &TestEnv) -> ! {
        end_after(use_locks(env))
    }

    /// The same, but it only asks for a lock.
    pub(super) fn ask(env: &TestEnv) -> ! {
        end_after(async {
            let client = env.client_on(Keeper::shared(), &[]).await;
            match mutex(&client, &env.name("own")).try_acquire().await {
                Ok(Some(guard)) => guard.release().await.unwrap().confirmed().unwrap(),
                Err(Error::Backend { source, .. }) if *source.kind() == BackendErrorKind::Unsupported => {}
                other => panic!("neither served nor told why not: {other:?}"),
            }
            client.locks.close(SLACK).await.expect("nothing is left of the child");
        })
    }

    fn end_after(work: impl Future<Output = ()>) -> ! {
        let well = catch_unwind(AssertUnwindSafe(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be started").block_on(work);
        }));
        std::process::exit(i32::from(well.is_err()));
    }

    async fn use_locks(env: &TestEnv) {
        let client = env.client_on(Keeper::shared(), &[]).await;
        let parents = mutex(&client, &env.name("parents"));
        assert!(is_busy(&parents).await, "the lock of the parent was granted to the child");
        let own = mutex(&client, &env.name("own")).with_options(long().ttl(Duration::from_secs(6)));
        let guard = take_free(&own).await;
        soon("a renewal by the keeper of the child", async {
            let mut left = guard.remaining();
            while guard.remaining() <= left {
                left = guard.remaining();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let (next, released) = tokio::join!(take(&own), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            guard.release().await
        });
        released.unwrap().confirmed().unwrap();
        drop(next);
        client.locks.close(SLACK).await.expect("nothing is left of the child");
    }

    /// How the child ended, or that it has not ended.
    pub(super) fn outcome(child: i32, within: Duration) -> String {
        let end = Instant::now() + within;
        loop {
            match fork::waitpid_nohang(child).expect("a child of our own can be waited for") {
                // As `wait` reports it: the signal in the lower seven bits, the exit code above them.
                Some(status) if status.trailing_zeros() >= 7 => {
                    return format!("exit {}", status >> 8 & 0xff);
                }
                Some(status) => return format!("signal {}", status & 0x7f),
                None if Instant::now() > end => {
                    let kill = std::process::Command::new("kill").args(["-9", &child.to_string()]).status();
                    return format!("hung, and was killed: {kill:?}, {:?}", fork::waitpid(child));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}
