//! [`Call`]: forwards one call of a client.

use std::{collections::VecDeque, io, sync::Arc};

use bytes::{Bytes, BytesMut};
use h2::{
    Error, RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
    server::SendResponse,
};
use http::{HeaderMap, Request, Response, request, response};
use lock_conformance::Traffic;
use tokio::sync::Mutex;

use super::messages::{has_events, take_message};

/// The kind of a call, which follows from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One request, and one answer with its trailers.
    Unary,
    /// A stream in which each message has its own answer.
    Paired,
    /// A stream that is forwarded as it comes.
    Stream,
}

impl Kind {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/etcdserverpb.Lease/LeaseKeepAlive" => Self::Paired,
            "/etcdserverpb.Watch/Watch"
            | "/etcdserverpb.Maintenance/Snapshot"
            | "/v3electionpb.Election/Observe" => Self::Stream,
            _ => Self::Unary,
        }
    }
}

/// The connections on which a call is sent, and sent again.
pub(super) struct Call {
    pub(super) first: SendRequest<Bytes>,
    pub(super) second: Option<SendRequest<Bytes>>,
    pub(super) traffic: Arc<Traffic>,
}

/// An answer from its head to its trailers.
struct Answer {
    head: response::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Call {
    pub(super) async fn relay(
        self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
    ) -> Result<(), Error> {
        let (head, body) = request.into_parts();
        match Kind::of(head.uri.path()) {
            Kind::Unary => self.unary(head, body, respond).await,
            kind => self.stream(kind, head, body, respond).await,
        }
    }

    async fn unary(
        self,
        head: request::Parts,
        body: RecvStream,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), Error> {
        let name = head.uri.path().to_owned();
        let (body, _) = read(body).await?;
        self.traffic.asked(&name);
        let answer = match ask(&self.first, &head, body.clone()).await {
            Ok(answer) => answer,
            Err(error) => {
                // A reset by the server becomes a reset for the client.
                error.reason().into_iter().for_each(|reason| respond.send_reset(reason));
                return Err(error);
            }
        };
        self.answered(&name, &head, body).await?;
        answer.give(&mut respond)
    }

    /// Handles the first answer to a request.
    async fn answered(&self, name: &str, head: &request::Parts, body: Bytes) -> Result<(), Error> {
        let gate = self.traffic.gate(name);
        if let Some(second) = &self.second {
            let again = async { ask(second, head, body).await.map_err(io::Error::other) };
            // The relay reports what went wrong. Here it ends the call.
            if self.traffic.double(name, again).await.is_err() {
                return Err(h2::Reason::INTERNAL_ERROR.into());
            }
        }
        if let Some(gate) = gate {
            gate.pass().await;
        }
        Ok(())
    }

    async fn stream(
        self,
        kind: Kind,
        head: request::Parts,
        mut body: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Result<(), Error> {
        let (response, mut up) =
            self.first.clone().ready().await?.send_request(Request::from_parts(head.clone(), ()), false)?;
        let asked = Mutex::new(VecDeque::new());
        let requests = async {
            let mut sent = BytesMut::new();
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                sent.extend_from_slice(&data);
                while let Some(message) = take_message(&mut sent) {
                    if kind == Kind::Paired {
                        self.traffic.asked(head.uri.path());
                        asked.lock().await.push_back(message);
                    }
                }
                up.send_data(data, false)?;
            }
            up.send_data(Bytes::new(), true)?;
            // The server decides when the stream is over.
            std::future::pending().await
        };
        tokio::select! {
            failed = requests => failed,
            over = self.answers(kind, &head, &asked, response, respond) => over,
        }
    }

    async fn answers(
        &self,
        kind: Kind,
        head: &request::Parts,
        asked: &Mutex<VecDeque<Bytes>>,
        response: ResponseFuture,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), Error> {
        let (begin, mut from) = response.await?.into_parts();
        let mut to = respond.send_response(Response::from_parts(begin, ()), from.is_end_stream())?;
        let mut said = BytesMut::new();
        while let Some(data) = from.data().await {
            let data = data?;
            from.flow_control().release_capacity(data.len())?;
            said.extend_from_slice(&data);
            while let Some(message) = take_message(&mut said) {
                if kind == Kind::Stream {
                    (0..u8::from(has_events(&message))).for_each(|_| self.traffic.hint());
                } else if let Some(request) = asked.lock().await.pop_front() {
                    self.answered(head.uri.path(), head, request).await?;
                }
                to.send_data(message, false)?;
            }
        }
        end(&mut to, from.trailers().await?)
    }
}

impl Answer {
    fn give(self, respond: &mut SendResponse<Bytes>) -> Result<(), Error> {
        let bare = self.body.is_empty() && self.trailers.is_none();
        let mut to = respond.send_response(Response::from_parts(self.head, ()), bare)?;
        if bare {
            return Ok(());
        }
        to.send_data(self.body, false)?;
        end(&mut to, self.trailers)
    }
}

fn end(to: &mut SendStream<Bytes>, trailers: Option<HeaderMap>) -> Result<(), Error> {
    match trailers {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    }
}

/// Makes a call, and waits for its complete answer.
async fn ask(to: &SendRequest<Bytes>, head: &request::Parts, body: Bytes) -> Result<Answer, Error> {
    let mut to = to.clone().ready().await?;
    let (response, mut sending) = to.send_request(Request::from_parts(head.clone(), ()), false)?;
    sending.send_data(body, true)?;
    let (head, body) = response.await?.into_parts();
    let (body, trailers) = read(body).await?;
    Ok(Answer { head, body, trailers })
}

/// Reads a body and its trailers to the end.
async fn read(mut body: RecvStream) -> Result<(Bytes, Option<HeaderMap>), Error> {
    let mut all = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        all.extend_from_slice(&data);
    }
    Ok((all.freeze(), body.trailers().await?))
}
