//! The rules of the protocol, PR01 to PR06.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rules_a_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rules_a {
        } }
    };
}

pub(super) const CASES: &[Case] = rules_a_cases!(list);
