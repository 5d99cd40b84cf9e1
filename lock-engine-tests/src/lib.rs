//! Tests of the engine alone, for no particular backend: seeded simulations, a model of the protocol, and bugs of the engine.
//!
//! | what | where |
//! |---|---|
//! | histories of what clients saw, and checkers for them | [`history`] |
//! | the real engine and keeper on simulated time, with faults drawn from a seed | [`simulation`], `tests/simulation` |
//! | the protocol, without its code, in every state | `tests/model` |
//! | bugs that locks have had, each of which has to be found: those that the simulation finds, and those of the engine | `tests/bug_bank`, `bugs` |
//!
//! `docs/trust.md` says what each of them finds, and what it cannot find. What every backend promises is in `lock-conformance`.

pub mod history;
pub mod simulation;
