//! Entering a queue.

use std::sync::Arc;

use futures_util::{FutureExt, future::try_join};
use lock_core::{BackendError, BackendErrorKind as Kind, Entry, Standing, WaitMode};
use zookeeper_client::{Acls, CreateMode, Stat};

use super::{look::admitted, zookeeper::ZooKeeper};
use crate::{
    error::{Cause, Failure},
    keys::{Layout, entry_node},
    session::{Member, OwnNode, find_own_nodes, read_listed},
};

/// How many creates are tried when the server removes the container each time before one arrives (H98).
const MAX_CREATES: usize = 8;

/// The outcome of a create.
enum Created {
    /// The node was created. The value is the number of nodes in the container now.
    Node(OwnNode, u64),
    /// The lock has no container.
    NoContainer,
    /// There was no connection, and nothing was sent. By now there may be a connection.
    NotSent,
    /// A leave of the entry has begun in the meantime, or its session has ended.
    Gone,
}

impl ZooKeeper {
    pub(crate) async fn create(&self, entry: &Entry, wait: WaitMode) -> Result<Standing, BackendError> {
        let lock = self.container(&entry.name)?;
        if !self.sessions.keys().supports(entry.claim) {
            let message = "only mutexes are shared with apache curator; take others without `interop`";
            return Err(self.failure(Kind::Unsupported, message).unsent().advised().into());
        }
        let Some(member) = self.sessions.join(entry, &lock).await? else { return Ok(Standing::Gone) };
        let answer = self.enqueue(&member, wait).await;
        // Nothing of this session is left, and with another session it would be another entry (H08).
        if answer.as_ref().is_err_and(BackendError::is_transient) && member.session.has_ended() {
            return Ok(Standing::Gone);
        }
        // Nothing was created, so no `leave` will follow.
        if answer.as_ref().is_err_and(BackendError::is_unsent) && member.own_node().is_none() {
            self.sessions.mark_gone(&member);
        }
        answer
    }

    async fn enqueue(&self, member: &Arc<Member>, wait: WaitMode) -> Result<Standing, BackendError> {
        let doubts = member.unanswered_creates();
        if doubts > 0 {
            self.settle_creates(member, doubts).await?;
        }
        if let Some(own_node) = member.own_node() {
            return self.look_or_wait(member, own_node, wait).await;
        }
        if wait == WaitMode::Try
            && let Some(refused) = self.look_first(member).await?
        {
            self.sessions.mark_gone(member);
            return refused;
        }
        for _ in 0..MAX_CREATES {
            let sent = self.keeper.now();
            match self.create_once(member).await? {
                Created::Gone => return Ok(Standing::Gone),
                Created::NoContainer => self.make_container(member).await?,
                Created::NotSent => {}
                // Alone in the container: nothing is ahead.
                Created::Node(own_node, 1) => {
                    member.mark_accepted();
                    return Ok(admitted(member, &own_node, sent, self.keeper.now()));
                }
                Created::Node(own_node, _) => return self.look_or_wait(member, own_node, wait).await,
            }
        }
        let message = format!("the container of the lock went away {MAX_CREATES} times, one after the other");
        Err(self.failure(Kind::Unavailable, &message).into())
    }

    /// Finds out whether unanswered creates were carried out (H07). If several were, one node is kept.
    async fn settle_creates(&self, member: &Member, doubts: u32) -> Result<(), Failure> {
        let mut own_nodes = find_own_nodes(self.sessions.keys(), member).await?.into_iter();
        let first = own_nodes.next();
        for other in own_nodes {
            let client = member.session.client()?;
            member.session.write("a search", client.delete(&member.sibling_path(&other.name))).await?;
        }
        member.settle_creates(doubts, first);
        Ok(())
    }

    /// Whether a `Try` would be refused, before it creates a node that others would wait for (PR29).
    async fn look_first(
        &self,
        member: &Member,
    ) -> Result<Option<Result<Standing, BackendError>>, BackendError> {
        let client = member.session.client().map_err(Failure::unsent)?;
        let container = member.session.answer("a look", client.check_stat(&member.lock)).await;
        let container = container.map_err(Failure::unsent)?;
        if container.is_none_or(|stat| stat.num_children == 0) {
            return Ok(None);
        }
        // The server may lag behind, and a lock that was released before must not be reported as busy.
        let names = member.session.answer("a look", client.catch_up_and_list(&member.lock)).await;
        let queue = read_listed(self.sessions.keys(), &member.session, &member.lock, names);
        let queue = queue.map_err(BackendError::unsent)?;
        let ahead = queue.ahead_of_next(member.entry.claim);
        Ok(match self.mismatch(&ahead) {
            Some(mismatched) => Some(Err(mismatched)),
            None if ahead.admits() => None,
            None => Some(Ok(Standing::Busy)),
        })
    }

