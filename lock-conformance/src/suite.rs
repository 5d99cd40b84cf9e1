//! [`suite!`]: one test for each case.

/// Expands to these tests, on a store of the given [`Harness`](crate::Harness):
///
/// * one for each case of the suite;
/// * the core cases once more without hints, and once more without polling;
/// * checks that the cases about hints fail on a store without hints, and on one that does not cut notifications when told to;
/// * a check that the cases find the [bugs](crate::BUGS) of the bank, each planted in the clients of the store;
/// * a check of the declarations;
/// * `contender`, which is the main function of the client processes that some cases start.
///
/// Call it once, at the root of an integration test.
#[macro_export]
macro_rules! suite {
    ($harness:ty) => {
        $crate::each_group! { tests Both $harness }

        /// The core cases without hints.
        mod without_hints {
            use super::*;
            $crate::core_cases! { tests WithoutHints $harness }
        }

        /// The core cases without polling.
        mod without_polling {
            use super::*;
            $crate::core_cases! { tests WithoutPolling $harness }
        }

        #[test]
        fn a_store_without_hints_is_found_by_the_cases_about_hints() {
            $crate::find_silence::<$harness>();
        }

        #[test]
        fn notifications_that_are_said_to_be_cut_are_not_heard_of() {
            $crate::find_cuts::<$harness>();
        }

        #[test]
        fn each_planted_bug_is_found_by_its_case() {
            $crate::find_bugs::<$harness>();
        }

        /// The name of the module contains that of the group whose cases run apart from all others.
        mod planted_alone {
            use super::*;

            #[test]
            fn each_planted_bug_is_found_by_its_case() {
                $crate::find_bugs_alone::<$harness>();
            }
        }

        #[test]
        fn what_is_declared_is_allowed_and_counted() {
            $crate::check_declarations::<$harness>();
        }

        #[test]
        fn contender() {
            $crate::contend::<$harness>();
        }
    };
}

/// Turns a list of cases into tests of a harness, or into a slice of `CaseTest`s.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases {
    ([tests $mode:ident $harness:ty] $group:ident { $($name:ident [$($id:literal)*])* }) => {
        mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $name() {
                    $crate::run::<$harness>(stringify!($group), stringify!($name), $crate::Mode::$mode);
                }
            )*
        }
    };
    ([list] $group:ident { $($name:ident [$($id:literal)*])* }) => {
        &[$($crate::CaseTest {
            case: $crate::Case {
                group: stringify!($group),
                name: stringify!($name),
                ids: &[$($id),*],
            },
            run: |env| Box::pin($name(env)),
        }),*]
    };
}
