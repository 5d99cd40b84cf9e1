//! [`HeldKey`]: a condition by which etcd itself checks that a lock is held.

use lock_core::Hold;

use crate::Etcd;

/// A key that exists with its create revision exactly as long as a lock is held. A transaction that compares both succeeds
/// only while the lock is held, because etcd checks that in the same step as it writes. See [`Etcd::held`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    key: Vec<u8>,
    create_revision: i64,
}

impl HeldKey {
    /// The key of the entry that holds the lock. While that entry exists, nothing writes the key again; later it may belong to another entry.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The create revision to compare. It distinguishes this life of the key from all others.
    #[must_use]
    pub fn create_revision(&self) -> i64 {
        self.create_revision
    }
}

impl Etcd {
    /// The condition for your own transactions on the same cluster that have to succeed only while the lock is held. `None` if
    /// this backend already knows that the lock is not held.
    ///
    /// With it, the store itself checks the fencing token: a holder that was paused past its lease, and writes only
    /// afterwards, writes nothing. It needs no clock, and no trust in the holder's clock. Add it to your own conditions; see
    /// `examples/etcd_fenced_write.rs`.
    ///
    /// ```no_run
    /// # async fn example(etcd: &lock_etcd::Etcd, guard: &lock_core::Guard, mut client: etcd_client::Client)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use etcd_client::{Compare, CompareOp, Txn, TxnOp};
    ///
    /// let held = etcd.held(&guard.hold()).ok_or("the lock is lost")?;
    /// let still_held = Compare::create_revision(held.key(), CompareOp::Equal, held.create_revision());
    /// let write = Txn::new().when([still_held]).and_then([TxnOp::put("balance", "100", None)]);
    /// if !client.txn(write).await?.succeeded() {
    ///     return Err("the lock was lost: nothing was written".into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn held(&self, hold: &Hold) -> Option<HeldKey> {
        let member = self.sessions.find(hold.entry_id())?;
        // The create revision identifies one life of an entry (H107), and fits in an i64.
        let token = i64::try_from(hold.token().get()).ok()?;
        let create_revision = member.token().filter(|found| *found == token)?;
        Some(HeldKey { key: member.key.clone(), create_revision })
    }
}
