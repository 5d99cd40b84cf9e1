//! Whether keys exist, and since when.

use etcd_client::{
    GetOptions, GetResponse, KeyValue, ResponseHeader, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::FencingToken;

use crate::error::{Failure, misunderstood};

/// The data from which a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// What the asked member has applied. It does not ask other members.
    WhatAMemberHas,
    /// What the cluster has agreed on by the time of the read.
    TheLatest,
}

/// Asks whether a key exists.
pub(crate) fn is_there(key: &[u8], reads: Reads) -> Txn {
    let options = GetOptions::new().with_keys_only();
    let options = match reads {
        Reads::WhatAMemberHas => options.with_serializable(),
        Reads::TheLatest => options,
    };
    Txn::new().and_then([TxnOp::get(key, Some(options))])
}

/// Asks whether these keys exist: at most 100, because etcd allows 128 operations in a transaction (PR18).
pub(crate) fn are_there<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Txn {
    let looks: Vec<_> = keys.into_iter().map(presence_of).collect();
    Txn::new().and_then(looks)
}

pub(crate) fn presence_of(key: &[u8]) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// Reads the answer to [`are_there`]: the create revision of each entry that exists.
pub(crate) fn present(answer: &TxnResponse) -> Vec<Option<i64>> {
    let created = |op| match op {
        TxnOpResponse::Get(get) => GetResponse::kvs(&get).first().map(KeyValue::create_revision),
        _ => None,
    };
    answer.op_responses().into_iter().map(created).collect()
}

/// Reads the answer to [`are_there`] for entries that were seen ahead of `place` or at it: the revision of the answer, if
/// all still are the same entries. A deleted key may belong to a later entry by now.
pub(crate) fn all_stand(answer: &TxnResponse, keys: usize, place: i64) -> Result<Option<i64>, Failure> {
    let present = present(answer);
    let stand = present.iter().filter(|created| created.is_some_and(|created| created <= place)).count();
    Ok(if stand == keys && present.len() == keys { Some(revision(answer)?) } else { None })
}

/// Reads the answer to [`is_there`]: whether an entry has existed from its create revision to this revision, or longer.
/// `None` if that is unknown, because the answer is older.
pub(crate) fn stands_since(answer: &TxnResponse, token: FencingToken, revision: i64) -> Option<bool> {
    if self::revision(answer).ok()? < revision {
        return None;
    }
    Some(present(answer).first().copied().flatten().map(token_of) == Some(token))
}

/// The revision of the store at which a transaction was answered.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64, Failure> {
    answer.header().map(ResponseHeader::revision).ok_or_else(|| misunderstood("a transaction"))
}

/// A create revision as a token. Revisions are positive.
pub(crate) fn token_of(create_revision: i64) -> FencingToken {
    FencingToken::new(create_revision.unsigned_abs())
}
