//! Bugs of a store, between a client and memory.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use lock_conformance::{BankedBug, Layer, NoHints};
use lock_core::{
    Backend, BackendError, Creates, Departure, Entropy, Entry, EntryId, FencingToken, Hint, Hints, Keeper,
    Lease, LockName, Notifier, QueueRow, Renewal, Standing, Step, SystemEntropy, WaitMode,
};

use crate::MemoryHarness;

pub(crate) const BUGS: &[BankedBug] = &[
    BankedBug {
        id: "b07",
        case: ("exclusion", "a_second_acquisition_through_the_same_lock_waits_for_the_first"),
        says: "is_none()",
        make: |_| Arc::new(KeyPerSession { session: SystemEntropy.bits() }),
    },
    BankedBug {
        id: "b08",
        case: ("exclusion", "names_that_begin_alike_do_not_meet"),
        says: "shows the queue of another name",
        make: |_| Arc::new(PrefixWithoutEnd),
    },
    BankedBug {
        id: "b09",
        case: ("liveness", "a_release_between_the_look_and_the_wait_is_not_missed"),
        says: "the waiter that was about to wait: not within",
        make: |_| Arc::new(SubscribesAfterwards),
    },
    BankedBug {
        id: "b14",
        case: ("fairness", "a_hand_off_costs_the_same_however_many_wait"),
        says: "looks at the queue for",
        make: |_| Arc::new(WakesTheHerd(Notifier::default())),
    },
    BankedBug {
        id: "b20",
        case: ("fencing", "readers_have_tokens_between_those_of_the_writers_before_and_after"),
        says: "are not between",
        make: |_| Arc::new(TokenReadAfterwards::default()),
    },
    BankedBug {
        id: "b22",
        case: ("fencing", "a_token_past_two_to_the_53_is_exact"),
        says: "was taken for it",
        make: |_| Arc::new(FloatingTokens::default()),
    },
    BankedBug {
        id: "b38",
        case: ("alone", "a_look_of_a_waiter_costs_the_same_however_many_wait"),
        says: " looks of ",
        make: |_| Arc::new(NoHints::looking_every(Duration::from_millis(50), Keeper::shared())),
    },
];

fn is_found(id: &str) {
    BankedBug::assert_found::<MemoryHarness>(BUGS, id);
}

/// The id of the entry depends on the client and the name, and not on the acquisition (H78).
#[derive(Debug)]
struct KeyPerSession {
    session: u128,
}

impl KeyPerSession {
    fn same(&self, entry: &Entry) -> Entry {
        let mut hasher = DefaultHasher::new();
        entry.name.hash(&mut hasher);
        let mut entry = entry.clone();
        entry.id = EntryId::new(self.session ^ u128::from(hasher.finish()));
        entry
    }
}

#[async_trait]
impl Layer for KeyPerSession {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        store.enter(&self.same(entry), step, wait).await
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let same = |lease: &Lease| Lease { entry: Arc::new(self.same(&lease.entry)), token: lease.token };
        let leases: Vec<_> = leases.iter().map(same).collect();
        store.renew(&leases).await
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        store.leave(&self.same(entry), creates).await
    }
}

#[test]
fn b07_a_key_for_each_session_is_found() {
    is_found("b07");
}

/// The queue of a name has every key that starts with the name, because nothing marks where the name ends (H77).
#[derive(Debug)]
struct PrefixWithoutEnd;

#[async_trait]
impl Layer for PrefixWithoutEnd {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let others = store.operator().list(entry.name.as_str()).await?.iter().any(|name| *name != entry.name);
        if others && wait == WaitMode::Try {
            return Ok(Standing::Busy);
        }
        match store.enter(entry, step, wait).await? {
            Standing::Admitted { token, ttl, valid_until } if others => Ok(Standing::Waiting {
                token,
                ttl,
                valid_until,
                ahead: 1,
                holder: None,
                look_again: valid_until,
                hints: Box::pin(stream::empty()),
            }),
            standing => Ok(standing),
        }
    }

    async fn queue(&self, store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let mut rows = Vec::new();
        for name in store.operator().list(name.as_str()).await? {
            rows.extend(store.operator().queue(&name).await?);
        }
        Ok(rows)
    }
}

#[test]
fn b08_a_prefix_without_an_end_is_found() {
    is_found("b08");
}

/// The client subscribes only when the standing is known, and that takes time. Hints before the subscription are lost, and no look follows it
/// (H63).
#[derive(Debug)]
struct SubscribesAfterwards;

#[async_trait]
impl Layer for SubscribesAfterwards {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { hints, .. } = &mut standing {
            let told: Hints = std::mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(stream::once(subscribed(told)).flatten());
        }
        Ok(standing)
    }
}

