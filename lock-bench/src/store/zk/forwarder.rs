//! [`ZkForwarder`]: the floor of a hand-off, from the call that deletes a node to the event of a watch on it that is there.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt, select_all};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, CreateMode, Error, EventType, WatchedEvent};

use super::client::ALL;
use crate::{
    error::Result,
    store::{Forwarder, ForwardingRound, MessageLatency},
    timestamp::Timestamp,
};

/// One link: when one of its own nodes is deleted, it deletes one of the next link. It watches that one too, so that one clock
/// measures the time from the call to the event.
pub(super) struct ZkForwarder {
    client: Client,
    /// The deletion of the first one goes on, that of the second one ends the round.
    own: [String; 2],
    next: [String; 2],
    incoming: Vec<BoxFuture<'static, WatchedEvent>>,
}

const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

impl ZkForwarder {
    pub(super) async fn new(client: Client, from: &str, to: &str) -> Result<Self> {
        let nodes =
            |name: &str| ["goes-on", "ends"].map(|what| format!("/{}:{what}", name.replace('/', ":")));
        let (own, next) = (nodes(from), nodes(to));
        let incoming = vec![listen(&client, &own[0]).await?, listen(&client, &own[1]).await?];
        Ok(Self { client, own, next, incoming })
    }

    /// Waits for a message, and tells whether it is the last one of the round.
    async fn arrival(&mut self) -> Result<bool> {
        let (event, which, _) = timeout(MESSAGE_TIMEOUT, select_all(&mut self.incoming)).await?;
        deleted(&event)?;
        // Before the next message is sent on: the one behind it may arrive at once.
        self.incoming[which] = listen(&self.client, &self.own[which]).await?;
        Ok(which == 1)
    }

    /// Deletes a node of the next link after the hold. Returns the time from the call to the event.
    async fn pass_on(&mut self, end: bool, hold: Duration) -> Result<MessageLatency> {
        let node = &self.next[usize::from(end)];
        let event = watch(&self.client, node).await?;
        if !hold.is_zero() {
            sleep(hold).await;
        }
        let sent = Timestamp::now();
        let received = async {
            let event = timeout(MESSAGE_TIMEOUT, event).await?;
            let received = Timestamp::now();
            deleted(&event)?;
            Ok(received)
        };
        let (gone, received) = tokio::join!(self.client.delete(node, None), received);
        gone?;
        received.map(|received: Timestamp| MessageLatency::of_receipt(received.since(sent)))
    }
}

/// Creates a node of this link, and watches it.
async fn listen(client: &Client, node: &str) -> Result<BoxFuture<'static, WatchedEvent>> {
    match client.create(node, b"", &CreateMode::Persistent.with_acls(ALL)).await {
        Ok(_) | Err(Error::NodeExists) => watch(client, node).await,
        Err(error) => Err(error.into()),
    }
}

async fn watch(client: &Client, node: &str) -> Result<BoxFuture<'static, WatchedEvent>> {
    let (stat, watcher) = client.check_and_watch_stat(node).await?;
    stat.ok_or_else(|| format!("the chain has no `{node}`"))?;
    Ok(watcher.changed().boxed())
}

fn deleted(event: &WatchedEvent) -> Result<()> {
    if event.event_type == EventType::NodeDeleted {
        Ok(())
    } else {
        Err("the chain of messages was disturbed".into())
    }
}

#[async_trait]
impl Forwarder for ZkForwarder {
    async fn run(&mut self, round: ForwardingRound) -> Result<Vec<MessageLatency>> {
        let (mut latencies, mut ended) = (Vec::new(), false);
        if round.first {
            latencies.push(self.pass_on(false, Duration::ZERO).await?);
        }
        loop {
            let last = self.arrival().await?;
            if ended && last {
                return Ok(latencies);
            }
            // The last message passes all links once, so that none is left for the next round.
            ended = last || Timestamp::now().plus(round.hold) >= round.until;
            latencies.push(self.pass_on(ended, round.hold).await?);
            if last {
                return Ok(latencies);
            }
        }
    }
}

impl fmt::Debug for ZkForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkForwarder")
            .field("own", &self.own)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
