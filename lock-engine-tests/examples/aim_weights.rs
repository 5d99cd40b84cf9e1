//! Measures how rare each cell of the coverage is without an aim, and writes the weights of the aims: `src/simulation/aim_weights.rs`.
//!
//! ```sh
//! cargo run --release --package lock-engine-tests --example aim_weights
//! ```
//!
//! It runs the seeds without an aim below a million, or below the number that is given. Every seed with an aim gives another run
//! afterwards.

use std::{
    fmt::Write,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use lock_engine_tests::simulation::{self, Cell, Coverage, Fault, State, Verb};

fn main() {
    let end: u64 = std::env::args().nth(1).map_or(1_000_000, |end| end.parse().expect("the end is a number"));
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let mut coverage = Coverage::default();
    thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|_| scope.spawn(|| run_next(&next, end))).collect();
        for runner in runners {
            coverage.add(&runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{coverage}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulation/aim_weights.rs");
    fs::write(&file, source(&coverage, end)).expect("the source can be written to");
}

/// The seeds without an aim are those that three divides.
fn run_next(next: &AtomicU64, end: u64) -> Coverage {
    let mut coverage = Coverage::default();
    loop {
        let seed = next.fetch_add(3, Ordering::Relaxed);
        if seed >= end {
            return coverage;
        }
        let report = simulation::run(seed);
        assert!(report.aim.is_none() && report.violations.is_empty(), "{report}");
        coverage.add(&report.coverage);
    }
}

fn source(coverage: &Coverage, end: u64) -> String {
    let most = Cell::all().map(|cell| coverage.of(cell)).max().unwrap_or(0);
    let mut text = format!(
        "//! The weights of the [aims](super::aim): how often each cell is drawn, relative to the others.
//!
//! Written by `cargo run --release --package lock-engine-tests --example aim_weights {end}`, from the coverage of the seeds below {end} that
//! have no aim. A cell that is half as common weighs one more; one that never came up weighs as much as the most common, because it may be
//! out of reach.

use super::coverage::{{Fault, State, Verb}};

type Weights = [[[u16; State::ALL.len()]; Fault::ALL.len()]; Verb::ALL.len()];

/// By verb, fault and state, each in the order of its `ALL`.
#[rustfmt::skip]
pub(super) const WEIGHTS: Weights = [
"
    );
    for verb in Verb::ALL {
        let _ = writeln!(text, "    // {}", verb.name());
        text.push_str("    [\n");
        for fault in Fault::ALL {
            let weights = State::ALL.map(|state| weight(coverage.of(Cell { verb, fault, state }), most));
            let _ = writeln!(text, "        {weights:?}, // {}", fault.name());
        }
        text.push_str("    ],\n");
    }
    text.push_str("];\n");
    text
}

fn weight(count: u64, most: u64) -> u32 {
    if count == 0 { 1 } else { 1 + most.ilog2() - count.ilog2() }
}
