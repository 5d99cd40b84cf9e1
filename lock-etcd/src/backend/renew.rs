//! Extending leases.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use lock_core::{BackendError, Lease, Renewal};

use crate::{
    Etcd,
    error::Failure,
    queue,
    session::{Member, Session},
};

/// How many entries are looked for in one transaction: etcd allows 128 operations (PR18).
const LOOKED_FOR_AT_ONCE: usize = 100;

/// A lease that may be extended, and its index in the request.
struct DueLease {
    index: usize,
    member: Arc<Member>,
    ttl: Duration,
    token: i64,
}

impl Etcd {
    /// A session that is proved alive keeps all its entries, except those that an operator deleted. So each entry is looked for.
    pub(crate) async fn renew_all(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let now = self.keeper.now();
        let mut answers: Vec<_> = leases.iter().map(|_| Ok(Renewal::Lost)).collect();
        let mut sessions: BTreeMap<i64, Vec<DueLease>> = BTreeMap::new();
        for (index, lease) in leases.iter().enumerate() {
            let token = i64::try_from(lease.token.get()).unwrap_or(i64::MAX);
            let member = self.sessions.find(lease.entry.id).filter(|member| member.is_alive(now));
            // The member's key is that of the entry as it was created. Another name with the same id is another entry.
            let same = |member: &Arc<Member>| member.entry.name == lease.entry.name;
            if let Some(member) = member.filter(same) {
                let due = DueLease { index, member, ttl: lease.entry.ttl, token };
                sessions.entry(due.member.session.lease()).or_default().push(due);
            }
        }
        let batches = sessions.values().map(|due_leases| self.renew_session(due_leases));
        for (index, answer) in join_all(batches).await.into_iter().flatten() {
            answers[index] = answer;
        }
        answers
    }

    async fn renew_session(&self, due_leases: &[DueLease]) -> Vec<(usize, Result<Renewal, BackendError>)> {
        let Some(session) = due_leases.first().map(|due| Arc::clone(&due.member.session)) else {
            return Vec::new();
        };
        let least = due_leases.iter().map(|due| due.ttl).min().unwrap_or_default();
        let age = if session.is_private() { Duration::ZERO } else { least / 6 };
        let looks = join_all(due_leases.chunks(LOOKED_FOR_AT_ONCE).map(|some| self.look_for(some)));
        let sent = self.keeper.now();
        let (proof, found) = join(session.prove(&self.client, age), looks).await;
        due_leases
            .iter()
            .zip(found.into_iter().flatten())
            .map(|(due, found)| (due.index, self.renewed(due, &session, sent, &proof, found)))
            .collect()
    }

    fn renewed(
        &self,
        due: &DueLease,
        session: &Session,
        sent: lock_core::BootTime,
        proof: &Result<(), Failure>,
        found: Result<Option<i64>, Failure>,
    ) -> Result<Renewal, BackendError> {
        if !session.is_alive(self.keeper.now()) {
            return Ok(Renewal::Lost);
        }
        match found? {
            Some(found) if found == due.token => {}
            found => {
                if found.is_none() && due.member.token() == Some(due.token) {
                    self.sessions.mark_gone(&due.member);
                }
                return Ok(Renewal::Lost);
            }
        }
        if let Err(failure) = proof {
            return Err(failure.clone().into());
        }
        if !due.member.refresh(sent) {
            return Ok(Renewal::Lost);
        }
        Ok(Renewal::Renewed { valid_until: session.valid_until(due.ttl) })
    }

    /// The create revision of each entry that exists.
    async fn look_for(&self, due_leases: &[DueLease]) -> Vec<Result<Option<i64>, Failure>> {
        let txn = || queue::are_there(due_leases.iter().map(|due| due.member.key.as_slice()));
        match self.client.txn(txn).await.answer {
            Ok(answer) => {
                let mut found = queue::present(&answer).into_iter();
                due_leases.iter().map(|_| Ok(found.next().flatten())).collect()
            }
            Err(failure) => due_leases.iter().map(|_| Err(failure.clone())).collect(),
        }
    }
}
