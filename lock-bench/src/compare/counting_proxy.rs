//! [`CountingProxy`]: a proxy between a driver and its server that counts requests and bytes.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

use crate::error::Result;

/// The proxy ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CountingProxy {
    address: String,
    counts: Arc<Counts>,
    serving: AbortHandle,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

/// What the proxy has forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Traffic {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { requests: self.requests - before.requests, bytes: self.bytes - before.bytes }
    }
}

/// How the requests in a stream are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Redis: an array of strings for each command.
    Resp,
    /// etcd: one data frame of HTTP/2 for each message of gRPC, unary or on a stream.
    Http2,
    /// ZooKeeper: four bytes of length.
    Jute,
}

impl CountingProxy {
    /// Starts a proxy in front of this server.
    pub(crate) async fn start(server: &str, framing: Framing) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let counts = Arc::<Counts>::default();
        let (server, counting) = (server.to_owned(), Arc::clone(&counts));
        let serving = tokio::spawn(async move {
            // The connections end with this task.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, server.clone(), framing, Arc::clone(&counting)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, counts, serving: serving.abort_handle() })
    }

    /// Where drivers connect.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn read(&self) -> Traffic {
        let Counts { requests, to_server, to_client } = &*self.counts;
        Traffic {
            requests: requests.load(Ordering::Relaxed),
            bytes: to_server.load(Ordering::Relaxed) + to_client.load(Ordering::Relaxed),
        }
    }
}

impl Drop for CountingProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Forwards until either side closes the connection.
async fn forward(client: TcpStream, server: String, framing: Framing, counts: Arc<Counts>) -> Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        let (mut buffer, mut requests) = (vec![0; 1 << 16], Requests::new(framing));
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                return Result::Ok(());
            }
            counts.to_server.fetch_add(read as u64, Ordering::Relaxed);
            counts.requests.fetch_add(requests.read(&buffer[..read]), Ordering::Relaxed);
            to_server.write_all(&buffer[..read]).await?;
        }
    };
    let back = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return Result::Ok(());
            }
            counts.to_client.fetch_add(read as u64, Ordering::Relaxed);
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        ended = there => ended,
        ended = back => ended,
    }
}

/// Counts the requests in a stream that arrives in pieces.
#[derive(Debug)]
struct Requests {
    framing: Framing,
    /// Bytes that are not parsed yet.
    rest: Vec<u8>,
    /// Bytes of a counted request that have not arrived yet.
    skip: usize,
}

impl Requests {
    fn new(framing: Framing) -> Self {
        // HTTP/2 begins with a preface of so many bytes.
        let skip = if framing == Framing::Http2 { 24 } else { 0 };
        Self { framing, rest: Vec::new(), skip }
    }

    /// How many requests began in this piece.
    fn read(&mut self, piece: &[u8]) -> u64 {
        self.rest.extend_from_slice(piece);
        let (mut at, mut found) = (0, 0);
        loop {
            let skipped = self.skip.min(self.rest.len() - at);
            at += skipped;
            self.skip -= skipped;
            let Some((length, skip, is_request)) = self.head(at) else { break };
            at += length;
            self.skip = skip;
            found += u64::from(is_request);
        }
        self.rest.drain(..at);
        found
    }

    /// For the frame that begins there: the length of its head and of its body, and whether it is a request. `None` if its head is
    /// not complete.
    fn head(&self, at: usize) -> Option<(usize, usize, bool)> {
        let rest = &self.rest[at..];
        match self.framing {
            Framing::Jute => {
                let length = u32::from_be_bytes(*rest.first_chunk()?);
                Some((4, length as usize, true))
            }
            Framing::Http2 => {
                let &[a, b, c, kind, _, _, _, _, _] = rest.first_chunk::<9>()?;
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                Some((9, length, kind == 0 && length > 0))
            }
            Framing::Resp => {
                let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
                let number = || std::str::from_utf8(&rest[1..end]).ok()?.parse::<usize>().ok();
                match rest.first() {
                    // A string of a command.
                    Some(b'$') => Some((end + 2, number().unwrap_or(0) + 2, false)),
                    // An array, or a command on a line of its own.
                    _ => Some((end + 2, 0, true)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(framing: Framing, bytes: &[u8], pieces: usize) -> u64 {
        let mut requests = Requests::new(framing);
        bytes.chunks(pieces).map(|piece| requests.read(piece)).sum()
    }

    #[test]
    fn requests_are_counted_however_they_are_cut_into_pieces() {
        let resp = b"*2\r\n$3\r\nGET\r\n$4\r\n*1\r\n\r\n*1\r\n$4\r\nPING\r\nPING\r\n".as_slice();
        let jute = b"\0\0\0\x03abc\0\0\0\x00\0\0\0\x01a".as_slice();
        let mut http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        http2.extend(b"\0\0\x02\x04\0\0\0\0\0ab"); // settings
        http2.extend(b"\0\0\x01\x01\x04\0\0\0\x01a"); // headers
        http2.extend(b"\0\0\x03\x00\x01\0\0\0\x01abc"); // a message
        http2.extend(b"\0\0\x00\x00\x01\0\0\0\x01"); // the end of a stream
        for pieces in [1, 2, 3, 5, 100] {
            assert_eq!(requests(Framing::Resp, resp, pieces), 3, "{pieces}");
            assert_eq!(requests(Framing::Jute, jute, pieces), 3, "{pieces}");
            assert_eq!(requests(Framing::Http2, &http2, pieces), 1, "{pieces}");
        }
    }

    #[tokio::test]
    async fn what_goes_through_is_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy =
            CountingProxy::start(&listener.local_addr().unwrap().to_string(), Framing::Resp).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
        let mut heard = [0; 14];
        server.read_exact(&mut heard).await.unwrap();
        server.write_all(b"+PONG\r\n").await.unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!((&heard, &answer), (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"));
        assert_eq!(proxy.read(), Traffic { requests: 1, bytes: 21 });
    }
}
