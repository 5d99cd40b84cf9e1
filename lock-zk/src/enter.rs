//! Standing in a queue.

use std::sync::Arc;

use futures_util::{FutureExt, future::try_join, stream};
use lock_core::{
    BackendError, BackendErrorKind as Kind, BootTime, Entry, FencingToken, Hint, LockName, Standing, WaitMode,
};
use zookeeper_client::{Acls, CreateMode, Stat};

use crate::{
    ZooKeeper,
    error::{Cause, Failure},
    keys::{Layout, entry_node},
    notify::{EntriesAhead, QueueView, Snapshot},
    session::{self, Member, OwnNode, Session, read_listed, search, token},
};

/// How often a create is tried again because the container went away meanwhile (H98). Each time the server removed it.
const TRIES: usize = 8;

/// What a create came to.
enum Created {
    /// It stands there; so many have the container now.
    There(OwnNode, u64),
    /// The lock has no container.
    NoContainer,
    /// There was no connection. Now there may be one.
    NotSent,
    /// Somebody has left for it.
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
        let answer = self.stand(&member, wait).await;
        // Nothing stands under it any more, nor can: with another session it would be another entry (H08).
        if answer.as_ref().is_err_and(BackendError::is_transient) && member.session.has_ended() {
            return Ok(Standing::Gone);
        }
        // Nothing was created, so nobody will leave for it.
        if answer.as_ref().is_err_and(BackendError::is_unsent) && member.own_node().is_none() {
            self.sessions.mark_gone(&member);
        }
        answer
    }

    async fn stand(&self, member: &Arc<Member>, wait: WaitMode) -> Result<Standing, BackendError> {
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
        for _ in 0..TRIES {
            let sent = self.keeper.now();
            match self.create_once(member).await? {
                Created::Gone => return Ok(Standing::Gone),
                Created::NoContainer => self.make_container(member).await?,
                Created::NotSent => {}
                // Alone: nobody is ahead.
                Created::There(own_node, 1) => {
                    member.mark_accepted();
                    return Ok(admitted(member, &own_node, sent, self.keeper.now()));
                }
                Created::There(own_node, _) => return self.look_or_wait(member, own_node, wait).await,
            }
        }
        let message = format!("the container of the lock went away {TRIES} times, one after the other");
        Err(self.failure(Kind::Unavailable, &message).into())
    }

    /// The path of a lock.
    pub(crate) fn container(&self, name: &LockName) -> Result<String, BackendError> {
        self.sessions.keys().lock(name).ok_or_else(|| {
            let message = "with apache curator the name of a lock is a path: steps with a `/` between them";
            self.failure(Kind::Unsupported, message).unsent().advised().into()
        })
    }

    /// Finds out what became of creates that were not answered (H07). Of several that were carried out one stays.
    async fn settle_creates(&self, member: &Member, doubts: u32) -> Result<(), Failure> {
        let mut own_nodes = search(self.sessions.keys(), member).await?.into_iter();
        let first = own_nodes.next();
        for other in own_nodes {
            let client = member.session.client()?;
            member.session.write("a search", client.delete(&member.sibling_path(&other.name))).await?;
        }
        member.settle_creates(doubts, first);
        Ok(())
    }

    /// Whether one that only tries would be refused, before it is anybody else's hindrance (PR29).
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
        // The server may lag behind: what was released before is not to be called busy.
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

    /// Creates the node, and asks how many there are behind it, in one go.
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
        // Where nothing was created there is nothing to look at, and who waits for a connection to look by would wait for long.
        match try_join(create, session.answer("a look", look).map(Ok)).await {
            Ok(((stat, sequence), looked)) => {
                session.mark_alive(sent);
                let node = entry_node::node_name(&member.prefix, sequence.into_i64());
                if !entry_node::is_valid_sequence(sequence.into_i64()) {
                    return self.start_over(member, &node).await;
                }
                let own_node = OwnNode { name: node, token: token(stat.czxid) };
                member.create_answered(Some(own_node.clone()));
                let many = |stat: Stat| stat.num_children.unsigned_abs().into();
                // Without an answer to it there is another look.
                Ok(Created::There(own_node, looked.ok().flatten().map_or(u64::MAX, many)))
            }
            Err(failure) => {
                if failure.is_an_answer() {
                    member.create_answered(None);
                }
                match failure.cause() {
                    Cause::NoNode => Ok(Created::NoContainer),
                    Cause::NeverSent => Ok(Created::NotSent),
                    // Nothing can be created in it any more.
                    Cause::SessionGone if *failure.kind() != Kind::Denied => Ok(Created::Gone),
                    _ => Err(failure.into()),
                }
            }
        }
    }

    /// The container has counted to its end: whoever stands in it is waited for, and then it is made anew (H97).
    async fn start_over(&self, member: &Member, node: &str) -> Result<Created, BackendError> {
        let session = &member.session;
        let client = session.client()?;
        // Until its node is known to be gone, the create stays in doubt.
        let deleted = session.write("a release", client.delete(&member.sibling_path(node))).await;
        if let Err(failure) = deleted
            && failure.cause() != Cause::NoNode
        {
            return Err(failure.into());
        }
        member.create_answered(None);
        if self.sessions.keys().layout == Layout::Own {
            // Refused while somebody is in it.
            match session.write("a new container", client.delete(&member.lock)).await {
                Ok(()) => return Ok(Created::NoContainer),
                Err(failure) if failure.cause() == Cause::NoNode => return Ok(Created::NoContainer),
                Err(_) => {}
            }
        }
        let message =
            "the container of the lock has counted to its end; it is made anew once nobody stands in it";
        Err(self.failure(Kind::TokensExhausted, message).into())
    }

    /// Makes the container, and what has to be above it.
    async fn make_container(&self, member: &Member) -> Result<(), BackendError> {
        let session = &member.session;
        let client = session.client().map_err(Failure::unsent)?;
        let options = CreateMode::Container.with_acls(Acls::new(self.sessions.acl()));
        let attempt = async {
            match client.create(&member.lock, &[], &options).await {
                // It may be there. Nobody else repeats it, since nobody was put in the queue; and to make it twice is to make it.
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
                    // With apache curator, what is between is a container as well.
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
            // If it is not there, the next create says so.
            _ => {}
        }
        Ok(())
    }

    /// Looks again from a place that was taken.
    pub(crate) async fn look_again(
        &self,
        entry: &Entry,
        token: FencingToken,
    ) -> Result<Standing, BackendError> {
        let now = self.keeper.now();
        let member = self.sessions.find(entry.id).filter(|member| {
            // Another name under the same id is another entry.
            member.is_alive(now) && member.entry.name == entry.name
        });
        let own_node =
            member.as_ref().and_then(|member| member.own_node()).filter(|own_node| own_node.token == token);
        match member.zip(own_node) {
            Some((member, own_node)) => self.look(&member, own_node, WaitMode::Queue).await,
            None => Ok(Standing::Gone),
        }
    }

    /// What a place that was just taken comes to. It is taken, though one cannot look from it, as when the connection breaks in between:
    /// who comes to wait, waits. Nobody is watched for it, so it is told at once to look again (C6, PR14): that waits for the
    /// connection to be back, and watches.
    async fn look_or_wait(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let (sent, token) = (self.keeper.now(), own_node.token);
        match self.look(member, own_node, wait).await {
            Err(error) if wait == WaitMode::Queue && error.is_transient() => {
                tracing::debug!(entry = %member.entry.id, "a place is taken, and cannot be seen: {error}");
                Ok(Standing::Waiting {
                    token,
                    ttl: member.session.granted(),
                    valid_until: member.session.valid_until(sent, member.entry.ttl),
                    ahead: 0,
                    holder: None,
                    look_again: self.keeper.now(),
                    hints: Box::pin(stream::iter([Hint::Changed])),
                })
            }
            answer => answer,
        }
    }

    /// What a place comes to. Where nobody is known to have left, it is enough that those who keep it out are there: so to wait costs the
    /// same however many do.
    async fn look(
        &self,
        member: &Arc<Member>,
        own_node: OwnNode,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        // Who tries does not come in a crowd, and one that waits has the time.
        let _permit = if wait == WaitMode::Queue { Some(member.session.read_permit().await?) } else { None };
        let sent = self.keeper.now();
        if wait == WaitMode::Queue
            && let Some(snapshot) = member.snapshot(&own_node)
        {
            if let Some(standing) = self.wait_behind(member, &own_node, snapshot, sent).await? {
                return Ok(standing);
            }
            member.set_snapshot(None);
        }
        let mut queue = self.queue_view(&member.session, &member.lock).await?;
        loop {
            let Some(ahead) = queue.ahead_of(member.entry.id, member.entry.claim) else {
                self.sessions.mark_gone(member);
                return Ok(Standing::Gone);
            };
            if !member.is_checked() {
                if let Some(mismatched) = self.mismatch(&ahead) {
                    self.sessions.remove_entry(member).await?;
                    return Err(mismatched);
                }
                member.mark_accepted();
            }
            if ahead.admits() {
                return Ok(admitted(member, &own_node, sent, self.keeper.now()));
            }
            if wait == WaitMode::Try {
                self.sessions.remove_entry(member).await?;
                return Ok(Standing::Busy);
            }
            let snapshot = Snapshot::new(own_node.token, &ahead, member.entry.claim);
            match self.wait_behind(member, &own_node, snapshot, sent).await? {
                Some(standing) => return Ok(standing),
                // Somebody left between the look and the watches.
                None => queue = self.queue_view(&member.session, &member.lock).await?,
            }
        }
    }

    /// Everybody in the queue.
    pub(crate) async fn queue_view(&self, session: &Session, lock: &str) -> Result<QueueView, BackendError> {
        session::read_queue(self.sessions.keys(), session, lock).await
    }

    fn mismatch(&self, ahead: &EntriesAhead<'_>) -> Option<BackendError> {
        let first = ahead.mismatched()?;
        let (found_kind, found_limit) = (first.claim.kind(), first.claim.limit());
        let message = format!("the first in the queue is {}", first.claim);
        Some(self.failure(Kind::ClaimMismatch { found_kind, found_limit }, &message).into())
    }
}

fn admitted(member: &Member, own_node: &OwnNode, sent: BootTime, now: BootTime) -> Standing {
    if !member.refresh(sent) || !member.session.is_alive(now) {
        return Standing::Gone;
    }
    member.mark_admitted();
    Standing::Admitted {
        token: own_node.token,
        ttl: member.session.granted(),
        valid_until: member.session.valid_until(sent, member.entry.ttl),
    }
}
