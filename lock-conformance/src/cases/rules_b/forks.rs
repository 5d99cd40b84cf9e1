//! A fork of the process has a copy of everything, and none of it is its own.

use crate::World;

/// The child sees that its locks are lost, can take none, and whatever it drops or releases stays with the parent.
#[cfg(unix)]
pub(in crate::cases) async fn a_fork_has_none_of_the_locks_of_its_parent_and_spoils_none(world: World) {
    use lock_core::{DistributedLock, Release};

    use crate::{
        SLACK,
        audit::soon,
        cases::steps::{mutex, on_a_thread, queue_of, take_free},
    };

    let client = world.client().await;
    let locks = ["released", "dropped", "wanted"].map(|tag| mutex(&client, &world.name(tag)));
    let wanted = locks[2].clone();
    let held = [take_free(&locks[0]).await, take_free(&locks[1]).await];
    let taken = take_free(&wanted).await;
    let waiter = wanted.clone();
    let mut waiting = Box::pin(async move { waiter.acquire().await });
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        _ = queue_of(2, &wanted) => {}
    }

    let lock = wanted.clone();
    let (held, waiting) = on_a_thread(move || {
        let fork::Fork::Parent(child) = fork::fork().expect("a process can be forked") else {
            child::end(&lock, held, waiting);
        };
        assert_eq!(child::outcome(child, SLACK), child::ALL_WELL, "the child found something wrong, or hung");
        (held, waiting)
    })
    .await;
    for (lock, guard) in locks.iter().zip(held) {
        assert!(guard.is_held(), "the fork cost its parent a lock");
        assert_eq!(queue_of(1, lock).await[0].entry, Some(guard.entry_id()));
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    assert_eq!(queue_of(2, &wanted).await[0].entry, Some(taken.entry_id()));
    taken.release().await.unwrap();
    soon("the turn of the waiter", waiting).await.unwrap().release().await.unwrap();
}

/// There is no fork on this platform.
#[cfg(not(unix))]
pub(in crate::cases) async fn a_fork_has_none_of_the_locks_of_its_parent_and_spoils_none(world: World) {
    crate::ran_nothing(&world.case(), "there is no fork on this platform");
}

#[cfg(unix)]
mod child {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        time::{Duration, Instant},
    };

    use futures_util::FutureExt;
    use lock_core::{DistributedLock, Error, Guard, HoldState, LostReason, Mutex, Release};

    pub(super) const ALL_WELL: &str = "exit 0";

    /// What the child does instead of going on: it looks at what it inherited, and ends.
    pub(super) fn end(
        lock: &Mutex,
        held: [Guard; 2],
        waiting: impl Future<Output = Result<Guard, Error>>,
    ) -> ! {
        let well = catch_unwind(AssertUnwindSafe(|| look(lock, held, waiting))).is_ok();
        std::process::exit(i32::from(!well));
    }

    /// Every future here has to be ready at once: there is nobody in this process who could wake it.
    fn look(
        lock: &Mutex,
        [released, dropped]: [Guard; 2],
        waiting: impl Future<Output = Result<Guard, Error>>,
    ) {
        let granted = lock.try_acquire().now_or_never().expect("it does not ask the store");
        assert!(matches!(granted, Err(Error::Forked { .. })));
        let queue = lock.queue().now_or_never().expect("it does not ask the store");
        assert!(matches!(queue, Err(Error::Forked { .. })));
        for guard in [&released, &dropped] {
            assert_eq!(guard.state(), HoldState::Lost(LostReason::Forked));
            assert!(!guard.is_held() && guard.remaining().is_zero());
            assert_eq!(guard.lost().now_or_never(), Some(LostReason::Forked));
            let extended = guard.extend().now_or_never().expect("it does not ask the store");
            assert!(matches!(extended, Err(Error::Lost { reason: LostReason::Forked, .. })));
        }
        let release = released.release().now_or_never().expect("it does not ask the store");
        assert_eq!(release.unwrap(), Release::AlreadyLost);
        drop(dropped);
        drop(waiting);
    }

    /// How the child ended, or that it did not.
    pub(super) fn outcome(child: i32, within: Duration) -> String {
        let end = Instant::now() + within;
        loop {
            match fork::waitpid_nohang(child).expect("a child of our own can be waited for") {
                // As `wait` tells it: the signal in the lower seven bits, the code above them.
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
