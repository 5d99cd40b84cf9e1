//! Many runtimes that use one client at the same time.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use lock_core::Guard;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Barrier,
};

use crate::{
    Critical, TestEnv,
    audit::soon,
    cases::steps::{assert_held_alone, freed, mutex, on_a_thread, take, take_free},
};

/// As many as a machine with some cores has threads for.
const RUNTIMES: usize = 8;

/// How often each has what all of them want.
const TURNS: usize = 3;

/// Each on a thread of its own, with a lock of its own and one that all want. Half of them end while the others go on.
pub(in crate::cases) async fn many_runtimes_take_locks_at_the_same_time(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let (wanted, section) = (mutex(&client, &env.name("wanted")), Critical::new(1));
    let all_there = Arc::new(Barrier::new(RUNTIMES));
    let threads = (0..RUNTIMES).map(|number| {
        let own = mutex(&client, &env.name(&format!("own {number}")));
        let (wanted, section, all_there) = (wanted.clone(), section.clone(), Arc::clone(&all_there));
        on_a_thread(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let guard = runtime.block_on(async {
                let guard = take_free(&own).await;
                soon("the other runtimes", all_there.wait()).await;
                for _ in 0..TURNS {
                    let turn = take(&wanted).await;
                    let inside = section.enter(1);
                    tokio::task::yield_now().await;
                    drop(inside);
                    turn.release().await.unwrap().confirmed().unwrap();
                }
                guard
            });
            (runtime, guard)
        })
    });
    let mut going_on = join_all(threads).await;
    assert_eq!(section.visits(), (RUNTIMES * TURNS) as u64);

    let ending = going_on.split_off(RUNTIMES / 2);
    let ended: Vec<_> = ending.iter().map(|(_, guard)| guard.name().as_str().to_owned()).collect();
    let ends = ending.into_iter().map(|(runtime, guard)| on_a_thread(move || end_holding(runtime, guard)));
    let goes_on = going_on.into_iter().map(|(runtime, guard)| {
        let others = mutex(&other, guard.name().as_str());
        on_a_thread(move || {
            runtime.block_on(async {
                guard.extend().await.unwrap();
                assert_held_alone(&guard, &others).await;
                guard.release().await.unwrap().confirmed().unwrap();
            });
        })
    });
    join(join_all(ends), join_all(goes_on)).await;
    for name in ended {
        freed(&mutex(&other, &name)).await;
    }
    freed(&wanted).await;
}

/// Ends a runtime with a task that holds a lock.
fn end_holding(runtime: Runtime, guard: Guard) {
    runtime.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    drop(runtime);
}
