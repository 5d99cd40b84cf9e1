//! `lock-bench compare`: distlock and other lock libraries, measured in one run.
//!
//! A *system* is a lock library on a store, or the floor of the store. For each system the [`runner`] starts a *driver*
//! ([`drivers`](crate::drivers)): a small program in the language of the library. In each *round* all systems of a store take a
//! *turn*, one after the other, so that what slows the machine down affects all of them. A figure is compared with that of the floor
//! in the same round.
//!
//! Correctness is checked meanwhile. Drivers tell when each *tenure* (one time that a contender holds the lock) began and ended,
//! on a clock that all processes share, and the [`analysis`] finds tenures that overlap. A system that cannot be installed, or
//! that fails, is a row with the reason.
//!
//! | file | what |
//! |---|---|
//! | `runner` | runs the scenarios that are asked for, and writes the report |
//! | `scenario` | what is measured, and for how long |
//! | `systems` | the systems, and how their drivers are started |
//! | `store_run` | one store while it is measured, with the systems that take part |
//! | `rounds`, `turn` | the scenarios that are run in rounds, and one turn of one system |
//! | `one_shots` | the other scenarios: costs, takeover, many held locks |
//! | `analysis` | what the tenures tell: hand-offs, fairness, overlaps |
//! | `counting_proxy` | counts requests and bytes between a driver and the server |
//! | `results` | the raw data of a report, as they are kept in JSON |
//! | `ahead` | which systems are ahead of ours, and why |
//! | `tables`, `format` | the tables of a report, and how figures are written |
//! | `markdown`, `html`, `plot` | the renderings of a report |

mod ahead;
mod analysis;
mod args;
mod counting_proxy;
mod format;
mod html;
mod markdown;
mod one_shots;
mod plot;
mod results;
mod rounds;
mod runner;
mod scenario;
mod store_run;
mod systems;
mod tables;
mod turn;

pub(crate) use self::{args::CompareArgs, runner::compare};
