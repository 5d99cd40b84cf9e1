//! Conditions that hold only while a lock is held.

use etcd_client::{Compare, CompareOp};
use lock_core::Hold;

use crate::{Etcd, keys};

impl Etcd {
    /// Conditions for a transaction of yours on the same cluster, which then succeeds only while the lock is held.
    ///
    /// This is the fencing token checked by the store itself: a holder that was paused past its lease, and writes only
    /// now, writes nothing. It needs no clock and no trust in the holder's. Add them to your own conditions; see
    /// `examples/etcd_fenced_write.rs`.
    ///
    /// For a lock that is lost or released already they are conditions that never hold.
    ///
    /// ```no_run
    /// # async fn example(etcd: &lock_etcd::Etcd, guard: &lock_core::Guard, mut client: etcd_client::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use etcd_client::{Txn, TxnOp};
    ///
    /// let write = Txn::new().when(etcd.held(&guard.hold())).and_then([TxnOp::put("balance", "100", None)]);
    /// if !client.txn(write).await?.succeeded() {
    ///     return Err("the lock was lost: nothing was written".into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held(&self, hold: &Hold) -> Vec<Compare> {
        let member = self.sessions.find(hold.entry_id());
        let key = member.map_or_else(|| keys::nobody(&self.config.prefix), |member| member.key.clone());
        // A life of an entry is told by its create revision (H107), and no revision is beyond i64.
        let token = i64::try_from(hold.token().get()).unwrap_or(i64::MAX);
        vec![Compare::create_revision(key, CompareOp::Equal, token)]
    }
}
