//! The rules of the protocol about deadlines, and about entries whose time is over.

mod deadlines;
mod lives;

use self::{
    deadlines::{
        a_deadline_comes_from_an_answered_look_and_not_from_one_that_was_lost,
        a_machine_that_slept_past_a_deadline_learns_of_the_loss_within_a_second,
        a_place_that_was_handed_the_lock_keeps_it_as_long_as_it_was_promised,
        a_promise_is_counted_from_the_last_proof_and_kept_when_proofs_end, a_shorter_renewal_cuts_nothing,
        who_waited_with_a_shorter_lease_is_covered_for_the_longer_one,
    },
    lives::{
        a_hint_for_a_former_life_grants_nothing,
        a_later_life_of_an_entry_is_none_of_the_former_ones_business,
        the_dead_are_out_although_nobody_has_removed_them, the_dead_do_not_count_against_those_behind_them,
    },
};
use crate::Case;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rules_a_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rules_a {
            a_promise_is_counted_from_the_last_proof_and_kept_when_proofs_end ["PR01"]
            a_deadline_comes_from_an_answered_look_and_not_from_one_that_was_lost ["PR02"]
            a_hint_for_a_former_life_grants_nothing ["PR03"]
            a_later_life_of_an_entry_is_none_of_the_former_ones_business ["PR03"]
            a_shorter_renewal_cuts_nothing ["PR04"]
            a_place_that_was_handed_the_lock_keeps_it_as_long_as_it_was_promised ["PR04"]
            who_waited_with_a_shorter_lease_is_covered_for_the_longer_one ["PR04"]
            a_machine_that_slept_past_a_deadline_learns_of_the_loss_within_a_second ["PR05"]
            the_dead_are_out_although_nobody_has_removed_them ["PR06"]
            the_dead_do_not_count_against_those_behind_them ["PR06"]
        } }
    };
}

pub(super) const CASES: &[Case] = rules_a_cases!(list);
