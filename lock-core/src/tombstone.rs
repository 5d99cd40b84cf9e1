//! [`tombstone_ttl`]: how long a create may be on its way.

use std::time::Duration;

/// How long a create of an entry with this ttl can arrive after it was sent, and so how long a tombstone refuses it (PR08): for the ttl, and
/// for a minute at the least, which is longer than a store can be slow before clients give up their connections to it.
pub(crate) fn tombstone_ttl(ttl: Duration) -> Duration {
    ttl.max(Duration::from_secs(60))
}
