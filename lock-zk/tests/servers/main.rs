//! What is promised of ZooKeeper beyond the suite, on real servers.
//!
//! One program: so its tests share their servers, and those that mostly wait do it at the same time.

mod access;
mod cluster;
mod common;
mod costs;
mod crowds;
mod duplicates;
mod ends;
#[path = "../framing/mod.rs"]
mod framing;
mod harness;
mod interop;
mod limits;
mod long_names;
mod looks;
mod operations;
mod returns;
#[path = "../server/mod.rs"]
mod server;
mod tenure;
#[cfg(feature = "tls")]
mod tls;
mod wires;
