//! Whatever dies, somebody else goes on.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! liveness_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] liveness {
        } }
    };
}

pub(super) const CASES: &[Case] = liveness_cases!(list);
