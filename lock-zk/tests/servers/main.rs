//! Promises about ZooKeeper beyond the suite, on real servers.
//!
//! They are one program, so that the tests share servers, and tests that mostly wait run at the same time.

mod access;
mod cluster;
mod common;
mod costs;
mod cut_off_followers;
mod diagnosis;
mod duplicates;
#[path = "../framing/mod.rs"]
mod framing;
mod harness;
mod interop;
mod long_names;
mod many_waiters;
mod operations;
mod packet_faults;
mod queue_reads;
mod reconnects;
#[path = "../server/mod.rs"]
mod server;
mod server_clock;
mod session_end;
mod session_limits;
mod session_start;
#[cfg(feature = "tls")]
mod tls;
