//! The part of the bug bank that needs nothing but a backend: bugs that locks have had, each with the case that has to find it.

mod deadlines;
mod entries;
mod hints;
mod leaves;
mod looks;
mod planted_bug;
mod renewals;
mod tokens;

use std::{sync::Arc, time::Duration};

use lock_core::Keeper;

pub use self::planted_bug::{Needs, PlantedBug};
use self::{
    deadlines::{ClampsTtls, EndsEarlier},
    entries::{KeyPerSession, PrefixWithoutEnd},
    hints::{GoesOnWithoutALook, SubscribesAfterwards, WakesTheHerd},
    leaves::{ClosesTheSession, ForgetsLeaves, ReleasesAnyHolder},
    looks::{GivesUpWhenLockedOut, StaleGrants, StaleQueues},
    renewals::{RenewsAnyHolder, RenewsByCreating, RenewsNothing},
    tokens::{FloatingTokens, TokenReadAfterwards},
};
use crate::NoHints;

/// How often a waiter looks that looks all the time: ten times as often as it has to in the case that counts the looks.
const LOOKS: Duration = Duration::from_millis(100);

/// The bugs that can be planted in any store, those that take longest to be found first. `docs/bug-bank.md` says what is wrong in each;
/// [`find_bugs`](crate::find_bugs()) looks for them.
pub const BUGS: &[PlantedBug] = &[
    PlantedBug {
        id: "b09",
        case: ("liveness", "a_release_between_the_look_and_the_wait_is_not_missed"),
        says: &["the waiter that was about to wait: not within"],
        needs: Needs::Hints,
        make: |_| Arc::new(SubscribesAfterwards),
    },
    PlantedBug {
        id: "b11",
        case: ("liveness", "waiters_look_again_when_their_notifications_come_back"),
        says: &["the turn of a waiter who was told nothing: not within"],
        needs: Needs::MissedHints,
        make: |_| Arc::new(GoesOnWithoutALook),
    },
    PlantedBug {
        id: "b41",
        case: ("liveness", "permits_that_come_back_admit_all_who_fit"),
        says: &["one of several grants: not within"],
        needs: Needs::Hints,
        make: |_| Arc::new(NoHints::default()),
    },
    PlantedBug {
        id: "b42",
        case: ("liveness", "a_release_is_noticed_without_hints"),
        says: &["a look at the queue: not within"],
        needs: Needs::Nothing,
        make: |_| Arc::<StaleQueues>::default(),
    },
    PlantedBug {
        id: "b49",
        case: ("outages", "clients_that_are_locked_out_for_a_while_lose_nothing"),
        says: &["a look is tried again", "!waiting.is_finished()"],
        needs: Needs::Nothing,
        make: |_| Arc::new(GivesUpWhenLockedOut),
    },
    PlantedBug {
        id: "b38",
        case: ("alone", "a_look_of_a_waiter_costs_the_same_however_many_wait"),
        // Among the few waiters that the case begins with.
        says: &[" looks of "],
        needs: Needs::Hints,
        make: |_| Arc::new(NoHints::looking_every(LOOKS, Keeper::shared())),
    },
    PlantedBug {
        id: "b46",
        case: ("renewal", "a_lock_can_be_extended_by_hand_and_ends_when_it_is_not"),
        says: &["more than the lease has", "granted to others while it is held"],
        needs: Needs::Nothing,
        make: |_| Arc::new(RenewsNothing),
    },
    PlantedBug {
        id: "b03",
        case: ("renewal", "a_renewal_creates_nothing"),
        says: &["left: Renewed"],
        needs: Needs::Nothing,
        make: |_| Arc::new(RenewsByCreating),
    },
    PlantedBug {
        id: "b04",
        case: ("renewal", "a_renewal_extends_nobody_elses_lease"),
        says: &["left: Renewed"],
        needs: Needs::Nothing,
        make: |_| Arc::new(RenewsAnyHolder),
    },
    PlantedBug {
        id: "b05",
        case: ("exclusion", "a_client_that_does_not_hold_a_lock_cannot_release_it"),
        says: &["a stranger released the lock of another"],
        needs: Needs::Nothing,
        make: |_| Arc::new(ReleasesAnyHolder),
    },
    PlantedBug {
        id: "b07",
        case: ("exclusion", "a_second_acquisition_through_the_same_lock_waits_for_the_first"),
        says: &["is_none()"],
        needs: Needs::Nothing,
        make: |_| Arc::new(KeyPerSession::new()),
    },
    PlantedBug {
        id: "b08",
        case: ("exclusion", "names_that_begin_alike_do_not_meet"),
        says: &["shows the queue of another name"],
        needs: Needs::Nothing,
        make: |_| Arc::new(PrefixWithoutEnd),
    },
    PlantedBug {
        id: "b14",
        case: ("fairness", "a_hand_off_costs_the_same_however_many_wait"),
        says: &["looks at the queue for"],
        needs: Needs::Hints,
        make: |_| Arc::<WakesTheHerd>::default(),
    },
    PlantedBug {
        id: "b20",
        case: ("fencing", "readers_have_tokens_between_those_of_the_writers_before_and_after"),
        says: &["are not between"],
        needs: Needs::Nothing,
        make: |_| Arc::<TokenReadAfterwards>::default(),
    },
    PlantedBug {
        id: "b22",
        case: ("fencing", "a_token_past_two_to_the_53_is_exact"),
        says: &["was taken for it"],
        needs: Needs::Nothing,
        make: |_| Arc::<FloatingTokens>::default(),
    },
    PlantedBug {
        id: "b43",
        case: ("expiry", "a_former_life_of_an_entry_does_nothing_to_a_later_one"),
        says: &["a look created something"],
        needs: Needs::Nothing,
        make: |_| Arc::<StaleGrants>::default(),
    },
    PlantedBug {
        id: "b44",
        case: ("expiry", "a_ttl_that_the_store_makes_longer_is_shown_and_not_relied_on"),
        says: &["the deadline is later than the requested ttl allows"],
        needs: Needs::Nothing,
        make: |_| Arc::new(EndsEarlier),
    },
    PlantedBug {
        id: "b45",
        case: ("expiry", "a_waiter_with_a_shorter_lease_is_covered_for_the_longer_one"),
        says: &["more than the lease has"],
        needs: Needs::Nothing,
        make: |_| Arc::new(ClampsTtls),
    },
    PlantedBug {
        id: "b47",
        case: ("exclusion", "a_lock_that_was_released_can_be_taken_at_once"),
        says: &["it is free"],
        needs: Needs::Nothing,
        make: |_| Arc::new(ForgetsLeaves),
    },
    PlantedBug {
        id: "b48",
        case: ("exclusion", "locks_of_different_names_do_not_meet"),
        says: &["was freed with another"],
        needs: Needs::Nothing,
        make: |_| Arc::<ClosesTheSession>::default(),
    },
];
