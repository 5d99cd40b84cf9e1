//! The bug bank: bugs that locks have had, each put in on purpose, and the case that has to find it.
//!
//! `docs/bug-bank.md` lists them. Bugs between the clients and a store are in `lock-conformance`, which plants them in every store
//! ([`lock_conformance::BUGS`]), and one of Redis is in `lock-redis`. Bugs of the engine are switches in a copy of its source, in the package
//! `bugs`. Those that show only among many clients are found by the [simulation](lock_engine_tests::simulation). And the checks that find
//! leftovers, leaks and uncut notifications are shown to find them.

mod cuts;
mod defects;
mod leaks;
#[path = "../../../lock-conformance/tests/memory_harness/mod.rs"]
mod memory_harness;
mod simulated;
mod strays;
#[path = "../../bugs/switches.rs"]
#[allow(dead_code, reason = "the switches are of use to the package `bugs`")]
mod switches;
mod table;

use self::memory_harness::MemoryHarness;
