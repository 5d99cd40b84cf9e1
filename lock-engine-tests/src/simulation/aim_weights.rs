//! The weights of the [aims](super::aim): how often each cell is drawn, relative to the others.
//!
//! The same for all cells. `cargo run --release --package lock-engine-tests --example aim_weights` measures the coverage of the seeds without
//! an aim, and writes this file with weights that grow as the cells become rarer.

use super::coverage::{Fault, State, Verb};

type Weights = [[[u16; State::ALL.len()]; Fault::ALL.len()]; Verb::ALL.len()];

/// By verb, fault and state, each in the order of its `ALL`.
pub(super) const WEIGHTS: Weights = [[[1; State::ALL.len()]; Fault::ALL.len()]; Verb::ALL.len()];
