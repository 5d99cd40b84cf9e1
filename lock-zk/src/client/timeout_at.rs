//! [`timeout_at`]: a future with a time limit.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use lock_core::{BootTime, Keeper};

/// The result of a future, or `None` if it is not ready by `until` on the keeper's clock. Needs no runtime.
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
