//! How does a web service take a lock for a request, say whether it is ready, and shut down?
//!
//! ```sh
//! cargo run --example axum_service --features axum
//! curl -i localhost:3000/ready
//! curl -i -X POST localhost:3000/orders/42/payment
//! cargo test -p examples --example axum_service --features axum
//! ```

use std::{error::Error, io, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use distlock::{AcquireOptions, DistributedLock, FencingToken, Locks, Settings};
use tokio::net::TcpListener;

/// How long a request waits for a lock. A client that has waited longer is probably gone.
const WAIT: Duration = Duration::from_millis(500);
/// How long requests may go on during a shutdown: less than the 30 s that Kubernetes gives a service to stop.
const GRACE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    // From a file in a real service: see the example `settings`.
    let settings = Settings { url, options: AcquireOptions::new().wait(WAIT) };
    let locks = settings.connect().await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    serve(listener, locks, GRACE, asked_to_stop()?).await?;
    Ok(())
}

/// Serves until `stop` is ready, and then shuts down.
///
/// For the locks, that is one call of `close`. From then on, a request that waits for a lock is answered 503 at once, and so is `/ready`,
/// which keeps new requests away. Requests that hold a lock go on, for at most `grace`. Then the server stops listening, and ends when the
/// last request is answered.
async fn serve(
    listener: TcpListener,
    locks: Locks,
    grace: Duration,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = Router::new()
        .route("/ready", get(ready))
        .route("/orders/{order}/payment", post(pay))
        .with_state(locks.clone());
    let shutdown = async move {
        stop.await;
        if let Err(left) = locks.close(grace).await {
            eprintln!("shutdown: {left}");
        }
    };
    axum::serve(listener, service).with_graceful_shutdown(shutdown).await
}

