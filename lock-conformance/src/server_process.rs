//! [`ServerProcess`]: one run of a server program.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{ServerProgram, signals, unique};

/// The watchdog: starts the program, prints its process id, and ends it when this test process ends in any way: then the pipe that the
/// watchdog reads from is closed. The output of the program goes where the output of the watchdog goes.
///
/// The last line that it reads names the directory that it then removes. A signal to the whole process group, such as Ctrl-C, does not end
/// the watchdog: it stays to clean up after the others.
const PROCESS: &str = r#""$0" "$@" >&2 & trap '' HUP INT TERM; echo $!; exec >&-
while read -r line; do directory=$line; done; { kill -9 $!; wait $!; } 2>/dev/null; ${directory:+rm -rf "$directory"}"#;

/// The same for a container. It is created before anything runs in it, so removing it always finds it. The process id is that of Docker's
/// client, which ends with the container.
const CONTAINER: &str = r#"docker create --name "$0" "$@" >&2 </dev/null || exit
docker start --attach "$0" >&2 </dev/null & trap '' HUP INT TERM; echo $!; exec >&-
while read -r line; do directory=$line; done; docker rm --force "$0" >&2; ${directory:+rm -rf "$directory"}"#;

/// The label of all containers that tests create.
const LABEL: &str = "distlock-test";

/// A server process, on this machine or in a container that shares the network and the temporary directory of this machine. The server
/// ends when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct ServerProcess {
    watchdog: Child,
    pid: u32,
    /// The name of its container.
    container: Option<String>,
}

impl ServerProcess {
    /// Starts a program with these arguments, which writes its log to a file. It may not be listening yet.
    ///
    /// # Panics
    /// If the log cannot be written, or no container can be created. A program that does not exist is only reported in the log.
    #[must_use]
    pub fn start(program: &ServerProgram, arguments: &[String], log: &Path) -> Self {
        let container = program.image.as_ref().map(|_| format!("{LABEL}-{}", unique()));
        let output = File::create(log).expect("the log can be written in a directory of our own");
        let mut watchdog = Command::new("sh");
        match (&program.image, &container) {
            (Some(image), Some(name)) => {
                watchdog.args(["-c", CONTAINER, name]).args(container_options()).arg(image)
            }
            _ => watchdog.args(["-c", PROCESS]),
        };
        let mut watchdog = watchdog
            .args(&program.command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()
            .expect("a shell can be started");
        let mut line = String::new();
        let told = watchdog.stdout.take().expect("its output is a pipe");
        BufReader::new(told).read_line(&mut line).expect("the output of the watchdog can be read");
        let Ok(pid) = line.trim().parse() else {
            let _ = watchdog.wait();
            let why = fs::read_to_string(log).unwrap_or_default();
            panic!("{program} could not be started:\n{why}");
        };
        Self { watchdog, pid, container }
    }

    /// Removes a directory with the server if the test process ends before this is dropped. Dropping this leaves the directory alone.
    pub fn leaves_nothing_in(&mut self, directory: &Path) {
        self.tell_watchdog(&directory.display().to_string());
    }

    /// Asks it to end (`SIGTERM`). Does nothing if it has ended already.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, such as `QUIT`: not every server shuts down on `TERM`.
    pub fn signal(&self, signal: &str) {
        match &self.container {
            Some(name) => drop(docker(&["kill", "--signal", signal, name])),
            None => drop(signals::send(signal, self.pid)),
        }
    }

    /// Pauses it, as if its machine were asleep, until [`resume`](Self::resume), together with its child processes: some servers have one
    /// for each client. When this returns, none of their threads runs any more.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn pause(&self) {
        match &self.container {
            Some(name) => docker(&["pause", name]).unwrap_or_else(|why| panic!("{name} goes on: {why}")),
            None => signals::pause(self.pid),
        }
    }

    /// Resumes it after [`pause`](Self::pause).
    ///
    /// # Panics
    /// If a container stays paused.
    pub fn resume(&self) {
        match &self.container {
            Some(name) => docker(&["unpause", name]).unwrap_or_else(|why| panic!("{name} is paused: {why}")),
            None => drop(signals::resume(self.pid)),
        }
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // A server that has ended is a zombie until its watchdog has waited for it.
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    fn tell_watchdog(&mut self, line: &str) {
        // It fails if the process has ended, which does not matter.
        let _ = self.watchdog.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.tell_watchdog("");
        // The watchdog kills the server and waits for it, so the server has ended when this returns.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// Tests and servers communicate by ports of the loopback interface, and by files in the temporary directory, which belong to the user
/// that runs the tests.
fn container_options() -> Vec<String> {
    let temporary = std::env::temp_dir().display().to_string();
    let owner = fs::metadata("/proc/self").expect("this process has an owner");
    let user = {
        use std::os::unix::fs::MetadataExt;
        format!("--user={}:{}", owner.uid(), owner.gid())
    };
    let volume = format!("--volume={temporary}:{temporary}");
    ["--rm", "--network=host", &format!("--label={LABEL}"), &user, &volume].map(str::to_owned).into()
}

fn docker(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("docker").args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    #[should_panic(expected = "`server` in a container of `no/such-image:0` could not be started")]
    fn without_docker_or_the_image_there_is_an_error_and_no_wait() {
        let program = ServerProgram::in_container("DISTLOCK_NO_SUCH_VARIABLE", "no/such-image:0", ["server"]);
        let _ = ServerProcess::start(&program, &[], Path::new("/dev/null"));
    }

    #[test]
    fn what_a_program_says_before_it_ends_is_in_the_log() {
        let log = std::env::temp_dir().join(format!("distlock-{}", unique()));
        let server = ServerProcess::start(&ServerProgram::local(["sh", "-c", "echo no port"]), &[], &log);
        while server.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "no port\n");
        fs::remove_file(&log).unwrap();
    }

    fn sleeping(directory: &Path) -> ServerProcess {
        fs::create_dir(directory).unwrap();
        let mut server =
            ServerProcess::start(&ServerProgram::local(["sleep", "60"]), &[], &directory.join("log"));
        server.leaves_nothing_in(directory);
        server
    }

    fn directory() -> PathBuf {
        std::env::temp_dir().join(format!("distlock test {}", unique()))
    }

    #[test]
    fn a_server_and_its_directory_go_with_the_test_process() {
        let directory = directory();
        let mut server = sleeping(&directory);
        // As the system does with all pipes of a process that has ended.
        drop(server.watchdog.stdin.take());
        server.watchdog.wait().unwrap();
        assert!(!server.is_alive() && !directory.exists());
    }

    #[test]
    fn a_dropped_server_keeps_its_directory() {
        let directory = directory();
        drop(sleeping(&directory));
        fs::remove_dir_all(&directory).unwrap();
    }

    /// A terminal sends the signal of Ctrl-C to all processes of the foreground group; other signals reach whole groups, too.
    #[test]
    fn what_ends_a_group_of_processes_leaves_no_server_behind() {
        for signal in ["INT", "TERM", "HUP"] {
            let directory = directory();
            let mut server = sleeping(&directory);
            assert!(signals::send(signal, server.watchdog.id()));
            drop(server.watchdog.stdin.take());
            server.watchdog.wait().unwrap();
            assert!(!server.is_alive() && !directory.exists(), "left behind by {signal}");
        }
    }
}
