//! Whoever lost a lock is told.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! lost_signal_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] lost_signal {
        } }
    };
}

pub(super) const CASES: &[Case] = lost_signal_cases!(list);
