//! L08: when a wait ends, on simulated time. On a real server the suite shows that it never ends too early, and ends.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, BackOff, DistributedLock, Error, Outage};
use support::{Fault, Sim, Verb, Wire, ms, s};

/// From a moment to more than three leases.
const WAITS: [Duration; 5] = [ms(1), ms(40), ms(300), ms(1_500), s(100)];

/// What a store does to a waiter, and the faults that make it do so.
type Behaviour = (&'static str, fn(&Wire));

const BEHAVIOURS: [Behaviour; 8] = [
    ("tells and answers", |_| {}),
    ("tells nobody anything", Wire::silence),
    ("is asked all the time", Wire::hurry),
    ("is polled", |wire| wire.polls(BackOff { least: ms(20), most: ms(250) })),
    ("never answers", |wire| wire.always(Verb::Enter, Some(Fault::Hangs))),
    ("answers late", |wire| wire.always(Verb::Enter, Some(Fault::Late(ms(700))))),
    ("loses all requests", |wire| wire.always(Verb::Enter, Some(Fault::Lost(s(2))))),
    ("cannot be reached", |wire| wire.always(Verb::Enter, Some(Fault::Refused))),
];

/// The timers of the runtime tick in milliseconds, so a millisecond or two are the ticks.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_should_whatever_the_store_does() {
    for (does, tell) in BEHAVIOURS {
        for wait in WAITS {
            let sim = Sim::new();
            let (holder, waiter) = (sim.client(), sim.client());
            tell(&waiter.wire);
            let options = AcquireOptions::new().ttl(s(30)).outage(Outage::Wait);
            let _held = holder.locks.mutex("a").unwrap().acquire_with(&options).await.unwrap();
            let due = sim.now() + wait;
            let lock = waiter.locks.mutex("a").unwrap();
            let error = lock.acquire_with(&options.wait(wait)).await.unwrap_err();
            let now = sim.now();
            let what = format!("a wait of {wait:?} for a store that {does}");
            assert!(
                matches!(error, Error::WaitTimeout { waited, .. } if waited == wait),
                "{what}: {error:?}"
            );
            assert!(now >= due, "{what} ended {:?} too early", due.since(now));
            assert!(now.since(due) <= ms(2), "{what} ended {:?} too late", now.since(due));
        }
    }
}
