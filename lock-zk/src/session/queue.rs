//! Reading the queue of a lock.

use lock_core::{BackendError, BackendErrorKind as Kind};

use super::Session;
use crate::{
    error::{Cause, Failure},
    line::Line,
    nodes::Nodes,
};

/// Everybody in the queue. A node that is none of ours is none of ours to wait for.
pub(crate) async fn read_queue(nodes: &Nodes, session: &Session, lock: &str) -> Result<Line, BackendError> {
    let client = session.client()?;
    read_listed(nodes, session, lock, session.answer("a look", client.list_children(lock)).await)
}

/// The same from the answer to a list of its nodes.
pub(crate) fn read_listed(
    nodes: &Nodes,
    session: &Session,
    lock: &str,
    names: Result<Vec<String>, Failure>,
) -> Result<Line, BackendError> {
    let names = match names {
        Ok(names) => names,
        Err(failure) if failure.cause() == Cause::NoNode => Vec::new(),
        Err(failure) => return Err(failure.into()),
    };
    let rows = names.iter().map(|name| {
        nodes.row(name).ok_or_else(|| {
            let message =
                format!("`{}` in `{}` is no entry of a lock", name.escape_debug(), lock.escape_debug());
            Failure::new(Kind::ForeignData, message).about(&session.address)
        })
    });
    Ok(Line::new(rows.collect::<Result<_, _>>()?))
}
