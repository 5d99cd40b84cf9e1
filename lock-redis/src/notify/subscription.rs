//! [`Subscription`]: a subscribed connection, in two halves.

use futures_util::StreamExt;
use lock_core::{BackendErrorKind as Kind, excerpt};
use redis::{
    RedisError,
    aio::{PubSub, PubSubSink, PubSubStream},
};

use super::health::{SUBSCRIBE, not_permitted};
use crate::{
    client::{DRIVER_SETUP, Endpoint, Socket},
    error::{self, Failure},
};

/// The longest reply on such a connection. Our messages, and the answers to our commands on it, are much shorter.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

pub(super) struct Subscription {
    pub(super) heartbeat: Heartbeat,
    pub(super) messages: Messages,
}

/// The half that sends.
pub(super) struct Heartbeat(PubSubSink);

/// The half that receives. The connection closes when it is dropped.
pub(super) struct Messages(PubSubStream);

impl Subscription {
    /// Subscribes a connection of the current runtime. The caller bounds the time.
    pub(super) async fn open(
        socket: Socket,
        endpoint: &Endpoint,
        channels: &[&[u8]],
    ) -> Result<Self, Failure> {
        let failed = |error| failed(endpoint, "subscribing at", &error);
        let (mut sink, messages) = PubSub::new(&DRIVER_SETUP, socket.with_reply_limit(MAX_MESSAGE_BYTES))
            .await
            .map_err(failed)?
            .split();
        sink.subscribe(channels).await.map_err(|error| match error::kind_of_failure(&error) {
            Kind::Denied => Failure::new(Kind::Denied, not_permitted(endpoint, SUBSCRIBE)),
            _ => failed(error),
        })?;
        Ok(Self { heartbeat: Heartbeat(sink), messages: Messages(messages) })
    }
}

impl Heartbeat {
    /// Sends one `PING`. The caller bounds the time (R3).
    pub(super) async fn ping(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let answer: Result<redis::Value, _> = self.0.ping().await;
        answer.map(drop).map_err(|error| failed(endpoint, "a heartbeat to", &error))
    }
}

impl Messages {
    /// The next message: its channel and its payload.
    pub(super) async fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let message = self.0.next().await?;
        // The channel is not UTF-8, which the other getters expect.
        let channel: Vec<u8> = message.get_channel().ok()?;
        Some((channel, message.get_payload_bytes().to_vec()))
    }
}

fn failed(endpoint: &Endpoint, doing: &str, failure: &RedisError) -> Failure {
    let kind = error::kind_of_failure(failure);
    let said = excerpt(format_args!("{failure}"));
    Failure::new(kind, format!("{doing} {} failed: {said}", endpoint.address))
}
