//! [`assert_no_growth`]: checks that repeated work does not leak memory.

use std::{
    collections::BTreeSet,
    future::Future,
    hint::black_box,
    time::{Duration, Instant},
};

use super::lease::ms;
use crate::{Footprint, SLACK, TestEnv, Usage};

/// How many rounds in a row must leave nothing. What the first rounds create once and keep is not counted.
pub(super) const WINDOWS: usize = 4;

/// How many rounds there are at most. Tables and buffers grow until they are large enough, and tombstones of late requests end after a
/// minute, in which that many rounds have run.
pub(super) const MOST_WINDOWS: usize = 32;

/// What an acquisition may leave, in bytes: less than half of the smallest heap block.
const CRUMB: u64 = 12;

/// What a token counter or another record that is kept on purpose may cost the store, in bytes.
const MARK: u64 = 512;

/// How long to wait for resources that are freed shortly after their use. Those that take longer count in the next round.
const PUT_AWAY: Duration = ms(200);

/// How often memory is read after a round, 10 ms apart. The smallest reading counts, since memory may still be freed.
const READINGS: usize = 10;

/// Repeats some work until several rounds in a row have left nothing behind for each of their acquisitions. Returns the number of rounds.
/// Resources that are opened once, when they are first needed, are not counted: they exist in all of these rounds.
///
/// # Panics
/// If every round leaves something behind, or if the memory of this process cannot be measured.
pub(super) async fn assert_no_growth<F: Future<Output = ()>>(
    env: &TestEnv,
    each: u64,
    work: impl Fn(usize) -> F,
) -> usize {
    assert_heap_is_seen();
    let mut seen: Vec<Seen> = Vec::new();
    for window in 0..=MOST_WINDOWS {
        work(window).await;
        let now = Seen::after(env, seen.last()).await;
        seen.push(now);
        if let Some((last, before)) = seen.split_last()
            && before.len() >= WINDOWS
        {
            let before = &before[before.len() - WINDOWS..];
            let (client, server) = last.growth_since_any_of(before);
            let more: BTreeSet<String> = before.iter().flat_map(|before| last.more_than(before)).collect();
            let acquisitions = WINDOWS as u64 * each;
            println!(
                "{acquisitions} acquisitions: the client grew by {client} bytes, the server by {server}; {more:?}"
            );
            if more.is_empty() && client.max(server) <= CRUMB * acquisitions {
                return window + 1;
            }
        }
    }
    let seen: Vec<String> = seen.iter().map(|seen| format!("{seen:?}")).collect();
    panic!("each {each} acquisitions leave something behind, in use after each round:\n{}", seen.join("\n"));
}

/// The heap of another allocator would not be measured, and so would never seem to grow.
fn assert_heap_is_seen() {
    const SIZE: usize = 1 << 20;
    let heap = || Usage::now()?.heap;
    let before = heap();
    let piece = black_box(vec![1_u8; SIZE]);
    let seen = before.zip(heap()).is_none_or(|(before, now)| now >= before + SIZE as u64 / 2);
    drop(piece);
    assert!(
        seen,
        "memory is not taken from the C library: set no `#[global_allocator]` in the tests of a backend"
    );
}

/// What clients use at the server of a case.
///
/// # Panics
/// If the server cannot report it.
pub(super) async fn footprint(env: &TestEnv) -> Footprint {
    env.server().footprint().await.unwrap()
}

/// What is in use after everything that was dropped is cleaned up.
#[derive(Debug)]
struct Seen {
    server: Footprint,
    client: Option<Usage>,
}

impl Seen {
    /// Waits until all queues are empty, and then, for a short time, until no figure is larger than the last time, except memory and
    /// what is kept on purpose.
    async fn after(env: &TestEnv, previous: Option<&Self>) -> Self {
        let (queues, figures) = (Instant::now() + SLACK, Instant::now() + PUT_AWAY);
        let mut least = loop {
            let now = Self::now(env).await;
            let more = previous.is_some_and(|before| !now.more_than(before).is_empty());
            if now.server.queues == 0 && (!more || Instant::now() >= figures) {
                break now;
            }
            assert!(Instant::now() < queues, "queues are not empty: {now:?}");
            tokio::time::sleep(ms(5)).await;
        };
        for _ in 1..READINGS {
            tokio::time::sleep(ms(10)).await;
            // Asking the server takes memory of this process, too. So it is asked only where that shows something: at first the least
            // number of connections, and later its memory, if it reports that.
            let server = if previous.is_none() || least.server.memory.is_some() {
                footprint(env).await
            } else {
                least.server
            };
            least = least.or_less(&Self { server, client: Usage::now() });
        }
        least
    }

    async fn now(env: &TestEnv) -> Self {
        // The client first: until they are closed, the connections for asking the server count in this process, too.
        let client = Usage::now();
        Self { server: footprint(env).await, client }
    }

    /// Each figure that is larger than it was, with both values.
    fn more_than(&self, before: &Self) -> Vec<String> {
        let client = |seen: &Self| seen.client.map(|usage| usage.in_use());
        let figures =
            |seen: &Self| seen.server.in_use().into_iter().chain(client(seen).into_iter().flatten());
        figures(before)
            .zip(figures(self))
            .filter(|((_, before), (_, now))| now > before)
            .map(|((name, before), (_, now))| format!("{name}: {now} instead of {before}"))
            .collect()
    }

    /// The smaller one of each figure.
    fn or_less(mut self, other: &Self) -> Self {
        let server = &mut self.server;
        server.sessions = server.sessions.min(other.server.sessions);
        server.connections = server.connections.min(other.server.connections);
        server.subscriptions = server.subscriptions.min(other.server.subscriptions);
        server.memory = server.memory.min(other.server.memory);
        if let (Some(client), Some(other)) = (&mut self.client, other.client) {
            client.heap = client.heap.min(other.heap);
            client.files = client.files.min(other.files);
            client.threads = client.threads.min(other.threads);
        }
        self
    }

    /// The growth of the client and of the server in bytes, if known. Leaked memory stays in use, so growth counts from the earlier round
    /// with the least memory in use: a round in which more memory was still being freed hides nothing.
    fn growth_since_any_of(&self, earlier: &[Self]) -> (u64, u64) {
        let growth = earlier.iter().map(|earlier| self.growth_since(earlier));
        growth.fold((0, 0), |most, now| (most.0.max(now.0), most.1.max(now.1)))
    }

    /// The memory of the server does not include what is kept on purpose.
    fn growth_since(&self, first: &Self) -> (u64, u64) {
        let grown =
            |now: Option<u64>, then| now.zip(then).map(|(now, then): (u64, u64)| now.saturating_sub(then));
        let memory = |seen: &Self| seen.client.map(|client| client.heap.unwrap_or(client.memory));
        let kept = MARK * self.server.kept.saturating_sub(first.server.kept);
        let server = grown(self.server.memory, first.server.memory).map(|grown| grown.saturating_sub(kept));
        (grown(memory(self), memory(first)).unwrap_or(0), server.unwrap_or(0))
    }
}
