//! Reading the queue of a lock.

use lock_core::{BackendError, BackendErrorKind as Kind};

use super::session::Session;
use crate::{
    error::{Cause, Failure},
    keys::Keys,
    notify::QueueView,
};

/// Everybody in the queue. A node that is none of ours is none of ours to wait for.
pub(crate) async fn read_queue(
    keys: &Keys,
    session: &Session,
    lock: &str,
) -> Result<QueueView, BackendError> {
    let client = session.client()?;
    read_listed(keys, session, lock, session.answer("a look", client.list_children(lock)).await)
}

/// The same from the answer to a list of its nodes.
pub(crate) fn read_listed(
    keys: &Keys,
    session: &Session,
    lock: &str,
    names: Result<Vec<String>, Failure>,
) -> Result<QueueView, BackendError> {
    let names = match names {
        Ok(names) => names,
        Err(failure) if failure.cause() == Cause::NoNode => Vec::new(),
        Err(failure) => return Err(failure.into()),
    };
    let nodes = names.iter().map(|name| {
        keys.read_entry(name).ok_or_else(|| {
            let message =
                format!("`{}` in `{}` is no entry of a lock", name.escape_debug(), lock.escape_debug());
            Failure::new(Kind::ForeignData, message).about(&session.address)
        })
    });
    Ok(QueueView::new(nodes.collect::<Result<_, _>>()?))
}
