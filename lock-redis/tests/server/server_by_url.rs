//! [`ServerByUrl`]: a server that the test did not start, and that may have other users.

use async_trait::async_trait;
use lock_conformance::{Control, Footprint, NOT_OURS, ServerControl, Unsupported};
use lock_core::{FencingToken, LockName};

use super::Admin;

/// A server that is only known by its URL. It supports only the operations on keys with the prefix of the case, which nobody else uses.
#[derive(Debug)]
pub(crate) struct ServerByUrl(Admin);

impl ServerByUrl {
    /// The server of this operator.
    pub(crate) fn new(admin: Admin) -> Self {
        Self(admin)
    }
}

/// Counters of tokens have no expiry.
impl Drop for ServerByUrl {
    fn drop(&mut self) {
        self.0.delete_counters();
    }
}

#[async_trait]
impl ServerControl for ServerByUrl {
    fn refusal(&self) -> Unsupported {
        Unsupported(NOT_OURS)
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.0.delete(name);
        Ok(())
    }

    async fn forget(&self) -> Control {
        self.0.command(redis::cmd("SCRIPT").arg("FLUSH"));
        Ok(())
    }

    async fn put_foreign(&self, name: &LockName) -> Control {
        self.0.put_foreign(name);
        Ok(())
    }

    async fn has_foreign(&self, name: &LockName) -> Result<bool, Unsupported> {
        Ok(self.0.has_foreign(name))
    }

    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        self.0.raise_tokens(name, last);
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        Ok(self.0.footprint(false))
    }

    async fn cut_notifications(&self) -> Control {
        self.0.cut_notifications();
        Ok(())
    }
}
