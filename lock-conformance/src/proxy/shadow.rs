//! [`Shadow`]: the connection on which everything arrives once more.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long an answer to a request that came twice is waited for. What is not answered at once is answered later, or never.
const PATIENCE: Duration = Duration::from_millis(200);

/// A second connection to the server, whose answers nobody gets.
pub(super) struct Shadow {
    server: tokio::sync::Mutex<TcpStream>,
    noted: Mutex<Vec<u8>>,
}

impl Shadow {
    pub(super) fn new(server: TcpStream) -> Self {
        Self { server: tokio::sync::Mutex::new(server), noted: Mutex::default() }
    }

    /// Takes note of what is to be sent once more.
    pub(super) fn note(&self, bytes: &[u8]) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
    }

    /// Sends what was noted, and returns when the server has answered.
    pub(super) async fn repeat(&self) {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        if noted.is_empty() {
            return;
        }
        let mut server = self.server.lock().await;
        let mut answer = vec![0; 16 * 1024];
        // What it said unasked is no answer.
        while server.try_read(&mut answer).is_ok_and(|len| len > 0) {}
        // It may be gone, which is as if nothing had come twice.
        let _ = server.write_all(&noted).await;
        let _ = timeout(PATIENCE, server.read(&mut answer)).await;
    }
}
