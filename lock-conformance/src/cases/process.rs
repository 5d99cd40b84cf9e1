//! Clients, runtimes and threads.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! process_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] process {
        } }
    };
}

pub(super) const CASES: &[Case] = process_cases!(list);
