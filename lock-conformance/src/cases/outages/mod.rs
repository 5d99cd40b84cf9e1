//! Servers and client processes that are paused, lose data, are full, restart, or refuse clients.

mod refusals;
mod restarts;
mod standstill;
mod waiters;

use self::{
    refusals::{
        a_full_server_renews_and_hands_over_and_takes_nothing_new,
        clients_that_are_locked_out_for_a_while_lose_nothing,
        clients_that_are_locked_out_for_longer_lose_their_locks_in_time,
        locks_go_on_while_the_server_forgets_what_it_may,
    },
    restarts::{
        a_holder_goes_on_when_the_server_comes_back_with_its_data,
        a_holder_learns_that_the_server_lost_its_data, a_holder_learns_that_the_server_threw_it_out,
    },
    standstill::{
        a_client_that_stood_still_knows_that_its_lock_is_over,
        a_server_that_stands_still_for_a_part_of_the_ttl_costs_nothing,
        a_server_that_stands_still_for_longer_costs_locks_and_no_order,
        a_waiter_that_stood_still_gets_a_new_place,
        what_was_asked_of_a_server_that_stood_still_leaves_nothing_behind,
    },
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! outages_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] outages {
            a_server_that_stands_still_for_a_part_of_the_ttl_costs_nothing ["T09"]
            a_server_that_stands_still_for_longer_costs_locks_and_no_order ["T10"]
            what_was_asked_of_a_server_that_stood_still_leaves_nothing_behind ["T10"]
            a_client_that_stood_still_knows_that_its_lock_is_over ["T11"]
            a_waiter_that_stood_still_gets_a_new_place ["T11"]
            locks_go_on_while_the_server_forgets_what_it_may ["T18"]
            a_full_server_renews_and_hands_over_and_takes_nothing_new ["T19"]
            a_holder_learns_that_the_server_threw_it_out ["T20"]
            a_holder_goes_on_when_the_server_comes_back_with_its_data ["T21"]
            a_holder_learns_that_the_server_lost_its_data ["T21"]
            clients_that_are_locked_out_for_a_while_lose_nothing ["T24"]
            clients_that_are_locked_out_for_longer_lose_their_locks_in_time ["T24"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = outages_cases!(list);
