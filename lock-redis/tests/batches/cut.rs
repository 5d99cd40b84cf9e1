//! A connection that is reset within the answer to a batch: each verb of the batch is in doubt, as a single one is.

use std::net::SocketAddr;

use lock_conformance::{Flow, Links, Proxy, Way};
use lock_core::{DistributedLock, EntryId, Guard, Locks, Operator, SystemEntropy};

use super::*;

/// The verbs that are sent alone, and one batch.
const ASKED: usize = 48;
const ALONE: usize = 32;

/// A client that reaches the server through a proxy.
struct Far {
    client: Client,
    proxy: Proxy,
}

impl Far {
    fn new(server: &Server) -> Self {
        let at: SocketAddr = server.url().trim_start_matches("redis://").parse().unwrap();
        let proxy = Proxy::start(at, |sent| sent.windows(9).any(|word| word == b"SUBSCRIBE"));
        let keeper = Keeper::start().unwrap();
        Self { client: Client { redis: redis_by(&proxy, &keeper), keeper }, proxy }
    }

    /// Opens the client's connection, and makes it end after `bytes` more bytes of the server's answers.
    async fn cut_after(&self, bytes: usize) {
        // Subscribes, too.
        let first = semaphore("warm", 1, 1);
        self.client.hold(&first).await;
        self.client.leave(&first).await;
        self.cut(bytes);
    }

    fn cut(&self, bytes: usize) {
        self.proxy.order(Links::OpenCommands, Way::Replies, &Flow::Cut(bytes));
    }
}

fn redis_by(proxy: &Proxy, keeper: &Keeper) -> Redis {
    Redis::new(format!("redis://{}?prefix=", proxy.address()).parse().unwrap(), keeper).unwrap()
}

/// The verbs that got no answer. They are the whole batch, and each has an error which says that the verb may have been carried out.
fn in_doubt<T: std::fmt::Debug>(answers: &[Result<T, BackendError>], bytes: usize) -> Vec<usize> {
    let failed: Vec<_> = (0..answers.len()).filter(|i| answers[*i].is_err()).collect();
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Unreachable, false), "{bytes}: {error}");
    }
    assert!(failed.is_empty() || failed == (ALONE..ASKED).collect::<Vec<_>>(), "{bytes}: {failed:?}");
    failed
}

/// Entries that are created by scripts.
fn permits(of: &str) -> Vec<Entry> {
    (0..ASKED).map(|i| semaphore(&format!("{of}/{i}"), 1, 1)).collect()
}

/// The token and the owner of each, as the server has them.
async fn holders(client: &Client, entries: &[Entry]) -> Vec<Option<(FencingToken, EntryId)>> {
    let queues = join_all(entries.iter().map(|entry| client.redis.queue(&entry.name))).await;
    let holder = |queue: Vec<lock_core::QueueRow>| queue.first().and_then(|row| row.token.zip(row.entry));
    queues.into_iter().map(|queue| holder(queue.unwrap())).collect()
}

/// T02, T08.
#[tokio::test]
async fn an_enter_whose_batch_answer_is_cut_finds_its_entry_when_repeated() {
    let server = Server::start();
    // The server knows all scripts, so its answer is that of the batch.
    let other = warm(&server).await;
    let far = Far::new(&server);
    // The answer to an admitted entry is "$16", its token of sixteen digits, and two line ends.
    let (answer, mut cuts) = (23, 0);
    for bytes in ALONE * answer.. {
        let entries = permits(&format!("job{bytes}"));
        far.cut_after(bytes).await;
        let answers = ask_all(&far.client, &entries).await;
        far.proxy.heal();
        let doubtful = in_doubt(&answers, bytes);
        // The server carried out each verb at most once.
        let before = holders(&other, &entries).await;
        let again = join_all(doubtful.iter().map(|i| far.client.create(&entries[*i]))).await;
        for (i, standing) in doubtful.iter().zip(again) {
            assert_eq!(before[*i], Some((admitted(standing), entries[*i].id)), "{bytes}");
        }
        assert_eq!(holders(&other, &entries).await, before, "{bytes}");
        leave_all(&far.client, &entries).await;
        if doubtful.is_empty() {
            break;
        }
        cuts += 1;
    }
    assert_each_byte_was_cut(cuts, answer);
}

