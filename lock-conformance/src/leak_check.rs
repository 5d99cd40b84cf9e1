//! What a case has left in the store, when nothing of it runs any more: nothing, but for what the dead had (G01).

use std::time::{Duration, Instant};

use lock_core::{Backend, BackendErrorKind, Keeper, LockName, QueueRow};

use crate::{Case, Harness, SLACK, client_registry::ClientRegistry};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until nothing is left in the store that anybody could have cleaned up. To be called when all guards and futures of
/// the case are dropped.
///
/// # Panics
/// If something is, for longer than [`SLACK`].
pub(crate) async fn assert_nothing_left(harness: &dyn Harness, registry: &ClientRegistry, case: &Case) {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let store = harness.connect(&keeper).await;
    let end = Instant::now() + SLACK;
    let mut stays = 0;
    loop {
        match look(&*store, registry).await {
            Ok(dead) => break stays += dead,
            Err(left) => {
                assert!(Instant::now() < end, "{}::{} leaves behind: {left}", case.group, case.name);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    drop((store, keeper));
    if stays == 0 && !registry.has_dead() {
        assert_no_footprint(harness, case).await;
    }
}

/// How many entries of the dead are left, or what is left besides.
async fn look(store: &dyn Backend, registry: &ClientRegistry) -> Result<usize, String> {
    let operator = store.operator();
    let names = operator.list("").await.map_err(|error| format!("a store that cannot be asked: {error}"))?;
    let mut dead = 0;
    for name in names {
        match operator.queue(&name).await {
            Ok(rows) => dead += judge(&name, &rows, registry)?,
            Err(error) if *error.kind() == BackendErrorKind::ForeignData => {}
            Err(error) => return Err(format!("a queue of `{name}` that cannot be read: {error}")),
        }
    }
    Ok(dead)
}

/// How many of a queue are of the dead, or who is not.
fn judge(name: &LockName, rows: &[QueueRow], registry: &ClientRegistry) -> Result<usize, String> {
    // Clients of other libraries have no entries.
    let ours = rows.iter().filter_map(|row| Some((row.entry?, row)));
    let mut dead = 0;
    for (id, row) in ours {
        if !registry.may_stay(id) {
            return Err(format!("an entry in the queue of `{name}` that nobody wants any more: {row:?}"));
        }
        if row.lease_left.is_none() {
            return Err(format!(
                "an entry of the dead in the queue of `{name}` that stays for ever: {row:?}"
            ));
        }
        dead += 1;
    }
    Ok(dead)
}

/// Nobody has crashed or was cut off: the server keeps nothing for anybody.
async fn assert_no_footprint(harness: &dyn Harness, case: &Case) {
    let end = Instant::now() + SLACK;
    while let Ok(at) = harness.server().footprint().await {
        if at.is_of_nobody() {
            break;
        }
        assert!(Instant::now() < end, "{}::{} leaves behind, at the server: {at:?}", case.group, case.name);
        tokio::time::sleep(PAUSE).await;
    }
}
