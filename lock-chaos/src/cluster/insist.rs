//! [`insist`]: what is asked of a cluster while it may be electing a leader.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::error::Result;

/// How long a cluster may take for what it does by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// Tries until it works. The error of the last try says what was wanted.
pub(super) async fn insist<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = timeout(ANSWER, attempt()).await;
        match answer.unwrap_or_else(|_| Err("there is no answer".into())) {
            Ok(done) => return Ok(done),
            Err(why) if Instant::now() >= end => return Err(format!("{what}: {why}").into()),
            Err(_) => {}
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_fails_at_first_is_asked_for_again() {
        let tries = AtomicU32::new(0);
        let third = || async {
            let number = tries.fetch_add(1, Ordering::Relaxed);
            if number < 2 { Err("not yet".into()) } else { Ok(number) }
        };
        assert_eq!(insist("the third", third).await.unwrap(), 2);
    }
}
