//! [`timeout_at`]: a time limit on the keeper's clock.

use std::{
    future::Future,
    pin::pin,
    task::{Poll, Waker},
};

use futures_util::future::poll_fn;
use lock_core::{BootTime, Keeper};

/// The result of a future, or `None` if it is not there by `until` on the keeper's clock. Needs no runtime.
pub(crate) async fn timeout_at<T>(
    keeper: &Keeper,
    until: BootTime,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = pin!(keeper.sleep_until(until));
    let mut set_for: Option<Waker> = None;
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        // An answer wakes its task several times; the timer needs to be set once.
        let is_set = set_for.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_set && keeper.now() < until {
            return Poll::Pending;
        }
        set_for = Some(cx.waker().clone());
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}
