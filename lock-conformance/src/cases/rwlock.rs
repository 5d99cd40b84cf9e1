//! Read-write locks.

use std::time::Duration;

use lock_core::{DistributedLock, Error, Guard};

use super::steps::{brief, is_busy, long, queue, queue_of, reader, refused, take, take_free, writer};
use crate::{
    CaseTest, SLACK, Side, TestEnv,
    audit::{soon, within},
};

/// The cases of this group: `name ["ids"]` each.
#[doc(hidden)]
#[macro_export]
macro_rules! rwlock_cases {
    ($($to:tt)*) => {
        $crate::__cases! { [$($to)*] rwlock {
            readers_share_a_lock ["W01"]
            a_writer_excludes_readers_and_writers_and_they_exclude_it ["W02"]
            a_stream_of_readers_does_not_starve_a_writer ["W03"]
            a_dead_reader_delays_a_writer_by_its_ttl_at_the_most ["W04"]
            a_reader_that_asks_to_write_is_refused_and_stays_a_reader ["W06"]
            the_lease_of_one_reader_is_not_that_of_another ["W07"]
        } }
    };
}

pub(super) const CASES: &[CaseTest] = rwlock_cases!(list);

/// Several clients read at the same time, and one of them twice.
pub(super) async fn readers_share_a_lock(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("shared");
    let guards = [
        take_free(&reader(&one, &name)).await,
        take_free(&reader(&two, &name)).await,
        take_free(&reader(&two, &name)).await,
    ];
    assert!(guards.iter().all(Guard::is_held));
    let rows = queue(&reader(&one, &name)).await;
    assert_eq!(rows.iter().filter(|row| row.admitted).count(), 3, "{rows:?}");
}

/// A writer excludes readers, readers exclude a writer, and a writer excludes another writer.
pub(super) async fn a_writer_excludes_readers_and_writers_and_they_exclude_it(env: TestEnv) {
    let (one, two) = (env.client().await, env.client().await);
    let name = env.name("written");
    let write = take_free(&writer(&one, &name)).await;
    for client in [&one, &two] {
        assert!(is_busy(&reader(client, &name)).await, "a reader came in beside the writer");
        assert!(is_busy(&writer(client, &name)).await, "a writer came in beside the writer");
    }
    write.release().await.unwrap();

    let (read, other) = (take_free(&reader(&one, &name)).await, take_free(&reader(&two, &name)).await);
    assert!(is_busy(&writer(&two, &name)).await, "a writer came in beside two readers");
    read.release().await.unwrap();
    assert!(is_busy(&writer(&two, &name)).await, "a writer came in beside a reader");
    other.release().await.unwrap();
    drop(take_free(&writer(&two, &name)).await);
}

/// There is always a reader, but readers that come after the writer wait behind it.
pub(super) async fn a_stream_of_readers_does_not_starve_a_writer(env: TestEnv) {
    let (readers, writing) = (env.client().await, env.client().await);
    let name = env.name("stream");
    let mut reading = take_free(&reader(&readers, &name)).await;
    let lock = reader(&readers, &name);
    let stream = tokio::spawn(async move {
        // The next reader is admitted before the last one leaves, as long as readers are admitted.
        while let Some(next) = lock.try_acquire().await.unwrap() {
            reading.release().await.unwrap();
            reading = next;
            tokio::task::yield_now().await;
        }
        (lock, reading)
    });
    let write = writer(&writing, &name);
    let turn = tokio::spawn(async move { write.acquire().await.unwrap() });
    let (lock, reading) = soon("the end of the stream", stream).await.unwrap();
    let later = tokio::spawn(async move { lock.acquire().await.unwrap() });
    let seen = writer(&writing, &name);
    queue_of(3, &seen).await;
    reading.release().await.unwrap();
    let written = soon("the turn of the writer", turn).await.unwrap();
    assert_eq!(queue_of(2, &seen).await[0].token, Some(written.token()));
    written.release().await.unwrap();
    drop(soon("the turn of the next reader", later).await.unwrap());
}

/// The writer waits for the end of the dead reader's lease, and for nothing else.
pub(super) async fn a_dead_reader_delays_a_writer_by_its_ttl_at_the_most(env: TestEnv) {
    let (mut dying, writing) = (env.process().await, env.client().await);
    let name = env.name("dead reader");
    dying.acquire(&name, Side::Read, &brief()).await;
    let write = writer(&writing, &name);
    assert!(is_busy(&write).await, "a writer came in beside a reader");
    dying.kill().await;
    let granted = within("the turn of the writer", brief().ttl + SLACK, write.acquire()).await.unwrap();
    granted.release().await.unwrap();
}

/// There is no upgrade: two readers that tried to upgrade would wait for each other. A reader that asks for the other side is refused, and
/// stays a reader.
pub(super) async fn a_reader_that_asks_to_write_is_refused_and_stays_a_reader(env: TestEnv) {
    let client = env.client().await;
    let name = env.name("upgrade");
    let read = take_free(&reader(&client, &name)).await;
    let write = writer(&client, &name);
    assert!(is_busy(&write).await, "a reader became a writer");
    let error = refused(write.acquire_with(&long().wait(Duration::from_secs(1))).await);
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");
    assert!(read.is_held(), "asking for the other side cost the reader its lock");

    // A refused request leaves no entry that is in the way.
    queue_of(1, &write).await;
    drop(take_free(&reader(&client, &name)).await);
    read.release().await.unwrap();
}

/// Each reader has a lease of its own. A lease that ends does not end another, and another does not keep it alive. The reader that lives on
/// came first, or last: data that a store keeps for both must not end with the short lease of the other.
pub(super) async fn the_lease_of_one_reader_is_not_that_of_another(env: TestEnv) {
    let (dying, living, writing) = (env.client().await, env.client().await, env.client().await);
    let names = [env.name("first"), env.name("last")];
    let first = take_free(&reader(&living, &names[0])).await;
    let mut dead = Vec::new();
    for name in &names {
        dead.push(take_free(&reader(&dying, name).with_options(brief())).await);
    }
    let last = take_free(&reader(&living, &names[1])).await;
    dying.crash().await;
    // Long after the end of the short lease, and of everything that ends with it.
    tokio::time::sleep(dead[1].ttl() * 2).await;

    for (name, guard) in names.iter().zip([first, last]) {
        let write = writer(&writing, name);
        let left = queue_of(1, &write).await;
        assert!(left[0].admitted && left[0].token == Some(guard.token()), "{left:?}");
        assert!(is_busy(&write).await, "the end of one reader's lease let a writer in beside the other");
        assert!(guard.is_held());
        guard.release().await.unwrap();
        drop(take(&write).await);
    }
}
