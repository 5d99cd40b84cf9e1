//! `lock-bench compare`: distlock beside the lock libraries of others, in one run.
//!
//! The *conductor* starts the server of a store, and for each *system* (a library on that store, or the store's floor) a
//! *driver*: a small program in the library's language, which obeys one JSON object for each line ([`protocol`]). All get
//! the same schedule: one system after the other, round after round, so that what slows the machine down hits all
//! alike. A figure stands beside the floor's of the same round.
//!
//! While it is measured it is checked: drivers say when each tenure began and ended, on the clock that all processes share, and
//! whoever holds what another holds is marked ([`contest`]). A system that cannot be installed, or fails, is a row of its own,
//! with the reason.
//!
//! | file | what |
//! |---|---|
//! | `systems` | who takes part, and how its driver is started |
//! | `peer` | a driver that runs |
//! | `own` | the drivers of our locks and of the floors: this binary, started again |
//! | `scenario` | what is measured, and for how long |
//! | `conductor` | the rounds |
//! | `measure` | one turn of one system |
//! | `special` | what is not done in rounds: costs, takeover, many held locks |
//! | `contest` | what the tenures of a contest say: hand-offs, fairness, overlaps |
//! | `meter` | counts what goes to the server and back |
//! | `record` | what was measured, as it is kept in JSON |
//! | `ahead` | where another is ahead of us, and why |
//! | `markdown`, `page`, `plot` | how it is shown |

mod ahead;
mod args;
mod conductor;
mod contest;
#[path = "../../peers/rust/src/driver.rs"]
mod driver;
mod markdown;
mod measure;
mod meter;
mod own;
mod page;
mod peer;
mod plot;
#[path = "../../peers/rust/src/protocol.rs"]
mod protocol;
mod record;
mod scenario;
mod special;
mod systems;

pub(crate) use self::{
    args::{CompareArgs, DriverArgs},
    conductor::compare,
    own::drive,
};
