//! [`Framed`]: a [`Framing`] for protocols of frames in a stream of bytes.

use std::{collections::VecDeque, fmt, io, mem, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use lock_core::sync::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{framing::Framing, traffic::Traffic};
use crate::Gate;

/// Where the frames of one connection end, and what they are. It gets all bytes of the connection in order, each direction separately,
/// and may keep state.
pub trait Frames: Send {
    /// The next frame of what a client has sent. `None` if it is not complete.
    ///
    /// # Errors
    /// If the bytes are not of the protocol.
    fn request(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>>;

    /// The next frame of what a server has sent. `None` if it is not complete.
    ///
    /// # Errors
    /// If the bytes are not of the protocol.
    fn answer(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Answer>>>;
}

/// A number of bytes, and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<T> {
    /// How many bytes, at least one.
    pub len: usize,
    /// What they are.
    pub what: T,
}

impl<T> Frame<T> {
    /// What all frames of these bytes are, if the bytes arrive one by one. For tests of [`Frames`]: `next` is one of its methods.
    ///
    /// # Panics
    /// If `next` fails, if a frame does not end as soon as its last byte is there, or if bytes are left over.
    #[must_use]
    pub fn all(bytes: &[u8], mut next: impl FnMut(&[u8]) -> io::Result<Option<Self>>) -> Vec<T> {
        let (mut begin, mut found) = (0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some(frame) = next(&bytes[begin..end]).expect("the bytes are of the protocol") {
                begin += frame.len;
                assert_eq!(begin, end, "a frame ends as soon as its last byte is there");
                found.push(frame.what);
            }
        }
        assert_eq!(begin, bytes.len(), "something is left over");
        found
    }
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request of this name. Requests are answered in order.
    Ask(String),
    /// Something that gets no answer. It is forwarded, and not sent twice.
    Aside,
}

/// What a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A part of the answer to the oldest open request.
    Part,
    /// The end of its answer.
    End,
    /// The end of its answer inside a transaction: the request is sent for the second time together with those that follow.
    Turn,
    /// A hint. It answers nothing.
    Hint,
    /// Something else that answers nothing.
    Aside,
}

/// A [`Framing`] by [`Frames`], which are created for each connection. Second copies of requests go over a second connection, from the
/// client's first request on.
pub struct Framed(pub fn() -> Box<dyn Frames>);

/// Requests that are sent for the second time together, with their names.
#[derive(Debug, Default)]
struct Unit(Vec<(String, Vec<u8>)>);

/// The open requests of a connection.
struct Exchange {
    frames: Box<dyn Frames>,
    asked: VecDeque<(String, Vec<u8>)>,
    /// Those of a transaction that is not over.
    unit: Unit,
}

/// Bytes for the client.
#[derive(Debug)]
struct Parcel {
    bytes: Vec<u8>,
    /// The gate that they have to pass.
    gate: Option<Gate>,
    /// The requests to send for the second time before.
    unit: Option<Unit>,
}

/// The connection for second copies. Its answers are dropped.
struct Second {
    frames: Box<dyn Frames>,
    server: TcpStream,
    heard: Vec<u8>,
}

#[async_trait]
impl Framing for Framed {
    async fn serve(
        &self,
        mut client: TcpStream,
        address: SocketAddr,
        traffic: Arc<Traffic>,
    ) -> io::Result<()> {
        let mut server = TcpStream::connect(address).await?;
        server.set_nodelay(true)?;
        let exchange = Exchange { frames: (self.0)(), asked: VecDeque::new(), unit: Unit::default() };
        let exchange = Mutex::new(exchange);
        let (sender, parcels) = unbounded_channel();
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            requests(&exchange, &traffic, from_client, to_server),
            replies(&exchange, &traffic, from_server, sender),
            async {
                let mut second = None;
                if traffic.doubles() {
                    let server = traffic.second_connection(address).await?;
                    second = Some(Second { frames: (self.0)(), server, heard: Vec::new() });
                }
                deliver(&traffic, parcels, second, to_client).await
            },
        )?;
        Ok(())
    }
}

async fn requests(
    exchange: &Mutex<Exchange>,
    traffic: &Traffic,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let len = from.read_buf(&mut read).await?;
        let whole = exchange.lock().take_requests(&read, traffic)?;
        to.write_all(&read[..whole]).await?;
        read.drain(..whole);
        if len == 0 {
            to.write_all(&read).await?;
            return to.shutdown().await;
        }
    }
}

