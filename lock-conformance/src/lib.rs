//! The conformance suite for backends: one test for each promise, each named after it.
//!
//! A backend provides a [`Harness`], which creates clients of a store and controls its server, and one line:
//!
//! ```text
//! lock_conformance::suite!(MyHarness);
//! ```
//!
//! in its own `tests/conformance.rs`. The line expands to one `#[test]` for each case, grouped in modules, so that no
//! backend can leave one out. A backend [declares](Harness::declared) what its store cannot meet, with a reason; each declaration, and
//! each test that [ran nothing](ran_nothing), is printed and counted.
//!
//! `docs/writing-a-backend.md` leads from an empty crate to the passing suite. To start from, there are the harness of the memory
//! backend (`tests/memory_harness` in this crate), one for a store without notifications (`tests/memory_polling.rs`), and two that
//! start server processes (in `examples/postgres-backend` and `lock-redis`).
//!
//! If clients reach the store over a connection, the harness exposes it as a [`Wire`]. The suite then inserts a [`Proxy`], which
//! loses, delays, holds and cuts bytes, or a [`Relay`], which knows the protocol, sends requests twice and holds answers. A store
//! without a wire declares those cases.
//!
//! When a case ends, its runtime is shut down, and with it everything that still waits or holds there. After that the store must be
//! empty and the server must have no clients. Exempt is what crashed clients and killed processes left, and entries that the case
//! created by calling the verbs itself.
//!
//! What must happen has to happen within [`SLACK`], which is generous, so that a busy machine fails nothing. What must not happen too
//! early is checked exactly. A case that needs leases to be renewed in time is repeated once if the machine stood still when it failed,
//! as an independent detector has measured; never if a promise of [safety](audit::safety) was broken. Each such excuse is a line on
//! standard error, and in the file that the variable `DISTLOCK_EXCUSES` names.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | running the suite on a backend | [`Harness`], [`Wire`], [`ServerControl`], [`suite!`] |
//! | the cases and the promises they show | [`cases`], [`Case`], [`REQUIRED`], [`not_run`] |
//! | tests of TLS, with the feature `tls` | `Authority`, `Impostor` |
//! | checking that a case finds a bug | [`Layer`], [`finds`]; and [`BUGS`], bugs that locks have had, each of which [`find_bugs()`] plants in your store: `docs/bug-bank.md` |
//! | writing your own tests with the same tools | [`TestEnv`], [`Client`], [`ClientProcess`], [`TestServer`], [`Port`], [`ServerProcess`], [`ServerProgram`], [`copy_program`], [`shared_library()`], [`ScriptedFaults`], [`LogText`], [`Proxy`], [`Relay`], [`resolve()`], [`unique()`], [`polls`], [`audit`] |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod alone;
pub mod audit;
mod bugs;
mod case;
mod case_test;
pub mod cases;
#[cfg(feature = "tls")]
mod certificates;
mod client;
mod client_process;
mod client_registry;
mod command;
mod connections;
mod copy_program;
mod critical;
mod declarations;
mod excuse;
mod find_bugs;
mod footprint;
mod gate;
mod harness;
mod hints;
#[cfg(feature = "tls")]
mod impostor;
mod layer;
mod leak_check;
mod log_text;
mod output;
pub mod polls;
mod port;
mod proxy;
mod ran_nothing;
mod relay;
mod resolve;
mod rival;
mod run;
mod scripted_faults;
mod self_test;
mod server;
mod server_process;
mod server_program;
mod shared_library;
mod signals;
mod stall_detector;
mod suite;
mod test_env;
mod test_server;
mod unique;
mod volume;
mod wire;

pub use self::{
    alone::alone,
    audit::SLACK,
    bugs::{BUGS, Needs, PlantedBug},
    case::{Case, Mode, REQUIRED},
    client::Client,
    client_process::ClientProcess,
    command::{Command, Reply, Side},
    connections::connections_to,
    copy_program::copy_program,
    critical::{Critical, Inside},
    declarations::{check_declarations, not_run},
    excuse::excused_by_outage,
    find_bugs::{find_bugs, find_bugs_alone},
    footprint::{Footprint, Usage},
    gate::Gate,
    harness::{Declared, Harness, MakeBug},
    hints::{HintsOnly, NoHints},
    layer::{Layer, Layered, Sound},
    log_text::LogText,
    port::Port,
    proxy::{Flow, Links, Newcomers, Proxy, Way},
    ran_nothing::ran_nothing,
    relay::{Answer, Frame, Framed, Frames, Framing, Relay, Request, Traffic},
    resolve::resolve,
    rival::Rival,
    run::{contend, finds, run},
    scripted_faults::{Fault, ScriptedFaults, Verb},
    self_test::{find_cuts, find_silence},
    server::{Control, Data, NOT_OURS, NOTHING_IS_EVICTED, ServerControl, Unsupported},
    server_process::ServerProcess,
    server_program::ServerProgram,
    shared_library::shared_library,
    test_env::TestEnv,
    test_server::TestServer,
    unique::unique,
    volume::volume,
    wire::Wire,
};
#[cfg(feature = "tls")]
pub use self::{
    certificates::{Authority, Issued},
    impostor::Impostor,
};

pub(crate) use self::case_test::CaseTest;
