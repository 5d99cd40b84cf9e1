//! Running one case, checking what a backend declares, and being the other process.

use std::{
    any::Any,
    io::{BufRead, Write},
    panic::catch_unwind,
    sync::Arc,
    time::Duration,
};

use lock_core::{Keeper, Locks, SystemEntropy};

use crate::{
    Case, Command, Declared, Harness, MakeBug, Mode, REQUIRED, Reply, SLACK, World, alone,
    cases::{self, resources},
    command::Interpreter,
    process::{MARK, VARIABLE},
    register::Register,
    residue,
};

/// When a case that neither succeeds nor fails is given up.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// What a store may declare. Any other declaration of these stores needs a decision of record.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "memory",
        &[
            "X02", "X03", "X12", "X14", "X15", "L06", "F05",
            "R13", // It has neither a wire nor a server: ADR 7.
            "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10", "T11", "T15", "T19", "T20",
            "T21", "T24",
        ],
    ),
    ("redis", &["X14", "X15", "R13"]),
    // A server that is run for others too cannot be ended or emptied.
    ("redis by url", &["X14", "X15", "R13", "L06", "F05", "T09", "T10", "T19", "T20", "T21", "T24"]),
    // Its tokens are revisions of the store, which nobody can set.
    ("etcd", &["F11", "F12", "T20"]),
    // No wire and no server that could end; its bound is that of the disk: ADR 10.
    (
        "sqlite",
        &["X12", "L06", "T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T15", "T19", "T21", "T24"],
    ),
    // Nor can one be made to forget what others may want to know of the past.
    ("etcd by url", &["F11", "F12", "L06", "F05", "T09", "T10", "T18", "T19", "T20", "T21", "T24"]),
    // Its tokens are numbers of its transactions, which nobody can set either. Requests belong to a session, and the server
    // carries out each of them once: what a connection says twice, it says in two sessions.
    ("zookeeper", &["F11", "F12", "T04", "T20"]),
    ("zookeeper by url", &["F11", "F12", "L06", "F05", "T04", "T09", "T10", "T19", "T20", "T21", "T24"]),
];

/// Runs one case on a store of its own. What [`suite!`](crate::suite) expands to.
///
/// # Panics
/// If the promise is broken, or the case is not over within two minutes.
pub fn run<H: Harness>(group: &str, name: &str, mode: Mode) {
    let case = cases::find(group, name);
    if let Some(declared) = declaration(case, H::declared()) {
        return say(&format!(
            "declared: {} {group}::{name}: {} on {}",
            declared.id,
            declared.reason,
            H::store()
        ));
    }
    if group == resources::GROUP {
        return alone(&format!("{group}::{name}"), || carry_out::<H>(case, mode, None));
    }
    carry_out::<H>(case, mode, None);
}

