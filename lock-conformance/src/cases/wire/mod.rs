//! Network faults on a real connection.
//!
//! Clients have time limits for an answer that the cases do not know. So a case waits until the caller has its error, and only then lets
//! late bytes arrive.

mod broken;
pub(super) mod connects;
mod hints;
mod late;
mod lost;
mod one_way;
mod proxied;
mod silent;
mod slow;
mod twice;

use self::{
    broken::{
        a_reply_cut_at_any_byte_is_asked_for_again, a_request_cut_at_any_byte_is_sent_again,
        a_waiter_keeps_its_place_when_its_connections_are_reset,
    },
    hints::{
        a_hint_that_overtakes_the_answer_to_a_look_is_not_lost,
        a_lost_hint_delays_a_hand_over_by_a_third_of_the_ttl_at_most,
        a_silent_notification_connection_is_noticed_in_the_promised_time,
        all_waiters_look_again_when_their_notifications_come_back,
    },
    late::{
        a_create_that_arrives_after_its_caller_gave_up_takes_nothing,
        a_leave_that_arrives_late_frees_nobody_else, a_look_that_arrives_late_takes_nothing,
        a_renewal_that_arrives_after_the_loss_extends_nothing,
    },
    lost::{
        a_release_whose_reply_is_lost_is_unconfirmed_and_frees_the_lock,
        a_request_that_is_lost_is_an_error_in_time_and_leaves_nothing,
        a_waiter_whose_requests_are_lost_keeps_its_place,
        an_acquisition_whose_reply_is_lost_is_no_refusal_and_leaves_nothing,
        an_acquisition_whose_reply_is_lost_is_repeated_as_the_same_entry,
    },
    one_way::a_partition_in_one_direction_ends_a_lock_in_time_and_no_wait,
    silent::{
        a_connection_that_dies_in_silence_costs_no_lock, every_call_ends_in_time_while_nothing_comes_through,
        waiters_go_on_when_the_network_is_back,
    },
    slow::{
        a_grant_that_takes_longer_than_its_ttl_is_never_returned,
        a_lock_is_held_while_answers_take_longer_than_a_try_may,
        a_lock_whose_renewals_take_longer_than_its_ttl_is_lost_at_its_deadline,
        what_is_answered_late_is_asked_for_twice_at_most,
    },
    twice::what_arrives_twice_counts_once,
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! wire_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] wire {
            a_request_that_is_lost_is_an_error_in_time_and_leaves_nothing ["T01"]
            a_waiter_whose_requests_are_lost_keeps_its_place ["T01"]
            an_acquisition_whose_reply_is_lost_is_no_refusal_and_leaves_nothing ["T02"]
            an_acquisition_whose_reply_is_lost_is_repeated_as_the_same_entry ["T02"]
            a_release_whose_reply_is_lost_is_unconfirmed_and_frees_the_lock ["T03"]
            what_arrives_twice_counts_once ["T04"]
            a_create_that_arrives_after_its_caller_gave_up_takes_nothing ["T05"]
            a_look_that_arrives_late_takes_nothing ["T05"]
            a_leave_that_arrives_late_frees_nobody_else ["T05"]
            a_hint_that_overtakes_the_answer_to_a_look_is_not_lost ["T05"]
            a_lock_is_held_while_answers_take_longer_than_a_try_may ["T05"]
            what_is_answered_late_is_asked_for_twice_at_most ["T05"]
            a_renewal_that_arrives_after_the_loss_extends_nothing ["T06"]
            a_grant_that_takes_longer_than_its_ttl_is_never_returned ["T06"]
            a_lock_whose_renewals_take_longer_than_its_ttl_is_lost_at_its_deadline ["T06"]
            every_call_ends_in_time_while_nothing_comes_through ["T07"]
            a_connection_that_dies_in_silence_costs_no_lock ["T07"]
            waiters_go_on_when_the_network_is_back ["T07"]
            a_partition_in_one_direction_ends_a_lock_in_time_and_no_wait ["T07"]
            a_reply_cut_at_any_byte_is_asked_for_again ["T08"]
            a_request_cut_at_any_byte_is_sent_again ["T08"]
            a_waiter_keeps_its_place_when_its_connections_are_reset ["T08"]
            a_lost_hint_delays_a_hand_over_by_a_third_of_the_ttl_at_most ["T15"]
            a_silent_notification_connection_is_noticed_in_the_promised_time ["T15"]
            all_waiters_look_again_when_their_notifications_come_back ["T15"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = wire_cases!(list);
