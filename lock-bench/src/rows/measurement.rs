//! [`Measurement`]: rows that are measured together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{Keeper, Locks, SystemEntropy};

use super::{
    figure::{Figure, RowSpec},
    plan::Plan,
};
use crate::{
    error::Result,
    store::{Store, StoreKind},
};

/// Rows that are measured together.
#[async_trait]
pub(crate) trait Measurement: Send + Sync {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec>;

    /// Whether it is run with `--quick`.
    fn is_quick(&self) -> bool;

    /// Measures at least the rows that are asked for.
    async fn run(&self, bench: &Bench) -> Result<Outcome>;
}

/// The plan, the store and the locks of a run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) store: Arc<dyn Store>,
    /// On a backend that counts nothing.
    pub(crate) locks: Locks,
}

impl Bench {
    pub(crate) fn new(plan: Plan, store: Box<dyn Store>) -> Result<Self> {
        let locks = Locks::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy));
        Ok(Self { plan, store: Arc::from(store), locks })
    }

    /// The numbers of the rounds; prints the progress every two seconds.
    pub(crate) fn rounds(&self, what: &str) -> impl Iterator<Item = u32> + use<> {
        let (what, rounds) = (what.to_owned(), self.plan.rounds());
        let mut printed: Option<Instant> = None;
        (0..rounds).inspect(move |round| {
            if printed.is_none_or(|printed| printed.elapsed() >= Duration::from_secs(2)) {
                printed = Some(Instant::now());
                eprintln!("{what}: round {} of {rounds}", round + 1);
            }
        })
    }
}

/// The result of a measurement.
#[derive(Debug)]
pub(crate) enum Outcome {
    Measured(Vec<Figure>),
    /// The store does not have it, and why.
    NotPossible(&'static str),
}
