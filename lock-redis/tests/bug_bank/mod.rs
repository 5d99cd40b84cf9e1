//! A bug that only a store whose traffic is counted can show, between a client and the server, and the case that has to find it. It takes
//! as many waiters as the case has, so it is not among those that `lock-conformance` plants in every store. See `docs/bug-bank.md`.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use lock_conformance::{Layer, finds};
use lock_core::{Backend, BackendError, Entry, Standing, Step, WaitMode};

use crate::RedisHarness;

const ID: &str = "b39";
const CASE: (&str, &str) = ("alone", "a_look_of_a_waiter_costs_the_same_however_many_wait");

/// At every tenth look, a client reads the whole queue. A waiter needs only the entries ahead that it waits for.
#[derive(Debug, Default)]
struct ReadsTheWholeQueue(AtomicUsize);

#[async_trait]
impl Layer for ReadsTheWholeQueue {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // If this were done more often, the machine would be too busy for the looks themselves.
        if step != Step::Create && self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(10) {
            store.operator().queue(&entry.name).await?;
        }
        store.enter(entry, step, wait).await
    }
}

/// That the case passes without the bug is shown by its own test.
fn is_found() {
    let (group, case) = CASE;
    let said = finds::<RedisHarness>(group, case, |_| Arc::<ReadsTheWholeQueue>::default());
    let said = said.unwrap_or_else(|| panic!("{group}::{case} does not find {ID}"));
    let words = "bytes for a look among";
    assert!(said.contains(words), "{group}::{case} found something else than {ID}: {said}");
}

/// This case has very many waiters.
mod alone {
    #[test]
    fn b39_a_waiter_that_reads_the_whole_queue_is_found() {
        super::is_found();
    }
}

#[test]
fn the_bug_of_redis_is_listed_with_its_case() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bug-bank.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let rows = text.lines().filter(|line| line.contains("| Redis |"));
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    let listed: Vec<_> = rows.map(cells).map(|cells| format!("{} {}", cells[1], cells[5])).collect();
    assert_eq!(listed, [format!("{ID} {}::{}", CASE.0, CASE.1)]);
}
