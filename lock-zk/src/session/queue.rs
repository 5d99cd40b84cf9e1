//! Reads the queue of a lock.

use futures_util::future::join_all;
use lock_core::{BackendError, BackendErrorKind as Kind};

use super::{
    member::{Member, OwnNode},
    session::Session,
};
use crate::{
    error::{Cause, Failure},
    keys::{Keys, entry_node::token},
    queue::QueueView,
};

/// The entries of a queue. A foreign node in it is an error, because it is unknown whether to wait for it.
pub(crate) async fn read_queue(
    keys: &Keys,
    session: &Session,
    lock: &str,
) -> Result<QueueView, BackendError> {
    let client = session.client()?;
    read_listed(keys, session, lock, session.answer("a look", client.list_children(lock)).await)
}

/// The same, from the answer to a list of the queue's nodes.
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

/// All nodes of a member, first to last, after all earlier requests have been decided, at any server (H07). Only nodes of the member's own
/// session count (H08).
pub(crate) async fn find_own_nodes(keys: &Keys, member: &Member) -> Result<Vec<OwnNode>, Failure> {
    let session = &member.session;
    let client = session.client()?;
    let listed = client.catch_up_and_list(&member.lock);
    let names = match session.answer("a search", listed).await {
        Ok(names) => names,
        Err(failure) if failure.cause() == Cause::NoNode => return Ok(Vec::new()),
        Err(failure) => return Err(failure),
    };
    let queue = QueueView::new(names.iter().filter_map(|name| keys.read_entry(name)).collect());
    let own: Vec<_> = queue.nodes_of(member.entry.id).map(|node| node.name.clone()).collect();
    let paths: Vec<_> = own.iter().map(|node| member.sibling_path(node)).collect();
    let looks = paths.iter().map(|path| session.answer("a search", client.check_stat(path)));
    let mut found = Vec::new();
    for (node, stat) in own.into_iter().zip(join_all(looks).await) {
        if let Some(stat) = stat?.filter(|stat| stat.ephemeral_owner == session.id) {
            found.push(OwnNode { name: node, token: token(stat.czxid) });
        }
    }
    Ok(found)
}
