//! What is spoken at a port: TLS, or not.
//!
//! It is asked on a connection of its own, which ends with the answer and is told no credentials. Nobody trusts the answer: it only makes
//! an error say what to change.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, crypto::ring, pki_types::ServerName,
};

/// What the first record of a server with TLS begins with, if it goes on.
const HANDSHAKE: u8 = 0x16;

/// The same if it refuses its client.
pub(super) const ALERT: u8 = 0x15;

/// The version that all records have in their second byte.
const VERSION: u8 = 3;

/// Whether a server of ours answers without TLS.
pub(super) async fn is_plain(mut socket: TcpStream) -> io::Result<bool> {
    socket.write_all(b"PING\r\n").await?;
    // `+PONG`, or a refusal: of clients without a password, of all clients, or while it loads.
    Ok(matches!(first_bytes(&mut socket).await?, [b'+', b'P'] | [b'-', b'A'..=b'Z']))
}

/// Whether a server answers with TLS.
pub(super) async fn is_tls(mut socket: TcpStream, host: &str) -> io::Result<bool> {
    socket.write_all(&client_hello(host)?).await?;
    Ok(matches!(first_bytes(&mut socket).await?, [HANDSHAKE | ALERT, VERSION]))
}

async fn first_bytes(socket: &mut TcpStream) -> io::Result<[u8; 2]> {
    let mut bytes = [0; 2];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// What a client with TLS says first. It trusts nobody, for it does not go on.
fn client_hello(host: &str) -> io::Result<Vec<u8>> {
    let nameless = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let name = ServerName::try_from(host.to_owned()).map_err(nameless)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut hello = Vec::new();
    client.write_tls(&mut hello)?;
    Ok(hello)
}
