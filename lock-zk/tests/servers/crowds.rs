//! Crowds that wait, and lose their connections.

/// A crowd keeps the machine busy, so it comes when nobody else does.
mod alone {
    use std::time::{Duration, Instant};

    use lock_conformance::{
        Links, SLACK,
        audit::{eventually, within},
    };
    use lock_core::{AcquireOptions, DistributedLock};
    use tokio::task::JoinSet;

    use crate::{
        common::{client, name, options, soon, take},
        server::{Admin, TestServer},
    };

    const LOCKS: usize = 50;
    const EACH: usize = 100;
    const WAITERS: u64 = (LOCKS * EACH) as u64;

    /// So long that what those watch who wait under one session is more than 128 KB: more than the client of ZooKeeper can ask for anew
    /// by itself.
    fn lock(i: usize) -> String {
        format!("job {i} {}", "of many ".repeat(16))
    }

    /// Nobody looks again unless he is told to.
    fn told() -> AcquireOptions {
        let hour = Duration::from_secs(3600);
        options().ttl(hour).wait(hour).look_again(hour, hour)
    }

    /// Who stands in each queue.
    async fn places(admin: &Admin) -> Vec<Vec<String>> {
        let (client, mut places) = (admin.client().await, Vec::new());
        for i in 0..LOCKS {
            let mut queue = client.list_children(&admin.folder(&name(&lock(i)))).await.unwrap();
            queue.sort();
            places.push(queue);
        }
        places
    }

    /// How often the server was asked for something, pings included. Sessions prove that they are alive by writes, which do not count.
    async fn asked(admin: &Admin) -> u64 {
        admin.counts("zk_cnt_readlatency").await
    }

    /// Waits until nothing is asked any more but whether the server is there, and gives how often something was asked so far.
    async fn rest(admin: &Admin) -> u64 {
        const QUIET: Duration = Duration::from_millis(300);
        // Of each connection one or two; of a crowd that looks, hundreds.
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

    /// They watch again whom they had watched, each with three requests, and nobody lists a queue. Then each hears of its turn.
    #[tokio::test(flavor = "multi_thread")]
    async fn five_thousand_waiters_survive_a_broken_connection_and_none_loses_its_place() {
        let server = TestServer::own().await.behind_proxy();
        let (admin, holder) = (server.admin(), client(&server.direct_url()));
        // However long a busy machine takes for all of them. Half of `connect_timeout`, a second, is how long a connection may be silent.
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
        eventually("all watch those whom they watched", SLACK * 2, watch_again).await;
        println!("{WAITERS} waiters watched again after {:?}", broken.elapsed());
        let reads = rest(admin).await - read;
        // Of each three, and of each session some.
        let most = WAITERS * 3 + 200;
        assert!(reads <= most, "{reads} reads of {WAITERS} who wait, after their connections broke");
        assert_eq!(places(admin).await, before, "somebody has lost his place");

        // They hear of what happens.
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
}
