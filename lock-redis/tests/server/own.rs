//! [`OwnServer`]: a server of the test alone, which may be killed and emptied.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_conformance::{Control, Data, Footprint, Port, ServerControl, Unsupported};
use lock_core::{
    FencingToken, LockName,
    sync::{Mutex, MutexGuard},
};

use super::Admin;
use crate::common::process::{Process, Start};

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server process on a port of its own, with a directory of its own. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct OwnServer {
    port: Port,
    directory: PathBuf,
    keeps_data: bool,
    process: Mutex<Option<Process>>,
    admin: Admin,
}

impl OwnServer {
    /// Starts a server, and returns when it answers.
    pub(crate) async fn start(keeps_data: bool) -> Self {
        loop {
            let port = Port::reserve();
            let directory = std::env::temp_dir().join(format!("distlock-redis-{port}-{}", super::unique()));
            fs::create_dir(&directory).expect("a directory for the server can be made");
            let admin = Admin::new(&format!("redis://127.0.0.1:{port}/0"), "", "");
            let server = Self { port, directory, keeps_data, process: Mutex::default(), admin };
            if server.launch().await {
                return server;
            }
        }
    }

    /// The same server, with an operator who looks under a prefix.
    pub(crate) fn with_admin(mut self, admin: Admin) -> Self {
        self.admin = admin;
        self
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns when the server answers, or, with `false`, when somebody else has taken its port.
    async fn launch(&self) -> bool {
        // It writes its data only if it is to find it again: a disk that others keep busy would stop it. What was written
        // outlives a kill of the process, and the operating system is not killed.
        let keeps_data = if self.keeps_data { "yes" } else { "no" };
        let arguments = ["--appendonly", keeps_data, "--appendfsync", "no"].map(str::to_owned);
        *self.process() = Some(Process::start(self.port(), &self.directory, &arguments));
        let end = Instant::now() + PATIENCE;
        loop {
            match self.look() {
                (Start::Done, _) => return true,
                (Start::InVain, _) => return false,
                (Start::NotYet, log) => assert!(Instant::now() < end, "the server did not start:\n{log}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn look(&self) -> (Start, String) {
        let process = self.process();
        let process = process.as_ref().expect("the server was started");
        (process.look(self.admin.client()), process.log())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock()
    }

    fn allow_clients(&self, allowed: bool) -> Control {
        let theirs = self.admin.allow_user(allowed);
        if theirs { Ok(()) } else { Err(Unsupported("its clients have no user of their own")) }
    }

    fn running(&self, order: impl FnOnce(&Process)) {
        order(self.process().as_ref().expect("the server runs"));
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        drop(self.process().take());
        // What is left in a temporary directory harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[async_trait]
impl ServerControl for OwnServer {
    async fn kill(&self) -> Control {
        drop(self.process().take());
        Ok(())
    }

    async fn stop(&self) -> Control {
        // It closes the connection instead of answering.
        let _ = self.admin.try_command(&redis::cmd("SHUTDOWN"));
        drop(self.process().take());
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        if data == Data::Kept && !self.keeps_data {
            return Err(Unsupported("it was not started so that it keeps its data"));
        }
        if data == Data::Lost {
            fs::remove_dir_all(&self.directory).expect("the data of our own server can be removed");
            fs::create_dir(&self.directory).expect("a directory for the server can be made");
        }
        let end = Instant::now() + PATIENCE;
        while !self.launch().await {
            assert!(Instant::now() < end, "the port of the server was taken while it was down");
        }
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.running(Process::pause);
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.running(Process::resume);
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
