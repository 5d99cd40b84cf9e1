//! Names, durations and numbers, good and bad.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! inputs_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] inputs {
        } }
    };
}

pub(super) const CASES: &[Case] = inputs_cases!(list);
