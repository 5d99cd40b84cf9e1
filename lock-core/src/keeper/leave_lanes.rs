//! [`LeaveLanes`]: in which order entries are left for, and how many at the same time.

use std::collections::VecDeque;

use super::pending_leave::PendingLeave;

/// How many of a lane leave at the same time. The others wait: each is logged, which is foreign code, and must not keep the keeper from
/// renewals.
const MAX_AT_ONCE: usize = 64;

/// The leaves that are under way or wait, in lanes: those of one lane never wait for those of another, which may hang while a store is away.
#[derive(Debug, Default)]
pub(super) struct LeaveLanes {
    known: Queue,
    doubtful: Queue,
    retries: Queue,
}

/// An entry that the keeper has to leave for, and how often it failed.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) key: u64,
    pub(super) leave: PendingLeave,
    pub(super) failures: u32,
    pub(super) lane: Lane,
}

/// Which leaves wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The first of an entry that the store has confirmed: it may hold a lock.
    Known,
    /// The first of an entry of which no answer told. While a store is away, these may be many.
    Doubtful,
    /// One that failed before.
    Retries,
}

#[derive(Debug, Default)]
struct Queue {
    /// How many workers run on the keeper.
    running: usize,
    /// What they do next.
    waiting: VecDeque<Task>,
}

impl LeaveLanes {
    /// A task for another worker, which the caller starts. `None`: it waits for one that runs.
    pub(super) fn push(&mut self, task: Task) -> Option<Task> {
        let queue = self.queue(task.lane);
        if queue.running == MAX_AT_ONCE {
            queue.waiting.push_back(task);
            return None;
        }
        queue.running += 1;
        Some(task)
    }

    /// The next task of a worker. If there is none, the worker ends.
    pub(super) fn pop(&mut self, lane: Lane) -> Option<Task> {
        let queue = self.queue(lane);
        let next = queue.waiting.pop_front();
        queue.running -= usize::from(next.is_none());
        next
    }

    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Known => &mut self.known,
            Lane::Doubtful => &mut self.doubtful,
            Lane::Retries => &mut self.retries,
        }
    }
}
