//! Sending signals to processes that tests have started.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long a process may take to stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a signal, such as `TERM`. Returns `false` if there is no such process.
pub(crate) fn send(signal: &str, pid: u32) -> bool {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid} 2>&-")]).status();
    sent.is_ok_and(|status| status.success())
}

/// Pauses a process and its descendants, and returns when all of their threads have stopped.
///
/// The kernel delivers the signal to one thread, which stops the others when it gets a core. Until then they go on, and a server that is
/// "stopped" still answers. A process that has ended counts as stopped.
pub(crate) fn pause(pid: u32) {
    let end = Instant::now() + PATIENCE;
    let sent = send("STOP", pid);
    while sent && runs(pid) {
        assert!(Instant::now() < end, "process {pid} did not stop within {PATIENCE:?}");
        thread::sleep(Duration::from_micros(200));
    }
    // It cannot start any more now.
    for child in children(pid) {
        pause(child);
    }
}

/// Resumes a process that was [paused](pause), with its descendants. Returns `false` if there is no such process.
pub(crate) fn resume(pid: u32) -> bool {
    for child in children(pid) {
        resume(child);
    }
    send("CONT", pid)
}

/// The children of a process that have not ended.
fn children(pid: u32) -> Vec<u32> {
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: Vec<String> = threads.filter_map(of_thread).collect();
    children.iter().flat_map(|list| list.split_whitespace()).filter_map(|child| child.parse().ok()).collect()
}

/// Whether any of its threads can still run.
fn runs(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| is_at_large(&thread.path()))
}

/// The state follows the name of the program, which is in parentheses and may contain parentheses itself.
fn is_at_large(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['T', 't', 'Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        io::{BufRead, BufReader},
        process::{Child, Stdio},
    };

    use super::*;

    /// Makes the test below run as the busy process that it starts.
    const VARIABLE: &str = "DISTLOCK_BUSY_PROCESS";

    /// A process with several threads that never sleep: this program, started again.
    struct Busy(Child);

    impl Busy {
        fn start() -> Self {
            let this_test = thread::current().name().expect("tests have names").to_owned();
            let mut child = Command::new(env::current_exe().unwrap())
                .args([&this_test, "--exact", "--nocapture"])
                .env(VARIABLE, "")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("busy")), "it did not start");
            Self(child)
        }

        fn be() -> ! {
            for _ in 0..8 {
                thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
            println!("busy");
            loop {
                thread::park();
            }
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_that_was_stopped_has_no_thread_that_runs() {
        if env::var_os(VARIABLE).is_some() {
            Busy::be();
        }
        let busy = Busy::start();
        for _ in 0..20 {
            pause(busy.0.id());
            assert!(!runs(busy.0.id()));
            assert!(resume(busy.0.id()));
        }
    }

    #[test]
    fn what_a_process_has_started_stops_and_goes_on_with_it() {
        let mut parent =
            Command::new("sh").args(["-c", "sleep 60 & echo; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let [child] = children(parent.id())[..] else { panic!("it has started one process") };
        pause(parent.id());
        assert!(!runs(child) && !runs(parent.id()));
        assert!(resume(parent.id()));
        assert!(runs(child) && runs(parent.id()));
        send("KILL", child);
        parent.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_ended_need_not_stop() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        pause(child.id());
    }
}
