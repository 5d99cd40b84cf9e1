//! [`timeout_at`]: a time limit that needs no runtime.

use std::{future::Future, pin::pin, task::Poll};

use futures_util::future::poll_fn;
use lock_core::{BootTime, Keeper};

/// The result of a future, or `None` if it is not there by `until` on the keeper's clock. Needs no timers of the caller's runtime.
pub(crate) async fn timeout_at<T>(
    keeper: &Keeper,
    until: BootTime,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = pin!(keeper.sleep_until(until));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
