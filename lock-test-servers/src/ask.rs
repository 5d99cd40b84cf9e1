//! [`ask`]: sends a request that is one text, and reads the answer.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The answer of the server at `host:port` to a request, until the server closes the connection.
///
/// # Errors
/// If it does not answer, or the answer is no text.
pub async fn ask(address: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The answer of the server at `host:port` to `GET path`, including the headers.
///
/// # Errors
/// As [`ask`].
pub async fn http_get(address: &str, path: &str) -> io::Result<String> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")).await
}
