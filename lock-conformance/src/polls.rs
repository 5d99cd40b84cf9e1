//! Dropping a future at every await point.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

/// Polls a future `polls` times, each time after a wake-up, and then drops it. Returns the output if the future was ready before that.
/// With 0 the future is dropped unpolled.
///
/// # Cancel safety
/// The given future is dropped as well.
pub async fn polled<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Runs `attempt` with 0, 1, 2, … polls until one is ready, and `audit` after each that was dropped. It stops at `most` polls, for
/// attempts that wait for something which does not happen.
///
/// Returns the number of polls of the last attempt, and its output if it was ready.
///
/// # Cancel safety
/// The current attempt is dropped as well.
pub async fn at_every_poll<T, A, B>(
    most: usize,
    mut attempt: impl FnMut() -> A,
    mut audit: impl FnMut(usize) -> B,
) -> (usize, Option<T>)
where
    A: Future<Output = T>,
    B: Future<Output = ()>,
{
    for polls in 0..most {
        let output = polled(polls, attempt()).await;
        if output.is_some() {
            return (polls, output);
        }
        audit(polls).await;
    }
    (most, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready when it is polled for the third time.
    async fn third() -> &'static str {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        "ready"
    }

    #[tokio::test]
    async fn a_future_is_dropped_after_exactly_so_many_polls() {
        for polls in 0..3 {
            assert_eq!(polled(polls, third()).await, None);
        }
        assert_eq!(polled(3, third()).await, Some("ready"));
    }

    #[tokio::test]
    async fn every_drop_is_audited_and_the_last_attempt_is_not() {
        let mut audited = Vec::new();
        let end = at_every_poll(10, third, |polls| {
            audited.push(polls);
            std::future::ready(())
        });
        assert_eq!(end.await, (3, Some("ready")));
        assert_eq!(audited, [0, 1, 2]);
    }
}
