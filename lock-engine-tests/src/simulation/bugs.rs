//! [`Bug`]: bugs to inject, each of which the checkers have to find.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_conformance::Layer;
use lock_core::{
    Backend, BackendError, BootTime, Claim, Clock, Creates, Departure, Entry, EntryId, FencingToken, Hint,
    Kind, Lease, Renewal, Standing, Step, WaitMode,
    sync::{Mutex, MutexGuard},
    valid_until,
};

/// A bug of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Deadlines are counted from the answer to a request, not from its sending.
    DeadlineFromReply,
    /// A repeated `enter` keeps the place, but does not refresh its lease.
    EnterRefreshesNothing,
    /// `renew` says that it renewed, whether or not the entry was there with that token.
    RenewChecksNothing,
    /// The store admits the next waiter, but sends no hint.
    NobodyIsHinted,
    /// A hint is taken for the current life of the entry, whatever its token.
    HintOfAnyLife,
    /// `leave` reports that the entry left, and does nothing.
    NobodyLeaves,
    /// Neighbouring tokens are swapped.
    TokensSwapped,
    /// Every claim counts as one permit, or as a reader.
    EveryoneIsSmall,
    /// Every fourth try is refused without a look at the queue.
    RefusesUnseen,
    /// The leases of semaphores are judged by the clock of the client that sends the request.
    SemaphoreOnClientClocks,
    /// The store ends leases after three quarters of their ttl.
    LeasesEndEarly,
    /// The store takes every ttl of more than a second for a second, and does not say so.
    TtlIsClamped,
    /// A create of an entry that is in the queue adds it a second time.
    CreateAddsTwice,
    /// A `leave` of an entry that is not in the queue removes the first entry there.
    LeaveFreesAnyone,
    /// A newcomer is admitted if its permits and those of the holders fit, although others wait.
    NewcomersPass,
    /// No tombstone refuses a late create.
    NoTombstone,
    /// A renewal puts an entry that is gone back into the queue, as a holder.
    RenewalCreates,
    /// The counter of tokens is lost when the queue is empty.
    TokensStartOver,
}

/// Where a bug is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Between a client and its wire, as a [`BugLayer`].
    Client,
    /// In front of the store, as a [`BugLayer`].
    Store,
    /// In [queues](super::bug_queues) of its own.
    Queues,
    /// In the [clocks](super::client_clocks) that the store judges leases by.
    Clocks,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 18] = [
        Self::DeadlineFromReply,
        Self::EnterRefreshesNothing,
        Self::RenewChecksNothing,
        Self::NobodyIsHinted,
        Self::HintOfAnyLife,
        Self::NobodyLeaves,
        Self::TokensSwapped,
        Self::EveryoneIsSmall,
        Self::RefusesUnseen,
        Self::SemaphoreOnClientClocks,
        Self::LeasesEndEarly,
        Self::TtlIsClamped,
        Self::CreateAddsTwice,
        Self::LeaveFreesAnyone,
        Self::NewcomersPass,
        Self::NoTombstone,
        Self::RenewalCreates,
        Self::TokensStartOver,
    ];

    pub(super) const fn place(self) -> Place {
        match self {
            Self::DeadlineFromReply | Self::HintOfAnyLife => Place::Client,
            Self::EnterRefreshesNothing
            | Self::RenewChecksNothing
            | Self::NobodyIsHinted
            | Self::NobodyLeaves
            | Self::TokensSwapped
            | Self::EveryoneIsSmall
            | Self::RefusesUnseen => Place::Store,
            Self::SemaphoreOnClientClocks => Place::Clocks,
            Self::LeasesEndEarly
            | Self::TtlIsClamped
            | Self::CreateAddsTwice
            | Self::LeaveFreesAnyone
            | Self::NewcomersPass
            | Self::NoTombstone
            | Self::RenewalCreates
            | Self::TokensStartOver => Place::Queues,
        }
    }
}

/// A layer that adds the bug to a store.
#[derive(Debug)]
pub(super) struct BugLayer {
    how: Bug,
    clock: Arc<dyn Clock>,
    tries: AtomicU64,
    /// The ends of the leases that `enter` does not refresh.
    leases: Mutex<BTreeMap<EntryId, (Entry, BootTime)>>,
}

impl BugLayer {
    pub(super) fn new(how: Bug, clock: Arc<dyn Clock>) -> Self {
        Self { how, clock, tries: AtomicU64::new(0), leases: Mutex::default() }
    }

    fn is(&self, how: Bug) -> bool {
        self.how == how
    }

