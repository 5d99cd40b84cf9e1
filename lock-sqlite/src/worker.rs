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
    desk::{Desk, Job},
    store::Store,
    watch::Watch,
    watched::NEXT,
};

/// How often somebody who does nothing looks whether the file is still where it was: if he has half of it, others wait for him.
const PLACE: Duration = Duration::from_secs(5);

/// How long the end waits for others.
const FAREWELL: Duration = Duration::from_secs(2);

/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(jobs: Receiver<Job>, desk: Arc<Desk>) -> io::Result<()> {
    thread::Builder::new().name("distlock-sqlite".into()).spawn(move || work(&jobs, &desk)).map(drop)
}

/// Until nobody is left who could give it something to do.
fn work(jobs: &Receiver<Job>, desk: &Arc<Desk>) {
    let (mut watch, mut next_look, mut heard) = (Watch::new(), Instant::now(), 0);
    loop {
        let asleep = desk.may_sleep();
        // Somebody here may be the next by now.
        let soon = Instant::now() + NEXT;
        let rings = desk.hall.waiters.bell.rests(next_look > soon);
        if std::mem::replace(&mut heard, rings) != rings {
            next_look = next_look.min(soon);
        }
        let pause = if asleep { PLACE } else { next_look.saturating_duration_since(Instant::now()) };
        match jobs.recv_timeout(pause) {
            Ok(job) => desk.carry_out(job),
            Err(RecvTimeoutError::Timeout) if asleep => desk.with(Store::let_go),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return desk.with(|store| store.close(Instant::now() + FAREWELL));
            }
        }
        if Instant::now() >= next_look && !desk.hall.waiters.is_empty() {
            // What is logged is told to code of others.
            let looked = catch_unwind(AssertUnwindSafe(|| desk.with(|store| watch.look(store))));
            // They wake tasks, for which the store has to be free.
            for (entry, hint) in looked.unwrap_or_default() {
                desk.hall.waiters.tell(entry, hint);
            }
            next_look = Instant::now() + watch.pause();
        }
    }
}
