//! `run` and `hold` without failures.

use std::{fs, process::Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

#[cfg(feature = "zk")]
use crate::server;
use crate::{
    process::{
        Process, answered, distlock, holding, outcome, queue, until_queued, until_written,
        with_default_signals,
    },
    store::Store,
};

#[test]
fn the_command_gets_the_name_and_the_token_and_its_exit_code_is_passed_on() {
    let store = Store::any();
    let show = ["run", "a b", "--", "sh", "-c", "echo \"$DISTLOCK_NAME $DISTLOCK_TOKEN\"; exit 7"];
    let [first, second] = [(); 2].map(|()| outcome(&store.url, &show));
    assert_eq!((first.code, second.code), (Some(7), Some(7)), "{first:?}");
    let token = |said: &str| said.trim().strip_prefix("a b ").expect("the name").parse::<u64>().unwrap();
    assert!(token(&first.stdout) < token(&second.stdout), "{first:?} {second:?}");
    assert_eq!(first.stderr, "");
}

#[test]
fn a_command_that_a_signal_ended_is_told_as_a_shell_tells_it() {
    let store = Store::any();
    let killed = outcome(&store.url, &["run", "a", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(killed.code, Some(128 + 9), "{killed:?}");
    let nameless = outcome(&store.url, &["run", "a", "--", "sh", "-c", "kill -40 $$"]);
    assert_eq!(nameless.code, Some(128 + 40), "{nameless:?}");
}

#[test]
fn a_command_that_is_not_there_or_not_for_running_leaves_the_lock_free() {
    let store = Store::any();
    for (command, code) in [("/nonexistent/command", 127), ("/", 126)] {
        let failed = outcome(&store.url, &["run", "a", "--", command]);
        assert_eq!(failed.code, Some(code), "{failed:?}");
        assert!(failed.stderr.contains(command) && failed.stderr.contains("check"), "{failed:?}");
        assert!(queue(&store.url, "a").is_empty());
    }
}

/// ZooKeeper limits the timeout of a session. A grace for the ttl that was asked for could be longer than the lease.
#[cfg(feature = "zk")]
#[test]
fn a_ttl_that_the_servers_shorten_shortens_the_grace() {
    let server = server::zk_with_short_sessions();
    let url = format!("zk://{}/short?tick=100ms", server.address());
    let passed = outcome(&url, &["run", "a", "--ttl", "30s", "--", "sleep", "3"]);
    assert_eq!((passed.code, &*passed.stderr), (Some(0), ""));
    let refused = outcome(&url, &["run", "a", "--ttl", "30s", "--grace", "3s", "--", "true"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.stderr.contains("ttl of 2s instead of 30s"), "{refused:?}");
    assert!(queue(&url, "a").is_empty());
}

/// A background process of the command would keep it open.
#[test]
fn the_command_gets_no_pipe_of_ours() {
    // A pipeline of the shell's own would be seen while the shell still has it open.
    const PIPES: &str = "for file in /proc/$$/fd/*; do
        case $file in */[012]) ;; *) if [ -p \"$file\" ]; then readlink \"$file\"; fi ;; esac
    done";
    let store = Store::any();
    let without = Process::start(with_default_signals("sh").args(["-c", PIPES]).stdin(Stdio::null())).end();
    let under = outcome(&store.url, &["run", "a", "-c", PIPES]);
    assert_eq!((under.code, under.stdout), (Some(0), without.stdout), "{}", under.stderr);
}

#[test]
fn a_pipe_goes_through_the_command_whole() {
    let store = Store::any();
    let input: Vec<u8> = (0..1_000_000_u32).map(|i| b'a' + (i % 23) as u8).collect();
    let through = Process::fed(&mut distlock(&store.url, &["run", "a", "--", "cat"]), &input).end();
    assert_eq!(through.code, Some(0), "{}", through.stderr);
    assert!(through.stdout.as_bytes() == input, "{} bytes came out", through.stdout.len());
}

#[test]
fn a_line_of_shell_is_one() {
    let store = Store::any();
    let line = outcome(&store.url, &["run", "a", "--shell", "--", "echo a | tr a b;", "echo c"]);
    assert_eq!((line.code, line.stdout.as_str()), (Some(0), "b\nc\n"), "{line:?}");
}

#[test]
fn processes_that_count_under_the_lock_lose_no_count() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("counter"), "0\n").unwrap();
    let add = "n=$(cat counter); sleep 0.01; echo $((n + 1)) > counter";
    let start = || {
        let mut command = distlock(&store.url, &["run", "counter", "--shell", "--", add]);
        Process::start(command.current_dir(&folder))
    };
    let processes: Vec<_> = (0..12).map(|_| start()).collect();
    for process in processes {
        let done = process.end();
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("counter")).unwrap(), "12\n");
    assert!(queue(&store.url, "counter").is_empty());
}

