//! Cases that keep the whole machine busy, with many clients or many locks. They run alone, so that they do not disturb cases that
//! measure time.

use super::{
    exclusion::a_hundred_contenders_lose_no_count, idle::a_look_of_a_waiter_costs_the_same_however_many_wait,
    liveness::hand_overs_by_the_thousand_lose_nobody, renewal::a_thousand_locks_are_renewed_in_few_requests,
};
use crate::CaseTest;

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! alone_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] alone {
            a_hundred_contenders_lose_no_count ["X04"]
            hand_overs_by_the_thousand_lose_nobody ["L05"]
            a_thousand_locks_are_renewed_in_few_requests ["R11"]
            a_look_of_a_waiter_costs_the_same_however_many_wait ["Q04"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = alone_cases!(list);
