//! Only one at a time, and nobody in between.

use lock_core::{DistributedLock, Release};

use crate::{Case, World};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! exclusion_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] exclusion {
            a_lock_that_was_released_can_be_taken_at_once ["X11"]
        } }
    };
}

pub(super) const CASES: &[Case] = exclusion_cases!(list);

pub(super) async fn a_lock_that_was_released_can_be_taken_at_once(world: World) {
    let (client, name) = (world.client().await, world.name("again"));
    let lock = client.mutex(&name);
    let mut last = None;
    for _ in 0..20 {
        let guard = lock.try_acquire().await.unwrap().expect("nobody holds it");
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}
