//! [`join`]: a slot in a session, which is opened if there is none.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::sync::watch;

use super::{
    owner::SessionOwner,
    registry::{Opening, Registry},
};
use crate::{BackendErrorKind as Kind, EntryId, panic_isolation::discard};

/// Makes an entry a member of a session of the owner's pool, which is opened if none has room for its `size`. `None` if the entry may not
/// join: it is a member already, or it has a [tombstone](super::SessionPool::add_tombstone). The pool is locked while `make` runs.
///
/// # Errors
/// The failure to open a session, for all that waited for it.
///
/// # Cancel safety
/// If it is dropped, the entry is no member. A session that is being opened stays for others.
pub async fn join<O: SessionOwner>(
    owner: &Arc<O>,
    entry: EntryId,
    class: Duration,
    size: usize,
    make: impl Fn(&Arc<O::Session>) -> O::Member + Send + Sync,
) -> Result<Option<Arc<O::Member>>, O::Failure> {
    let pool = owner.sessions();
    let slot = |registry: &mut Registry<O>| {
        let now = pool.keeper().now();
        if registry.may_join(entry, now) {
            registry.join(class, pool.capacity(), size, &make, now).map(Some)
        } else {
            Some(None)
        }
    };
    find_or_open(owner, class, slot).await
}

/// A session of this class for a request that needs no entry. It is opened if there is none, and may be closed as idle.
///
/// # Errors
/// The failure to open a session, for all that waited for it.
///
/// # Cancel safety
/// If it is dropped, a session that is being opened stays for others.
pub async fn session<O: SessionOwner>(
    owner: &Arc<O>,
    class: Duration,
) -> Result<Arc<O::Session>, O::Failure> {
    let pool = owner.sessions();
    let open = |registry: &mut Registry<O>| registry.open_session(Some(class), pool.keeper().now());
    find_or_open(owner, class, open).await
}

/// What `find` finds. While it finds nothing, a session is opened, once for all that need one of this class.
async fn find_or_open<O: SessionOwner, T: Send>(
    owner: &Arc<O>,
    class: Duration,
    find: impl Fn(&mut Registry<O>) -> Option<T> + Send,
) -> Result<T, O::Failure> {
    loop {
        let mut opening = {
            let mut registry = owner.sessions().lock();
            if let Some(found) = find(&mut registry) {
                return Ok(found);
            }
            let known = registry.classes.entry(class).or_default();
            known.opening.get_or_insert_with(|| open(owner, class)).clone()
        };
        let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
        match opened {
            Ok(Some(Err(failure))) => return Err(failure),
            Ok(_) => {}
            // The task was dropped with its keeper, which opens no other either.
            Err(_) => return Err(O::failure(Kind::Unavailable, "the keeper has ended")),
        }
    }
}

/// Opens a session on the keeper, so that it does not depend on the runtime of a user.
fn open<O: SessionOwner>(owner: &Arc<O>, class: Duration) -> Opening<O> {
    let (done, opening) = watch::channel(None);
    let weak = Arc::downgrade(owner);
    owner.sessions().keeper().spawn(async move {
        let Some(owner) = weak.upgrade() else { return };
        // It may also panic before there is a future.
        let opened = AssertUnwindSafe(async { owner.open(class).await }).catch_unwind().await;
        let opened = opened.unwrap_or_else(|panic| {
            discard(panic);
            Err(O::failure(Kind::Panicked, "opening a session panicked"))
        });
        owner.sessions().end_opening(class, opened.as_ref().ok());
        let opened = opened.map(|session| owner.opened(session, class));
        // Nothing may wait for it any more.
        let _ = done.send(Some(opened));
    });
    opening
}
