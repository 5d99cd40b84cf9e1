//! [`close`]: the end of a session of somebody else.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Closes a session over a connection of its own, as if its client had connected anew and said goodbye.
pub(super) async fn close(address: &str, session: i64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let mut hello = Vec::new();
    hello.extend(0_i32.to_be_bytes()); // version of the protocol
    hello.extend(0_i64.to_be_bytes()); // the last transaction seen
    hello.extend(10_000_i32.to_be_bytes()); // timeout, in milliseconds
    hello.extend(session.to_be_bytes());
    hello.extend(16_i32.to_be_bytes());
    hello.extend(password(session));
    send(&mut stream, &hello).await?;
    let welcome = match receive(&mut stream).await {
        // Whose session is just ending is not let in.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        welcome => welcome?,
    };
    if welcome.get(8..16) != Some(&session.to_be_bytes()) {
        return Err(io::Error::other("the session has ended already, or its password is another one"));
    }
    let goodbye = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
    send(&mut stream, &goodbye).await?;
    // Answered, or the connection is closed, when it is carried out.
    match receive(&mut stream).await {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(()),
    }
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).expect("messages here are short");
    stream.write_all(&[&len.to_be_bytes(), bytes].concat()).await
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let len = stream.read_u32().await?;
    let mut bytes = vec![0; len as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
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
