//! Futures and guards that are dropped, anywhere.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! cancellation_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] cancellation {
        } }
    };
}

pub(super) const CASES: &[Case] = cancellation_cases!(list);