async fn replies(
    exchange: &Mutex<Exchange>,
    traffic: &Traffic,
    mut from: ReadHalf<'_>,
    parcels: UnboundedSender<Parcel>,
) -> io::Result<()> {
    let (mut read, mut answer) = (Vec::new(), Vec::new());
    loop {
        let len = from.read_buf(&mut read).await?;
        while let Some(parcel) = exchange.lock().take_answer(&mut read, &mut answer, traffic)? {
            // If the delivery has ended, so does this.
            let _ = parcels.send(parcel);
        }
        if len == 0 {
            answer.append(&mut read);
            let _ = parcels.send(Parcel { bytes: answer, gate: None, unit: None });
            return Ok(());
        }
    }
}

async fn deliver(
    traffic: &Traffic,
    mut parcels: UnboundedReceiver<Parcel>,
    mut second: Option<Second>,
    mut to: WriteHalf<'_>,
) -> io::Result<()> {
    while let Some(Parcel { bytes, gate, unit }) = parcels.recv().await {
        if let (Some(Unit(requests)), Some(second)) = (unit, &mut second)
            && let Some((name, _)) = requests.first()
        {
            traffic.double(name, second.repeat(&requests)).await?;
            requests[1..].iter().for_each(|(name, _)| traffic.doubled(name));
        }
        if let Some(gate) = gate {
            gate.pass().await;
        }
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

impl Exchange {
    /// Takes note of complete requests, and returns their length.
    fn take_requests(&mut self, sent: &[u8], traffic: &Traffic) -> io::Result<usize> {
        let mut whole = 0;
        while let Some(Frame { len, what }) =
            self.frames.request(&sent[whole..]).map_err(|error| traffic.fault(&error))?
        {
            if let Request::Ask(name) = what {
                traffic.asked(&name);
                self.asked.push_back((name, sent[whole..whole + len].to_vec()));
            }
            whole += len;
        }
        Ok(whole)
    }

    /// The next parcel of what the server has sent.
    fn take_answer(
        &mut self,
        sent: &mut Vec<u8>,
        answer: &mut Vec<u8>,
        traffic: &Traffic,
    ) -> io::Result<Option<Parcel>> {
        while let Some(Frame { len, what }) =
            self.frames.answer(sent).map_err(|error| traffic.fault(&error))?
        {
            // A hint in the middle of an answer stays there.
            let within = !answer.is_empty();
            answer.extend(sent.drain(..len));
            match what {
                Answer::Part => {}
                Answer::End | Answer::Turn => {
                    let name = self.answered().ok_or_else(|| traffic.fault(&"an answer to nothing"))?;
                    let unit = (what == Answer::End).then(|| mem::take(&mut self.unit));
                    return Ok(Some(Parcel { bytes: mem::take(answer), gate: traffic.gate(&name), unit }));
                }
                Answer::Hint | Answer::Aside => {
                    if what == Answer::Hint {
                        traffic.hint();
                    }
                    if !within {
                        return Ok(Some(Parcel { bytes: mem::take(answer), gate: None, unit: None }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Moves the oldest request into the unit.
    fn answered(&mut self) -> Option<String> {
        let (name, request) = self.asked.pop_front()?;
        self.unit.0.push((name.clone(), request));
        Some(name)
    }
}

impl Second {
    /// Sends the requests, and waits until all of them are answered in full.
    async fn repeat(&mut self, requests: &[(String, Vec<u8>)]) -> io::Result<()> {
        for (_, request) in requests {
            self.frames.request(request)?;
            self.server.write_all(request).await?;
        }
        let mut left = requests.len();
        loop {
            while let Some(Frame { len, what }) = self.frames.answer(&self.heard)? {
                self.heard.drain(..len);
                // Nothing else ends an answer.
                left -= usize::from(matches!(what, Answer::End | Answer::Turn));
                if left == 0 {
                    return Ok(());
                }
            }
            if self.server.read_buf(&mut self.heard).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has hung up"));
            }
        }
    }
}

impl fmt::Debug for Framed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Framed").finish_non_exhaustive()
    }
}
