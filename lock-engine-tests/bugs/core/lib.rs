//! The source of `lock-core`, as its build script has copied it and put the switches in.
#![allow(clippy::all, clippy::pedantic, reason = "it is looked at where it stands")]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
