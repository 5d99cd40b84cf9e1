//! [`WireProbe`]: sees each request on a wire, and can choose what becomes of it.

use std::fmt;

use crate::{Creates, Entry, Lease, Step, WaitMode};

/// Sees the requests on a [`RandomFaults`](super::RandomFaults) wire, to count what they meet, or to give a fault to some of them.
///
/// No method may block. What is chosen has to follow from the seed, if the run is to be repeated.
pub trait WireProbe: fmt::Debug + Send + Sync + 'static {
    /// A request is sent, and the wire has drawn this fault for it. What is returned becomes of it.
    fn sent(&self, request: Request<'_>, drawn: RequestFault) -> RequestFault;

    /// A request has reached the store, which is called next on this thread, before anything else runs.
    fn arrives(&self, delivery: Delivery);
}

/// A request, as its client sends it.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// [`Backend::enter`](crate::Backend::enter).
    Enter {
        /// The entry.
        entry: &'a Entry,
        /// Whether it may be created.
        step: Step,
        /// Whether it stays if it is not admitted.
        wait: WaitMode,
    },
    /// [`Backend::renew`](crate::Backend::renew).
    Renew {
        /// What is to be extended.
        leases: &'a [Lease],
    },
    /// [`Backend::leave`](crate::Backend::leave).
    Leave {
        /// The entry.
        entry: &'a Entry,
        /// Whether a create of it may still arrive.
        creates: Creates,
    },
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestFault {
    /// It arrives and is answered, both within the latency.
    InTime,
    /// It never arrives, and is given up at the time limit.
    RequestLost,
    /// It arrives, and its answer never does.
    AnswerLost,
    /// It arrives twice, the second time within the latency.
    Repeated,
    /// It arrives twice, the second time late.
    RepeatedLate,
    /// It arrives late.
    RequestLate,
    /// It arrives in time, and its answer is late.
    AnswerLate,
    /// No connection can be made: it is never sent.
    Refused,
    /// The store answers that it is not ready, and carries nothing out.
    NotReady,
    /// The connection breaks: the client learns that at once, and the request arrives late.
    Broken,
}

/// How a request reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What becomes of it. Of a request that arrives twice, the first arrival is [`InTime`](RequestFault::InTime).
    pub fault: RequestFault,
    /// Whether its client does not wait for the answer any more.
    pub given_up: bool,
}
