//! [`EtcdForwarder`]: the floor of a hand-off, from the call that deletes a key over its event on a watch that is live to the answer that
//! one's own key is there.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use etcd_client::{
    Client, EventType, GetOptions, KvClient, ResponseHeader, WatchFilterType, WatchOptions, WatchStream,
};
use tokio::time::{sleep, timeout};

use crate::{
    error::Result,
    store::{Forwarder, ForwardingRound, MessageLatency},
    timestamp::Timestamp,
};

/// One link: when the key `from` is deleted, it deletes the key `to`. It watches both, so that one clock measures the time from
/// the call to the event. Like a lock that waits, it receives only deletions, without values: the last deletion of a round is
/// therefore that of another key.
///
/// A deletion alone makes nobody a holder: one transaction may have deleted the key of the next waiter, too. So each latency has a second
/// part: the client that received the event reads a key of its own, over the same connection.
pub(super) struct EtcdForwarder {
    client: Client,
    /// The same client once more, for the reads.
    reader: KvClient,
    stream: WatchStream,
    from: String,
    to: String,
    /// The key that is read, and always there.
    own: String,
}

/// The suffix of the key whose deletion ends a round.
const END: &str = "/end";

/// A deletion that was received.
struct Deleted {
    key: Vec<u8>,
    revision: i64,
    end: bool,
    received: Timestamp,
}

impl EtcdForwarder {
    pub(super) async fn new(mut client: Client, from: &str, to: &str) -> Result<Self> {
        let options = || Some(WatchOptions::new().with_filters([WatchFilterType::NoPut]));
        let mut stream = client.watch(from, options()).await?;
        stream.watch([from, END].concat(), options()).await?;
        let mut watches = 2;
        if from != to {
            stream.watch(to, options()).await?;
            stream.watch([to, END].concat(), options()).await?;
            watches += 2;
        }
        while watches > 0 {
            let message = stream.message().await?.ok_or("the chain of messages was cut")?;
            watches -= usize::from(message.created());
        }
        let (own, reader) = ([from, "/own"].concat(), client.kv_client());
        client.put(own.as_str(), "", None).await?;
        Ok(Self { client, reader, stream, from: from.to_owned(), to: to.to_owned(), own })
    }

    /// Creates the key that is deleted next.
    async fn prepare(&mut self, end: bool) -> Result<()> {
        self.client.put(self.next_key(end), "", None).await?;
        Ok(())
    }

    fn next_key(&self, end: bool) -> String {
        [self.to.as_str(), if end { END } else { "" }].concat()
    }

    /// Deletes the key. Returns how long that took, and another deletion that was received meanwhile.
    async fn pass_on(&mut self, end: bool) -> Result<(MessageLatency, Option<Deleted>)> {
        let key = self.next_key(end);
        let Self { client, reader, stream, from, to, own } = self;
        let sent = Timestamp::now();
        let (deleted, seen) = tokio::join!(client.delete(key.as_str(), None), async {
            let mut other = None;
            loop {
                let deleted = next(stream).await?;
                if deleted.key == key.as_bytes() {
                    read_own(reader, own, deleted.revision).await?;
                    let certain = Timestamp::now().since(sent);
                    let latency = MessageLatency { received: deleted.received.since(sent), certain };
                    let arrived = if from == to { Some(deleted) } else { other };
                    return Result::Ok((latency, arrived));
                }
                other = Some(deleted);
            }
        });
        deleted?;
        seen
    }
}

/// Reads a key that is there: serializably, until the answer is not older than the deletion.
async fn read_own(reader: &mut KvClient, own: &str, deleted: i64) -> Result<()> {
    loop {
        let options = GetOptions::new().with_keys_only().with_serializable();
        let answer = reader.get(own, Some(options)).await?;
        if answer.kvs().is_empty() {
            return Err("a key of the chain of messages is gone".into());
        }
        if answer.header().map_or(0, ResponseHeader::revision) >= deleted {
            return Ok(());
        }
    }
}

/// The next deletion of a key that is watched.
async fn next(stream: &mut WatchStream) -> Result<Deleted> {
    loop {
        let message = timeout(Duration::from_secs(10), stream.message()).await;
        let received = Timestamp::now();
        let message = message
            .map_err(|_| "an event of the chain of messages was lost")??
            .ok_or("the chain of messages was cut")?;
        // One key is deleted at a time.
        let event = message.events().iter().find(|event| event.event_type() == EventType::Delete);
        if let Some(event) = event {
            let kv = event.kv().ok_or("an event without its key")?;
            let (key, revision) = (kv.key().to_vec(), kv.mod_revision());
            return Ok(Deleted { end: key.ends_with(END.as_bytes()), key, revision, received });
        }
    }
}

#[async_trait]
impl Forwarder for EtcdForwarder {
    async fn run(&mut self, round: ForwardingRound) -> Result<Vec<MessageLatency>> {
        let (mut latencies, mut ended) = (Vec::new(), false);
        let mut arrived = None;
        if round.first {
            self.prepare(false).await?;
            let (latency, next) = self.pass_on(false).await?;
            latencies.push(latency);
            arrived = next;
        }
        loop {
            let deleted = match arrived.take() {
                Some(deleted) => deleted,
                None => next(&mut self.stream).await?,
            };
            if ended && deleted.end {
                return Ok(latencies);
            }
            // The last message passes all links once, so that none is left for the next round.
            ended = deleted.end || Timestamp::now().plus(round.hold) >= round.until;
            self.prepare(ended).await?;
            if !round.hold.is_zero() {
                sleep(round.hold).await;
            }
            let (latency, next) = self.pass_on(ended).await?;
            latencies.push(latency);
            arrived = next;
            if deleted.end {
                return Ok(latencies);
            }
        }
    }
}

impl fmt::Debug for EtcdForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdForwarder")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
