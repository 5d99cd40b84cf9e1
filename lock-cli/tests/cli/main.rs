//! The real binary, used as a user would.

mod codes;
mod completions;
mod crowd;
mod disk;
mod habits;
mod hold;
mod loss;
mod names;
mod operating;
mod parrot;
mod process;
mod run;
mod scope;
mod server;
mod store;
mod terminal;
mod texts;
mod unreaped;
mod usage;
mod waiting;
mod watchdog;
