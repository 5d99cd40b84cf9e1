//! [`Attempt`]: one acquisition, as it is drawn.

use std::time::Duration;

use lock_core::{Claim, testing::SeededEntropy};

/// The permits of the semaphore.
const LIMIT: u32 = 3;

/// The shortest pauses of servers cost none of these leases, and the longest cost each.
const TTLS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(5)];

/// What is asked for, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) pause: Duration,
    pub(crate) name: &'static str,
    pub(crate) claim: Claim,
    pub(crate) ttl: Duration,
    /// How long to wait. `None` tries once.
    pub(crate) wait: Option<Duration>,
    pub(crate) hold: Duration,
    /// Whether the guard is dropped, and not released.
    pub(crate) dropped: bool,
}

impl Attempt {
    pub(crate) fn draw(entropy: &SeededEntropy) -> Self {
        let (name, claim) = match entropy.below(4) {
            0 => ("mutex-0", Claim::mutex()),
            1 => ("mutex-1", Claim::mutex()),
            2 => ("rwlock", if entropy.chance(300) { Claim::writer() } else { Claim::reader() }),
            _ => ("semaphore", portion(1 + entropy.below(LIMIT.into()) as u32)),
        };
        // Most locks change hands often, and some are held for longer than their lease.
        let most = if entropy.chance(100) { Duration::from_secs(8) } else { Duration::from_millis(300) };
        Self {
            pause: entropy.up_to(Duration::from_millis(200)),
            name,
            claim,
            ttl: TTLS[entropy.below(TTLS.len() as u64) as usize],
            wait: entropy.chance(750).then(|| Duration::from_secs(1) + entropy.up_to(Duration::from_secs(9))),
            hold: entropy.up_to(most),
            dropped: entropy.chance(250),
        }
    }
}

fn portion(permits: u32) -> Claim {
    Claim::semaphore(permits, LIMIT).expect("from one to all permits are drawn")
}
