//! [`PairsTaken`]: pairs of acquire and release, as a driver took them.

use std::time::Duration;

use super::{
    driver::Driver,
    protocol::{Pairs, Request, Response},
};
use crate::{error::Result, samples::Samples};

/// What a driver tells of pairs.
#[derive(Debug)]
pub(crate) struct PairsTaken {
    /// How long each took. Empty if there were several tasks.
    pub(crate) latencies: Samples,
    pub(crate) per_s: f64,
    pub(crate) count: u64,
}

impl PairsTaken {
    /// Lets a driver in this process take them.
    pub(crate) async fn ask(driver: &mut dyn Driver, pairs: Pairs) -> Result<Self> {
        Self::of(driver.handle(Request::Pairs(pairs)).await?)
    }

    /// # Errors
    /// If it is the response to another request.
    pub(crate) fn of(response: Response) -> Result<Self> {
        let Response::Pairs { count, ns, latencies } = response else {
            return Err("its driver did not answer with pairs".into());
        };
        let per_s = count as f64 / Duration::from_nanos(ns.max(1)).as_secs_f64();
        Ok(Self { latencies: Samples(latencies), per_s, count })
    }
}
