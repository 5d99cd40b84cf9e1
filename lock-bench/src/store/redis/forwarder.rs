//! [`RedisForwarder`]: the floor of a hand-off, from the call of `PUBLISH` to the receipt of the message.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::{
    Client,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
};
use tokio::time::{Instant, sleep_until, timeout};

use super::client::connect;
use crate::{
    error::Result,
    store::{Forwarder, ForwardingRound, MessageLatency},
    timestamp::Timestamp,
};

/// Publishes on one connection and subscribes on another.
pub(super) struct RedisForwarder {
    publisher: MultiplexedConnection,
    messages: PubSubStream,
    to: String,
    /// The subscription lasts as long as this.
    #[expect(dead_code, reason = "only its drop does something")]
    sink: PubSubSink,
}

impl fmt::Debug for RedisForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisForwarder").field("to", &self.to).finish_non_exhaustive()
    }
}

/// The message that ends a round.
const END: Timestamp = Timestamp(0);

#[async_trait]
impl Forwarder for RedisForwarder {
    async fn run(&mut self, round: ForwardingRound) -> Result<Vec<MessageLatency>> {
        let mut latencies = Vec::new();
        let mut ended = false;
        let mut arrived = if round.first {
            self.publish_and_receive(Timestamp::now()).await?
        } else {
            self.receive().await?
        };
        loop {
            let (sent, received) = arrived;
            if sent == END {
                if !ended {
                    self.publish(END).await?;
                }
                return Ok(latencies);
            }
            latencies.push(MessageLatency::of_receipt(received.since(sent)));
            if !round.hold.is_zero() {
                sleep_until(Instant::now() + round.hold).await;
            }
            let now = Timestamp::now();
            ended = now >= round.until;
            // The last message passes all links once, so that none is left for the next round.
            arrived = self.publish_and_receive(if ended { END } else { now }).await?;
        }
    }
}

impl RedisForwarder {
    pub(super) async fn new(client: &Client, from: &str, to: &str) -> Result<Self> {
        let publisher = connect(client).await?;
        let (mut sink, messages) = client.get_async_pubsub().await?.split();
        sink.subscribe(from).await?;
        Ok(Self { publisher, messages, to: to.to_owned(), sink })
    }

    /// Both at the same time: the message may arrive before the answer to `PUBLISH`.
    async fn publish_and_receive(&mut self, message: Timestamp) -> Result<(Timestamp, Timestamp)> {
        let Self { publisher, messages, to, .. } = self;
        let (published, received) = tokio::join!(publish(publisher, to, message), receive(messages));
        published?;
        received
    }

    async fn publish(&mut self, message: Timestamp) -> Result<()> {
        publish(&mut self.publisher, &self.to, message).await
    }

    async fn receive(&mut self) -> Result<(Timestamp, Timestamp)> {
        receive(&mut self.messages).await
    }
}

async fn publish(publisher: &mut MultiplexedConnection, to: &str, message: Timestamp) -> Result<()> {
    let listeners: u64 = redis::cmd("PUBLISH").arg(to).arg(message.0).query_async(publisher).await?;
    if listeners == 1 { Ok(()) } else { Err(format!("{listeners} listen to a channel of the chain").into()) }
}

async fn receive(messages: &mut PubSubStream) -> Result<(Timestamp, Timestamp)> {
    let message = timeout(Duration::from_secs(10), messages.next()).await;
    let received = Timestamp::now();
    let message =
        message.map_err(|_| "a message of the chain was lost")?.ok_or("the chain of messages was cut")?;
    Ok((Timestamp(message.get_payload()?), received))
}
