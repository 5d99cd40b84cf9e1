//! Facts about the cluster, and what is wrong with it for locks.

use std::collections::BTreeSet;

use etcd_client::{Compare, CompareOp, GetOptions, StatusResponse, Txn, TxnOp};
use futures_util::future::join_all;
use lock_core::{BackendError, BackendErrorKind as Kind, Diagnosis, excerpt};

use crate::{
    Etcd,
    error::Failure,
    keys,
    version::{Version, floor},
};

/// A database that is fuller than this will soon accept no more writes.
const NEARLY_FULL_PERCENT: i64 = 80;

/// Whether a member answers, is new enough, takes our credentials, and lets us read and write under the prefix. Writes
/// nothing: the condition of the transaction cannot hold, but permissions are checked for all that it could do.
pub(crate) async fn check(etcd: &Etcd) -> Result<(), BackendError> {
    let handle = etcd.client.connection().await?;
    let status = etcd.client.call(|channel| {
        let mut maintenance = channel.client().maintenance_client();
        async move { maintenance.status().await }
    });
    let status = status.await?;
    drop(handle);
    if Version::parse(status.version()).is_some_and(|version| !version.is_supported()) {
        let version = excerpt(format_args!("{}", status.version()));
        let message = format!("version {version} is too old: use 3.4.42 or later");
        return Err(etcd.backend_error(Failure::new(Kind::Unsupported, message).advised()));
    }
    let prefix = &etcd.config.prefix;
    let (queues, end) = keys::starting_with(prefix, "");
    let never = Compare::create_revision(queues.clone(), CompareOp::Less, 0);
    let session = keys::session(prefix, 0);
    let touched = [queues.clone(), session, keys::evictions(prefix)];
    let mut would: Vec<_> = touched.into_iter().map(|key| TxnOp::put(key, Vec::new(), None)).collect();
    would.push(TxnOp::get(queues, Some(GetOptions::new().with_range(end).with_count_only())));
    let asked = Txn::new().when([never]).and_then(would);
    etcd.client.txn(|| asked.clone()).await.answer?;
    Ok(())
}

pub(crate) async fn diagnose(etcd: &Etcd) -> Result<Diagnosis, BackendError> {
    // The member in use has to answer. Members of the list may fail to.
    let channel = std::sync::Arc::clone(&etcd.client.connection().await?.channel);
    let cluster = etcd.client.cluster();
    let limit = etcd.config.server.connect_timeout;
    let asked = (0..etcd.config.endpoints.len()).map(|endpoint| async move {
        let status =
            etcd.keeper.timeout_at(etcd.keeper.now() + limit, cluster.connect_member(endpoint)).await;
        let one = &etcd.config.endpoints[endpoint];
        status.unwrap_or_else(|| Err(Failure::timed_out(one, "a greeting", limit))).map(|(_, status)| status)
    });
    let members: Vec<_> = join_all(asked).await;
    let Some(Ok(used)) = members.get(channel.endpoint) else {
        return Err(Failure::new(Kind::Unreachable, format!("{} has just gone", channel.address)).into());
    };

    let mut diagnosis = Diagnosis::default();
    diagnosis.facts = vec![
        ("store", "etcd".to_owned()),
        ("version", excerpt(format_args!("{}", used.version()))),
        ("cluster", used.header().map_or_else(String::new, |header| format!("{:x}", header.cluster_id()))),
        ("member in use", channel.address.clone()),
        ("leader", format!("{:x}", used.leader())),
        ("revision", used.header().map_or(0, etcd_client::ResponseHeader::revision).to_string()),
        ("endpoints that answer", format!("{} of {}", members.iter().flatten().count(), members.len())),
        ("database bytes", used.db_size().to_string()),
    ];
    for (endpoint, member) in etcd.config.endpoints.iter().zip(&members) {
        match member {
            Ok(status) => member_problems(&mut diagnosis.problems, &endpoint.to_string(), status),
            Err(failure) => diagnosis.problems.push(format!(
                "{endpoint} does not answer ({failure}): start it, or take it from the list of endpoints"
            )),
        }
    }
    cluster_problems(&mut diagnosis.problems, members.iter().flatten());
    Ok(diagnosis)
}

fn member_problems(problems: &mut Vec<String>, address: &str, status: &StatusResponse) {
    let version = excerpt(format_args!("{}", status.version()));
    if let Some(floor) = Version::parse(status.version()).and_then(floor) {
        problems.push(format!(
            "{address} has version {version}, which has faults that concern locks: use {floor} or later"
        ));
    }
    if status.leader() == 0 {
        problems.push(format!(
            "{address} has no leader: see that a majority of the members runs and is connected"
        ));
    }
    if status.is_learner() {
        problems.push(format!("{address} is a learner and serves no locks: promote it, or leave it out"));
    }
    let errors = status.errors().iter();
    problems.extend(errors.map(|error| format!("{address} says: {}", excerpt(format_args!("{error}")))));
    // 3.4 and 3.5 do not report their quota.
    let quota = status.db_size_quota();
    if quota > 0 && status.db_size() > quota / 100 * NEARLY_FULL_PERCENT {
        problems.push(format!(
            "the database of {address} is nearly full: compact and defragment it, or raise its quota, before it takes no \
             more locks"
        ));
    }
}

fn cluster_problems<'a>(problems: &mut Vec<String>, members: impl Iterator<Item = &'a StatusResponse>) {
    let clusters: BTreeSet<_> = members.filter_map(|status| Some(status.header()?.cluster_id())).collect();
    if clusters.len() > 1 {
        problems.push("the endpoints belong to different clusters: list those of only one".to_owned());
    }
}
