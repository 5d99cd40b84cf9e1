//! Simulations: many clients and one store in one thread, on time that jumps, with faults drawn from a seed.
//!
//! What a service does when it loses its lock is hard to test on a real server, because the interesting moments are rare and cannot be
//! repeated. Here they are cheap. The engine and the keeper are the real ones; only time, randomness and
//! the wire are simulated. A run of a minute takes milliseconds, and the same seed gives the same run, to the last
//! request.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::{AcquireOptions, DistributedLock, LostReason, testing::Simulation};
//!
//! // A service that is stopped for longer than its ttl, and another client that takes over.
//! let seconds = Duration::from_secs;
//! let (lost, takeover) = Simulation::new(42).run(async |sim| {
//!     let options = AcquireOptions::new().ttl(seconds(3));
//!     let (service, other) = (sim.client(), sim.client());
//!
//!     let lock = service.locks().mutex("ledger")?.with_options(options.clone());
//!     let work = service.spawn(async move {
//!         let guard = lock.acquire().await?;
//!         let reason = guard.lost().await;
//!         // Here the service under test must not write any more.
//!         Ok::<_, lock_core::Error>(reason)
//!     });
//!     sim.sleep(seconds(1)).await;
//!     service.block();
//!     let guard = other.locks().mutex("ledger")?.acquire_with(&options).await?;
//!     service.unblock();
//!     Ok::<_, lock_core::Error>((work.await.expect("the task ends")?, guard.token()))
//! })?;
//! assert_eq!(lost, LostReason::Expired);
//! assert_eq!(takeover.get(), 2);
//! # Ok::<(), lock_core::Error>(())
//! ```
//!
//! # How to test a service
//!
//! 1. Give it the [`Locks`](crate::Locks) of a [client](Sim::client), and start it by [`SimClient::spawn`]: one client is one
//!    process.
//! 2. Give it something to write to that remembers each write with the [token](crate::Guard::token) under which it was made: an
//!    `Arc<Mutex<Vec<_>>>` will do.
//! 3. Start the same service on a second client, which takes over.
//! 4. Get the first into trouble for longer than its ttl, at a moment drawn from [`Sim::entropy`], and let some time go by.
//! 5. Check that no write with a smaller token comes after one with a larger token; and that both services wrote, or nothing was tested.
//! 6. Repeat it with many seeds, and then with a mistake in the service, to see that it is found. A seed that fails goes into
//!    the message: it gives the same run again.
//!
//! `examples/tested_service.rs` in the repository does all of this in a page. A holder is told afterwards that an operator took its lock
//! away, not before: do not expect of a service that it never writes in between.
//!
//! # What can go wrong in it
//!
//! | fault | how |
//! |---|---|
//! | requests and answers lost, late, twice or refused; hints lost, late, repeated or for a former life, and streams of them that end | [`Faults`], per client, at a rate |
//! | a network that is cut: no request arrives in time | [`Faults`] with a `latency` of a day |
//! | a client that does nothing for a while, as a stopped process or a blocked runtime | [`SimClient::block`] |
//! | a client that crashes and releases nothing | [`SimClient::crash`] |
//! | a clock that runs fast or slow | [`Sim::client_through`] |
//! | a machine that sleeps | [`Sim::suspend`] |
//! | an operator who takes a lock away | [`Locks::operator`](crate::Locks::operator) |
//!
//! A [`WireProbe`] on the [wire](SimClient::wire) of a client counts what its requests meet, and can choose it.
//!
//! # What it needs
//!
//! The feature `testing`, of this crate or of `distlock`, which turns on the paused time of tokio: for `[dev-dependencies]` only.
//! No runtime and no `#[tokio::test]`: a simulation has its own runtime, and a plain `#[test]` calls it. Code under test
//! has to sleep by `tokio::time`, draw its randomness from a [`SeededEntropy`], and start its tasks by [`SimClient::spawn`];
//! what it takes from the operating system directly is different in each run.

mod clock;
mod clock_skew;
mod entropy;
mod faults;
mod faulty_hints;
mod machine;
mod random_faults;
mod simulation;
#[cfg(test)]
mod tests;
mod wire_probe;

pub(crate) use self::machine::Machine;
pub use self::{
    clock::VirtualClock,
    entropy::SeededEntropy,
    faults::Faults,
    random_faults::RandomFaults,
    simulation::{Sim, SimClient, Simulation},
    wire_probe::{Delivery, Request, RequestFault, WireProbe},
};
