//! [`LogWriter`]: writes lines of the log for a thread that must not block.

use std::{collections::VecDeque, fmt, mem, sync::Arc, thread};

use crate::{panic_isolation::isolate, sync::Mutex};

/// How many lines wait for one that blocks. Later ones are dropped.
const MOST_WAITING: usize = 1_000;

/// Writes lines on a thread of its own, because a log subscriber may block. The thread is started for a line and ends after the last one:
/// there is none while nothing happens, and never a second one.
#[derive(Default)]
pub(crate) struct LogWriter(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Line>,
    /// Whether there is a thread, which takes what is waiting.
    running: bool,
}

type Line = Box<dyn FnOnce() + Send>;

impl LogWriter {
    /// Has a line written as soon as those before it are.
    pub(crate) fn write(self: &Arc<Self>, line: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if state.waiting.len() < MOST_WAITING {
            state.waiting.push_back(Box::new(line));
        }
        let start = !mem::replace(&mut state.running, true);
        drop(state);
        if start {
            let writer = Arc::clone(self);
            let started = thread::Builder::new().name("distlock-log".into()).spawn(move || writer.run());
            if started.is_err() {
                // The next line tries again.
                self.0.lock().running = false;
            }
        }
    }

    fn run(&self) {
        while let Some(line) = self.next() {
            isolate(line);
        }
    }

    /// The next line. If there is none, the thread ends.
    fn next(&self) -> Option<Line> {
        let mut state = self.0.lock();
        let next = state.waiting.pop_front();
        state.running = next.is_some();
        next
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// The most that a busy machine takes for anything here.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn lines_are_written_in_order_by_one_thread_that_ends_with_the_last() {
        let (writer, (tell, told)) = (Arc::new(LogWriter::default()), mpsc::channel());
        for round in 0..2 {
            let (go_on, blocked) = mpsc::channel::<()>();
            writer.write(move || {
                // The lines after it wait, and so does nobody else.
                let _ = blocked.recv();
            });
            for line in 0..3 {
                let tell = tell.clone();
                writer.write(move || tell.send((round, line, thread::current().id())).unwrap());
            }
            drop(go_on);
            let lines: Vec<_> = (0..3).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
            let by = lines[0].2;
            assert_eq!(lines, [(round, 0, by), (round, 1, by), (round, 2, by)]);
            // The thread has the only other reference.
            while Arc::strong_count(&writer) > 1 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn what_waits_for_a_line_that_blocks_is_bounded_and_a_panic_ends_nothing() {
        let (writer, (tell, told)) = (Arc::new(LogWriter::default()), mpsc::channel());
        let (go_on, blocked) = mpsc::channel::<()>();
        let (start, started) = mpsc::channel();
        writer.write(move || {
            start.send(()).unwrap();
            let _ = blocked.recv();
            std::panic::resume_unwind(Box::new("an ordered panic of a subscriber"));
        });
        started.recv_timeout(PATIENCE).unwrap();
        for line in 0..2 * MOST_WAITING {
            let tell = tell.clone();
            writer.write(move || tell.send(line).unwrap());
        }
        drop((go_on, tell));
        let written: Vec<_> = told.iter().collect();
        assert!(written.into_iter().eq(0..MOST_WAITING), "not the first ones");
    }
}