/// T03, T08.
#[tokio::test]
async fn a_leave_whose_batch_answer_is_cut_can_be_repeated_and_frees_no_other() {
    let server = Server::start();
    let (far, other) = (Far::new(&server), warm(&server).await);
    // The answer is ":1" and a line end.
    let (answer, mut cuts) = (4, 0);
    for bytes in ALONE * answer.. {
        let entries = permits(&format!("job{bytes}"));
        hold_all(&far.client, &entries).await;
        far.cut_after(bytes).await;
        let left =
            join_all(entries.iter().map(|entry| far.client.redis.leave(entry, Creates::Answered))).await;
        far.proxy.heal();
        let doubtful = in_doubt(&left, bytes);
        if doubtful.is_empty() {
            break;
        }
        let theirs: Vec<_> = doubtful.iter().map(|i| semaphore(entries[*i].name.as_str(), 1, 1)).collect();
        hold_all(&other, &theirs).await;
        for i in &doubtful {
            assert_eq!(far.client.leave(&entries[*i]).await, Departure::Absent, "{bytes}");
        }
        let held = holders(&other, &theirs).await;
        assert!(
            held.iter().zip(&theirs).all(|(held, their)| held.unwrap().1 == their.id),
            "{bytes}: {held:?}"
        );
        leave_all(&other, &theirs).await;
        cuts += 1;
    }
    assert_each_byte_was_cut(cuts, answer);
}

/// The same for users: each gets its lock and gives it back, and none notices the cut.
#[tokio::test]
async fn batched_acquisitions_and_releases_survive_a_cut_at_any_byte() {
    let server = Server::start();
    let (far, other) = (Far::new(&server), server.client());
    let backend = Arc::new(redis_by(&far.proxy, &far.client.keeper));
    let locks = Locks::with(backend, far.client.keeper.clone(), Arc::new(SystemEntropy));
    let locks: Vec<_> = (0..ASKED).map(|i| locks.mutex(format!("job/{i}")).unwrap()).collect();
    // The step is a prime, so that in time it hits each place within an answer, which has about 70 bytes.
    for bytes in (0..ASKED * 70).step_by(53) {
        // Opens the connection.
        locks[0].acquire().await.unwrap().release().await.unwrap();
        far.cut(bytes);
        let guards = join_all(locks.iter().map(DistributedLock::acquire)).await;
        far.proxy.heal();
        let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
        for (lock, guard) in locks.iter().zip(&guards) {
            let rows = other.redis.queue(lock.name()).await.unwrap();
            let shown: Vec<_> = rows.iter().map(|row| (row.entry, row.admitted)).collect();
            assert_eq!(shown, [(Some(guard.entry_id()), true)], "{bytes}");
            assert!(rows[0].token.is_none_or(|token| token == guard.token()), "{bytes}: {rows:?} {guard:?}");
        }
        far.cut(bytes / 17);
        let released = join_all(guards.into_iter().map(Guard::release)).await;
        far.proxy.heal();
        for released in released {
            assert!(released.unwrap().confirmed().is_ok(), "{bytes}");
        }
        let left: Vec<_> = server.keys().into_iter().filter(|key| !key.starts_with(b"\xff2")).collect();
        assert_eq!(left, Vec::<Vec<u8>>::new(), "{bytes}");
    }
}

/// Asserts that each byte of the batch's answer was once the first to be lost. `answer` is the length of the answer of one verb.
fn assert_each_byte_was_cut(cuts: usize, answer: usize) {
    assert_eq!(cuts, "*16\r\n".len() + (ASKED - ALONE) * answer);
}
