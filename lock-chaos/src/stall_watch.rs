//! [`watch_for_stalls`]: tells when this process stood still, because it was paused or got no core.

use std::{sync::Arc, thread, time::Duration};

use lock_core::{Clock, SystemClock};

use crate::{
    record::{What, nanos},
    recorder::Recorder,
};

const SLICE: Duration = Duration::from_millis(10);

/// How late a sleep has to end.
const STALL: Duration = Duration::from_millis(100);

/// A thread that sleeps in slices, and writes down when one of them ended late. It uses nothing of the library.
pub(crate) fn watch_for_stalls(recorder: Arc<Recorder>) {
    thread::spawn(move || {
        let mut due = SystemClock.now() + SLICE;
        loop {
            thread::sleep(SLICE);
            let now = SystemClock.now();
            if now.since(due) >= STALL {
                recorder.note_at(now, What::Stalled { from: nanos(due) });
            }
            // Counted from this reading of the clock, so that no time is left out.
            due = now + SLICE;
        }
    });
}
