//! Finds out whether a port speaks TLS.
//!
//! The probe uses its own connection, which sends no credentials and ends with the answer. The answer is not trusted: it only decides
//! what an error tells to change.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, crypto::ring, pki_types::ServerName,
};

/// The first byte of a TLS server that continues the handshake.
const HANDSHAKE: u8 = 0x16;

/// The first byte of a TLS server that refuses its client.
pub(super) const ALERT: u8 = 0x15;

/// The second byte of every TLS record: its major version.
const VERSION: u8 = 3;

/// Whether a Redis server answers without TLS.
pub(super) async fn is_plain(mut socket: TcpStream) -> io::Result<bool> {
    socket.write_all(b"PING\r\n").await?;
    // `+PONG`, or a refusal: without a password, of all clients, or while the server loads its data.
    Ok(matches!(first_bytes(&mut socket).await?, [b'+', b'P'] | [b'-', b'A'..=b'Z']))
}

/// Whether the server answers with TLS.
pub(super) async fn is_tls(mut socket: TcpStream, host: &str) -> io::Result<bool> {
    socket.write_all(&client_hello(host)?).await?;
    Ok(matches!(first_bytes(&mut socket).await?, [HANDSHAKE | ALERT, VERSION]))
}

async fn first_bytes(socket: &mut TcpStream) -> io::Result<[u8; 2]> {
    let mut bytes = [0; 2];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The first message of a TLS client. The client trusts no certificate, because the handshake does not continue.
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
