//! What keeps a lease alive, and what does not.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! renewal_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] renewal {
        } }
    };
}

pub(super) const CASES: &[Case] = renewal_cases!(list);
