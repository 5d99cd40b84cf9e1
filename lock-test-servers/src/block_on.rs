//! [`block_on`]: runs a future where nothing is awaited.

use std::{panic::resume_unwind, thread};

use tokio::runtime::Builder;

/// Runs a future to its end on a thread of its own, and blocks this one meanwhile, also one that a runtime runs on.
///
/// # Panics
/// If the future does, or if no runtime can be made.
pub fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        runtime.block_on(future)
    };
    match thread::scope(|scope| scope.spawn(run).join()) {
        Ok(done) => done,
        Err(panic) => resume_unwind(panic),
    }
}
