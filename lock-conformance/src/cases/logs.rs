//! How much is logged while a store is away. A process has one log, so these cases run in their own process.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lock_core::{
    BackendErrorKind, DistributedLock, Outage,
    sync::{Mutex, MutexGuard},
};
use tracing::{
    Event, Id, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

use super::{
    lease::ms,
    steps::{faulty, freed, long, mutex, queue_of, take_free},
};
use crate::{
    Client, Fault, Links, Newcomers, Proxy, SLACK, ScriptedFaults, Sound, TestEnv, Verb,
    audit::{eventually, within},
};

/// How many holders there are, and how many waiters.
const CROWD: usize = 50;

/// How many connection attempts per second may fail, however many holders and waiters there are; and how many more at first, while the
/// pauses are short.
const CONNECTS_A_SECOND: u64 = 2;
const CONNECTS_AT_FIRST: u64 = 4;

/// The ttl is short, because all of these leases have to end within the case. It is long enough to outlast a stall of four seconds, because
/// leases are renewed at a third of the ttl, and all have to be held when the outage begins.
const TTL: Duration = Duration::from_secs(6);

/// How often a clean-up is to fail.
const TRIES: usize = 9;

/// Every renewal and every look meets the outage. The log has to show it, and must not drown other messages.
pub(super) async fn an_outage_costs_a_line_a_second_and_message(env: TestEnv) {
    let log = Log::install();
    let store = Away::new(&env).await;
    let other = env.client().await;
    let name = |i: usize| env.name(&i.to_string());
    let options = long().ttl(TTL).outage(Outage::Wait);
    let lock = |i: usize| store.client.mutex(&name(i)).with_options(options.clone());
    let guards = join_all((0..CROWD).map(|i| {
        let lock = lock(i);
        async move { take_free(&lock).await }
    }));
    let guards = guards.await;
    let waiters: Vec<_> = (0..CROWD)
        .map(|i| {
            let lock = lock(i);
            tokio::spawn(async move { drop(lock.acquire().await) })
        })
        .collect();
    for i in 0..CROWD {
        queue_of(2, &mutex(&other, &name(i))).await;
    }

    log.clear();
    let began = Instant::now();
    // If the machine stood still, some locks may be lost already: such a loss was logged before, or is logged within a second. The locks
    // are counted after the log is cleared, so each lock that is counted here is lost, and its loss is logged, later. Usually it is all.
    let kept = guards.iter().filter(|guard| guard.is_held()).count();
    assert!(kept > CROWD / 2, "only {kept} of {CROWD} are held before the outage");
    store.is_silent();
    tokio::time::sleep(Duration::from_secs(2)).await;
    store.refuses();
    let ttl = guards.iter().map(lock_core::Guard::ttl).max().expect("there are some");
    within("the loss of all of them", ttl + SLACK, join_all(guards.iter().map(lock_core::Guard::lost))).await;
    // The waiters go on, and so does the clean-up.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (told, seconds) = (log.told(), began.elapsed().as_secs() + 1);
    println!("in {seconds} s: {told:#?}");
    for waiter in waiters {
        waiter.abort();
    }
    store.is_back();

    for (message, told) in &told {
        let by_client = env.client_logs().is_some_and(|target| message.contains(&format!(" {target}")));
        let most = if by_client { seconds * CONNECTS_A_SECOND + CONNECTS_AT_FIRST } else { seconds + 2 };
        assert!(told.lines <= most, "{} lines in {seconds} s of {message}: {told:?}", told.lines);
    }
    let times = |of: &str| -> u64 {
        told.iter().filter(|(message, _)| message.contains(of)).map(|(_, told)| told.times).sum()
    };
    let lost = times("lock lost");
    assert!(
        (kept as u64..=CROWD as u64).contains(&lost),
        "each loss counts once: {lost} of {kept} to {CROWD}"
    );
    assert!(times("store away enter") >= CROWD as u64, "not all looks that failed are counted");
    drop(guards);
    store.client.locks.close(SLACK * 2).await.unwrap();
}

/// The clean-up is repeated until it is confirmed. It is logged at the first failure, and then whenever the number of failures has doubled.
pub(super) async fn a_cleanup_that_fails_for_long_is_told_ever_more_rarely(env: TestEnv) {
    let log = Log::install();
    let (client, faults) = faulty(&env).await;
    let lock = mutex(&client, &env.name("job"));
    let guard = take_free(&lock).await;
    faults.always(Verb::Leave, Fault::FailUnsent(BackendErrorKind::Unreachable));
    drop(guard);
    let tries = || faults.answers(Verb::Leave);
    eventually("the tries to leave", SLACK, || async { tries() >= TRIES }).await;
    // Events within a second after a line are logged when that second is over.
    tokio::time::sleep(ms(1500)).await;
    let told: u64 =
        log.told().iter().filter(|(message, _)| message.contains("leave")).map(|(_, told)| told.times).sum();
    let tries = tries();
    faults.heal(Verb::Leave);
    let most = u64::from(tries.ilog2()) + 1;
    assert!((1..=most).contains(&told), "{tries} tries to leave were told {told} times");
    freed(&lock).await;
}

/// A client whose store can go away: by a proxy, or if there is no wire, by a layer.
struct Away {
    client: Client,
    proxy: Option<Proxy>,
    faults: ScriptedFaults,
}

const VERBS: [Verb; 3] = [Verb::Enter, Verb::Renew, Verb::Leave];

impl Away {
    async fn new(env: &TestEnv) -> Self {
        if !env.has_wire() {
            let (client, faults) = faulty(env).await;
            return Self { client, proxy: None, faults };
        }
        let proxy = env.proxy();
        let client = env.client_by(proxy.address(), Arc::new(Sound)).await;
        Self { client, proxy: Some(proxy), faults: ScriptedFaults::default() }
    }

    fn is_silent(&self) {
        match &self.proxy {
            Some(proxy) => proxy.silence(Links::All),
            None => VERBS.iter().for_each(|verb| self.faults.always(*verb, Fault::LoseRequest)),
        }
    }

    fn refuses(&self) {
        let refused = Fault::FailUnsent(BackendErrorKind::Unreachable);
        match &self.proxy {
            Some(proxy) => {
                proxy.newcomers(Newcomers::Refuse);
                proxy.reset(Links::All);
            }
            None => VERBS.iter().for_each(|verb| self.faults.always(*verb, refused.clone())),
        }
    }

    fn is_back(&self) {
        match &self.proxy {
            Some(proxy) => proxy.heal(),
            None => VERBS.iter().for_each(|verb| self.faults.heal(*verb)),
        }
    }
}

/// The warnings and errors that this process has logged, by their source, their message, and the verb.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<BTreeMap<String, Told>>>);

/// How often something was logged.
#[derive(Clone, Debug, Default)]
struct Told {
    lines: u64,
    /// The sum of the events that these lines count.
    times: u64,
    last: String,
}

impl Log {
    /// Installs it for the rest of the process.
    fn install() -> Self {
        let log = Self::default();
        let installed = tracing::subscriber::set_global_default(log.clone());
        installed.expect("a case of this group has a process of its own");
        log
    }

    fn clear(&self) {
        self.lock().clear();
    }

    fn told(&self) -> BTreeMap<String, Told> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        self.0.lock()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { times: 1, ..Line::default() };
        event.record(&mut line);
        let (metadata, Line { times, message, verb }) = (event.metadata(), line);
        let (level, target) = (metadata.level(), metadata.target());
        // Messages of other crates contain names and addresses: all lines of one place in the source count as one message.
        let said = match (target, metadata.file(), metadata.line()) {
            ("distlock", ..) => format!("{message} {verb}"),
            (_, Some(file), Some(line)) => format!("{file}:{line}"),
            _ => metadata.name().to_owned(),
        };
        let mut told = self.lock();
        let told = told.entry(format!("{level} {target}: {said}")).or_default();
        told.lines += 1;
        told.times += times;
        told.last = message;
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a line that are read.
#[derive(Default)]
struct Line {
    times: u64,
    message: String,
    verb: String,
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "times" {
            self.times = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "verb" {
            value.clone_into(&mut self.verb);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
