//! If the shared keeper has ended by a panic, the next call returns a new one. This is the only test of the program, because the whole process
//! shares the keeper.
#![cfg(unix)]

#[path = "support/keeper_end.rs"]
mod keeper_end;

use std::{
    thread,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use lock_core::{DistributedLock, Error, Keeper, Locks, Memory};

use self::keeper_end::end;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_shared_keeper_is_replaced_when_a_panic_has_ended_it() {
    // More than once.
    for _ in 0..2 {
        let before = Locks::new(Memory::new());
        drop(block_on(before.mutex("job").unwrap().acquire()).unwrap());
        end(&Keeper::shared());
        let refused = block_on(before.mutex("job").unwrap().try_acquire());
        assert!(matches!(refused, Err(Error::KeeperEnded { .. })), "{refused:?}");

        assert!(!Keeper::shared().has_ended(), "the one that has ended is given again");
        let after = Locks::new(Memory::new());
        let guard = block_on(after.mutex("job").unwrap().acquire()).unwrap();
        // It renews.
        drop(guard);
        let (lock, started) = (after.mutex("job").unwrap(), Instant::now());
        while !block_on(lock.queue()).unwrap().is_empty() {
            assert!(started.elapsed() < PATIENCE, "nobody cleans up");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lock.name().as_str(), "job");
    }
}
