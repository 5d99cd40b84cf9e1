//! Requests that arrive twice.

use lock_core::{DistributedLock, Guard, Release};

use super::{Far, assert_holds_alone};
use crate::{
    Critical, Newcomers, World,
    audit::soon,
    cases::steps::{freed, mutex, permits, queue, queue_of, reader, take, take_free, writer},
};

/// Each time before its answer, so that the client cannot know.
pub(crate) async fn what_arrives_twice_counts_once(world: World) {
    let (one, two) = (duplicated(&world).await, duplicated(&world).await);
    hand_overs(&world, &one, &two).await;
    shares(&world, &one, &two).await;
    contention(&world, &one, &two).await;
}

async fn duplicated(world: &World) -> Far {
    let proxy = world.proxy();
    proxy.newcomers(Newcomers::Duplicate);
    Far::by(proxy, world).await
}

/// Each entry has one row and one token, is granted once, and is released once.
async fn hand_overs(world: &World, one: &Far, two: &Far) {
    let name = world.name("queue");
    let (first, second) = (mutex(&one.client, &name), mutex(&two.client, &name));
    let mut held = take_free(&first).await;
    assert_holds_alone(&queue(&first).await, &held);
    for lock in [&second, &first, &second] {
        assert!(lock.try_acquire().await.unwrap().is_none(), "it is held");
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { take(&lock).await }
        });
        queue_of(2, &first).await;
        held.extend().await.unwrap();
        let token = held.token();
        release(held, one).await;
        held = soon("the next grant", waiting).await.unwrap();
        assert!(held.token() > token);
        assert_holds_alone(&queue(&first).await, &held);
    }
    drop(held);
    freed(&first).await;
}

async fn shares(world: &World, one: &Far, two: &Far) {
    let name = world.name("page");
    let readers =
        [take_free(&reader(&one.client, &name)).await, take_free(&reader(&two.client, &name)).await];
    let writing = tokio::spawn({
        let lock = writer(&one.client, &name);
        async move { take(&lock).await }
    });
    assert_eq!(queue_of(3, &writer(&one.client, &name)).await.iter().filter(|row| row.admitted).count(), 2);
    for reader in readers {
        release(reader, one).await;
    }
    let written = soon("the writer", writing).await.unwrap();
    release(written, one).await;

    let name = world.name("pool");
    let held = [
        take_free(&permits(&one.client, &name, 2, 3)).await,
        take_free(&permits(&two.client, &name, 1, 3)).await,
    ];
    assert!(permits(&one.client, &name, 1, 3).try_acquire().await.unwrap().is_none(), "all permits are held");
    for portion in held {
        release(portion, one).await;
    }
    freed(&permits(&one.client, &name, 3, 3)).await;
}

async fn contention(world: &World, one: &Far, two: &Far) {
    let (name, section) = (world.name("crowd"), Critical::new(1));
    let tasks = [one, two, one, two].map(|far| {
        let (lock, section, shared) = (mutex(&far.client, &name), section.clone(), far.proxy.is_shared());
        tokio::spawn(async move {
            for _ in 0..10 {
                let guard = take(&lock).await;
                drop(section.enter(1));
                assert_released(guard.release().await.unwrap(), shared);
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(section.visits(), 40);
    freed(&mutex(&one.client, &name)).await;
}

async fn release(guard: Guard, far: &Far) {
    assert_released(guard.release().await.unwrap(), far.proxy.is_shared());
}

/// On a connection where the server speaks unasked, the second request may be the one that does it.
fn assert_released(released: Release, shared: bool) {
    assert!(released == Release::Released || shared, "{released:?}");
}
