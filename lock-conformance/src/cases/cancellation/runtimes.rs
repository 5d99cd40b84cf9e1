//! Tasks, runtimes and threads that end while they hold locks or wait for them.

use lock_core::{DistributedLock, Lock};
use tokio::{runtime, task::JoinHandle};

use crate::{
    TestEnv,
    audit::soon,
    cases::steps::{freed, lasting, mutex, on_a_thread, queue_of, take_free},
};

pub(in crate::cases) async fn an_aborted_task_leaves_its_locks_and_queues(env: TestEnv) {
    let client = env.client().await;
    let (held, wanted) = (mutex(&client, &env.name("held")), mutex(&client, &env.name("wanted")));
    let theirs = take_free(&wanted).await;
    let task = tokio::spawn(hold_one_and_wait(held.clone(), wanted.clone()));
    queue_of(2, &wanted).await;
    queue_of(1, &held).await;
    task.abort();
    queue_of(1, &wanted).await;
    freed(&held).await;
    theirs.release().await.unwrap();
    freed(&wanted).await;
}

/// Runtimes of both flavors, dropped or shut down in the background.
pub(in crate::cases) async fn a_runtime_that_ends_leaves_its_locks_and_queues(env: TestEnv) {
    let client = env.client().await;
    let (held, wanted) = (mutex(&client, &env.name("held")), mutex(&client, &env.name("wanted")));
    let theirs = take_free(&wanted).await;
    let ends: [fn(runtime::Runtime); 2] = [drop, runtime::Runtime::shutdown_background];
    for end in ends {
        let (runtime, _task) = running(&held, &wanted);
        queue_of(2, &wanted).await;
        on_a_thread(move || end(runtime)).await;
        queue_of(1, &wanted).await;
        freed(&held).await;
    }

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = hold_one_and_wait(held.clone(), wanted.clone());
    let thread = tokio::spawn(on_a_thread(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.spawn(task);
        // The runtime does not wait for the task, which ends with it.
        let _ = runtime.block_on(stopped);
    }));
    queue_of(2, &wanted).await;
    stop.send(()).unwrap();
    thread.await.unwrap();
    queue_of(1, &wanted).await;
    freed(&held).await;
    theirs.release().await.unwrap();
}

/// The lock is still renewed, and is released on another runtime.
pub(in crate::cases) async fn a_guard_outlives_the_runtime_that_took_it(env: TestEnv) {
    let (client, other) = (env.client().await, env.client().await);
    let name = env.name("outlives");
    let lock = client.mutex(&name).with_options(lasting());
    let guard = on_a_thread(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(lock.acquire()).unwrap()
    })
    .await;
    tokio::time::sleep(guard.ttl() * 4 / 3).await;
    assert!(guard.is_held(), "the lock was lost with the runtime that took it");
    assert_eq!(queue_of(1, &mutex(&other, &name)).await[0].token, Some(guard.token()));
    guard.release().await.unwrap().confirmed().unwrap();
    freed(&mutex(&other, &name)).await;
}

/// A guard, and the future of a waiter.
pub(in crate::cases) async fn a_guard_is_dropped_without_a_runtime(env: TestEnv) {
    let client = env.client().await;
    let lock = mutex(&client, &env.name("elsewhere"));
    let guard = take_free(&lock).await;
    let waiting = lock.clone();
    let mut waiting = Box::pin(async move { waiting.acquire().await });
    tokio::select! {
        granted = &mut waiting => panic!("the lock is held, and was granted: {granted:?}"),
        _ = queue_of(2, &lock) => {}
    }
    without_a_runtime(move || drop(waiting)).await;
    queue_of(1, &lock).await;
    without_a_runtime(move || drop(guard)).await;
    freed(&lock).await;
}

/// A panic in a task, on a thread, inside `run`, and in a waiter.
pub(in crate::cases) async fn a_panic_releases_what_it_unwinds(env: TestEnv) {
    let client = env.client().await;
    let lock = mutex(&client, &env.name("panics"));

    let guard = take_free(&lock).await;
    panics(tokio::spawn(async move {
        let _guard = guard;
        tokio::task::yield_now().await;
        panic!("ordered: a task with a guard")
    }))
    .await;
    freed(&lock).await;

    let guard = take_free(&lock).await;
    let thread = std::thread::spawn(move || {
        let _guard = guard;
        panic!("ordered: a thread with a guard")
    });
    thread.join().expect_err("the thread panics");
    freed(&lock).await;

    let theirs = lock.clone();
    panics(tokio::spawn(
        async move { theirs.run(|_| async { panic!("ordered: a body of run") }).await.unwrap() },
    ))
    .await;
    freed(&lock).await;

    let (guard, theirs, seen) = (take_free(&lock).await, lock.clone(), lock.clone());
    panics(tokio::spawn(async move {
        tokio::select! {
            granted = theirs.acquire() => drop(granted),
            () = async {
                queue_of(2, &seen).await;
                panic!("ordered: beside a waiter")
            } => {}
        }
    }))
    .await;
    queue_of(1, &lock).await;
    guard.release().await.unwrap();
    freed(&lock).await;
}

/// Holds one lock and waits for another, until it is ended.
async fn hold_one_and_wait(held: Lock, wanted: Lock) {
    let _held = take_free(&held).await;
    let _wanted = wanted.acquire().await.unwrap();
    panic!("a lock that is held was granted");
}

/// The same on a separate runtime.
fn running(held: &Lock, wanted: &Lock) -> (runtime::Runtime, JoinHandle<()>) {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let task = runtime.spawn(hold_one_and_wait(held.clone(), wanted.clone()));
    (runtime, task)
}

async fn panics(task: JoinHandle<()>) {
    let error = soon("the end of a task", task).await.expect_err("the task panics");
    assert!(error.is_panic(), "{error:?}");
}

async fn without_a_runtime(work: impl FnOnce() + Send + 'static) {
    on_a_thread(move || {
        assert!(runtime::Handle::try_current().is_err(), "this thread has a runtime");
        work();
    })
    .await;
}
