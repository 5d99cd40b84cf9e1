//! Extending leases.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::{join, join_all};
use lock_core::{BackendError, BootTime, FencingToken, Lease, Renewal};
use zookeeper_client::Stat;

use super::zookeeper::ZooKeeper;
use crate::{
    error::Failure,
    keys::entry_node::token,
    session::{Member, Session},
};

/// A lease to extend, and its index in the request.
struct DueLease {
    index: usize,
    member: Arc<Member>,
    node: String,
    token: FencingToken,
}

impl ZooKeeper {
    /// A session that is proved alive keeps all its entries, except those whose nodes were deleted: so each node is looked at (PR18).
    pub(crate) async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let now = self.keeper.now();
        let mut answers: Vec<_> = leases.iter().map(|_| Ok(Renewal::Lost)).collect();
        let mut sessions: BTreeMap<i64, Vec<DueLease>> = BTreeMap::new();
        for (index, lease) in leases.iter().enumerate() {
            let member = self.sessions.find(lease.entry.id).filter(|member| member.is_alive(now));
            // The same id under another name is another entry.
            let same = |member: &Arc<Member>| member.entry.name == lease.entry.name;
            let Some(member) = member.filter(same) else { continue };
            if let Some(own_node) = member.own_node().filter(|own_node| own_node.token == lease.token) {
                let due = DueLease { index, member, node: own_node.name, token: own_node.token };
                sessions.entry(due.member.session.id).or_default().push(due);
            }
        }
        let batches = sessions.values().map(|dues| self.renew_session(dues));
        for (index, answer) in join_all(batches).await.into_iter().flatten() {
            answers[index] = answer;
        }
        answers
    }

    async fn renew_session(&self, dues: &[DueLease]) -> Vec<(usize, Result<Renewal, BackendError>)> {
        let Some(session) = dues.first().map(|due| Arc::clone(&due.member.session)) else {
            return Vec::new();
        };
        let Ok(client) = session.client() else {
            return dues.iter().map(|due| (due.index, Ok(Renewal::Lost))).collect();
        };
        let sent = self.keeper.now();
        let paths: Vec<_> = dues.iter().map(|due| due.member.sibling_path(&due.node)).collect();
        // The looks are sent after the heartbeat, so they show the state in which the heartbeat was carried out, or a later one. Otherwise
        // a server that is cut off from the others might show an old state (F3). The heartbeat is sent however recent the last one is: the
        // next renewal counts at least from this one (PR28).
        // The client sends a request when its method is called, and not when the future is polled. So each look is in an async block of its
        // own, and the heartbeat, which is polled first, is sent first.
        let (client, session) = (&*client, &session);
        let looks = paths
            .iter()
            .map(|path| async move { session.answer("a renewal", client.check_stat(path)).await });
        let (proof, found) =
            join(session.heartbeat(self.config.server.command_timeout), join_all(looks)).await;
        dues.iter()
            .zip(found)
            .map(|(due, found)| (due.index, self.renewed(due, session, sent, &proof, found)))
            .collect()
    }

    fn renewed(
        &self,
        due: &DueLease,
        session: &Session,
        sent: BootTime,
        proof: &Result<Stat, Failure>,
        found: Result<Option<Stat>, Failure>,
    ) -> Result<Renewal, BackendError> {
        if !session.is_alive(self.keeper.now()) {
            return Ok(Renewal::Lost);
        }
        match found? {
            Some(found) if token(found.czxid) == due.token => {}
            _ => {
                self.sessions.mark_gone(&due.member);
                return Ok(Renewal::Lost);
            }
        }
        if let Err(failure) = proof {
            return Err(failure.clone().into());
        }
        if !due.member.refresh(sent) {
            return Ok(Renewal::Lost);
        }
        Ok(Renewal::Renewed { valid_until: session.valid_until(sent, due.member.entry.ttl) })
    }
}
