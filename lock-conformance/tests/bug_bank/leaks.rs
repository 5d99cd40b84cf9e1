//! What an acquisition leaves behind in the process is found, as little as it may be (G02).

use std::{hint::black_box, sync::Arc};

use async_trait::async_trait;
use lock_conformance::{Layer, alone, finds};
use lock_core::{Backend, BackendError, Entry, Standing, Step, WaitMode};

use crate::MemoryHarness;

/// Each request leaves a piece of memory of three words, the smallest that there is.
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
        // A compiler may leave out what nobody looks at.
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
