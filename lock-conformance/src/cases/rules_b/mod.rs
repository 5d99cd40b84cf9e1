//! The rules of the protocol, PR07 to PR14 and PR35; and the end of a client.

mod closing;
mod departures;
mod entries;
pub(super) mod forks;
mod keepers;
mod odd_store;
mod queues;
mod wakers;

use self::{
    closing::{
        a_close_that_races_an_acquisition_grants_nothing_and_leaves_nothing,
        a_close_waits_for_a_guard_that_is_dropped_meanwhile,
        whoever_waits_is_told_of_a_close_at_once_and_never_granted,
    },
    departures::{
        a_cancelled_writer_frees_the_readers_behind_it, an_expired_holder_is_noticed_by_whoever_comes_next,
        permits_that_come_back_admit_all_who_fit,
    },
    entries::{
        a_create_that_arrives_after_its_leave_finds_the_door_closed,
        a_dropped_acquisition_leaves_nothing_although_its_request_comes_late,
        a_name_has_one_kind_and_one_limit_while_it_is_in_use,
        a_release_whose_first_answer_was_lost_was_a_release, sums_of_permits_do_not_overflow,
    },
    forks::a_fork_has_none_of_the_locks_of_its_parent_and_spoils_none,
    keepers::{
        a_lease_of_its_own_ends_although_its_session_lives, a_lost_lock_is_left_although_its_session_lives,
        a_place_that_nobody_polls_ends_although_its_session_lives,
        a_slow_store_or_class_delays_no_other_lease,
    },
    queues::{
        a_free_name_with_a_queue_goes_to_its_head_and_to_nobody_else,
        a_waiter_keeps_its_place_beside_a_holder_with_a_longer_ttl,
        waiters_look_again_when_their_notifications_come_back,
    },
    wakers::{
        a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock,
        a_waker_that_drops_guards_ends_and_costs_nobody_a_lock, a_waker_that_panics_costs_nobody_a_lock,
    },
};
use crate::Case;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rules_b_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rules_b {
            a_name_has_one_kind_and_one_limit_while_it_is_in_use ["PR07"]
            sums_of_permits_do_not_overflow ["PR07"]
            a_create_that_arrives_after_its_leave_finds_the_door_closed ["PR08"]
            a_dropped_acquisition_leaves_nothing_although_its_request_comes_late ["PR08"]
            a_lease_of_its_own_ends_although_its_session_lives ["PR09"]
            a_lost_lock_is_left_although_its_session_lives ["PR09"]
            a_place_that_nobody_polls_ends_although_its_session_lives ["PR09"]
            a_release_whose_first_answer_was_lost_was_a_release ["PR10"]
            a_cancelled_writer_frees_the_readers_behind_it ["PR11"]
            permits_that_come_back_admit_all_who_fit ["PR11"]
            an_expired_holder_is_noticed_by_whoever_comes_next ["PR11"]
            a_free_name_with_a_queue_goes_to_its_head_and_to_nobody_else ["PR12"]
            a_waiter_keeps_its_place_beside_a_holder_with_a_longer_ttl ["PR13"]
            waiters_look_again_when_their_notifications_come_back ["PR14"]
            a_slow_store_or_class_delays_no_other_lease ["PR35"]
            a_waker_that_panics_costs_nobody_a_lock ["PR35"]
            a_waker_that_drops_guards_ends_and_costs_nobody_a_lock ["PR35"]
            a_waker_that_drops_a_waiter_at_a_hint_costs_nobody_a_lock ["PR35"]
            a_fork_has_none_of_the_locks_of_its_parent_and_spoils_none ["PR35"]
            whoever_waits_is_told_of_a_close_at_once_and_never_granted ["C19"]
            a_close_waits_for_a_guard_that_is_dropped_meanwhile ["C19"]
            a_close_that_races_an_acquisition_grants_nothing_and_leaves_nothing ["C19"]
        } }
    };
}

pub(super) const CASES: &[Case] = rules_b_cases!(list);