    /// Creates the node and asks for the number of nodes in the container, in one round trip.
    async fn create_once(&self, member: &Member) -> Result<Created, BackendError> {
        let session = &member.session;
        let client = session.client().map_err(Failure::unsent)?;
        let data = entry_node::write_data(session.granted(), member.entry.label.as_deref());
        let path = member.path_prefix();
        let options = CreateMode::EphemeralSequential.with_acls(Acls::new(self.sessions.acl()));
        let sent = self.keeper.now();
        let Some(create) = member.send_create(|| client.create(&path, &data, &options)) else {
            return Ok(Created::Gone);
        };
        let look = client.check_stat(&member.lock);
        let create = session.answer("a create", create);
        // If no create was sent, there is nothing to look at, and the look would wait long for a connection.
        match try_join(create, session.answer("a look", look).map(Ok)).await {
            Ok(((stat, sequence), looked)) => {
                session.mark_alive(sent);
                let node = entry_node::node_name(&member.prefix, sequence.into_i64());
                if !entry_node::is_valid_sequence(sequence.into_i64()) {
                    return self.start_over(member, &node).await;
                }
                let own_node = OwnNode { name: node, token: entry_node::token(stat.czxid) };
                member.create_answered(Some(own_node.clone()));
                let many = |stat: Stat| stat.num_children.unsigned_abs().into();
                // If the look was not answered, another one follows.
                Ok(Created::Node(own_node, looked.ok().flatten().map_or(u64::MAX, many)))
            }
            Err(failure) => {
                if failure.is_an_answer() {
                    member.create_answered(None);
                }
                match failure.cause() {
                    Cause::NoNode => Ok(Created::NoContainer),
                    Cause::NeverSent => Ok(Created::NotSent),
                    // No node can be created in this session any more.
                    Cause::SessionGone if *failure.kind() != Kind::Denied => Ok(Created::Gone),
                    _ => Err(failure.into()),
                }
            }
        }
    }

    /// The counter of the container has reached its end. Once all entries have left, the container is made anew (H97).
    async fn start_over(&self, member: &Member, node: &str) -> Result<Created, BackendError> {
        let session = &member.session;
        let client = session.client()?;
        // The create stays in doubt until its node is known to be gone.
        let deleted = session.write("a release", client.delete(&member.sibling_path(node))).await;
        if let Err(failure) = deleted
            && failure.cause() != Cause::NoNode
        {
            return Err(failure.into());
        }
        member.create_answered(None);
        if self.sessions.keys().layout == Layout::Own {
            // Refused while entries are in it.
            match session.write("a new container", client.delete(&member.lock)).await {
                Ok(()) => return Ok(Created::NoContainer),
                Err(failure) if failure.cause() == Cause::NoNode => return Ok(Created::NoContainer),
                Err(_) => {}
            }
        }
        let message = "the counter of the lock's container has reached its end; the container is made anew once its queue is empty";
        Err(self.failure(Kind::TokensExhausted, message).into())
    }

    /// Makes the container and the nodes above it.
    async fn make_container(&self, member: &Member) -> Result<(), BackendError> {
        let session = &member.session;
        let client = session.client().map_err(Failure::unsent)?;
        let options = CreateMode::Container.with_acls(Acls::new(self.sessions.acl()));
        let attempt = async {
            match client.create(&member.lock, &[], &options).await {
                // The container may exist by now. The core does not repeat the create, since no entry was put in the queue; and creating the
                // container twice is harmless.
                Err(error) if !Failure::of(&error).is_an_answer() => {
                    client.create(&member.lock, &[], &options).await
                }
                made => made,
            }
        };
        let made = session.answer("making a container", attempt).await;
        match made {
            Err(failure) if failure.cause() == Cause::NoNode => {
                let anew = async {
                    self.sessions.make_base_nodes(session).await?;
                    // With Curator's layout, the nodes in between are containers as well.
                    session.answer("making a container", client.mkdir(&member.lock, &options)).await
                };
                match anew.await {
                    Err(failure) if failure.cause() != Cause::NeverSent => {
                        return Err(failure.unsent().into());
                    }
                    _ => {}
                }
            }
            Err(failure) if !matches!(failure.cause(), Cause::NodeExists | Cause::NeverSent) => {
                return Err(failure.unsent().into());
            }
            // If the container is not there, the next create says so.
            _ => {}
        }
        Ok(())
    }
}
