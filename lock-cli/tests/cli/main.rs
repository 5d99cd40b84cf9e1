//! Tests of the real binary.

mod completions;
mod exit_codes;
mod formatting;
mod full_disk;
mod hold;
mod hostile_text;
mod loss;
mod names;
mod operator;
mod other_tools;
mod outages;
mod process;
mod run;
mod scope;
mod server;
mod store;
mod terminal;
mod unreaped;
mod usage;
mod waiter_cost;
mod watchdog;
