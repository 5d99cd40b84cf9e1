//! Closes a session until the ensemble confirms its end.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{BackOff, BackendErrorKind as Kind, Entropy, SystemEntropy, isolate};
use tokio::runtime::Handle;

use super::{pool::Pool, session::Session};
use crate::{client::Ensemble, error::Failure};

/// The time between two attempts if the ensemble answered and had not ended the session. If it did not answer, the circuit breaker
/// decides when the next attempt begins.
const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(50), most: Duration::from_secs(5) };

/// Closes a session that has ended here until the ensemble says that it has ended: its nodes must not live on, and must not be reported as
/// gone before. The client does not tell whether a session was closed, so this attaches to the session by its password until that is
/// refused.
pub(super) fn reap(pool: &Arc<Pool>, session: &Arc<Session>) {
    let (weak, session, quiet) = (Weak::clone(&pool.this), Arc::clone(session), session.quiet_until());
    let sleep = (pool.keeper.now() < quiet).then(|| pool.keeper.sleep_until(quiet));
    pool.keeper.spawn(async move {
        if let Some(sleep) = sleep {
            sleep.await;
            let Some(pool) = weak.upgrade() else { return };
            // Once more, because an entry that was granted its lock in the moment in which the session ended was not notified.
            pool.notify_members(&session);
        }
        let mut answers = 0;
        loop {
            let Some(pool) = weak.upgrade() else { return };
            match confirm_ended(&pool, &session).await {
                Ok(true) => return,
                Ok(false) => answers += 1,
                Err(failure) => {
                    answers += u32::from(!failure.is_of_connection());
                    isolate(|| {
                        tracing::debug!(session = %format_args!("{:#x}", session.id), "the end of a session is not confirmed yet: {failure}");
                    });
                }
            }
            let pause = BACK_OFF.pause(answers, SystemEntropy.bits() as u64);
            let pause = pool.keeper.sleep_until(pool.ensemble.retry_at(pause));
            drop(pool);
            pause.await;
        }
    });
}

/// Whether the ensemble says that a session that was ended here has ended. If not, the session is closed from another connection. However
/// many tasks ask, there is one such connection at a time, which the keeper opens.
pub(super) async fn confirm_ended(pool: &Pool, session: &Arc<Session>) -> Result<bool, Failure> {
    if pool.keeper.now() < session.quiet_until() {
        return Ok(false);
    }
    let mut attempt = session.attempt(|done| {
        let (ensemble, session) = (pool.ensemble.clone(), Arc::clone(session));
        pool.keeper.spawn(async move {
            // The caller may have been dropped.
            let _ = done.send(Some(close(&ensemble, &session).await));
        });
    });
    let said = attempt.wait_for(Option::is_some).await.map(|said| said.clone());
    let over = match said {
        Ok(Some(said)) => said?,
        // The keeper has ended, so the caller closes the session, if it is on a runtime.
        _ if Handle::try_current().is_ok() => close(&pool.ensemble, session).await?,
        _ => return Err(Failure::new(Kind::Unavailable, "the keeper has ended")),
    };
    if over {
        session.end_confirmed.send_replace(true);
        for member in pool.sessions.members_of(session) {
            pool.sessions.forget(&member);
        }
    }
    Ok(over)
}

/// Closes a session from another connection. Returns whether the ensemble says that it had ended already. Needs a runtime with I/O.
async fn close(ensemble: &Ensemble, session: &Session) -> Result<bool, Failure> {
    match ensemble.attach_to_close(session.granted(), session.info.clone()).await {
        // Dropping the client closes the session.
        Ok(client) => {
            drop(client);
            Ok(false)
        }
        Err(failure) if failure.is_end_of_session() => Ok(true),
        Err(failure) => Err(failure),
    }
}
