//! What a look is worth that breaks, or is late.

use std::{
    io,
    net::ToSocketAddrs,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use async_trait::async_trait;
use lock_conformance::{
    Flow, Framing, Gate, HintsOnly, Layered, Relay, SLACK, Traffic,
    audit::{LONG, await_queue, eventually},
};
use lock_core::{AcquireOptions, DistributedLock, Locks, Release, SystemEntropy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    common::{client, soon, take},
    server::{Containers, Ensemble, TICK, TestServer},
};

const NAME: &str = "job";

/// What is asked in a look: who is there, and then, with a watch, who those ahead are.
const LIST: i32 = 8;
const DATA: i32 = 4;

/// PR14. It has a place by then, and watches nobody. What tells it to look again is nothing but a hint: nobody looks as time goes by.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_first_look_breaks_with_its_connection_looks_again_when_that_is_back() {
    // A create needs no container before it.
    let server = TestServer::shared_with(Containers::Kept).await;
    let breaks = Arc::new(Breaks::default());
    let address = server.address().to_socket_addrs().unwrap().next().unwrap();
    let relay = Relay::start(address, Arc::clone(&breaks) as Arc<dyn Framing>);
    let url = format!("zk://{}{}?tick={}ms", relay.address(), server.admin().chroot(), TICK.as_millis());
    let (other, here) = (client(&server.url()), client(&url));
    let hinted = Layered::new(Arc::clone(&here.backend), Arc::new(HintsOnly));
    let hinted = Locks::with(Arc::new(hinted), here.keeper.clone(), Arc::new(SystemEntropy));
    let lasting = AcquireOptions::new().ttl(LONG);
    // It has its session from here on.
    assert_eq!(take(&here, "other", &lasting).await.release().await.unwrap(), Release::Released);
    for operation in [LIST, DATA] {
        let held = take(&other, NAME, &lasting).await;
        breaks.next(operation);
        let lock = hinted.mutex(NAME).unwrap().with_options(lasting.clone());
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        eventually("a look that breaks", SLACK, || async { breaks.is_over() }).await;
        await_queue(&other, NAME, 2).await;
        assert_eq!(held.release().await.unwrap(), Release::Released);
        let guard = soon("the turn of who could not look", waiting).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

/// Its server has not heard of the release, and says so to whoever does not have it catch up first.
#[tokio::test(flavor = "multi_thread")]
async fn a_try_by_way_of_a_follower_that_lags_behind_calls_no_lock_busy_that_was_released_before() {
    let ensemble = Ensemble::start_patient().await;
    let leader = ensemble.leader().await;
    let [lagging, _] = ensemble.followers().await;
    // However long it takes until the gate opens.
    let by = |member| {
        let url = ensemble.url_of(&ensemble.address(member));
        client(&format!("{url}&command_timeout=20s&connect_timeout=20s"))
    };
    let (other, here) = (by(leader), by(lagging));
    let lasting = AcquireOptions::new().ttl(LONG);
    for _ in 0..3 {
        let held = take(&other, NAME, &lasting).await;
        let lock = here.mutex(NAME).with_options(lasting.clone());
        assert!(soon("an answer", lock.try_acquire()).await.unwrap().is_none(), "it is held");
        let gate = Gate::new();
        ensemble.hold_back(lagging, &Flow::Hold(gate.clone()));
        assert_eq!(held.release().await.unwrap(), Release::Released);
        let trying = tokio::spawn(async move { lock.try_acquire().await });
        tokio::time::sleep(TICK).await;
        gate.open();
        let guard = soon("an answer", trying).await.unwrap().unwrap();
        let guard = guard.expect("it was released before");
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        ensemble.hold_back(lagging, &Flow::Pass);
    }
}

/// Passes everything on, and breaks a connection when the next request of some kind comes on it that is about [`NAME`]: that one does
/// not arrive.
#[derive(Debug, Default)]
struct Breaks(AtomicI32);

impl Breaks {
    fn next(&self, operation: i32) {
        self.0.store(operation, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    /// Whether this is where it breaks. Once.
    fn breaks_at(&self, packet: &[u8]) -> bool {
        let operation = packet[8..].first_chunk().map(|word| i32::from_be_bytes(*word));
        let named = packet.windows(NAME.len()).any(|part| part == NAME.as_bytes());
        // The first packet of a connection opens the session, and has no name of a lock in it.
        operation.is_some_and(|operation| {
            operation != 0
                && named
                && self.0.compare_exchange(operation, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        })
    }
}

#[async_trait]
impl Framing for Breaks {
    async fn serve(
        &self,
        mut client: TcpStream,
        address: std::net::SocketAddr,
        _: Arc<Traffic>,
    ) -> io::Result<()> {
        let mut server = TcpStream::connect(address).await?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let requests = async {
            let mut read = Vec::new();
            while from_client.read_buf(&mut read).await? > 0 {
                while let Some(len) = packet(&read) {
                    if self.breaks_at(&read[..len]) {
                        return Err(io::Error::from(io::ErrorKind::ConnectionReset));
                    }
                    to_server.write_all(&read[..len]).await?;
                    read.drain(..len);
                }
            }
            to_server.shutdown().await
        };
        let answers = async {
            tokio::io::copy(&mut from_server, &mut to_client).await?;
            to_client.shutdown().await
        };
        tokio::try_join!(requests, answers).map(drop)
    }
}

/// How long the first packet is, if it is whole.
fn packet(read: &[u8]) -> Option<usize> {
    let len = usize::try_from(i32::from_be_bytes(*read.first_chunk()?)).ok()? + 4;
    (len >= 12 && read.len() >= len).then_some(len)
}
