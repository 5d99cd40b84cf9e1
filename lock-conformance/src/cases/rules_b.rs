//! The rules of the protocol, PR07 to PR14 and PR35.

#[allow(unused_imports)]
use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rules_b_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rules_b {
        } }
    };
}

pub(super) const CASES: &[Case] = rules_b_cases!(list);
