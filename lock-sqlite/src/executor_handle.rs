//! [`ExecutorHandle`]: shares one executor and its threads among all backends of this process that use the same file with the same
//! settings.

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

use lock_core::sync::{Mutex, MutexGuard};

use crate::{
    executor::{Executor, Job},
    files::Files,
    notify::notifier::Notifier,
    store::Store,
    worker,
};

/// Backends with the same path and the same time limit share a handle. The key is the path and not the file, because a replaced file is
/// found again by its path: so two paths to one file have a store each. A fork gets its own handles, because it has none of the threads.
type Key = (PathBuf, bool, Duration, u32);

static IN_USE: Mutex<BTreeMap<Key, Weak<ExecutorHandle>>> = Mutex::new(BTreeMap::new());

/// How often the lock is tried. In a fork, a thread that exists only in the parent may hold it forever.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// An executor, and the sender of tasks for its worker. The worker ends with the last handle.
#[derive(Debug)]
pub(crate) struct ExecutorHandle {
    pub(crate) executor: Arc<Executor>,
    jobs: Sender<Job>,
}

impl ExecutorHandle {
    /// The handle that is in use, or a new one.
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
        // A weak reference, so that the worker can end.
        let weak = Arc::downgrade(&handle);
        handle.executor.notifier.waiters.waker.set_wake(Box::new(move || {
            if let Some(handle) = weak.upgrade() {
                handle.submit(Box::new(|_| Box::new(|| ())));
            }
        }));
        Ok(handle)
    }

    /// Gives the worker a task. Returns false if the worker has ended.
    pub(crate) fn submit(&self, job: Job) -> bool {
        self.executor.submit(&self.jobs, job)
    }
}

/// None if the lock is held for longer than any use of it takes.
fn in_use() -> Option<MutexGuard<'static, BTreeMap<Key, Weak<ExecutorHandle>>>> {
    for _ in 0..TRIES {
        if let Some(in_use) = IN_USE.try_lock() {
            return Some(in_use);
        }
        thread::sleep(PAUSE);
    }
    None
}
