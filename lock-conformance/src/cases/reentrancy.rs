//! Locks are not reentrant.

use std::time::Duration;

use lock_core::{DistributedLock, Error};

use super::steps::{is_busy, long, mutex, refused, take, take_free};
use crate::{CaseTest, TestEnv};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! reentrancy_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] reentrancy {
            a_holder_that_acquires_again_waits_for_itself ["N01"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = reentrancy_cases!(list);

/// A second acquisition of the same task, by the same lock object or another one of its client, waits in the queue like any other.
pub(super) async fn a_holder_that_acquires_again_waits_for_itself(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("again");
    let lock = mutex(&client, &name);
    let guard = take_free(&lock).await;
    let token = guard.token();

    assert!(is_busy(&lock).await, "a second try took the lock that is held");
    assert!(is_busy(&mutex(&client, &name)).await, "another object of the client took the lock that is held");
    let patience = Duration::from_millis(200);
    let error = refused(lock.acquire_with(&long().wait(patience)).await);
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");

    assert!(guard.is_held(), "acquiring again cost the holder its lock");
    assert_eq!(guard.token(), token, "asking again changed the token");
    guard.release().await.unwrap();
    let next = take(&lock).await;
    assert!(next.token() > token);
}
