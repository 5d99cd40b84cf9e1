//! [`Executor`]: carries out operations: on the threads of their callers if that is possible immediately, otherwise in order on the worker,
//! which may wait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
};

use lock_core::{BackendError, isolate};

use crate::{
    checkpointer::Checkpointer, error::Failure, notify::notifier::Notifier, store::Store,
    store_lock::StoreLock, transaction::Transaction,
};

/// A task for the worker. It returns a function that gives the caller its answer, and is called when the store is free again.
pub(crate) type Job = Box<dyn FnOnce(&mut Store) -> Answer + Send>;

/// Wakes the caller.
pub(crate) type Answer = Box<dyn FnOnce()>;

/// Carries out operations on the threads of their callers, or on the worker.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) notifier: Notifier,
    store: Arc<StoreLock>,
    checkpointer: Checkpointer,
    /// Whether the worker watches for waiters. Otherwise it has to be woken when there are some.
    worker_watches: AtomicBool,
}

impl Executor {
    pub(crate) fn new(store: Store) -> Self {
        let (notifier, worker_watches) = (store.notifier.clone(), AtomicBool::new(false));
        let (store, checkpointer) = (Arc::new(StoreLock::new(store)), Checkpointer::default());
        Self { notifier, store, checkpointer, worker_watches }
    }

