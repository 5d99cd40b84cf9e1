//! `distlock run`: holds a lock while a command runs.
//!
//! There are three processes. The supervisor holds the lock. The command runs in a process group of its own, with SIGKILL as its
//! parent-death signal. The watchdog knows the group and the time by which it has to be dead. It kills the group at that time, or when the
//! supervisor is gone: so a supervisor that is stopped, starved or killed leaves no command behind that works without the lock. If the
//! watchdog ends, the supervisor starts another one.

mod command;
mod execute;
mod interrupt;
mod process_group;
mod supervisor;
mod terminal;
mod terminal_loan;
mod timing;
mod watchdog;

pub(crate) use self::{
    execute::{internal, run},
    interrupt::die_if_interrupted,
    terminal::Terminal,
};
