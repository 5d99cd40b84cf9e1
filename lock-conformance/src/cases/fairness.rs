//! Who comes next.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! fairness_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] fairness {
        } }
    };
}

pub(super) const CASES: &[Case] = fairness_cases!(list);
