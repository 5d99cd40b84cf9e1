//! The worker: a thread for operations that take time, so that no caller's thread waits for other processes or the disk. It also watches
//! holders for the waiters of this process.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use lock_core::isolate;

use crate::{
    executor::{Executor, Job},
    holder_watch::{HolderWatch, NEXT},
    store::Store,
};

/// How often an idle process checks that the file and the files beside it are still in place: if it has only some of them, others wait for
/// it.
const PLACE_CHECK: Duration = Duration::from_secs(5);

/// How long the worker waits for other writers when it ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(jobs: Receiver<Job>, executor: Arc<Executor>) -> io::Result<()> {
    thread::Builder::new().name("distlock-sqlite".into()).spawn(move || work(&jobs, &executor)).map(drop)
}

/// Runs until no handle is left that could send a task.
fn work(jobs: &Receiver<Job>, executor: &Arc<Executor>) {
    let (mut watch, mut next_look, mut heard) = (HolderWatch::new(), Instant::now(), 0);
    loop {
        let asleep = executor.may_sleep();
        // A waiter of this process may be the next by now.
        let soon = Instant::now() + NEXT;
        let wakes = executor.notifier.waiters.waker.prepare_sleep(next_look > soon);
        if std::mem::replace(&mut heard, wakes) != wakes {
            next_look = next_look.min(soon);
        }
        let pause = if asleep { PLACE_CHECK } else { next_look.saturating_duration_since(Instant::now()) };
        match jobs.recv_timeout(pause) {
            Ok(job) => executor.run_job(job),
            Err(RecvTimeoutError::Timeout) if asleep => executor.with(Store::close_if_moved),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return executor.with(|store| store.close(Instant::now() + CLOSE_TIMEOUT));
            }
        }
        if Instant::now() >= next_look && !executor.notifier.waiters.is_empty() {
            // A panic does not end the worker.
            let looked = catch_unwind(AssertUnwindSafe(|| executor.with(|store| watch.look(store))));
            // Hints wake tasks, and log subscribers are code of others, so the store must be free.
            match looked {
                Ok(Ok(hints)) => {
                    for (entry, hint) in hints {
                        executor.notifier.waiters.tell(entry, hint);
                    }
                }
                Ok(Err(error)) => isolate(|| tracing::debug!(%error, "the holders could not be looked at")),
                // The panic hook has reported it.
                Err(_) => {}
            }
            next_look = Instant::now() + watch.pause();
        }
    }
}
