//! [`sweep`]: what a shared session would keep alive too long.

use std::sync::Arc;

use futures_util::future::join_all;

use super::owner::SessionOwner;
use crate::panic_isolation::isolate;

/// So many members are removed from the store at once.
const REMOVED_AT_ONCE: usize = 64;

/// Has the keeper remove the members of a session whose time is over: they were neither refreshed nor left for. It is done beside what
/// the owner does meanwhile, which may have to prove the session alive. What fails is tried again at the next call.
pub fn sweep<O: SessionOwner>(owner: &Arc<O>, session: &Arc<O::Session>) {
    let overdue = owner.sessions().begin_sweep(session);
    if overdue.is_empty() {
        return;
    }
    let sweeping = Sweeping { owner: Arc::clone(owner), session: Arc::clone(session) };
    owner.sessions().keeper().spawn(async move {
        let owner = &sweeping.owner;
        for some in overdue.chunks(REMOVED_AT_ONCE) {
            let removed = join_all(some.iter().map(|member| owner.remove_member(member))).await;
            if let Some(failure) = removed.iter().find_map(|removed| removed.as_ref().err()) {
                isolate(|| tracing::debug!("an entry whose time is over is not removed yet: {failure}"));
                break;
            }
        }
    });
}

/// A sweep that has begun. The next one can begin when this is dropped, however it ended.
struct Sweeping<O: SessionOwner> {
    owner: Arc<O>,
    session: Arc<O::Session>,
}

impl<O: SessionOwner> Drop for Sweeping<O> {
    fn drop(&mut self) {
        self.owner.sessions().end_sweep(&self.session);
    }
}