/// Runs one case on a store of its own, whose clients have a bug, and gives what the case says of it. `None` if it has
/// nothing to say. Contenders in processes of their own have no bug.
///
/// # Panics
/// If the case is not in the suite.
#[must_use]
pub fn finds<H: Harness>(group: &str, name: &str, bug: MakeBug) -> Option<String> {
    let case = cases::find(group, name);
    let panic = catch_unwind(|| carry_out::<H>(case, Mode::Both, Some(bug))).err()?;
    Some(said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something went wrong".into())
}

fn carry_out<H: Harness>(case: &'static Case, mode: Mode, bug: Option<MakeBug>) {
    let limit = limit(case);
    let (servers, clients) = (runtime(), runtime());
    let register = Arc::new(Register::default());
    let harness: Arc<dyn Harness> = Arc::new(servers.block_on(H::start(case)));
    let world = World::new(Arc::clone(&harness), case, mode, bug, Arc::clone(&register));
    clients.block_on(async {
        let over = tokio::time::timeout(limit, (case.run)(world)).await;
        over.unwrap_or_else(|_| panic!("{}::{} is not over after {limit:?}", case.group, case.name));
    });
    // With it goes what still waits or holds in a task: what is left then, nobody wants.
    clients.shutdown_timeout(SLACK);
    servers.block_on(residue::assert_nothing_left(&*harness, &register, case));
}

/// Cases that take thousands of locks have time for each. That of a hand-over is some ten requests one after the other on some
/// stores, while other cases run beside it; how late a single one may be is said by the case.
fn limit(case: &Case) -> Duration {
    if case.group == resources::GROUP {
        CASE_LIMIT + resources::more_time()
    } else if case.ids.contains(&"L05") {
        CASE_LIMIT + 10_000 * Duration::from_millis(10)
    } else {
        CASE_LIMIT
    }
}

/// Checks that what a backend declares is allowed, gives a reason, and hides nothing else; prints and counts it.
///
/// # Panics
/// If it does not.
pub fn check_declarations<H: Harness>() {
    let (store, declared) = (H::store(), H::declared());
    let allowed = ALLOWED.iter().find(|(name, _)| *name == store).map_or(REQUIRED, |(_, allowed)| allowed);
    for Declared { id, reason } in declared {
        assert!(REQUIRED.contains(id), "{store} declares {id}, which no case carries");
        assert!(allowed.contains(id), "{store} declares {id}, which it may not without a decision of record");
        assert!(!reason.is_empty(), "{store} declares {id} without a reason");
        assert_eq!(declared.iter().filter(|other| other.id == *id).count(), 1, "{id} is declared twice");
    }
    let all: Vec<&Case> = cases::all().collect();
    let hidden = all.iter().filter(|case| declaration(case, declared).is_some()).count();
    say(&format!(
        "declared: {} labels, {hidden} of {} cases are not run on {store}",
        declared.len(),
        all.len()
    ));
}

/// What keeps a case from being run, if all of its labels are declared.
fn declaration(case: &Case, declared: &'static [Declared]) -> Option<&'static Declared> {
    let find = |id: &str| declared.iter().find(|declared| declared.id == id);
    let first = case.ids.iter().find_map(|id| find(id))?;
    let others = case.ids.iter().find(|id| find(id).is_none());
    assert!(
        others.is_none(),
        "{} is declared, which would hide {} in {}::{}; split the case",
        first.id,
        others.copied().unwrap_or_default(),
        case.group,
        case.name
    );
    Some(first)
}

/// The other process of [`Process`](crate::Process): reads commands and writes replies, until its input ends. Does
/// nothing in an ordinary test run.
///
/// # Panics
/// If a command is not understood.
pub fn contend<H: Harness>() {
    let Ok(address) = std::env::var(VARIABLE) else { return };
    let (sender, mut commands) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let command: Command = serde_json::from_str(&line).expect("a command is JSON");
            if sender.send(command).is_err() {
                break;
            }
        }
        // The other end is gone, perhaps killed: nobody needs this process any more.
        std::process::exit(0);
    });
    runtime().block_on(async {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        let backend = H::attach(&address).await.connect(&keeper).await;
        let mut interpreter = Interpreter::new(Locks::with(backend, keeper, Arc::new(SystemEntropy)));
        reply(&Reply::Ready);
        while let Some(command) = commands.recv().await {
            reply(&interpreter.obey(command).await);
        }
    });
}

fn reply(reply: &Reply) {
    let reply = serde_json::to_string(reply).expect("replies can be written as JSON");
    println!("{MARK}{reply}");
    // A line that stays in a buffer would be waited for; if the reader is gone, nobody waits.
    let _ = std::io::stdout().flush();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started")
}

/// Past the capture of the test harness: what is declared is seen in every run.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: Case =
        Case { group: "group", name: "a_name", ids: &["X01", "X02"], run: |_| unreachable!("it is not run") };
    const ONE: Declared = Declared { id: "X01", reason: "a reason" };
    const OTHER: Declared = Declared { id: "X02", reason: "a reason" };

    #[test]
    fn a_case_is_hidden_only_if_all_it_shows_is_declared() {
        assert_eq!(declaration(&CASE, &[]), None);
        assert_eq!(declaration(&CASE, &[Declared { id: "X03", reason: "a reason" }]), None);
        assert_eq!(declaration(&CASE, &[ONE, OTHER]), Some(&ONE));
    }

    #[test]
    #[should_panic(expected = "X02 is declared, which would hide X01")]
    fn a_declaration_that_would_hide_another_label_is_refused() {
        let _ = declaration(&CASE, &[OTHER]);
    }
}
