//! What the command line promises. These tests measure counts, which do not depend on the speed of the machine.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use lock_conformance::volume;
use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lock-bench")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it with `--json`, and gives its rows.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.json");
    let output = bench(&[arguments, &["--json", file.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let Value::Array(rows) = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() else {
        panic!("not an array");
    };
    rows
}

fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn bad_usage_is_an_error_that_says_what_there_is() {
    for (arguments, expected) in [
        (&["--store", "paper"][..], "[possible values: memory, redis"),
        (&["--quick"], "--store <STORE>"),
        (
            &["--store", "memory", "--only", "pear"],
            "there is no row `pear`; there are ping.p50, ping.p99, pair.p50",
        ),
        (&["--store", "memory", "--only", ""], "there is no row ``"),
        (&["--store", "redis", "--only", "run.stop"], "run.start.p50, run.parallel.200"),
        (&["--store", "memory", "--only", "run"], "there is no row `run`"),
        (&["--store", "memory", "--fast"], "unexpected argument '--fast'"),
        (&["--store", "memory", "--json", "/nonexistent/rows.json"], "/nonexistent/rows.json: No such file"),
    ] {
        let output = bench(arguments);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn what_cannot_be_compared_is_named_with_what_there_is() {
    for (arguments, expected) in [
        (["compare", "--systems", "rslok"], "there is no system `rslok`; there are floor, distlock, rslock"),
        (["compare", "--scenarios", "pears"], "there is no scenario `pears`; there are pair, throughput-16"),
        (["compare", "--stores", "paper"], "there is no store `paper`; there are redis, etcd, zk, sqlite"),
        (["compare", "--only", "redis/floor/pears"], "there is no scenario `pears`"),
    ] {
        let output = bench(&arguments);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn the_page_and_the_summary_are_made_again_from_the_raw_data_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let render = ["compare", "--render", "--out", folder.path().to_str().unwrap()];
    let output = bench(&render);
    let message = text(&output.stderr);
    assert!(!output.status.success() && message.contains("there is no report.json"), "{message}");

    let raw = serde_json::json!({
        "stores": { "redis": "a server" },
        "rows": [{
            "store": "redis", "system": "floor", "scenario": "pair", "version": "1", "rounds": [{ "p50_us": 12.3 }],
            "ratios": [], "distribution": [], "marks": [], "failed": null,
        }],
    });
    std::fs::write(folder.path().join("report.json"), raw.to_string()).unwrap();
    let output = bench(&render);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (file, expected) in [("report.md", "| floor | 12.3 |"), ("index.html", "<td>12.3</td>")] {
        let page = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(page.contains(expected), "{file}: {page}");
    }
}

/// Runs it on Redis for the rows of the command, which is this program.
fn bench_the_command(program: Option<&str>) -> Output {
    // A link, and no copy: a program that is being written cannot be started, nor in the fork of another test.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bench = folder.path().join("lock-bench");
    std::fs::hard_link(env!("CARGO_BIN_EXE_lock-bench"), &bench).unwrap();
    if let Some(program) = program {
        std::os::unix::fs::symlink(program, folder.path().join("distlock")).unwrap();
    }
    Command::new(bench).args(["--store", "redis", "--rounds", "1", "--only", "run"]).output().unwrap()
}

#[test]
fn without_the_command_its_rows_fail_and_say_how_to_build_it() {
    let output = bench_the_command(None);
    let (table, message) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "{message}");
    assert!(message.contains("distlock is missing: build it with `cargo build"), "{message}");
    for row in ["run.start.p50", "run.parallel.200"] {
        let failed = |line: &str| line.contains(row) && line.contains("not run: failed");
        assert!(table.lines().any(failed), "{table}");
    }
}

#[test]
fn a_command_that_fails_is_no_quick_start() {
    let output = bench_the_command(Some("/bin/false"));
    let message = text(&output.stderr);
    let expected = "run: a process ended with exit status: 1";
    assert!(!output.status.success() && message.contains(expected), "{message}");
}

/// These keep the machine busy for seconds, which would disturb a test that watches a clock.
mod alone {
    use super::*;

    #[test]
    fn on_redis_an_acquire_a_release_a_hand_off_and_a_join_are_one_command() {
        let many = volume("100", "1000");
        let [longest, joined] = ["handoff", "join"].map(|row| format!("{row}.{many}"));
        let names = ["acquire", "release", "handoff.1", "handoff.10", &longest, &joined];
        let only = names.map(|name| format!("commands.{name}")).join(",");
        let rows = rows(&["--store", "redis", "--quick", "--check", "--only", &only]);
        for name in names {
            let row = row(&rows, &format!("commands.{name}"));
            // The first waiter asks twice.
            let value = if name == joined { 1.0 + 1.0 / many.parse::<f64>().unwrap() } else { 1.0 };
            assert_eq!((&row["value"], &row["ok"]), (&value.into(), &true.into()), "{row}");
        }
        let inside = |name: &str| row(&rows, &format!("commands.{name}.inside"))["value"].as_f64().unwrap();
        assert!(inside("acquire") >= 1.0);
        let growth = inside(&longest) - inside("handoff.10");
        assert!(growth.abs() < 1.0, "the script does {growth} more calls for a queue of {many}");
    }

    #[test]
    fn quick_leaves_out_what_takes_long_and_says_so() {
        let started = Instant::now();
        let rows =
            rows(&["--store", "redis", "--quick", "--only", "takeover,waiters,held,commands.handoff.1"]);
        assert!(started.elapsed() < Duration::from_secs(60));
        for name in ["takeover.p50", "takeover.max", "waiters.10000.timed-out", "held.100000.memory"] {
            let row = row(&rows, name);
            assert_eq!((&row["value"], &row["ok"]), (&Value::Null, &Value::Null), "{row}");
        }
        assert_eq!(row(&rows, "commands.handoff.1")["ok"], true);
        assert!(rows.iter().all(|row| !row["row"].as_str().unwrap().starts_with("pair")), "{rows:?}");
    }

    #[test]
    fn the_command_is_started_alone_and_in_a_crowd() {
        let output = bench_the_command(Some("/bin/true"));
        let (table, message) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{message}");
        for row in ["| run.start.p50 ", "| run.parallel.200 "] {
            let measured = |line: &str| line.starts_with(row) && !line.contains("not run");
            assert!(table.lines().any(measured), "{table}");
        }
    }

    #[test]
    fn every_row_has_the_same_seven_fields() {
        let only = "pair,handoff.1,handoff-processes.1,takeover";
        for row in rows(&["--store", "redis", "--quick", "--rounds", "1", "--only", only]) {
            let row = row.as_object().unwrap();
            let fields: Vec<&str> = row.keys().map(String::as_str).collect();
            assert_eq!(fields, ["bound", "floor", "ok", "ratio", "row", "unit", "value"]);
        }
    }

    #[test]
    fn a_check_without_anything_to_check_fails() {
        let output = bench(&["--store", "memory", "--quick", "--rounds", "1", "--check", "--only", "pair"]);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("none of the rows that were run has a bound to check"));
    }

    #[test]
    fn in_memory_all_rows_are_run_that_need_no_other_process() {
        let only = "pair,handoff.10,handoff-processes.10";
        let rows = rows(&["--store", "memory", "--quick", "--rounds", "1", "--only", only]);
        for name in ["pair.p50", "handoff.10.p50", "handoff.10.rate"] {
            assert!(row(&rows, name)["value"].as_f64().unwrap() > 0.0);
        }
        assert_eq!(row(&rows, "handoff-processes.10.p50")["ok"], Value::Null);
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_is_measured_beside_one_bare_transaction_and_between_processes() {
        let only = "pair,handoff-processes.1";
        let rows = rows(&["--store", "sqlite", "--quick", "--rounds", "1", "--only", only]);
        assert!(row(&rows, "pair.p50")["floor"].as_f64().unwrap() > 0.0);
        assert_eq!(row(&rows, "pair.p50")["bound"], 4.0);
        assert_eq!(row(&rows, "handoff-processes.1.p50")["bound"], 2000.0);
        assert!(row(&rows, "handoff-processes.1.p50")["value"].as_f64().unwrap() > 0.0);
    }

    /// Compares with these arguments, and gives the folder of the report, and its rows.
    fn compare(arguments: &[&str]) -> (tempfile::TempDir, Vec<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let out = ["compare", "--out", folder.path().to_str().unwrap()];
        let output = bench(&[&out, arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
        let rows = report["rows"].as_array().unwrap().clone();
        (folder, rows)
    }

    #[test]
    fn distlock_is_compared_with_the_floor_of_the_same_rounds_without_overlap() {
        let (folder, rows) = compare(&[
            "--stores",
            "redis",
            "--systems",
            "distlock",
            "--scenarios",
            "pair,handoff-4x1,readers-writers,semaphore-8,costs-2",
            "--rounds",
            "2",
        ]);
        let of = |scenario: &str| {
            let found = |row: &&Value| row["system"] == "distlock" && row["scenario"] == scenario;
            rows.iter().find(found).unwrap_or_else(|| panic!("no {scenario}: {rows:?}"))
        };
        for row in &rows {
            assert_eq!((&row["failed"], row["marks"].as_array().unwrap().len()), (&Value::Null, 0), "{row}");
        }
        for (scenario, figure) in [("pair", "p50_us"), ("handoff-4x1", "p50_us")] {
            let ratios = of(scenario)["ratios"].as_array().unwrap();
            assert_eq!(ratios.len(), 2, "one for each round");
            assert!(ratios.iter().all(|ratio| ratio[figure].as_f64().unwrap() > 0.0), "{ratios:?}");
        }
        // Waiters stand in a queue: no contender gets the lock twice while another waits.
        assert!(of("handoff-4x1")["rounds"][0]["own_percent"].as_f64().unwrap() < 10.0);
        for scenario in ["readers-writers", "semaphore-8"] {
            assert!(of(scenario)["rounds"][0]["tenures"].as_f64().unwrap() > 32.0);
        }
        // One transaction of five commands to acquire, and one command to release.
        let requests = of("costs-2")["rounds"][0]["pair_requests"].as_f64().unwrap();
        assert!((6.0..6.1).contains(&requests), "{requests}");
        let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
        assert!(page.contains("<svg") && folder.path().join("report.md").exists());
    }

    #[test]
    fn a_stopped_comparison_keeps_its_results_and_leaves_nothing_running() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let arguments = [
            "compare",
            "--stores",
            "redis",
            "--systems",
            "distlock",
            "--scenarios",
            "pair,takeover",
            "--out",
        ];
        let mut bench = Command::new(env!("CARGO_BIN_EXE_lock-bench"))
            .args(arguments)
            .arg(folder.path())
            .env("TMPDIR", folder.path())
            .process_group(0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let group = Pid::from_child(&bench);
        let end = Instant::now() + Duration::from_secs(60);
        while !report.exists() {
            assert!(
                Instant::now() < end && bench.try_wait().unwrap().is_none(),
                "no report after the first scenario"
            );
            sleep(Duration::from_millis(20));
        }
        // In the second scenario, of two processes more, of which one waits for the other.
        sleep(Duration::from_secs(2));
        kill_process(group, Signal::TERM).unwrap();
        assert!(!bench.wait().unwrap().success());
        let kept: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        let scenarios: Vec<&Value> =
            kept["rows"].as_array().unwrap().iter().map(|row| &row["scenario"]).collect();
        assert_eq!(scenarios, ["pair", "pair"]);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 3, "the report, and no server's folder");
        while test_kill_process_group(group).is_ok() {
            assert!(Instant::now() < end, "a server or a driver goes on after its comparison has ended");
            sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_holder_that_is_killed_is_taken_over_when_its_ttl_ends() {
        let (_folder, rows) =
            compare(&["--stores", "redis", "--systems", "distlock", "--scenarios", "takeover"]);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let after = row["rounds"][0]["after_kill_ms"].as_f64().unwrap();
        assert!((1_000.0..10_000.0).contains(&after) && row["marks"].as_array().unwrap().is_empty(), "{row}");
    }

    #[cfg(feature = "zk")]
    #[test]
    fn zookeeper_is_measured_beside_the_bare_requests_and_between_processes() {
        let rows = rows(&["--store", "zk", "--quick", "--rounds", "1", "--only", "pair,handoff-processes.1"]);
        for (name, bound) in [("pair.p50", 1.15), ("handoff-processes.1.p50", 1.3)] {
            let row = row(&rows, name);
            assert_eq!(row["bound"], bound);
            assert!(row["floor"].as_f64().unwrap() > 0.0 && row["value"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}
