//! Asking again for what one holds.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! reentrancy_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] reentrancy {
        } }
    };
}

pub(super) const CASES: &[Case] = reentrancy_cases!(list);
