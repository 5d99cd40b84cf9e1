//! [`ExecutorHandle`]: what all who use a file in this process have in common: the threads, the connection, and what stands for the process beside
//! the file.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Weak,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    executor::{Executor, Job},
    files::Files,
    notify::notifier::Notifier,
    store::Store,
    worker,
};

/// Who shares: those who were given the same path and the same time limit. By its path a file is found again when it was replaced, so two
/// paths that lead to the same file today have a store each. So has a fork, which has none of the threads.
type Key = (PathBuf, bool, Duration, u32);

static IN_USE: Mutex<BTreeMap<Key, Weak<ExecutorHandle>>> = Mutex::new(BTreeMap::new());

/// How often it is tried to see who is there. In a fork, somebody who is not there may seem to be looking for ever.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// The desk of a file, and the way to its thread. The thread ends with the last who has this.
#[derive(Debug)]
pub(crate) struct ExecutorHandle {
    pub(crate) executor: Arc<Executor>,
    jobs: Sender<Job>,
}

impl ExecutorHandle {
    /// That of those who are there already, or a new one.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn of(files: &Files, patience: Duration) -> io::Result<Arc<Self>> {
        let Some(mut in_use) = in_use() else { return Self::start(files, patience) };
        let key = (files.given().to_owned(), files.is_default(), patience, std::process::id());
        if let Some(handle) = in_use.get(&key).and_then(Weak::upgrade) {
            return Ok(handle);
        }
        let handle = Self::start(files, patience)?;
        in_use.retain(|_, handle| handle.strong_count() > 0);
        in_use.insert(key, Arc::downgrade(&handle));
        Ok(handle)
    }

    fn start(files: &Files, patience: Duration) -> io::Result<Arc<Self>> {
        let (jobs, todo) = channel();
        let executor = Arc::new(Executor::new(Store::new(files.clone(), Notifier::default(), patience)));
        worker::start(todo, Arc::clone(&executor))?;
        let handle = Arc::new(Self { executor, jobs });
        // It keeps no thread from its end.
        let weak = Arc::downgrade(&handle);
        handle.executor.notifier.waiters.waker.set_wake(Box::new(move || {
            if let Some(handle) = weak.upgrade() {
                handle.submit(Box::new(|_| Box::new(|| ())));
            }
        }));
        Ok(handle)
    }

    /// Gives the thread something to do. False if there is no thread any more.
    pub(crate) fn submit(&self, job: Job) -> bool {
        self.executor.submit(&self.jobs, job)
    }
}

/// None if somebody has it for longer than anybody needs it.
fn in_use() -> Option<MutexGuard<'static, BTreeMap<Key, Weak<ExecutorHandle>>>> {
    for _ in 0..TRIES {
        if let Some(in_use) = IN_USE.try_lock() {
            return Some(in_use);
        }
        thread::sleep(PAUSE);
    }
    None
}
