//! Thousands of waiters that lose their connection.

/// Very many waiters keep the machine busy, so these tests run when no other does.
mod alone {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::{Duration, Instant},
    };

    use lock_conformance::{
        Answer, Flow, Frame, Framed, Frames, Links, Proxy, Relay, Request, SLACK, Way,
        audit::{eventually, within},
    };
    use lock_core::{AcquireOptions, DistributedLock};
    use tokio::task::JoinSet;

    use crate::{
        common::{client, name, options, soon, take},
        framing::Packets,
        server::{Admin, TestServer},
    };

    const LOCKS: usize = 50;
    const EACH: usize = 100;
    const WAITERS: u64 = (LOCKS * EACH) as u64;

    /// So long that the paths that the waiters of one session watch exceed 128 KB: more than the ZooKeeper client can restore by itself.
    fn lock(i: usize) -> String {
        format!("job {i} {}", "of many ".repeat(16))
    }

    /// No waiter looks again without an event.
    fn told() -> AcquireOptions {
        let hour = Duration::from_secs(3600);
        options().ttl(hour).wait(hour).look_again(hour, hour)
    }

    /// The entries in each queue.
    async fn places(admin: &Admin) -> Vec<Vec<String>> {
        let (client, mut places) = (admin.client().await, Vec::new());
        for i in 0..LOCKS {
            let mut queue = client.list_children(&admin.folder(&name(&lock(i)))).await.unwrap();
            queue.sort();
            places.push(queue);
        }
        places
    }

    /// The number of requests, pings included. The writes by which sessions prove that they are alive do not count.
    async fn asked(admin: &Admin) -> u64 {
        admin.counts("zk_cnt_readlatency").await
    }

    /// Waits until only pings come any more, and returns the number of requests so far.
    async fn rest(admin: &Admin) -> u64 {
        const QUIET: Duration = Duration::from_millis(300);
        // Each connection sends one or two; waiters that look send hundreds.
        const PINGS: u64 = 30;
        let quiet = async {
            let mut before = asked(admin).await;
            loop {
                tokio::time::sleep(QUIET).await;
                let now = asked(admin).await;
                if now - before <= PINGS {
                    return now;
                }
                before = now;
            }
        };
        within("all at rest", SLACK * 4, quiet).await
    }

    /// The waiters watch the same nodes again, each with three requests, and none lists a queue. Then each is granted its lock.
    #[tokio::test(flavor = "multi_thread")]
    async fn five_thousand_waiters_keep_their_places_after_a_broken_connection() {
        let server = TestServer::own().await.behind_proxy();
        let (admin, holder) = (server.admin(), client(&server.direct_url()));
        // The command timeout is longer than a busy machine takes for all of them. A connection may be silent for a second, half of
        // `connect_timeout`.
        let other = client(&format!("{}&command_timeout=60s", server.url()));
        let (mut held, mut crowd) = (Vec::new(), JoinSet::new());
        for i in 0..LOCKS {
            held.push(take(&holder, &lock(i), &told()).await);
            for _ in 0..EACH {
                let lock = other.mutex(&lock(i));
                crowd.spawn(async move { lock.acquire_with(&told()).await.unwrap() });
            }
        }
        let all_stand = || async { admin.counts("zk_ephemerals_count").await >= WAITERS + LOCKS as u64 };
        eventually("all of them in the queues", SLACK * 4, all_stand).await;
        rest(admin).await;
        let (before, watches) = (places(admin).await, admin.counts("zk_watch_count").await);
        assert!(watches > WAITERS, "{watches} watches of {WAITERS} who wait");
        let read = rest(admin).await;

        server.proxy().reset(Links::All);
        let broken = Instant::now();
        let watch_again = || async {
            asked(admin).await >= read + WAITERS * 2 && admin.counts("zk_watch_count").await >= watches
        };
        eventually("all watch the same nodes again", SLACK * 2, watch_again).await;
        println!("{WAITERS} waiters watched again after {:?}", broken.elapsed());
        let reads = rest(admin).await - read;
        // Three of each waiter, and some of each session.
        let most = WAITERS * 3 + 200;
        assert!(reads <= most, "{reads} reads of {WAITERS} who wait, after their connections broke");
        assert_eq!(places(admin).await, before, "a waiter has lost its place");

        // Their watches work.
        for _ in 0..2 {
            for guard in held.drain(..) {
                guard.release().await.unwrap().confirmed().unwrap();
            }
            for _ in 0..LOCKS {
                held.push(soon("the next in each queue", crowd.join_next()).await.unwrap().unwrap());
            }
        }
        other.crash().await;
    }

    /// Records how many requests are not answered yet when a heartbeat is sent after them.
    #[derive(Debug, Default)]
    struct Positions {
        packets: Packets,
        open: u64,
    }

    static BEATS: AtomicU64 = AtomicU64::new(0);
    static MOST_BEFORE_ONE: AtomicU64 = AtomicU64::new(0);

    impl Frames for Positions {
        fn request(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>> {
            let frame = self.packets.request(sent)?;
            if let Some(Frame { what: Request::Ask(name), .. }) = &frame {
                if name == "set data" {
                    BEATS.fetch_add(1, Ordering::Relaxed);
                    MOST_BEFORE_ONE.fetch_max(self.open, Ordering::Relaxed);
                }
                self.open += 1;
            }
            Ok(frame)
        }

        fn answer(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Answer>>> {
            let frame = self.packets.answer(sent)?;
            if let Some(Frame { what: Answer::End, .. }) = frame {
                self.open = self.open.saturating_sub(1);
            }
            Ok(frame)
        }
    }

    /// Waiters need permits to read their queues, and a heartbeat needs none.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_heartbeat_passes_a_crowd_that_looks_around() {
        const CROWD: u64 = 200;
        // Three requests of each of the 64 waiters with a permit, and some of the session itself.
        const MOST: u64 = 64 * 3 + 16;
        // The time between two heartbeats is a twelfth of this.
        const TTL: Duration = Duration::from_secs(12);
        // So at least one is sent before any request is answered.
        const LATE: Duration = Duration::from_millis(1500);
        let server = TestServer::own().await.behind_proxy();
        let framing = Framed(|| Box::new(Positions::default()));
        let relay = Relay::start(server.proxy().address(), Arc::new(framing));
        let front = Proxy::start(relay.address(), |_| true);
        let (admin, holder) = (server.admin(), client(&server.direct_url()));
        let url = server.url_by(&front.address().to_string());
        let other = client(&format!("{url}&command_timeout=60s&connect_timeout=60s"));
        let held = take(&holder, "job", &told()).await;
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            let lock = other.mutex("job");
            crowd.spawn(async move { lock.acquire_with(&told().ttl(TTL)).await.map(drop) });
        }
        let all_stand = || async { admin.counts("zk_ephemerals_count").await > CROWD };
        eventually("all of them in the queue", SLACK * 4, all_stand).await;
        rest(admin).await;
        let watches = admin.counts("zk_watch_count").await;
        assert!(watches > CROWD, "{watches} watches of {CROWD} who wait");

        server.proxy().order(Links::All, Way::Replies, &Flow::Delay(LATE));
        front.reset(Links::All);
        // The watches of a connection that has ended are gone immediately.
        let nobody_watches = || async { admin.counts("zk_watch_count").await < watches / 2 };
        eventually("the end of the connection", SLACK, nobody_watches).await;
        for counted in [&BEATS, &MOST_BEFORE_ONE] {
            counted.store(0, Ordering::Relaxed);
        }
        let watch_again = || async { admin.counts("zk_watch_count").await >= watches };
        eventually("all watch what they watched", SLACK * 2, watch_again).await;
        let (beats, most) = (BEATS.load(Ordering::Relaxed), MOST_BEFORE_ONE.load(Ordering::Relaxed));
        assert!((1..=MOST).contains(&most), "{most} requests stood before a heartbeat");
        assert!(beats >= 3, "{beats} heartbeats while all looked around");
        server.proxy().heal();
        crowd.abort_all();
        other.crash().await;
        held.release().await.unwrap().confirmed().unwrap();
    }
}
