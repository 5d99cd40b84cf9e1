//! Semaphores.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! semaphore_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] semaphore {
        } }
    };
}

pub(super) const CASES: &[Case] = semaphore_cases!(list);
