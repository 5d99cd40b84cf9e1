//! The suite finds leaks of an acquisition in the process, however small they are (G02).

use std::{fs::File, hint::black_box, sync::Arc, thread};

use async_trait::async_trait;
use lock_conformance::{Layer, alone, finds};
use lock_core::{Backend, BackendError, Entry, Standing, Step, WaitMode, sync::Mutex};

use crate::MemoryHarness;

/// Each request leaks three words of memory, the smallest heap block.
#[derive(Debug)]
struct Leaks;

#[async_trait]
impl Layer for Leaks {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // The compiler may remove an allocation that is not used.
        Box::leak(black_box(Box::new([1_u64; 3])));
        store.enter(entry, step, wait).await
    }
}

#[test]
fn three_words_for_each_acquisition_are_found() {
    alone("leaks::three_words_for_each_acquisition_are_found", || {
        let case = "acquisitions_leave_nothing_behind";
        let said = finds::<MemoryHarness>("resources", case, |_| Arc::new(Leaks)).expect("the leak is found");
        assert!(said.contains("acquisitions leave something behind"), "{said}");
    });
}

/// After a while one file less is open, but there are more and more threads.
#[derive(Debug)]
struct TradesAFileForThreads(Mutex<(u32, Option<File>)>);

impl TradesAFileForThreads {
    fn new() -> Self {
        let file = File::open("/dev/null").expect("every unix has it");
        Self(Mutex::new((0, Some(file))))
    }
}

#[async_trait]
impl Layer for TradesAFileForThreads {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        {
            let mut state = self.0.lock();
            state.0 += 1;
            if state.0 > 300 {
                state.1 = None;
            }
            if state.0.is_multiple_of(200) {
                thread::spawn(|| {
                    loop {
                        thread::park();
                    }
                });
            }
        }
        store.enter(entry, step, wait).await
    }
}

/// If the figures were compared as a sum, one could hide the other.
#[test]
fn threads_are_found_though_a_file_less_is_open() {
    alone("leaks::threads_are_found_though_a_file_less_is_open", || {
        let case = "acquisitions_leave_nothing_behind";
        let said = finds::<MemoryHarness>("resources", case, |_| Arc::new(TradesAFileForThreads::new()));
        let said = said.expect("the threads are found");
        assert!(said.contains("acquisitions leave something behind"), "{said}");
    });
}
