//! [`HeldNode`]: lets ZooKeeper itself check that a lock is held.

use lock_core::Hold;

use super::zookeeper::ZooKeeper;

/// The node that exists exactly as long as a lock is held. A `multi` that includes a `check` of it succeeds only while the lock is
/// held, and ZooKeeper decides so in the same step in which it writes. See [`ZooKeeper::held`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldNode {
    path: String,
}

impl HeldNode {
    /// The path of the node, from the root of ZooKeeper, for a client without a chroot.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The version to check. It never changes: nothing writes to the node.
    #[must_use]
    pub fn version(&self) -> i32 {
        0
    }
}

impl ZooKeeper {
    /// The node for a `multi` to check that has to succeed only while the lock is held. `None` if this backend already knows that
    /// the lock is lost.
    ///
    /// ```
    /// # use lock_core::Guard;
    /// # use lock_zk::ZooKeeper;
    /// # use zookeeper_client::Client;
    /// # async fn example(locks: &ZooKeeper, guard: &Guard, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = locks.held(&guard.hold()).ok_or("the lock is lost")?;
    /// let mut write = client.new_multi_writer();
    /// write.add_check_version(held.path(), held.version())?;
    /// write.add_set_data("/balance", b"42", None)?;
    /// write.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// This needs no clock: a holder that was paused until its session had ended writes nothing.
    #[must_use]
    pub fn held(&self, hold: &Hold) -> Option<HeldNode> {
        let member = self.sessions.find(hold.entry_id())?;
        let own_node = member.own_node().filter(|own_node| own_node.token == hold.token())?;
        Some(HeldNode { path: member.sibling_path(&own_node.name) })
    }
}