async fn subscribed(mut told: Hints) -> Hints {
    let keeper = Keeper::shared();
    keeper.sleep_until(keeper.now() + Duration::from_millis(250)).await;
    while let Some(Some(_)) = told.next().now_or_never() {}
    told
}

#[test]
fn b09_a_subscription_after_the_try_is_found() {
    is_found("b09");
}

/// Every departure wakes all waiters (H71).
#[derive(Debug)]
struct WakesTheHerd(Notifier);

#[async_trait]
impl Layer for WakesTheHerd {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let herd = self.0.listen(entry.id);
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Waiting { hints, .. } = &mut standing {
            let own = std::mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(stream::select(own, herd));
        }
        Ok(standing)
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        let departure = store.leave(entry, creates).await;
        self.0.changed_for_all();
        departure
    }
}

#[test]
fn b14_a_herd_that_is_woken_for_one_is_found() {
    is_found("b14");
}

/// The token of a grant is the value of the name's counter after the grant (H103).
#[derive(Debug, Default)]
struct TokenReadAfterwards(Tokens);

#[async_trait]
impl Layer for TokenReadAfterwards {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, self.0.real_step(entry.id, step), wait).await?;
        match &mut standing {
            Standing::Admitted { token, .. } => {
                self.0.remember(entry.id, *token);
                let minted =
                    store.operator().queue(&entry.name).await?.iter().filter_map(|row| row.token).max();
                *token = minted.unwrap_or(*token);
            }
            // A waiter that gets the lock by a hint reads the counter, too.
            Standing::Waiting { hints, .. } => {
                let told = std::mem::replace(hints, Box::pin(stream::empty()));
                *hints = Box::pin(told.map(|_| Hint::Changed));
            }
            Standing::Busy | Standing::Gone => {}
        }
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let real = |lease: &Lease| Lease {
            entry: Arc::clone(&lease.entry),
            token: self.0.real(lease.entry.id, lease.token),
        };
        let leases: Vec<_> = leases.iter().map(real).collect();
        store.renew(&leases).await
    }
}

#[test]
fn b20_a_token_that_is_read_afterwards_is_found() {
    is_found("b20");
}

/// Tokens are computed and stored as floating-point numbers (H105).
#[derive(Debug, Default)]
struct FloatingTokens(Tokens);

/// The token as a Lua number.
fn floating(token: FencingToken) -> FencingToken {
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // That is the bug.
    FencingToken::new(token.get() as f64 as u64)
}

impl FloatingTokens {
    /// The token that the store compares: it treats tokens as equal if they are equal as floating-point numbers.
    fn stored(&self, entry: EntryId, token: FencingToken) -> FencingToken {
        let real = self.0.real(entry, token);
        if floating(real) == floating(token) { real } else { token }
    }
}

#[async_trait]
impl Layer for FloatingTokens {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let step = match step {
            Step::Create => Step::Create,
            Step::Again(token) => Step::Again(self.stored(entry.id, token)),
        };
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Admitted { token, .. } | Standing::Waiting { token, .. } = &mut standing {
            self.0.remember(entry.id, *token);
            *token = floating(*token);
        }
        if let Standing::Waiting { hints, .. } = &mut standing {
            let told = std::mem::replace(hints, Box::pin(stream::empty()));
            *hints = Box::pin(told.map(|hint| match hint {
                Hint::Admitted { token } => Hint::Admitted { token: floating(token) },
                Hint::Changed => Hint::Changed,
            }));
        }
        Ok(standing)
    }

    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let stored = |lease: &Lease| Lease {
            entry: Arc::clone(&lease.entry),
            token: self.stored(lease.entry.id, lease.token),
        };
        let leases: Vec<_> = leases.iter().map(stored).collect();
        store.renew(&leases).await
    }

    async fn queue(&self, store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        let mut rows = store.operator().queue(name).await?;
        for row in &mut rows {
            row.token = row.token.map(floating);
        }
        Ok(rows)
    }
}

#[test]
fn b22_tokens_of_floating_point_are_found() {
    is_found("b22");
}

/// This case has very many waiters.
mod alone {
    /// Each waiter looks at the queue all the time, although nothing changes.
    #[test]
    fn b38_waiters_that_look_all_the_time_are_found() {
        super::is_found("b38");
    }
}

/// The real tokens of the store, if a bug reports other ones.
#[derive(Debug, Default)]
struct Tokens(Mutex<HashMap<EntryId, FencingToken>>);

impl Tokens {
    fn remember(&self, entry: EntryId, token: FencingToken) {
        self.0.lock().unwrap().insert(entry, token);
    }

    fn real(&self, entry: EntryId, told: FencingToken) -> FencingToken {
        self.0.lock().unwrap().get(&entry).copied().unwrap_or(told)
    }

    fn real_step(&self, entry: EntryId, step: Step) -> Step {
        match step {
            Step::Create => Step::Create,
            Step::Again(told) => Step::Again(self.real(entry, told)),
        }
    }
}
