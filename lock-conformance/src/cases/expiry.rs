//! When a lease ends, and when not.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! expiry_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] expiry {
        } }
    };
}

pub(super) const CASES: &[Case] = expiry_cases!(list);
