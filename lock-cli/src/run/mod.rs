//! `distlock run`: a lock is held while a command runs.
//!
//! Three processes do it. The supervisor holds the lock. The command runs in a process group of its own, with SIGKILL as
//! its parent-death signal. The watchdog knows the group and the time by which it has to be dead, and kills it when that
//! time has come or the supervisor is gone: a supervisor that is stopped, starved or killed leaves no command behind
//! that works without the lock. Should the watchdog end, the supervisor starts another one.

mod command;
mod execute;
mod process_group;
mod supervisor;
mod terminal;
mod timing;
mod watchdog;

pub(crate) use self::{
    execute::{internal, run},
    terminal::Terminal,
};