#[test]
fn a_busy_lock_has_an_exit_code_that_can_be_chosen() {
    let store = Store::any();
    let mut holder = holding(&store.url, "a", &["--label", "the holder"]);
    let mut tries = 0_usize;
    let mut attempt = |args: &[&str]| {
        answered(|| {
            tries += 1;
            outcome(&store.url, args)
        })
    };
    for (args, code) in [
        (&["--try"][..], 75),
        (&["--try", "-E", "9"], 9),
        (&["--wait", "200ms"], 75),
        (&["--wait", "200ms", "--conflict-exit-code", "0"], 0),
    ] {
        let busy = attempt(&[&["run", "a"], args, &["--", "echo", "ran"]].concat());
        assert_eq!((busy.code, busy.stdout.as_str()), (Some(code), ""), "{args:?}: {busy:?}");
        assert!(busy.stderr.contains("distlock show a"), "{busy:?}");
    }
    let waited = attempt(&["run", "a", "--wait", "100ms", "--", "true"]);
    assert!(waited.stderr.contains("it is held by the holder ("), "{waited:?}");
    // A process that got no answer ends before its departure is confirmed. Then its entry stays until the lease ends.
    let unanswered = tries - 5;
    let stay = queue(&store.url, "a").len();
    assert!((1..=1 + unanswered).contains(&stay), "nobody who gave up stays in the queue: {stay}");
    holder.close_input();
    assert_eq!(holder.end().code, Some(0));
    if unanswered > 0 {
        until_queued(&store.url, "a", 0);
    }
    assert_eq!(outcome(&store.url, &["run", "a", "--try", "--", "true"]).code, Some(0));
}

#[test]
fn those_who_share_are_together_and_the_exclusive_one_is_alone() {
    let store = Store::any();
    let _reader = holding(&store.url, "a", &["--shared"]);
    let attempt = |args: &[&str]| outcome(&store.url, &[&["run", "a"], args, &["--", "true"]].concat()).code;
    assert_eq!(attempt(&["--shared", "--try"]), Some(0));
    assert_eq!(attempt(&["--exclusive", "--try"]), Some(75));
    assert_eq!(attempt(&["--try"]), Some(65), "a mutex is another kind of lock");
}

#[test]
fn a_semaphore_admits_as_many_as_it_has_permits() {
    let store = Store::any();
    let _two = holding(&store.url, "a", &["--permits", "2", "--of", "3"]);
    let attempt =
        |args: &[&str]| outcome(&store.url, &[&["run", "a", "--try"], args, &["--", "true"]].concat()).code;
    assert_eq!(attempt(&["--of", "3"]), Some(0));
    assert_eq!(attempt(&["--permits", "2", "--of", "3"]), Some(75));
    assert_eq!(attempt(&["--of", "4"]), Some(65), "the limit is part of what the name is in use as");
}

#[test]
fn a_signal_goes_to_the_command() {
    let store = Store::any();
    for signal in
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2]
    {
        let folder = tempfile::tempdir().unwrap();
        let name = signal.as_str().strip_prefix("SIG").unwrap();
        let line = format!("trap 'exit 5' {name}; echo > ready; while :; do sleep 0.01; done");
        let mut command = distlock(&store.url, &["run", "a", "--shell", "--", &line]);
        let process = Process::start(command.current_dir(&folder));
        until_written(&folder.path().join("ready"));
        process.signal(signal);
        let ended = process.end();
        assert_eq!(ended.code, Some(5), "{signal}: {ended:?}");
        assert!(queue(&store.url, "a").is_empty(), "{signal}");
    }
}

