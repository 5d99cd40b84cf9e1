//! [`Cell`]: a verb that meets a fault while its entry is in a state.

use lock_core::{
    Creates, Step, WaitMode,
    testing::{Request, RequestFault},
};

/// One field of the coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What is asked of the store.
    pub verb: Verb,
    /// What goes wrong.
    pub fault: Fault,
    /// Where the entry stands when the request reaches the store; of a request that never does, when it is sent.
    pub state: State,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `enter(Create)` of a try, which leaves nothing behind if it is refused.
    Try,
    /// `enter(Create)` of an acquisition that waits.
    Create,
    /// `enter(Again)`.
    Again,
    /// `renew`. Each of its leases counts.
    Renew,
    /// `leave` when each create was answered.
    Leave,
    /// `leave` when a create may still arrive.
    LeaveInDoubt,
    /// An operator evicts the entry, or its session ends.
    Evict,
}

/// What goes wrong with a request. A request can meet several of these; each counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None of the others.
    Nothing,
    /// The request never arrives.
    RequestLost,
    /// The answer never arrives.
    AnswerLost,
    /// It arrives a second time, within the latency. The second arrival counts.
    Repeated,
    /// It arrives a second time, late. The second arrival counts.
    RepeatedLate,
    /// It arrives late.
    RequestLate,
    /// Its answer is late.
    AnswerLate,
    /// No connection can be made.
    Refused,
    /// The store is not ready.
    NotReady,
    /// The connection breaks, and the request arrives late.
    Broken,
    /// It arrives when its client does not wait for the answer any more.
    GivenUp,
    /// It arrives while its client stands still.
    Stopped,
    /// It arrives when its client has crashed.
    Crashed,
    /// The clock of its client is fast.
    FastClock,
    /// The clock of its client is slow.
    SlowClock,
}

/// Where the entry of a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has never been in the queue.
    Absent,
    /// It waits, and all entries ahead hold the lock.
    WaitingFirst,
    /// It waits behind another waiter.
    WaitingBehind,
    /// It holds the lock.
    Held,
    /// It is there in another life than that of the request.
    OtherLife,
    /// Its lease has ended.
    Expired,
    /// It has left, and each create of it was answered.
    Left,
    /// It has left, and a tombstone refuses a late create.
    Tombstone,
    /// An operator evicted it, or its session ended.
    Evicted,
}

impl Cell {
    pub(super) const COUNT: usize = Verb::ALL.len() * Fault::ALL.len() * State::ALL.len();

    /// The cells of all [pairs](Self::pairs), in their order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::pairs().flat_map(|(verb, fault)| State::ALL.map(|state| Self { verb, fault, state }))
    }

    /// Each verb with each fault that it can meet.
    pub fn pairs() -> impl Iterator<Item = (Verb, Fault)> {
        let pairs = Verb::ALL.into_iter().flat_map(|verb| Fault::ALL.map(|fault| (verb, fault)));
        pairs.filter(|(verb, fault)| verb.never_meets(*fault).is_none())
    }

    /// Its place in a table of [`COUNT`](Self::COUNT) fields.
    pub(super) const fn at(self) -> usize {
        (self.verb as usize * Fault::ALL.len() + self.fault as usize) * State::ALL.len() + self.state as usize
    }
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 7] =
        [Self::Try, Self::Create, Self::Again, Self::Renew, Self::Leave, Self::LeaveInDoubt, Self::Evict];

    /// The verb of a request.
    pub(in crate::simulation) const fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Enter { step: Step::Again(_), .. } => Self::Again,
            Request::Enter { wait: WaitMode::Try, .. } => Self::Try,
            Request::Enter { .. } => Self::Create,
            Request::Renew { .. } => Self::Renew,
            Request::Leave { creates: Creates::Answered, .. } => Self::Leave,
            Request::Leave { creates: Creates::InDoubt, .. } => Self::LeaveInDoubt,
        }
    }

    /// Why no request of this verb can meet the fault; `None` if one can.
    #[must_use]
    pub const fn never_meets(self, fault: Fault) -> Option<&'static str> {
        let of_the_client = matches!(
            fault,
            Fault::Nothing | Fault::Stopped | Fault::Crashed | Fault::FastClock | Fault::SlowClock
        );
        if matches!(self, Self::Evict) && !of_the_client {
            Some("an eviction reaches the store without a wire")
        } else {
            None
        }
    }

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Try => "try",
            Self::Create => "create",
            Self::Again => "look again",
            Self::Renew => "renew",
            Self::Leave => "leave",
            Self::LeaveInDoubt => "leave in doubt",
            Self::Evict => "evict",
        }
    }
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 15] = [
        Self::Nothing,
        Self::RequestLost,
        Self::AnswerLost,
        Self::Repeated,
        Self::RepeatedLate,
        Self::RequestLate,
        Self::AnswerLate,
        Self::Refused,
        Self::NotReady,
        Self::Broken,
        Self::GivenUp,
        Self::Stopped,
        Self::Crashed,
        Self::FastClock,
        Self::SlowClock,
    ];

    /// The fault of a request on its wire; [`Nothing`](Self::Nothing) if that carries it in time.
    pub(in crate::simulation) const fn of(wire: RequestFault) -> Self {
        match wire {
            RequestFault::InTime => Self::Nothing,
            RequestFault::RequestLost => Self::RequestLost,
            RequestFault::AnswerLost => Self::AnswerLost,
            RequestFault::Repeated => Self::Repeated,
            RequestFault::RepeatedLate => Self::RepeatedLate,
            RequestFault::RequestLate => Self::RequestLate,
            RequestFault::AnswerLate => Self::AnswerLate,
            RequestFault::Refused => Self::Refused,
            RequestFault::NotReady => Self::NotReady,
            RequestFault::Broken => Self::Broken,
        }
    }

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::RequestLost => "request lost",
            Self::AnswerLost => "answer lost",
            Self::Repeated => "repeated",
            Self::RepeatedLate => "repeated late",
            Self::RequestLate => "request late",
            Self::AnswerLate => "answer late",
            Self::Refused => "refused",
            Self::NotReady => "not ready",
            Self::Broken => "broken",
            Self::GivenUp => "given up",
            Self::Stopped => "client stopped",
            Self::Crashed => "client crashed",
            Self::FastClock => "fast clock",
            Self::SlowClock => "slow clock",
        }
    }
}

impl State {
    /// All states.
    pub const ALL: [Self; 9] = [
        Self::Absent,
        Self::WaitingFirst,
        Self::WaitingBehind,
        Self::Held,
        Self::OtherLife,
        Self::Expired,
        Self::Left,
        Self::Tombstone,
        Self::Evicted,
    ];

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::WaitingFirst => "waiting first",
            Self::WaitingBehind => "waiting behind",
            Self::Held => "held",
            Self::OtherLife => "other life",
            Self::Expired => "expired",
            Self::Left => "left",
            Self::Tombstone => "tombstone",
            Self::Evicted => "evicted",
        }
    }
}
