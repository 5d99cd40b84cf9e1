//! [`StartedServer`]: a server that is started for the benchmark, on free ports of the loopback interface.

use super::{port::Port, server_process::ServerProcess};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct StartedServer {
    // First: it ends before its ports are for others.
    process: ServerProcess,
    address: String,
    version: String,
    #[expect(dead_code, reason = "they are kept for as long as the server runs")]
    ports: Vec<Port>,
}

impl StartedServer {
    /// A server that answers at `host:port`.
    pub(super) fn new(process: ServerProcess, address: String, version: String, ports: Vec<Port>) -> Self {
        Self { process, address, version, ports }
    }

    /// `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}
