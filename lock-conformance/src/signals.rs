//! Signals for processes of one's own.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long a process may take to stand still on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a signal, as `TERM`. Returns `false` if there is no such process.
pub(crate) fn send(signal: &str, pid: u32) -> bool {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid} 2>&-")]).status();
    sent.is_ok_and(|status| status.success())
}

/// Stops a process, and returns when all of its threads stand still.
///
/// The signal is sent to one thread, which passes it on to the others when it gets a core: until then they go on, and a
/// server that is "stopped" still answers. A process that has ended is none that has to stop.
pub(crate) fn stop(pid: u32) {
    let end = Instant::now() + PATIENCE;
    let sent = send("STOP", pid);
    while sent && runs(pid) {
        assert!(Instant::now() < end, "process {pid} did not stop within {PATIENCE:?}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Whether any thread of it can still do something.
fn runs(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| is_at_large(&thread.path()))
}

/// Its state stands behind the name of the program, which is in parentheses and may have some of its own.
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

    /// Makes the test below the process that it is about.
    const VARIABLE: &str = "DISTLOCK_BUSY_PROCESS";

    /// A process with several threads that never sleep: this program, started anew.
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
            stop(busy.0.id());
            assert!(!runs(busy.0.id()));
            assert!(send("CONT", busy.0.id()));
        }
    }

    #[test]
    fn a_process_that_has_ended_need_not_stop() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        stop(child.id());
    }
}
