//! [`Measurement`]: rows that are measured together. One file for each.

mod commands;
mod handoff;
mod held;
mod pair;
mod rival;
mod takeover;
mod throughput;
mod waiters;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{Keeper, Locks, SystemEntropy};

use crate::{
    Result,
    plan::Plan,
    samples::{Rounds, Samples},
    store::{Store, StoreKind},
};

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Box<dyn Measurement>> {
    vec![
        Box::new(pair::Pair),
        Box::new(rival::RivalPair::BUILT_IN),
        Box::new(rival::RivalPair::CURATOR),
        Box::new(throughput::Throughput),
        Box::new(handoff::Handoff::IN_PROCESS),
        Box::new(handoff::Handoff::BETWEEN_PROCESSES),
        Box::new(handoff::Handoff::UNDER_LOAD),
        Box::new(commands::Commands),
        Box::new(takeover::Takeover),
        Box::new(waiters::Waiters),
        Box::new(held::Held),
    ]
}

/// Rows that are measured together.
#[async_trait]
pub(crate) trait Measurement: Send + Sync {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec>;

    /// Whether `--quick` has time for it.
    fn is_quick(&self) -> bool;

    /// Measures at least those of its rows that the plan wants.
    async fn run(&self, bench: &Bench) -> Result<Outcome>;
}

/// What a measurement works with.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) store: Arc<dyn Store>,
    /// On a backend with nothing around it.
    pub(crate) locks: Locks,
}

impl Bench {
    pub(crate) fn new(plan: Plan, store: Box<dyn Store>) -> Result<Self> {
        let locks = Locks::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy));
        Ok(Self { plan, store: Arc::from(store), locks })
    }

    /// Rounds, told now and then to whoever waits for the table.
    pub(crate) fn rounds(&self, what: &str) -> impl Iterator<Item = u32> + use<> {
        let (what, rounds) = (what.to_owned(), self.plan.rounds());
        let mut told: Option<Instant> = None;
        (0..rounds).inspect(move |round| {
            if told.is_none_or(|told| told.elapsed() >= Duration::from_secs(2)) {
                told = Some(Instant::now());
                eprintln!("{what}: round {} of {rounds}", round + 1);
            }
        })
    }
}

/// A row, before it is measured.
#[derive(Clone, Debug)]
pub(crate) struct RowSpec {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) bound: Option<Bound>,
}

impl RowSpec {
    fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self { name: name.into(), unit, bound: None }
    }

    fn bound(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self
    }
}

/// What a row must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    ValueAtMost(f64),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Measured(Vec<Figure>),
    /// This store has no such thing.
    NotPossible(&'static str),
}

/// A row that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) row: String,
    pub(crate) value: f64,
    pub(crate) floor: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// From the least to the largest of a round: ratio if there is one, else value.
    pub(crate) spread: Option<(f64, f64)>,
    /// Calls that scripts made on the server.
    pub(crate) inside: Option<f64>,
}

impl Figure {
    /// Without a floor.
    fn plain(row: impl Into<String>, value: f64) -> Self {
        Self { row: row.into(), value, floor: None, ratio: None, spread: None, inside: None }
    }

    fn over(row: impl Into<String>, rounds: &Rounds) -> Self {
        Self {
            row: row.into(),
            value: rounds.value(),
            floor: rounds.floor(),
            ratio: rounds.ratio(),
            spread: rounds.spread(),
            inside: None,
        }
    }

    /// Over all rounds together: what is rare may be in none of them, or in few.
    fn p99(row: impl Into<String>, ours: &Samples, floor: &Samples) -> Self {
        let value = ours.percentile(99.0);
        let floor = (floor.len() > 0).then(|| floor.percentile(99.0));
        let ratio = floor.map(|floor| value / floor);
        Self { floor, ratio, ..Self::plain(row, value) }
    }
}
