//! [`close_session`]: closes a session of another client.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How often the session is attached again, if its client comes back before the close is sent.
const TRIES: usize = 100;

/// Closes a session over another connection, as if its client had reconnected and closed it. When this returns, the server has
/// confirmed that the session has ended.
pub(super) async fn close_session(address: &str, session: i64) -> io::Result<()> {
    for _ in 0..TRIES {
        if close_once(address, session).await? {
            return Ok(());
        }
    }
    Err(io::Error::other(format!("its client was quicker {TRIES} times")))
}

/// True if the session has ended. The server drops the connection of a client when its session is attached from elsewhere. If the client
/// comes back immediately, it drops ours, and the close may not have been read.
async fn close_once(address: &str, session: i64) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let mut hello = Vec::new();
    hello.extend(0_i32.to_be_bytes()); // version of the protocol
    hello.extend(0_i64.to_be_bytes()); // the last transaction seen
    hello.extend(10_000_i32.to_be_bytes()); // timeout, in milliseconds
    hello.extend(session.to_be_bytes());
    hello.extend(16_i32.to_be_bytes());
    hello.extend(password(session));
    let goodbye = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
    send(&mut stream, &[hello, goodbye]).await?;
    let Some(welcome) = receive(&mut stream).await? else { return Ok(false) };
    if welcome.get(8..16) != Some(&session.to_be_bytes()) {
        // The server knows no such session.
        return Ok(true);
    }
    Ok(receive(&mut stream).await?.is_some())
}

/// Sends all in one write, so that the client has little time in between.
async fn send(stream: &mut TcpStream, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.extend(u32::try_from(message.len()).expect("messages here are short").to_be_bytes());
        bytes.extend(message);
    }
    match stream.write_all(&bytes).await {
        Err(error) if is_over(&error) => Ok(()),
        sent => sent,
    }
}

/// The next message, or `None` if the server has closed the connection.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let received = async {
        let len = stream.read_u32().await?;
        let mut bytes = vec![0; len as usize];
        stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    };
    match received.await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_over(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The password that a server gives to a session: the first bytes of Java's generator of random numbers, whose seed is made
/// of the number of the session and a constant.
fn password(session: i64) -> [u8; 16] {
    const SECRET: i64 = 0xB341_5C00;
    const FACTOR: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session ^ SECRET).cast_unsigned() ^ FACTOR) & MASK;
    let mut password = [0; 16];
    for bytes in password.chunks_mut(4) {
        state = state.wrapping_mul(FACTOR).wrapping_add(0xB) & MASK;
        bytes.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    password
}
