//! [`Measurement`]: rows that are measured together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{plan::Plan, row_figures::RowFigures, row_spec::RowSpec};
use crate::{
    drivers::Distlock,
    error::Result,
    store::{Store, StoreKind},
};

/// Rows that are measured together.
#[async_trait]
pub(crate) trait Measurement: Send + Sync {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec>;

    /// Whether it is run with `--quick`.
    fn is_quick(&self) -> bool {
        true
    }

    /// Measures at least the rows that are asked for.
    async fn run(&self, bench: &Bench) -> Result<Outcome>;
}

/// The plan and the store of a run.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) store: Arc<dyn Store>,
}

impl Bench {
    /// The driver of our locks, in this process, with a client of its own.
    pub(super) fn ours(&self) -> Result<Distlock> {
        Distlock::new(Arc::clone(&self.store), Duration::from_secs(30))
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
    Measured(RowFigures),
    /// The store does not have it, and why.
    NotPossible(&'static str),
}
