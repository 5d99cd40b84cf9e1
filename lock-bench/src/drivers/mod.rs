//! A *driver* runs a *system*: our locks, a floor, or the library of others. All handle the same requests ([`protocol`]).
//!
//! The drivers of our locks and of the floors can run in this process. `lock-bench driver` runs one of them in a process of its own. The
//! drivers of other libraries are programs in `peers`, with which ours share `driver` and `protocol`.
//!
//! | file | what |
//! |---|---|
//! | `peers/rust/src/driver`, `protocol` | the trait, what all drivers in Rust share, and the requests |
//! | `own` | the driver of our locks |
//! | `contenders`, `held_locks` | the contenders and the locks that it has between two requests |
//! | `floor` | the driver of a floor |
//! | `link` | its part of a chain of messages |
//! | `pairs` | what a driver tells of pairs |
//! | `drive` | this binary as a driver in a process of its own |
//! | `process` | such a process, as the one that started it sees it |

mod contenders;
mod drive;
#[path = "../../peers/rust/src/driver.rs"]
mod driver;
mod floor;
mod held_locks;
mod link;
mod own;
mod pairs;
mod process;
#[path = "../../peers/rust/src/protocol.rs"]
pub(crate) mod protocol;

pub(crate) use self::{
    contenders::LONG_TTL,
    drive::{DriverArgs, drive},
    driver::{Driver, now},
    floor::{FLOOR, Floor},
    own::{Distlock, PERMITS},
    pairs::PairsTaken,
    process::{DriverProcess, arguments, own_program},
};
