//! [`ask`]: what a server says to a request that is one text.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What the server at `host:port` answers to a request, up to where it closes the connection.
///
/// # Errors
/// If it does not answer, or with something that is no text.
pub async fn ask(address: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What the server at `host:port` answers to `GET path`, with the head of its answer.
///
/// # Errors
/// As [`ask`].
pub async fn http_get(address: &str, path: &str) -> io::Result<String> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")).await
}
