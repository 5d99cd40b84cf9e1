//! How long dropping a client waits for its clean-up, and on which threads.

use std::{cell::Cell, time::Duration};

use tokio::runtime::{Handle, RuntimeFlavor};

/// How long it waits by default.
pub(crate) const DEFAULT: Duration = Duration::from_millis(200);

thread_local! {
    /// How many calls of foreign code are on the stack of this thread.
    static FOREIGN_CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread may block for a moment: it runs no tasks.
///
/// The main thread of `#[tokio::main]` may, because the workers run the tasks, unless its runtime has no other thread. A worker may not,
/// nor may a thread on which this library calls foreign wakers, which can drop tasks.
pub(crate) fn may_block() -> bool {
    let runs_tasks = tokio::task::try_id().is_some()
        || Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
    !runs_tasks && FOREIGN_CALLS.get() == 0
}

/// Marks that this thread runs foreign code, or must not block for another reason, until it is dropped.
pub(crate) struct ForeignCode;

impl ForeignCode {
    pub(crate) fn begin() -> Self {
        FOREIGN_CALLS.set(FOREIGN_CALLS.get() + 1);
        Self
    }
}

impl Drop for ForeignCode {
    fn drop(&mut self) {
        FOREIGN_CALLS.set(FOREIGN_CALLS.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_thread_that_runs_tasks_may_not_block() {
        assert!(may_block(), "a plain thread");
        let one = Builder::new_current_thread().build().unwrap();
        assert!(!one.block_on(async { may_block() }), "all tasks are on this thread");
        let many = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert!(many.block_on(async { may_block() }), "the tasks are on the worker");
        assert!(!many.block_on(async { tokio::spawn(async { may_block() }).await.unwrap() }));
        assert!(!many.block_on(async { tokio::task::spawn_blocking(may_block).await.unwrap() }));
        let dropped = many.block_on(async {
            struct Look(std::sync::mpsc::Sender<bool>);
            impl Drop for Look {
                fn drop(&mut self) {
                    let _ = self.0.send(may_block());
                }
            }
            let (looked, look) = std::sync::mpsc::channel();
            let look_later = Look(looked);
            let task = tokio::spawn(async move {
                let _kept = look_later;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
            task.abort();
            let _ = task.await;
            look.recv().unwrap()
        });
        assert!(!dropped, "a task that is dropped is one");
    }
}
