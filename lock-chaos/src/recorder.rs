//! [`Recorder`]: writes down what a client sees.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use lock_core::{BootTime, Clock, SystemClock};

use crate::record::{Line, What, nanos};

/// Writes to standard output, which the rig has made a file: what was written is there when the client is killed.
#[derive(Debug)]
pub(crate) struct Recorder {
    client: usize,
    ops: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(client: usize) -> Self {
        Self { client, ops: AtomicU64::new(0) }
    }

    /// Gives an acquisition its number.
    pub(crate) fn next_op(&self) -> u64 {
        self.ops.fetch_add(1, Ordering::Relaxed)
    }

    /// It happens now.
    pub(crate) fn note(&self, what: What) {
        self.note_at(SystemClock.now(), what);
    }

    pub(crate) fn note_at(&self, at: BootTime, what: What) {
        // A clock before 1970 is as good as none.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let line = Line { at: nanos(at), wall, client: self.client, what };
        let line = serde_json::to_string(&line).expect("numbers and texts can be written as JSON") + "\n";
        let mut output = io::stdout().lock();
        let written = output.write_all(line.as_bytes()).and_then(|()| output.flush());
        written.expect("the rig has made a file for it, and the disk is not full");
    }
}