    /// Removes the entries whose leases have ended since they were created or renewed.
    async fn expire(&self, store: &Arc<dyn Backend>) {
        let now = self.clock.now();
        let ended: Vec<Entry> =
            self.leases().values().filter(|(_, end)| *end <= now).map(|(entry, _)| entry.clone()).collect();
        for entry in ended {
            self.leases().remove(&entry.id);
            // A leave from memory does not fail.
            let _ = store.leave(&entry, Creates::Answered).await;
        }
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<EntryId, (Entry, BootTime)>> {
        self.leases.lock()
    }

    fn token(&self, token: FencingToken) -> FencingToken {
        if self.is(Bug::TokensSwapped) { FencingToken::new(token.get() ^ 1) } else { token }
    }

    /// Changes an answer as the bug does.
    fn spoil(&self, entry: &Entry, standing: Standing) -> Standing {
        let end = valid_until(self.clock.now(), entry.ttl, entry.ttl);
        let late = self.is(Bug::DeadlineFromReply);
        match standing {
            Standing::Admitted { token, ttl, valid_until } => {
                let valid_until = if late { end } else { valid_until };
                Standing::Admitted { token: self.token(token), ttl, valid_until }
            }
            Standing::Waiting { token, ttl, valid_until, ahead, holder, look_again, hints } => {
                let valid_until = if late { end } else { valid_until };
                let (how, mine) = (self.how, self.token(token));
                let hints = hints.filter_map(move |hint| std::future::ready(spoiled(how, mine, hint)));
                let hints = Box::pin(hints);
                Standing::Waiting { token: mine, ttl, valid_until, ahead, holder, look_again, hints }
            }
            other => other,
        }
    }
}

fn spoiled(how: Bug, mine: FencingToken, hint: Hint) -> Option<Hint> {
    match (how, hint) {
        (Bug::NobodyIsHinted, _) => None,
        (Bug::HintOfAnyLife, Hint::Admitted { .. }) => Some(Hint::Admitted { token: mine }),
        (Bug::TokensSwapped, Hint::Admitted { token }) => {
            Some(Hint::Admitted { token: FencingToken::new(token.get() ^ 1) })
        }
        _ => Some(hint),
    }
}

fn small(claim: Claim) -> Claim {
    match claim.kind() {
        Kind::Mutex => claim,
        Kind::RwLock => Claim::reader(),
        Kind::Semaphore => Claim::semaphore(1, claim.limit()).unwrap_or(claim),
    }
}

#[async_trait]
impl Layer for BugLayer {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        self.expire(store).await;
        let mut entry = entry.clone();
        if self.is(Bug::EveryoneIsSmall) {
            entry.claim = small(entry.claim);
        }
        let tried = wait == WaitMode::Try && self.is(Bug::RefusesUnseen);
        if tried && self.tries.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
            return Ok(Standing::Busy);
        }
        let step = match step {
            Step::Create => Step::Create,
            Step::Again(token) => Step::Again(self.token(token)),
        };
        let standing = store.enter(&entry, step, wait).await?;
        let stands = matches!(standing, Standing::Admitted { .. } | Standing::Waiting { .. });
        if stands && self.is(Bug::EnterRefreshesNothing) {
            let end = self.clock.now() + entry.ttl;
            self.leases().entry(entry.id).or_insert((entry.clone(), end));
        }
        Ok(self.spoil(&entry, standing))
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.expire(store).await;
        let life = |lease: &Lease| Lease { entry: Arc::clone(&lease.entry), token: self.token(lease.token) };
        let leases: Vec<_> = leases.iter().map(life).collect();
        let mut answers = store.renew(&leases).await;
        for (answer, lease) in answers.iter_mut().zip(&leases) {
            let end = valid_until(self.clock.now(), lease.entry.ttl, lease.entry.ttl);
            match answer {
                Ok(Renewal::Renewed { valid_until }) if self.is(Bug::DeadlineFromReply) => {
                    *valid_until = end;
                }
                Ok(Renewal::Lost) if self.is(Bug::RenewChecksNothing) => {
                    *answer = Ok(Renewal::Renewed { valid_until: end });
                }
                Ok(Renewal::Renewed { .. }) => {
                    let end = self.clock.now() + lease.entry.ttl;
                    self.leases().entry(lease.entry.id).and_modify(|lease| lease.1 = end);
                }
                _ => {}
            }
        }
        answers
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        self.expire(store).await;
        if self.is(Bug::NobodyLeaves) {
            return Ok(Departure::Left);
        }
        self.leases().remove(&entry.id);
        store.leave(entry, creates).await
    }
}
