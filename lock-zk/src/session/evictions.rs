//! Watching for evictions.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::EntryId;
use zookeeper_client::Stat;

use super::{pool::Pool, session::Session};
use crate::error::Cause;

/// The time after which a failed watch is set again.
const PAUSE: Duration = Duration::from_secs(1);

/// Raises alarms about evictions while the session lives. One node announces the last eviction. If several come too quickly to be seen one
/// by one, this raises alarms about all members.
pub(super) fn start(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (weak, one) = (Arc::downgrade(pool), Arc::downgrade(session));
    let (path, keeper) = (pool.keys.evictions(), pool.keeper.clone());
    pool.keeper.spawn(async move {
        let mut seen = None;
        while let Some(session) = one.upgrade() {
            let Ok(client) = session.client() else { return };
            let looked = session.answer("looking at evictions", client.get_and_watch_data(&path)).await;
            drop(client);
            match looked {
                Ok((data, stat, watcher)) => {
                    if let Some(before) = seen.replace(stat) {
                        notify_members(&weak, &session, &before, &stat, &data);
                    }
                    drop(session);
                    // If the watch ends, either another client has taken over, or the session has ended.
                    watcher.changed().await;
                }
                // The node was deleted. The next eviction makes it again.
                Err(failure) if failure.cause() == Cause::SessionGone => return,
                Err(_) => {
                    drop(session);
                    keeper.sleep_until(keeper.now() + PAUSE).await;
                }
            }
        }
    });
}

fn notify_members(pool: &Weak<Pool>, session: &Arc<Session>, before: &Stat, now: &Stat, data: &[u8]) {
    let Some(pool) = pool.upgrade() else { return };
    if before.czxid == now.czxid && before.version == now.version {
        return;
    }
    let evicted = std::str::from_utf8(data).ok().and_then(|data| data.parse::<EntryId>().ok());
    let only = before.czxid == now.czxid && now.version.wrapping_sub(before.version) == 1;
    match evicted.filter(|_| only) {
        Some(entry) if pool.sessions.is_member_of(entry, session) => pool.notifier.alarm(entry),
        Some(_) => {}
        None => pool.notify_members(session),
    }
}
