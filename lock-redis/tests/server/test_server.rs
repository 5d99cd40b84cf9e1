//! [`TestServer`]: a server of the test alone, which may be killed and emptied.

use async_trait::async_trait;
use lock_conformance::{Control, Data, Footprint, ServerControl, ServerProcess, Unsupported};
use lock_core::{FencingToken, LockName};
use lock_test_servers::RedisServer;

use super::Admin;

/// A server process on a port of its own, with a directory of its own. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct TestServer {
    server: RedisServer,
    keeps_data: bool,
    admin: Admin,
}

impl TestServer {
    /// Starts a server, and returns when it answers.
    pub(crate) async fn start(keeps_data: bool) -> Self {
        // It writes its data only if it is to find it again: a disk that others keep busy would stop it. What was written
        // outlives a kill of the process, and the operating system is not killed.
        let appendonly = if keeps_data { "yes" } else { "no" };
        let server = RedisServer::start(&["--appendonly", appendonly, "--appendfsync", "no"]).await;
        let admin = Admin::new(&server.url(), "", "");
        Self { server, keeps_data, admin }
    }

    /// The same server, with an operator who looks under a prefix.
    pub(crate) fn with_admin(mut self, admin: Admin) -> Self {
        self.admin = admin;
        self
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    fn allow_clients(&self, allowed: bool) -> Control {
        let theirs = self.admin.allow_user(allowed);
        if theirs { Ok(()) } else { Err(Unsupported("its clients have no user of their own")) }
    }
}

#[async_trait]
impl ServerControl for TestServer {
    async fn kill(&self) -> Control {
        self.server.process().kill();
        Ok(())
    }

    async fn stop(&self) -> Control {
        // It closes the connection instead of answering.
        let _ = self.admin.try_command(&redis::cmd("SHUTDOWN"));
        self.server.process().kill();
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        if data == Data::Kept && !self.keeps_data {
            return Err(Unsupported("it was not started so that it keeps its data"));
        }
        if data == Data::Lost {
            self.server.wipe();
        }
        self.server.restart().await;
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.server.process().running(ServerProcess::pause);
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.server.process().running(ServerProcess::resume);
        Ok(())
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.admin.delete(name);
        Ok(())
    }

    async fn flush(&self) -> Control {
        self.admin.command(&redis::cmd("FLUSHALL"));
        Ok(())
    }

    async fn forget(&self) -> Control {
        self.admin.command(redis::cmd("SCRIPT").arg("FLUSH"));
        Ok(())
    }

    async fn fill(&self) -> Control {
        self.admin.limit_memory(1);
        Ok(())
    }

    async fn make_room(&self) -> Control {
        self.admin.limit_memory(0);
        Ok(())
    }

    async fn evict(&self) -> Control {
        self.admin.evict_all();
        Ok(())
    }

    async fn lock_out(&self) -> Control {
        self.allow_clients(false)
    }

    async fn let_in(&self) -> Control {
        self.allow_clients(true)
    }

    async fn put_foreign(&self, name: &LockName) -> Control {
        self.admin.put_foreign(name);
        Ok(())
    }

    async fn has_foreign(&self, name: &LockName) -> Result<bool, Unsupported> {
        Ok(self.admin.has_foreign(name))
    }

    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        self.admin.raise_tokens(name, last);
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        Ok(self.admin.footprint(true))
    }

    async fn cut_notifications(&self) -> Control {
        self.admin.cut_notifications();
        Ok(())
    }
}
