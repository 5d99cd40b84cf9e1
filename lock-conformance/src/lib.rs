//! The suite that every backend passes: one test for each promise, each under a name that states it.
//!
//! A backend brings a [`Harness`], which makes clients of a store and controls its server, and one line:
//!
//! ```text
//! lock_conformance::suite!(MyHarness);
//! ```
//!
//! in a `tests/conformance.rs` of its own. It expands to one `#[test]` for each case, grouped in modules, so that no
//! backend can leave one out. What a store truly cannot meet is [declared](Harness::declared) with its reason, printed
//! and counted; and so is each test that [ran nothing](ran_nothing).
//!
//! `docs/writing-a-backend.md` goes from an empty crate to the passing suite. The harness of the memory backend, in
//! `tests/memory_harness` of this crate, is a whole one to start from, and `tests/memory_polling.rs` one of a store without
//! notifications; those of `examples/postgres-backend` and of `lock-redis` start server processes.
//!
//! A store that is reached over a connection shows it as its [`Wire`], and the suite puts a [`Proxy`] there that loses, delays,
//! keeps and cuts what goes over it, or a [`Relay`], which knows the protocol, and doubles requests and keeps answers. What has
//! no wire declares those cases.
//!
//! When a case is over, its runtime ends, and with it all that still waits or holds there. Then the store must hold nothing,
//! and the server know nobody, but for what crashed clients and killed processes had, and entries that the case had made
//! by calling the verbs itself.
//!
//! A case only says how soon something must have happened (within [`SLACK`], generous, so that a busy machine fails
//! nothing), and exactly what must never happen too early. Those that need a lease to be renewed in time are repeated once if
//! the machine stood still when they failed, as an independent detector tells; never if they found a promise of
//! [safety](audit::safety) broken. Each such excuse is a line on the standard error, and in the file that the variable
//! `DISTLOCK_EXCUSES` names.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | running the suite on a backend | [`Harness`], [`Wire`], [`ServerControl`], [`suite!`] |
//! | the cases and the promises they carry | [`cases`], [`Case`], [`REQUIRED`] |
//! | checking what clients of any lock saw, and simulations | [`history`], [`simulation`] |
//! | tests of TLS, with the feature `tls` | `Authority`, `Impostor` |
//! | seeing that a case finds a bug | [`Layer`], [`finds`], and the bank of bugs in `docs/bug-bank.md` |
//! | writing tests of one's own with the same tools | [`TestEnv`], [`Client`], [`ClientProcess`], [`TestServer`], [`Port`], [`ServerProcess`], [`ServerProgram`], [`Faulty`], [`Proxy`], [`Relay`], [`polls`], [`audit`] |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod alone;
pub mod audit;
mod case;
pub mod cases;
#[cfg(feature = "tls")]
mod certificates;
mod client;
mod client_process;
mod client_registry;
mod command;
mod connections;
mod critical;
mod declarations;
mod excuse;
mod faulty;
mod footprint;
mod gate;
mod harness;
mod hints;
pub mod history;
#[cfg(feature = "tls")]
mod impostor;
mod layer;
mod leak_check;
mod output;
pub mod polls;
mod port;
mod proxy;
mod ran_nothing;
mod relay;
mod rival;
mod run;
mod self_test;
mod server;
mod server_process;
mod server_program;
mod signals;
pub mod simulation;
mod stall_detector;
mod suite;
mod test_env;
mod test_server;
mod volume;
mod wire;

pub use self::{
    alone::alone,
    audit::SLACK,
    case::{Case, Mode, REQUIRED},
    client::Client,
    client_process::ClientProcess,
    command::{Command, Reply, Side},
    connections::connections_to,
    critical::{Critical, Inside},
    declarations::check_declarations,
    excuse::excused_by_outage,
    faulty::{Fault, Faulty, Verb},
    footprint::{Footprint, Usage},
    gate::Gate,
    harness::{Declared, Harness, MakeBug},
    hints::{HintsOnly, NoHints},
    layer::{Layer, Layered, Sound},
    port::Port,
    proxy::{Flow, Links, Newcomers, Proxy, Way},
    ran_nothing::ran_nothing,
    relay::{Answer, Frame, Framed, Frames, Framing, Relay, Request, Traffic},
    rival::Rival,
    run::{contend, finds, run},
    self_test::{find_cuts, find_silence},
    server::{Control, Data, ServerControl, Unsupported},
    server_process::ServerProcess,
    server_program::ServerProgram,
    test_env::TestEnv,
    test_server::TestServer,
    volume::volume,
    wire::Wire,
};
#[cfg(feature = "tls")]
pub use self::{
    certificates::{Authority, Issued},
    impostor::Impostor,
};
