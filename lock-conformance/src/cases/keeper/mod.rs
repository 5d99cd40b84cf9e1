//! The keeper renews and ends the leases of its process in time, whatever one store, one waker or one class of leases does.

mod leases;
mod quirks;
mod wakers;

use self::{
    leases::{
        a_lease_of_its_own_ends_although_its_session_lives, a_lost_lock_is_left_although_its_session_lives,
        a_place_that_nobody_polls_ends_although_its_session_lives,
        a_slow_store_or_class_delays_no_other_lease,
    },
    wakers::{
        a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock,
        a_waker_that_drops_guards_ends_and_costs_nobody_a_lock, a_waker_that_panics_costs_nobody_a_lock,
    },
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! keeper_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] keeper {
            a_lease_of_its_own_ends_although_its_session_lives ["PR09"]
            a_lost_lock_is_left_although_its_session_lives ["PR09"]
            a_place_that_nobody_polls_ends_although_its_session_lives ["PR09"]
            a_slow_store_or_class_delays_no_other_lease ["PR35"]
            a_waker_that_panics_costs_nobody_a_lock ["PR35"]
            a_waker_that_drops_guards_ends_and_costs_nobody_a_lock ["PR35"]
            a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock ["PR35"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = keeper_cases!(list);
