//! Running one case, and running as a client process.

use std::{
    io::{BufRead, Write},
    panic::catch_unwind,
    sync::Arc,
    time::Duration,
};

use lock_core::{Keeper, Locks, SystemEntropy};

use crate::{
    Case, CaseTest, Command, Declared, Harness, MakeBug, Mode, Reply, SLACK, TestEnv, alone,
    cases::{self, resources},
    client_process::{MARK, VARIABLE},
    client_registry::ClientRegistry,
    command::Interpreter,
    declarations::not_run,
    leak_check,
    output::said,
    ran_nothing,
    test_env::StoreInfo,
};

/// When a case that hangs is given up.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// Runs one case on its own store. [`suite!`](crate::suite) expands to calls of it.
///
/// # Panics
/// If the promise is broken, or the case is not over within two minutes.
pub fn run<H: Harness>(group: &str, name: &str, mode: Mode) {
    let test = cases::find(group, name);
    if let Some(Declared { id, reason }) = not_run(&test.case, mode, H::declared(), H::notifications()) {
        return ran_nothing(&path(&test.case, mode), &format!("declared {id}: {reason}"));
    }
    if group == resources::GROUP {
        return alone(&format!("{group}::{name}"), || carry_out::<H>(test, mode, None));
    }
    carry_out::<H>(test, mode, None);
}

/// The path of its test.
fn path(case: &Case, mode: Mode) -> String {
    let mode = match mode {
        Mode::Both => "",
        Mode::WithoutHints => "without_hints::",
        Mode::WithoutPolling => "without_polling::",
    };
    format!("{mode}{}::{}", case.group, case.name)
}

/// Runs one case on its own store with a bug in every client, and returns the message with which the case fails. `None` if it passes.
/// Client processes do not have the bug.
///
/// # Panics
/// If the case is not in the suite.
#[must_use]
pub fn finds<H: Harness>(group: &str, name: &str, bug: MakeBug) -> Option<String> {
    let test = cases::find(group, name);
    let panic = catch_unwind(|| carry_out::<H>(test, Mode::Both, Some(bug))).err()?;
    Some(said(&*panic))
}

fn carry_out<H: Harness>(test: &'static CaseTest, mode: Mode, bug: Option<MakeBug>) {
    let case = &test.case;
    let limit = limit(case);
    let (servers, clients) = (runtime(), runtime());
    let registry = Arc::new(ClientRegistry::default());
    let harness: Arc<dyn Harness> = Arc::new(servers.block_on(H::start(case)));
    let info = StoreInfo { store: H::store(), notifications: H::notifications() };
    let env = TestEnv::new(info, Arc::clone(&harness), case, mode, bug, Arc::clone(&registry));
    clients.block_on(async {
        let over = tokio::time::timeout(limit, (test.run)(env)).await;
        over.unwrap_or_else(|_| panic!("{}::{} is not over after {limit:?}", case.group, case.name));
    });
    // This drops what still waits or holds in a task: what is left in the store after that is a leak.
    clients.shutdown_timeout(SLACK);
    servers.block_on(leak_check::assert_nothing_left(&*harness, &registry, case));
}

/// Cases that take thousands of locks get more time: a hand-off takes about ten sequential requests on some stores, while other cases
/// run beside it. The case itself bounds a single hand-off.
fn limit(case: &Case) -> Duration {
    if case.group == resources::GROUP {
        CASE_LIMIT + resources::more_time()
    } else if case.ids.contains(&"L05") {
        CASE_LIMIT + 10_000 * Duration::from_millis(10)
    } else {
        CASE_LIMIT
    }
}

/// The main loop of a [`ClientProcess`](crate::ClientProcess): reads commands and writes replies until its input ends. Does nothing in
/// an ordinary test run.
///
/// # Panics
/// If a command is not understood.
pub fn contend<H: Harness>() {
    let Ok(address) = std::env::var(VARIABLE) else {
        return ran_nothing("contender", "it is what cases start that need a client in a process of its own");
    };
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let command: Command = serde_json::from_str(&line).expect("a command is JSON");
            if sender.send(command).is_err() {
                break;
            }
        }
        // The parent has ended or was killed, so this process is not needed any more.
        std::process::exit(0);
    });
    runtime().block_on(async {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let backend = H::attach(&address).await.connect(&keeper).await;
        let mut interpreter = Interpreter::new(Locks::with(backend, keeper, Arc::new(SystemEntropy)));
        reply(&Reply::Ready);
        while let Some(command) = commands.recv().await {
            reply(&interpreter.execute(command).await);
        }
    });
}

fn reply(reply: &Reply) {
    let reply = serde_json::to_string(reply).expect("replies can be written as JSON");
    println!("{MARK}{reply}");
    // The parent waits for the line. If it is gone, the error does not matter.
    let _ = std::io::stdout().flush();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started")
}