    /// Carries out an operation on the thread of its caller. Returns None, with nothing done, if that would take time: because of another
    /// writer, here or in another process; a disk that was slow; or more work than a caller has time for.
    pub(crate) fn run_inline<T>(
        &self,
        operation: &impl Fn(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, BackendError>> {
        let run = |store: &mut Store| (store.write_inline(operation), store.take_checkpoint_due());
        let (done, checkpoint_due) = self.store.try_with(run)?;
        if checkpoint_due {
            self.checkpointer.request(&self.store);
        }
        done
    }

    /// Waits for the store, and runs `work` on it. Messages are sent when the store is free again.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        self.store.with(work)
    }

    /// Gives the worker a task. Returns false if the worker has ended.
    pub(crate) fn submit(&self, jobs: &Sender<Job>, job: Job) -> bool {
        self.store.add_queued();
        let given = jobs.send(job).is_ok();
        if !given {
            self.store.remove_queued();
        }
        given
    }

    /// Runs a task of the worker. The caller gets its answer when the store is free.
    pub(crate) fn run_job(&self, job: Job) {
        // The caller learns of a panic by getting no answer.
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.with(|store| {
                let answer = job(store);
                let checkpoint = if store.is_checkpoint_overdue() { store.checkpoint() } else { Ok(()) };
                (answer, checkpoint, store.take_checkpoint_due())
            })
        }));
        self.store.remove_queued();
        let Ok((answer, checkpoint, checkpoint_due)) = done else { return };
        // This wakes the caller, which runs foreign code.
        isolate(answer);
        if let Err(error) = checkpoint {
            isolate(|| tracing::debug!(?error, "the log was not brought into the file"));
        }
        if checkpoint_due {
            self.checkpointer.request(&self.store);
        }
    }

    /// Whether there are waiters that the worker does not know of.
    pub(crate) fn needs_worker(&self) -> bool {
        !self.worker_watches.load(Ordering::Acquire) && !self.notifier.waiters.is_empty()
    }

    /// Called by the worker before it sleeps until it is woken. Returns false if it has to stay awake. A new waiter is either seen here,
    /// or sees that the worker does not watch.
    pub(crate) fn may_sleep(&self) -> bool {
        self.worker_watches.store(false, Ordering::Release);
        let nobody = self.notifier.waiters.is_empty();
        self.worker_watches.store(!nobody, Ordering::Release);
        nobody
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::channel,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{files::Files, reap::reap_dead};

    const PATIENCE: Duration = Duration::from_secs(10);

    /// An executor whose file is open, and has tokens.
    fn executor() -> (tempfile::TempDir, Arc<Executor>) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let executor = Arc::new(Executor::new(Store::new(files, Notifier::default(), PATIENCE)));
        executor.with(|store| store.write(Instant::now() + PATIENCE, nothing)).unwrap();
        (folder, executor)
    }

    fn nothing(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        transaction.has_time_for(0)
    }

    fn mark(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        transaction.connection.execute("UPDATE meta SET epoch = epoch + 1", [])?;
        Ok(())
    }

    fn runs_inline(executor: &Arc<Executor>) -> bool {
        is_run_inline(executor, &nothing)
    }

    /// A busy machine may look like a slow disk for a while.
    fn is_run_inline(
        executor: &Arc<Executor>,
        operation: &impl Fn(&mut Transaction<'_>) -> Result<(), Failure>,
    ) -> bool {
        let started = Instant::now();
        std::iter::repeat_with(|| executor.run_inline(operation).is_some())
            .inspect(|done| std::thread::sleep(Duration::from_millis(if *done { 0 } else { 5 })))
            .take_while(|_| started.elapsed() < PATIENCE)
            .any(|done| done)
    }

    fn is_kept_waiting(executor: &Arc<Executor>) -> bool {
        is_never_run_inline(executor, &nothing)
    }

    fn is_never_run_inline(
        executor: &Arc<Executor>,
        operation: &impl Fn(&mut Transaction<'_>) -> Result<(), Failure>,
    ) -> bool {
        !(0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            executor.run_inline(operation).is_some()
        })
    }

    /// PR08: a leave that overtakes its create would find nothing.
    #[test]
    fn callers_do_not_pass_what_the_worker_was_given() {
        let (_folder, executor) = executor();
        let (jobs, todo) = channel();
        assert!(runs_inline(&executor));
        assert!(executor.submit(&jobs, Box::new(|_| Box::new(|| ()))));
        assert!(is_kept_waiting(&executor));
        let job = todo.recv().unwrap();
        assert!(is_kept_waiting(&executor), "it was taken out of the queue, and is not done");
        executor.run_job(job);
        assert!(runs_inline(&executor));
        drop(todo);
        assert!(!executor.submit(&jobs, Box::new(|_| Box::new(|| ()))));
        assert!(runs_inline(&executor), "what was never given is waited for");
    }

    /// For example the look for dead holders: a thread that has to be woken first would always find that a caller was quicker.
    #[test]
    fn callers_do_not_pass_a_thread_that_waits_for_the_store() {
        let (_folder, executor) = executor();
        let (waits, queued) = (Arc::clone(&executor), || executor.store.queued());
        let waiter = executor.with(|_| {
            let waiter = std::thread::spawn(move || waits.with(|_| ()));
            let started = Instant::now();
            while queued() < 2 {
                assert!(started.elapsed() < PATIENCE, "callers do not know of the thread that waits");
                std::thread::yield_now();
            }
            waiter
        });
        waiter.join().unwrap();
        assert_eq!(queued(), 0);
        assert!(runs_inline(&executor));
        let queued = executor.store.enqueue();
        assert!(is_kept_waiting(&executor), "it was passed");
        drop(queued);
        assert!(runs_inline(&executor));
    }

    /// The disk may be busy.
    #[test]
    fn after_a_slow_transaction_callers_leave_the_file_to_the_worker_for_a_second() {
        let (_folder, executor) = executor();
        let slow = |transaction: &mut Transaction<'_>| {
            std::thread::sleep(Duration::from_millis(300));
            nothing(transaction)
        };
        loop {
            assert!(is_run_inline(&executor, &slow));
            let ended = Instant::now();
            let kept_waiting = executor.run_inline(&nothing).is_none();
            // Unless this thread was not scheduled for that long.
            if ended.elapsed() < Duration::from_millis(900) {
                assert!(kept_waiting, "the next one was carried out at once");
                break;
            }
        }
        assert!(runs_inline(&executor), "they never come back");
    }

    /// A check looks at the lock file of a process. A caller has time for five, and leaves more of them to the worker.
    #[test]
    fn a_caller_checks_at_most_five_processes_for_life() {
        let (_folder, executor) = executor();
        // Nobody has registered under these ids, so that a check finds nothing to remove.
        let check = |number: i64| {
            move |transaction: &mut Transaction<'_>| {
                let after = transaction.me;
                reap_dead(transaction, (1..=number).map(|i| after.wrapping_add(i))).map(|_| ())
            }
        };
        assert!(is_run_inline(&executor, &check(5)));
        assert!(is_never_run_inline(&executor, &check(6)));
    }

    /// Otherwise the answer to one verb would send the next one to the worker, forever.
    #[test]
    fn a_caller_that_is_answered_finds_the_store_free() {
        let (_folder, executor) = executor();
        let (jobs, todo) = channel();
        let (said, heard) = channel();
        let asked = Arc::clone(&executor);
        let job: Job = Box::new(move |_| Box::new(move || said.send(runs_inline(&asked)).unwrap()));
        assert!(executor.submit(&jobs, job));
        executor.run_job(todo.recv().unwrap());
        assert!(heard.recv().unwrap());
    }

    #[test]
    fn what_a_panic_had_begun_is_undone_and_the_next_finds_the_file_open() {
        let (_folder, executor) = executor();
        let epoch = |store: &mut Store| {
            let read = |connection: &rusqlite::Connection, _: &_| {
                Ok(connection.query_row("SELECT epoch FROM meta", [], |row| row.get::<_, i64>(0))?)
            };
            store.read(Instant::now() + PATIENCE, read).unwrap()
        };
        let before = executor.with(epoch);
        let panics = |transaction: &mut Transaction<'_>| -> Result<(), Failure> {
            mark(transaction)?;
            panic!("as a bug does");
        };
        let started = Instant::now();
        while catch_unwind(AssertUnwindSafe(|| executor.run_inline(&panics))).is_ok() {
            assert!(started.elapsed() < PATIENCE, "it was never carried out");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(executor.run_inline(&nothing).is_none(), "the transaction is still open");
        assert_eq!(executor.with(epoch), before);
        assert!(runs_inline(&executor));
    }

    #[test]
    fn a_new_waiter_is_seen_by_the_worker_or_has_to_call_it() {
        let (_folder, executor) = executor();
        assert!(executor.may_sleep() && !executor.needs_worker());
        let name = lock_core::LockName::new("job").unwrap();
        let entry = lock_core::EntryId::new(7);
        let hints = executor.notifier.waiters.listen(entry);
        executor.notifier.waiters.mark_waiting(entry, &name, lock_core::FencingToken::new(1));
        assert!(executor.needs_worker(), "it sleeps");
        assert!(!executor.may_sleep() && !executor.needs_worker(), "it watches for waiters");
        drop(hints);
        assert!(executor.may_sleep());
    }
}
