//! Names, labels, durations and numbers: allowed values work up to their limits, and others get a typed error that says what to change.

mod names;
mod numbers;

use self::{
    names::{
        a_name_of_four_kib_works_and_a_longer_one_is_refused, an_empty_name_is_refused,
        names_are_never_folded_or_normalised, names_of_every_unicode_plane_work,
        names_that_contain_each_other_never_meet, separators_and_wildcards_mean_nothing_in_a_name,
    },
    numbers::{
        a_label_of_any_bytes_is_shown_as_it_was_given, a_label_that_is_too_long_is_shown_cut,
        durations_out_of_range_are_refused_and_the_limits_work,
        permits_out_of_range_are_refused_and_the_limits_work,
    },
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! inputs_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] inputs {
            an_empty_name_is_refused ["I01"]
            separators_and_wildcards_mean_nothing_in_a_name ["I02"]
            names_of_every_unicode_plane_work ["I03"]
            a_name_of_four_kib_works_and_a_longer_one_is_refused ["I04"]
            names_that_contain_each_other_never_meet ["I05"]
            names_are_never_folded_or_normalised ["I06"]
            a_label_of_any_bytes_is_shown_as_it_was_given ["I07"]
            a_label_that_is_too_long_is_shown_cut ["I07"]
            durations_out_of_range_are_refused_and_the_limits_work ["I08"]
            permits_out_of_range_are_refused_and_the_limits_work ["I09"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = inputs_cases!(list);
