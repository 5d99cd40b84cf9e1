//! Many contenders.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lock_core::DistributedLock;
use tokio::task::JoinSet;

use crate::{Client, Command, Critical, Reply, TestEnv, audit::assert_free, unique};

pub(in crate::cases) async fn two_tasks_of_one_client_are_never_inside_together(env: TestEnv) {
    let client = env.client().await;
    contend(&env, &[client.clone(), client], 25).await;
}

pub(in crate::cases) async fn two_clients_of_one_process_are_never_inside_together(env: TestEnv) {
    let clients = [env.client().await, env.client().await];
    contend(&env, &clients, 25).await;
}

/// One task for each client acquires and releases again and again, so that there is always a waiter.
async fn contend(env: &TestEnv, clients: &[Client], rounds: u64) {
    let (name, section) = (env.name("section"), Critical::new(1));
    let mut tasks = JoinSet::new();
    for client in clients {
        let (lock, section) = (client.mutex(&name), section.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                let guard = lock.acquire().await.unwrap();
                let inside = section.enter(1);
                tokio::task::yield_now().await;
                drop(inside);
                guard.release().await.unwrap().confirmed().unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), rounds * clients.len() as u64);
    assert_free(&clients[0], &name).await;
}

pub(in crate::cases) async fn two_processes_never_count_at_the_same_time(env: TestEnv) {
    const ROUNDS: u32 = 50;
    let file = Scratch::new("0");
    let options = env.options();
    let (name, path) = (env.name("counter"), file.0.clone());
    let count = Command::Count { name, options, file: path, rounds: ROUNDS };
    let (mut one, mut two) = (env.process().await, env.process().await);
    one.tell(&count);
    two.tell(&count);
    assert_eq!(one.reply().await, Reply::Counted);
    assert_eq!(two.reply().await, Reply::Counted);
    let counted = std::fs::read_to_string(&file.0).unwrap();
    assert_eq!(counted, (2 * ROUNDS).to_string(), "counts were lost");
}

/// A file that is removed with the case.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("distlock-count-{}", unique()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(in crate::cases) async fn a_hundred_contenders_lose_no_count(env: TestEnv) {
    let name = env.name("counter");
    let (number, section) = (Arc::new(AtomicU64::new(0)), Critical::new(1));
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(env.client().await);
    }
    let mut tasks = JoinSet::new();
    for i in 0..100 {
        let (lock, number, section) = (clients[i % 4].mutex(&name), Arc::clone(&number), section.clone());
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let inside = section.enter(1);
            let read = number.load(Ordering::SeqCst);
            tokio::task::yield_now().await;
            number.store(read + 1, Ordering::SeqCst);
            drop(inside);
            // Half of them by drop, which the keeper carries out.
            if i % 2 == 0 {
                guard.release().await.unwrap().confirmed().unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(number.load(Ordering::SeqCst), 100);
    assert_eq!(section.visits(), 100);
    assert_free(&clients[0], &name).await;
}
