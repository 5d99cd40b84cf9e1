//! [`block_on`]: runs a future in code that is not async.

use std::{panic::resume_unwind, thread};

use tokio::runtime::Builder;

/// Runs a future to its end on a separate thread, and blocks this one meanwhile. It can be called on a thread of a runtime, too.
///
/// # Panics
/// If the future panics, or if no runtime can be started.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_run_where_a_runtime_runs_already() {
        let outer = Builder::new_current_thread().build().unwrap();
        assert_eq!(outer.block_on(async { block_on(async { 7 }) }), 7);
    }

    #[test]
    #[should_panic(expected = "the server has ended")]
    fn a_panic_is_passed_on() {
        block_on::<()>(async { panic!("the server has ended") });
    }
}
