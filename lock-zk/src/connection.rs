//! Opening connections, and waiting no longer than one wants to.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use futures_util::future::poll_fn;
use lock_core::{BackendErrorKind as Kind, BootTime, Keeper};
use zookeeper_client::{Client, Connector, Error, SessionInfo};

use crate::{ZkConfig, error::Failure};

/// A connector with everything that the configuration says. `session_timeout` is what is asked for.
fn connector(config: &ZkConfig, session_timeout: Duration) -> Connector {
    // A connection without a word for so long is given up; one with less than a ping in it would be given up at once. The
    // client has a default only for long sessions, and none for who waits for it (Z4).
    let silence = config.command_timeout.min(config.connect_timeout / 2).min(session_timeout * 2 / 5);
    let connector = Client::connector()
        .with_session_timeout(session_timeout)
        .with_connection_timeout(silence.max(Duration::from_millis(20)))
        .with_fail_eagerly();
    match (&config.user, &config.password) {
        (Some(user), Some(password)) => {
            connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes())
        }
        _ => connector,
    }
}

/// Opens a session. The client's tasks run where this is polled: on the keeper.
pub(crate) async fn open(
    config: &ZkConfig,
    keeper: &Keeper,
    session_timeout: Duration,
) -> Result<Client, Failure> {
    connect(config, keeper, connector(config, session_timeout)).await
}

/// Attaches to a session that is there. To drop the client closes the session, unless it is detached. [`Error::SessionExpired`] is the ensemble's own word that it is not.
pub(crate) async fn attach(
    config: &ZkConfig,
    keeper: &Keeper,
    session_timeout: Duration,
    session: SessionInfo,
    detached: bool,
) -> Result<Client, Failure> {
    let connector = connector(config, session_timeout).with_session(session);
    connect(config, keeper, if detached { connector.with_detached() } else { connector }).await
}

async fn connect(config: &ZkConfig, keeper: &Keeper, connector: Connector) -> Result<Client, Failure> {
    let until = keeper.now() + config.connect_timeout;
    let connected = by(keeper, until, connector.connect(&config.servers())).await;
    match connected {
        Some(Ok(client)) => Ok(client),
        Some(Err(error @ (Error::NoHosts | Error::Timeout))) => {
            let message = format!("{config}: no server could be connected to ({error})");
            Err(Failure::new(Kind::Unreachable, message).unsent())
        }
        Some(Err(error)) => Err(Failure::of(&error).about(&config.to_string()).unsent()),
        None => {
            let doing = format!("opening a session at {config}");
            Err(Failure::timed_out(&doing, config.connect_timeout).unsent())
        }
    }
}

/// The result of a future, or `None` if it is not there by `until` on the keeper's clock. Needs no runtime.
pub(crate) async fn by<T>(
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
