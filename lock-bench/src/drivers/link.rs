//! [`Link`]: one link of a chain of messages, the floor of hand-offs.

use super::protocol::Response;
use crate::{
    error::Result,
    samples::Samples,
    store::{Forwarder, ForwardingRound, Store},
};

/// Listens on one channel, and sends what it receives on to another.
#[derive(Debug, Default)]
pub(super) struct Link(Option<Box<dyn Forwarder>>);

impl Link {
    pub(super) async fn listen(&mut self, store: &dyn Store, from: &str, to: &str) -> Result<()> {
        self.0 = store.forwarder(from, to).await?;
        Ok(())
    }

    /// Takes part in one round. A store without messages has no latencies of messages.
    pub(super) async fn pass_on(&mut self, round: ForwardingRound) -> Result<Response> {
        let passed = match &mut self.0 {
            Some(forwarder) => forwarder.run(round).await?,
            None => Vec::new(),
        };
        let latencies: Samples = passed.iter().map(|message| message.certain).collect();
        let received: Samples = passed.iter().map(|message| message.received).collect();
        Ok(Response::Passed { latencies: latencies.0, received: received.0 })
    }
}
