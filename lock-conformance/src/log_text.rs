//! [`LogText`]: the log of a program, for a test to read.

use std::{io, sync::Arc};

use lock_core::sync::Mutex;

/// What log lines are written to. Clones share the text, so one of them can be the writer of a log subscriber.
#[derive(Clone, Debug, Default)]
pub struct LogText(Arc<Mutex<Vec<u8>>>);

impl LogText {
    /// The text so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }

    /// The lines so far that contain this.
    #[must_use]
    pub fn lines_with(&self, part: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl io::Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
