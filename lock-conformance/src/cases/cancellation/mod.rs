//! Any future can be dropped at any await point: nothing is left behind, and the next waiter is granted.

mod moments;
mod polls;
mod runtimes;

use self::{
    moments::{
        a_cancelled_waiter_leaves_the_queue_at_once, a_future_that_was_never_polled_asks_nothing,
        a_grant_that_comes_as_the_wait_ends_is_taken_or_given_back,
        a_grant_that_nobody_collects_goes_to_the_next, a_grant_whose_answer_comes_too_late_is_given_back,
        an_acquisition_that_loses_a_race_leaves_nothing_behind,
    },
    polls::{
        a_queued_acquisition_can_be_dropped_at_every_point, a_release_can_be_dropped_at_every_point,
        a_renewal_can_be_dropped_at_every_point, a_try_can_be_dropped_at_every_point,
        an_acquisition_can_be_dropped_at_every_point, both_sides_of_a_rwlock_can_be_dropped_at_every_point,
        portions_of_a_semaphore_can_be_dropped_at_every_point,
    },
    runtimes::{
        a_guard_is_dropped_without_a_runtime, a_guard_outlives_the_runtime_that_took_it,
        a_panic_releases_what_it_unwinds, a_runtime_that_ends_leaves_its_locks_and_queues,
        an_aborted_task_leaves_its_locks_and_queues,
    },
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! cancellation_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] cancellation {
            a_try_can_be_dropped_at_every_point ["C01"]
            an_acquisition_can_be_dropped_at_every_point ["C02"]
            a_queued_acquisition_can_be_dropped_at_every_point ["C03"]
            a_renewal_can_be_dropped_at_every_point ["C04"]
            a_release_can_be_dropped_at_every_point ["C05"]
            both_sides_of_a_rwlock_can_be_dropped_at_every_point ["C07"]
            portions_of_a_semaphore_can_be_dropped_at_every_point ["C08"]
            a_future_that_was_never_polled_asks_nothing ["C09"]
            a_grant_that_nobody_collects_goes_to_the_next ["C10"]
            an_acquisition_that_loses_a_race_leaves_nothing_behind ["C11"]
            a_grant_that_comes_as_the_wait_ends_is_taken_or_given_back ["C12"]
            a_grant_whose_answer_comes_too_late_is_given_back ["C12"]
            an_aborted_task_leaves_its_locks_and_queues ["C13"]
            a_runtime_that_ends_leaves_its_locks_and_queues ["C14" "C15"]
            a_guard_outlives_the_runtime_that_took_it ["C15"]
            a_guard_is_dropped_without_a_runtime ["C16"]
            a_panic_releases_what_it_unwinds ["C17"]
            a_cancelled_waiter_leaves_the_queue_at_once ["C18"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = cancellation_cases!(list);
