//! The cases, by group. Each group has the list of its cases.

mod alone;
mod altered;
mod cancellation;
mod claims;
mod close;
mod exclusion;
mod expiry;
mod fairness;
mod fencing;
mod growth;
mod idle;
mod inputs;
mod jumping_clock;
mod keeper;
mod lease;
mod leave;
mod liveness;
mod logs;
mod lost_signal;
mod outages;
mod process;
mod reentrancy;
mod renewal;
pub(crate) mod resources;
mod rwlock;
mod semaphore;
mod stall_tolerant;
mod steps;
mod wire;

use crate::{Case, CaseTest};

/// Every group, in the order in which they are best read.
const GROUPS: &[&[CaseTest]] = &[
    exclusion::CASES,
    liveness::CASES,
    expiry::CASES,
    renewal::CASES,
    lost_signal::CASES,
    fencing::CASES,
    reentrancy::CASES,
    fairness::CASES,
    cancellation::CASES,
    leave::CASES,
    close::CASES,
    process::CASES,
    inputs::CASES,
    rwlock::CASES,
    semaphore::CASES,
    claims::CASES,
    keeper::CASES,
    wire::CASES,
    outages::CASES,
    alone::CASES,
    resources::CASES,
];

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    tests().map(|test| &test.case)
}

pub(crate) fn find(group: &str, name: &str) -> &'static CaseTest {
    let found = tests().find(|test| test.case.group == group && test.case.name == name);
    found.unwrap_or_else(|| panic!("{group}::{name} is in the list of its group"))
}

fn tests() -> impl Iterator<Item = &'static CaseTest> {
    GROUPS.iter().copied().flatten()
}

/// Every group, as [`suite!`](crate::suite) needs it.
#[doc(hidden)]
#[macro_export]
macro_rules! each_group {
    ($($to:tt)*) => {
        $crate::exclusion_cases! { $($to)* }
        $crate::liveness_cases! { $($to)* }
        $crate::expiry_cases! { $($to)* }
        $crate::renewal_cases! { $($to)* }
        $crate::lost_signal_cases! { $($to)* }
        $crate::fencing_cases! { $($to)* }
        $crate::reentrancy_cases! { $($to)* }
        $crate::fairness_cases! { $($to)* }
        $crate::cancellation_cases! { $($to)* }
        $crate::leave_cases! { $($to)* }
        $crate::close_cases! { $($to)* }
        $crate::process_cases! { $($to)* }
        $crate::inputs_cases! { $($to)* }
        $crate::rwlock_cases! { $($to)* }
        $crate::semaphore_cases! { $($to)* }
        $crate::claims_cases! { $($to)* }
        $crate::keeper_cases! { $($to)* }
        $crate::wire_cases! { $($to)* }
        $crate::outages_cases! { $($to)* }
        $crate::alone_cases! { $($to)* }
        $crate::resources_cases! { $($to)* }
    };
}

/// The cases that are run once more without hints, and once more without polling: those with a waiter that is granted after a
/// release. They use [`TestEnv::options`](crate::TestEnv::options) unchanged.
#[doc(hidden)]
#[macro_export]
macro_rules! core_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] exclusion {
            two_tasks_of_one_client_are_never_inside_together []
            two_clients_of_one_process_are_never_inside_together []
            a_second_acquisition_through_the_same_lock_waits_for_the_first []
        } }
        $crate::__cases! { [$($to)*] liveness {
            a_waiter_that_goes_away_in_the_middle_of_the_queue_is_passed_over []
        } }
        $crate::__cases! { [$($to)*] fairness {
            waiters_are_granted_in_the_order_in_which_they_came []
            a_lock_that_is_waited_for_is_not_taken_by_a_later_caller []
            a_small_portion_does_not_pass_a_large_one_that_waits []
        } }
        $crate::__cases! { [$($to)*] rwlock {
            a_stream_of_readers_does_not_starve_a_writer []
        } }
        $crate::__cases! { [$($to)*] semaphore {
            all_permits_can_be_held_and_never_more []
            a_portion_is_granted_whole_or_not_at_all []
        } }
        $crate::__cases! { [$($to)*] alone {
            a_hundred_contenders_lose_no_count []
        } }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, case::ABOUT_NOTIFICATIONS};

    #[test]
    fn every_case_that_needs_notifications_is_in_the_suite() {
        for (group, name) in ABOUT_NOTIFICATIONS {
            assert!(find(group, name).case.needs_notifications(Mode::Both));
        }
    }

    #[test]
    fn without_notifications_nobody_can_do_without_polling_either() {
        let case = find("exclusion", "two_clients_of_one_process_are_never_inside_together").case;
        let needs = |mode| case.needs_notifications(mode);
        assert_eq!([Mode::Both, Mode::WithoutHints, Mode::WithoutPolling].map(needs), [false, false, true]);
    }
}
