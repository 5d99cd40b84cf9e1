//! Read-write locks.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rwlock_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rwlock {
        } }
    };
}

pub(super) const CASES: &[Case] = rwlock_cases!(list);
