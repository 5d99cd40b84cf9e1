//! The keeper of a process that has ended by a panic: whoever asks for one then has another. It is that of the whole process, so this is
//! the only test of this program.
#![cfg(unix)]

use std::{
    future::Future,
    io::Write,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_executor::block_on;
use lock_core::{DistributedLock, Error, Keeper, Locks, Memory};
use tokio::net::UnixStream;

const PATIENCE: Duration = Duration::from_secs(20);

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("an ordered panic of a waker"));
    }
}

/// What wakes a socket that somebody waits for elsewhere is the keeper's own turn to look at its sockets, which nothing is put around.
fn end(keeper: &Keeper) {
    let (tell, told) = mpsc::channel();
    keeper.spawn(async move { tell.send(UnixStream::pair().unwrap()).unwrap() });
    let (here, there) = told.recv_timeout(PATIENCE).unwrap();
    let mut readable = pin!(here.readable());
    let waker = Waker::from(Arc::new(Panicking));
    assert!(readable.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    there.into_std().unwrap().write_all(b"x").unwrap();
    let started = Instant::now();
    while !keeper.has_ended() {
        assert!(started.elapsed() < PATIENCE, "it did not end");
        thread::sleep(Duration::from_millis(5));
    }
}

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
        // It does what a keeper is for.
        drop(guard);
        let (lock, started) = (after.mutex("job").unwrap(), Instant::now());
        while !block_on(lock.queue()).unwrap().is_empty() {
            assert!(started.elapsed() < PATIENCE, "nobody cleans up");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lock.name().as_str(), "job");
    }
}
