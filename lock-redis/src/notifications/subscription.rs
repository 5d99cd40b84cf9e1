//! [`Subscription`]: a connection that is subscribed, in its two halves.

use futures_util::StreamExt;
use lock_core::{BackendErrorKind as Kind, excerpt};
use redis::{
    RedisError,
    aio::{PubSub, PubSubSink, PubSubStream},
};

use super::voice::{SUBSCRIBE, refused};
use crate::{
    connection::{Endpoint, SAID, Socket},
    error::{self, Failure},
};

/// No message of ours, and no answer to what is asked here, is nearly as long.
const MOST: usize = 1 << 20;

pub(super) struct Subscription {
    pub(super) pulse: Pulse,
    pub(super) messages: Messages,
}

/// The half that asks.
pub(super) struct Pulse(PubSubSink);

/// The half that hears. The connection closes when it is dropped.
pub(super) struct Messages(PubSubStream);

impl Subscription {
    /// Subscribes a connection of the current runtime. The caller bounds the time.
    pub(super) async fn over(
        socket: Socket,
        endpoint: &Endpoint,
        channels: &[&[u8]],
    ) -> Result<Self, Failure> {
        let failed = |error| failed(endpoint, "subscribing at", &error);
        let (mut sink, messages) = PubSub::new(&SAID, socket.at_most(MOST)).await.map_err(failed)?.split();
        sink.subscribe(channels).await.map_err(|error| match error::kind_of_failure(&error) {
            Kind::Denied => Failure::new(Kind::Denied, refused(endpoint, SUBSCRIBE)),
            _ => failed(error),
        })?;
        Ok(Self { pulse: Pulse(sink), messages: Messages(messages) })
    }
}

impl Pulse {
    /// One `PING`. The caller bounds the time (R3).
    pub(super) async fn beat(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let answer: Result<redis::Value, _> = self.0.ping().await;
        answer.map(drop).map_err(|error| failed(endpoint, "a heartbeat to", &error))
    }
}

impl Messages {
    /// The next message: its channel, and what it says.
    pub(super) async fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let message = self.0.next().await?;
        // The channel is bytes that are no text, which its other getters do not give.
        let channel: Vec<u8> = message.get_channel().ok()?;
        Some((channel, message.get_payload_bytes().to_vec()))
    }
}

fn failed(endpoint: &Endpoint, doing: &str, failure: &RedisError) -> Failure {
    let kind = error::kind_of_failure(failure);
    let said = excerpt(format_args!("{failure}"));
    Failure::new(kind, format!("{doing} {} failed: {said}", endpoint.address))
}
