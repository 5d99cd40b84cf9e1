//! [`Impostor`]: a server to which clients must not send anything.

use std::{
    io::{self, Read},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lock_core::sync::{Mutex, MutexGuard};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned, crypto::ring::default_provider,
    pki_types::PrivatePkcs8KeyDer, version::TLS13,
};

use crate::{
    SLACK,
    certificates::{Authority, Issued},
};

/// A server on a local port that records what it receives, and sends nothing beyond the TLS handshake.
///
/// Its thread runs until the process ends.
#[derive(Debug)]
pub struct Impostor {
    port: u16,
    notes: Arc<Notes>,
}

/// What it has recorded.
#[derive(Debug, Default)]
struct Notes {
    heard: Mutex<Vec<u8>>,
    clients: AtomicUsize,
}

impl Impostor {
    /// A server with this certificate.
    ///
    /// # Panics
    /// If the certificate cannot be used, or there is no free port.
    #[must_use]
    pub fn with(issued: &Issued) -> Self {
        let key = PrivatePkcs8KeyDer::from(issued.key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider knows TLS 1.3");
        let mut config = config
            .with_no_client_auth()
            .with_single_cert(vec![issued.certificate.der().clone()], key.into())
            .expect("a certificate that was just made can be shown");
        // HTTP/2 clients insist on it; others do not offer any.
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::listen(Some(Arc::new(config)))
    }

    /// A server without TLS.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn without_tls() -> Self {
        Self::listen(None)
    }

    /// Servers that a client which only trusts `authority` must not accept as `localhost`, each with what is wrong with it.
    ///
    /// # Panics
    /// As [`with`](Self::with) does.
    #[must_use]
    pub fn all(authority: &Authority) -> Vec<(&'static str, Self)> {
        let other = Authority::new("somebody else's");
        let with = |issued: Issued| Self::with(&issued);
        vec![
            ("its certificate has expired", with(authority.issue_expired(&["localhost"]))),
            ("its certificate is of another authority", with(other.issue(&["localhost"]))),
            ("its certificate is of no authority", with(Issued::by_nobody(&["localhost"]))),
            ("its certificate is for another host", with(authority.issue(&["elsewhere"]))),
            ("its certificate is for an address", with(authority.issue(&["127.0.0.1"]))),
        ]
    }

    /// Where it listens, on `localhost`.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Checks that clients have connected, and that none of them sent anything. `what` describes the server.
    ///
    /// # Panics
    /// If nobody connected, or somebody sent something.
    pub fn assert_heard_nothing(&self, what: &str) {
        assert!(self.notes.clients.load(Ordering::Acquire) > 0, "{what}: nobody came");
        assert_eq!(String::from_utf8_lossy(&self.notes.lock()), "", "{what}");
    }

    /// What clients have sent; with TLS, the decrypted application data.
    #[must_use]
    pub fn heard(&self) -> Vec<u8> {
        self.notes.lock().clone()
    }

    fn listen(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let port = listener.local_addr().expect("it listens").port();
        let notes = Arc::<Notes>::default();
        let theirs = Arc::clone(&notes);
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (tls, notes) = (tls.clone(), Arc::clone(&theirs));
                notes.clients.fetch_add(1, Ordering::AcqRel);
                // A client that refuses the certificate ends with an error, as it should.
                thread::spawn(move || notes.take(socket, tls));
            }
        });
        Self { port, notes }
    }
}

impl Notes {
    fn take(&self, socket: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
        socket.set_read_timeout(Some(SLACK + Duration::from_secs(10)))?;
        let mut client: Box<dyn Read> = match tls {
            Some(tls) => {
                let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, socket))
            }
            None => Box::new(socket),
        };
        let mut bytes = [0; 4096];
        loop {
            match client.read(&mut bytes)? {
                0 => return Ok(()),
                len => self.lock().extend_from_slice(&bytes[..len]),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.heard.lock()
    }
}
