//! Tokens.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! fencing_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] fencing {
        } }
    };
}

pub(super) const CASES: &[Case] = fencing_cases!(list);
