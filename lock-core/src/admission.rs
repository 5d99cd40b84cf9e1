//! The rule that decides which entries hold the lock: pure, without a clock and without I/O.
//!
//! > You hold the lock while your permits, added to those ahead of you, fit the limit.
//!
//! Entries ahead of you can only leave, so an admission stays true: a stale look at the queue can delay a grant, but
//! it can never grant wrongly. For one kind and limit the admitted are always a prefix of the queue.

use crate::Claim;

/// Whether an entry with `claim` is admitted behind entries that hold or want `ahead` permits in all.
#[must_use]
pub fn fits(ahead: u64, claim: Claim) -> bool {
    ahead + u64::from(claim.permits()) <= u64::from(claim.limit())
}

/// How many entries at the front of a queue are admitted, given what each asks for, first to last.
///
/// ```
/// use lock_core::{Claim, admission::admitted};
///
/// let (r, w) = (Claim::reader(), Claim::writer());
/// assert_eq!(admitted([r, r, w, r]), 2);
/// assert_eq!(admitted([w, r]), 1);
/// ```
#[must_use]
pub fn admitted(queue: impl IntoIterator<Item = Claim>) -> usize {
    let mut ahead = 0;
    queue
        .into_iter()
        .take_while(|&claim| {
            let fits = fits(ahead, claim);
            ahead += u64::from(claim.permits());
            fits
        })
        .count()
}

/// How many of the entries nearest ahead of `claim` keep it out: while all of them live, it cannot be admitted.
///
/// `nearest_first` walks from the entry just ahead towards the front. For a mutex and a writer it is one entry, for a
/// reader everything back to the last writer, for a semaphore as many as leave too few permits. `None` if all of them
/// together leave room, that is, if the entry fits.
#[must_use]
pub fn blockers(claim: Claim, nearest_first: impl IntoIterator<Item = Claim>) -> Option<usize> {
    let mut ahead = 0;
    nearest_first.into_iter().enumerate().find_map(|(i, other)| {
        ahead += u64::from(other.permits());
        (!fits(ahead, claim)).then_some(i + 1)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn semaphore(limit: u32) -> impl Strategy<Value = Vec<Claim>> {
        let claim = (1..=limit).prop_map(move |permits| Claim::semaphore(permits, limit).unwrap());
        prop::collection::vec(claim, 0..24)
    }

    fn rwlock() -> impl Strategy<Value = Vec<Claim>> {
        let claim = prop::bool::ANY.prop_map(|w| if w { Claim::writer() } else { Claim::reader() });
        prop::collection::vec(claim, 0..24)
    }

    fn queue() -> impl Strategy<Value = Vec<Claim>> {
        prop_oneof![(1..9_u32).prop_flat_map(semaphore), semaphore(Claim::MAX), rwlock()]
    }

    proptest! {
        #[test]
        fn the_admitted_never_hold_more_than_the_limit(queue in queue()) {
            let held: u64 = queue[..admitted(queue.iter().copied())].iter().map(|c| u64::from(c.permits())).sum();
            prop_assert!(queue.is_empty() || held <= u64::from(queue[0].limit()));
        }

        #[test]
        fn no_leave_revokes_an_admission(queue in queue(), leaves in any::<prop::sample::Index>()) {
            prop_assume!(!queue.is_empty());
            let before = admitted(queue.iter().copied());
            let gone = leaves.index(queue.len());
            let mut rest = queue;
            rest.remove(gone);
            prop_assert!(admitted(rest.iter().copied()) >= before - usize::from(gone < before));
        }

        #[test]
        fn an_entry_has_the_least_number_of_blockers_if_it_is_not_admitted(queue in queue()) {
            for (i, &claim) in queue.iter().enumerate() {
                let sum = |n: usize| queue[i - n..i].iter().map(|c| u64::from(c.permits())).sum::<u64>();
                match blockers(claim, queue[..i].iter().rev().copied()) {
                    None => prop_assert!(fits(sum(i), claim)),
                    Some(n) => prop_assert!(!fits(sum(n), claim) && fits(sum(n - 1), claim)),
                }
            }
        }
    }

    #[test]
    fn sums_past_32_bits_do_not_wrap() {
        let w = Claim::writer();
        assert_eq!(admitted([w, w, w]), 1);
        assert!(!fits(3 * u64::from(Claim::MAX), w));
    }
}
