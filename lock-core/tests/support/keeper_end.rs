//! How a keeper ends: by a panic of code that it runs itself.

use std::{
    future::Future,
    io::Write,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use lock_core::Keeper;
use tokio::net::UnixStream;

/// The longest that it may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("an ordered panic of a waker"));
    }
}

/// If a task elsewhere waits for a socket, the keeper wakes it when it polls its sockets. Nothing catches a panic there.
pub(crate) fn end(keeper: &Keeper) {
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
