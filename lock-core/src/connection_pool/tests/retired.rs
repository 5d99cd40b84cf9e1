//! Connections that get no more requests, and those that were retired too early.

use super::*;

#[tokio::test]
async fn a_retired_connection_is_driven_while_a_call_has_it() {
    let pool = pool();
    let (retired, link) = pool.connect(&0).await.unwrap();
    pool.retire(&retired);
    let (next, _) = pool.connect(&0).await.unwrap();
    assert!(!Arc::ptr_eq(&retired, &next));
    assert!(!retired.is_closed() && link.driven.upgrade().is_some());
    drop(retired);
    while link.driven.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(!next.is_closed());
}

#[tokio::test]
async fn callers_that_wait_for_another_get_one_that_was_taken_back() {
    let pool = pool();
    let (late, _) = pool.connect(&0).await.unwrap();
    pool.retire(&late);
    *pool.connector().fate.lock() = Fate::Silent;
    let mut waiting = Box::pin(pool.connect(&0));
    assert!((&mut waiting).now_or_never().is_none());
    pool.take_back(&late);
    assert!(Arc::ptr_eq(&waiting.await.unwrap().0, &late));
    assert!(Arc::ptr_eq(&pool.connection(&0), &late));
}

#[tokio::test]
async fn a_connection_is_taken_back_unless_another_is_open_or_it_has_ended() {
    let pool = pool();
    let (late, link) = pool.connect(&0).await.unwrap();
    pool.retire(&late);
    pool.take_back(&late);
    assert!(Arc::ptr_eq(&pool.connection(&0), &late), "there was none");
    pool.retire(&late);
    let (next, _) = pool.connect(&0).await.unwrap();
    pool.take_back(&late);
    assert!(Arc::ptr_eq(&pool.connection(&0), &next), "one is open");
    drop(link.end.lock().take());
    while !late.is_closed() {
        tokio::task::yield_now().await;
    }
    pool.retire(&next);
    pool.take_back(&late);
    assert!(!Arc::ptr_eq(&pool.connection(&0), &late), "it has ended");
}

#[test]
fn connections_of_all_runtimes_are_retired_together() {
    let pool = pool();
    let (one, other) = (runtime(), runtime());
    let kept = open_on(&one, &pool, 2).0;
    let retired = [open_on(&one, &pool, 1).0, open_on(&other, &pool, 1).0];
    pool.retire_where(|link| link.target == 1);
    assert!(Arc::ptr_eq(&kept, &open_on(&one, &pool, 2).0));
    for (runtime, retired) in [&one, &other].into_iter().zip(&retired) {
        assert!(!Arc::ptr_eq(retired, &open_on(runtime, &pool, 1).0));
    }
}