/// The service is ready if it can ask for locks.
async fn ready(State(locks): State<Locks>) -> StatusCode {
    match locks.ping().await {
        Ok(()) => StatusCode::OK,
        Err(error) => {
            eprintln!("not ready: {error}");
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

/// One payment of an order at a time, on however many machines.
///
/// If the client hangs up, axum drops this future: the payment stops at the next await, and the lock is released. Work that must not be
/// stopped like this belongs in a task of its own.
async fn pay(State(locks): State<Locks>, Path(order): Path<String>) -> Result<String, Refused> {
    let lock = locks.mutex(format!("orders/{order}"))?;
    let token = lock.run(|hold| charge(hold.token())).await?;
    Ok(format!("paid with token {token}\n"))
}

/// The work. It passes the token on, so that the database can refuse an earlier holder: see the example `fenced_write`.
async fn charge(token: FencingToken) -> FencingToken {
    tokio::time::sleep(Duration::from_millis(100)).await;
    token
}

/// Why a request was not carried out.
struct Refused(distlock::Error);

impl From<distlock::Error> for Refused {
    fn from(error: distlock::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        // The text names hosts and processes: it is for the log, not for the client.
        eprintln!("{}", self.0);
        let answer = match &self.0 {
            distlock::Error::WaitTimeout { .. } => (StatusCode::CONFLICT, "it is being paid; try again\n"),
            distlock::Error::Input(_) => (StatusCode::BAD_REQUEST, "there is no such order\n"),
            distlock::Error::Closed { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "this server shuts down; try again\n")
            }
            // The store is away, or the lock was lost and the payment stopped.
            error if error.is_transient() => (StatusCode::SERVICE_UNAVAILABLE, "try again\n"),
            distlock::Error::Lost { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "it may be paid; look first\n")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "it cannot be paid now\n"),
        };
        answer.into_response()
    }
}

/// Returns at Ctrl-C, and at SIGTERM, by which services are stopped.
#[cfg(unix)]
fn asked_to_stop() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Returns at Ctrl-C.
#[cfg(windows)]
fn asked_to_stop() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use distlock::{BackendError, BackendErrorKind, LockName, LostReason};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        sync::oneshot,
        task::JoinHandle,
        time::timeout,
    };

    use super::*;

    /// An upper bound for waiting, longer than any delay on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Service {
        address: SocketAddr,
        locks: Locks,
        /// The locks of another machine on the same store.
        others: Locks,
        stop: oneshot::Sender<()>,
        ended: JoinHandle<io::Result<()>>,
    }

    #[tokio::test]
    async fn it_is_ready_and_answers_409_while_others_hold_the_lock_of_an_order() {
        let service = Service::start("axum conflict", Duration::from_millis(50)).await;
        assert_status(200, &ask(service.address, "GET /ready").await);
        let order = service.others.mutex("orders/7").unwrap();
        let guard = order.acquire().await.unwrap();
        assert_status(409, &ask(service.address, "POST /orders/7/payment").await);
        assert_status(200, &ask(service.address, "POST /orders/8/payment").await);

        guard.release().await.unwrap();
        // The keeper removes the place of the request that gave up.
        queue_is(&order, 0).await;
        let paid = ask(service.address, "POST /orders/7/payment").await;
        assert_status(200, &paid);
        assert!(paid.contains("paid with token "), "{paid}");
        assert!(order.try_acquire().await.unwrap().is_some(), "the lock was left");
    }

    #[tokio::test]
    async fn a_shutdown_answers_503_to_who_waits_and_waits_for_who_holds_a_lock() {
        let service = Service::start("axum shutdown", PATIENCE).await;
        let order = service.others.mutex("orders/7").unwrap();
        // Held as by a request in progress.
        let guard = service.locks.mutex("orders/7").unwrap().acquire().await.unwrap();
        let waits = tokio::spawn(ask(service.address, "POST /orders/7/payment"));
        queue_is(&order, 2).await;

        service.stop.send(()).expect("it listens for that");
        assert_status(503, &waits.await.unwrap());
        assert_status(503, &ask(service.address, "GET /ready").await);
        guard.release().await.unwrap();
        timeout(PATIENCE, service.ended).await.expect("it ends").unwrap().unwrap();
        assert!(matches!(service.locks.ping().await, Err(distlock::Error::Closed { .. })));
        assert!(order.try_acquire().await.unwrap().is_some(), "a lock was left");
    }

    #[test]
    fn who_may_try_again_is_told_503_and_who_may_have_paid_500() {
        let name = LockName::new("orders/7").unwrap();
        let source = BackendError::new("redis", BackendErrorKind::Unreachable, "connection refused");
        let away = distlock::Error::Backend { name: name.clone(), source };
        let lost = |stopped| {
            let name = name.clone();
            distlock::Error::Lost { name, reason: LostReason::Expired, stopped }
        };
        for (error, status) in [(away, 503), (lost(true), 503), (lost(false), 500)] {
            assert_eq!(Refused(error).into_response().status().as_u16(), status);
        }
    }

    impl Service {
        /// On a free port, with a store in memory.
        async fn start(store: &str, wait: Duration) -> Self {
            let url = format!("memory:{store}");
            let others = distlock::connect(&url).await.unwrap();
            let settings = Settings { url, options: AcquireOptions::new().wait(wait) };
            let locks = settings.connect().await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = oneshot::channel();
            let stopped = async move {
                // A failed test also stops the service.
                let _ = stopped.await;
            };
            let ended = tokio::spawn(serve(listener, locks.clone(), PATIENCE, stopped));
            Self { address, locks, others, stop, ended }
        }
    }

    /// Sends a request, and returns the answer.
    async fn ask(service: SocketAddr, request: &str) -> String {
        let mut connection = TcpStream::connect(service).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, connection.read_to_string(&mut answer)).await.expect("an answer").unwrap();
        answer
    }

    fn assert_status(status: u16, answer: &str) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status} is expected: {answer}");
    }

    async fn queue_is(lock: &impl DistributedLock, long: usize) {
        let reached = async {
            while lock.queue().await.unwrap().len() != long {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect("the queue is so long");
    }
}