/// As of a user who asks twice, or of a service manager that does not wait for long.
#[test]
fn a_signal_that_comes_again_goes_to_the_command_again() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let line = "n=0; trap 'n=$((n + 1)); echo $n > heard; [ $n = 2 ] && exit 5' TERM; \
                echo > ready; while :; do sleep 0.01; done";
    let mut command = distlock(&store.url, &["run", "a", "--shell", "--", line]);
    let process = Process::start(command.current_dir(&folder));
    until_written(&folder.path().join("ready"));
    process.signal(Signal::SIGTERM);
    // Two signals before the first is handled may be delivered as one.
    assert_eq!(until_written(&folder.path().join("heard")), "1");
    process.signal(Signal::SIGTERM);
    let ended = process.end();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(queue(&store.url, "a").is_empty());
}

#[test]
fn an_interrupt_while_holding_ends_a_command_that_does_not_catch_it() {
    let store = Store::any();
    let process = Process::start(&mut distlock(&store.url, &["run", "a", "--", "sleep", "60"]));
    until_queued(&store.url, "a", 1);
    // The command may not run yet: the signal ends either of them.
    process.signal(Signal::SIGINT);
    assert_eq!(process.end().code, Some(128 + 2));
    assert!(queue(&store.url, "a").is_empty());
}

#[test]
fn an_interrupt_while_waiting_leaves_the_queue_at_once() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let waiter = Process::start(&mut distlock(&store.url, &["run", "a", "--", "echo", "ran"]));
        until_queued(&store.url, "a", 2);
        waiter.signal(signal);
        let ended = waiter.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:?}");
        assert_eq!(queue(&store.url, "a").len(), 1);
    }
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let line = "trap 'exit 5' USR1; echo > ready; while :; do sleep 0.01; done";
    let hearing = distlock(&store.url, &["run", "a", "--shell", "--", line]);
    // As `nohup` does. The first argument is `--default-signal`.
    let mut deaf = std::process::Command::new("env");
    deaf.arg("--ignore-signal=HUP").args(hearing.get_args().skip(1));
    let process = Process::start(deaf.env("XDG_CONFIG_HOME", "/nonexistent").current_dir(&folder));
    until_written(&folder.path().join("ready"));
    process.signal(Signal::SIGHUP);
    process.signal(Signal::SIGUSR1);
    let ended = process.end();
    assert_eq!(ended.code, Some(5), "{ended:?}");
}

#[test]
fn what_the_command_leaves_running_by_itself_goes_on() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let line = "(sleep 0.3; echo done > left) > /dev/null 2>&1 &";
    let mut command = distlock(&store.url, &["run", "a", "--shell", "--", line]);
    let ended = Process::start(command.current_dir(&folder)).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(until_written(&folder.path().join("left")), "done");
}

#[test]
fn hold_says_its_token_and_ends_with_its_input_or_a_signal() {
    let store = Store::any();
    let mut by_input = holding(&store.url, "a", &["--json"]);
    let token = queue(&store.url, "a")[0]["token"].clone();
    by_input.close_input();
    let ended = by_input.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["name"], &told["token"]), (&Value::from("a"), &token));
    assert!(queue(&store.url, "a").is_empty());

    let by_signal = holding(&store.url, "a", &[]);
    by_signal.signal(Signal::SIGTERM);
    assert_eq!(by_signal.end().code, Some(0));
    assert!(queue(&store.url, "a").is_empty());
}

/// There may be a password in it.
#[test]
fn the_command_gets_the_url_of_the_store_only_when_that_is_asked_for() {
    let store = Store::any();
    for (flags, expected) in [(&[][..], "none\n".to_owned()), (&["--pass-url"], format!("{}\n", store.url))] {
        let args = [&["run", "a"], flags, &["--shell", "--", "echo ${DISTLOCK_URL-none}"]].concat();
        let mut command = distlock(&store.url, &args);
        // Also if it comes from the environment.
        command.env("DISTLOCK_URL", &store.url);
        let ran = Process::start(&mut command).end();
        assert_eq!((ran.code, ran.stdout), (Some(0), expected), "{flags:?}: {}", ran.stderr);
    }
}

/// Starting a thread takes time.
#[test]
fn no_output_thread_starts_without_output() {
    let store = Store::sqlite();
    let ran = outcome(&store.url, &["run", "a", "-c", "cat /proc/$PPID/task/*/comm"]);
    let threads: Vec<_> = ran.stdout.lines().collect();
    assert!(ran.code == Some(0) && threads.contains(&"distlock-keeper"), "{ran:?}");
    // The main thread has the name of the program, and so have threads without a name.
    let unnamed = threads.iter().filter(|name| **name == "distlock").count();
    assert!(unnamed == 1 && !threads.contains(&"distlock-output"), "{ran:?}");
}
