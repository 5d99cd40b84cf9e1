//! The thread that does what takes time, so that nobody else waits for other processes or the disk, and that looks after those
//! who wait.

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

use crate::{
    executor::{Executor, Job},
    holder_watch::{HolderWatch, NEXT},
    store::Store,
};

/// How often somebody who does nothing looks whether the file is still where it was: if he has half of it, others wait for him.
const PLACE_CHECK: Duration = Duration::from_secs(5);

/// How long the end waits for others.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(jobs: Receiver<Job>, executor: Arc<Executor>) -> io::Result<()> {
    thread::Builder::new().name("distlock-sqlite".into()).spawn(move || work(&jobs, &executor)).map(drop)
}

/// Until nobody is left who could give it something to do.
fn work(jobs: &Receiver<Job>, executor: &Arc<Executor>) {
    let (mut watch, mut next_look, mut heard) = (HolderWatch::new(), Instant::now(), 0);
    loop {
        let asleep = executor.may_sleep();
        // Somebody here may be the next by now.
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
            // What is logged is told to code of others.
            let looked = catch_unwind(AssertUnwindSafe(|| executor.with(|store| watch.look(store))));
            // They wake tasks, for which the store has to be free.
            for (entry, hint) in looked.unwrap_or_default() {
                executor.notifier.waiters.tell(entry, hint);
            }
            next_look = Instant::now() + watch.pause();
        }
    }
}
