//! [`SeededEntropy`]: random bits that are the same for the same seed.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::Entropy;

/// Random bits from a seed: the same seed gives the same bits in the same order. For simulations, never for ids in a real
/// store.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The bits of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Another source, seeded from this one. After that they are independent: what one client draws does not change what another draws.
    #[must_use]
    pub fn branch(&self) -> Self {
        Self::new(self.next())
    }

    /// The next 64 bits (`SplitMix64`).
    pub fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bits = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 up to, not including, `end`. Zero if `end` is.
    pub fn below(&self, end: u64) -> u64 {
        // The high half of the product is as good as evenly spread for the small numbers of a simulation.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// True in so many of 1000 cases.
    pub fn chance(&self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// Whole milliseconds from zero to `most`, both included.
    pub fn up_to(&self, most: Duration) -> Duration {
        Duration::from_millis(self.below(most.as_millis() as u64 + 1))
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_bits_and_another_has_others() {
        let draw = |seed| {
            let entropy = SeededEntropy::new(seed);
            [entropy.bits(), entropy.bits(), u128::from(entropy.below(1000))]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_number_is_below_its_end_and_every_such_number_comes() {
        let entropy = SeededEntropy::new(1);
        let mut seen = [0; 6];
        for _ in 0..6_000 {
            seen[usize::try_from(entropy.below(6)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
        assert_eq!(entropy.below(0), 0);
    }
}
