//! Checks that a case has left nothing in the store but the entries of crashed clients (G01).

use std::time::{Duration, Instant};

use lock_core::{Backend, BackendErrorKind, Keeper, LockName, QueueRow};

use crate::{Case, Harness, SLACK, client_registry::ClientRegistry};

/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until the store has nothing left that a client could have cleaned up. It is called after all guards and futures of the case are
/// dropped.
///
/// # Panics
/// If something is left for longer than [`SLACK`].
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

/// How many entries of crashed clients are left, or, as an error, what else is.
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

/// How many entries of a queue belong to crashed clients, or, as an error, one that does not.
fn judge(name: &LockName, rows: &[QueueRow], registry: &ClientRegistry) -> Result<usize, String> {
    // Clients of other libraries have no entries.
    let ours = rows.iter().filter_map(|row| Some((row.entry?, row)));
    let mut dead = 0;
    for (id, row) in ours {
        if !registry.may_stay(id) {
            return Err(format!("an entry in the queue of `{name}` that belongs to no client: {row:?}"));
        }
        if row.lease_left.is_none() {
            return Err(format!(
                "an entry of a crashed client in the queue of `{name}` that never ends: {row:?}"
            ));
        }
        dead += 1;
    }
    Ok(dead)
}

/// Waits until the server has no clients. It is called if no client has crashed or lost its connection.
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
