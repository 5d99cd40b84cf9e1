//! [`ServerProcess`]: one run of a server program.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{ServerProgram, signals, unique};

/// Starts the program, tells its process id, and ends it when this test process ends, however that may come about: then
/// the pipe that it reads from is closed. The output of the program goes where its own goes.
///
/// The last line that it reads names the directory to remove then. What ends a whole group of processes, as Ctrl-C does, does not
/// end it: it stays to clean up after the others.
const PROCESS: &str = r#""$0" "$@" >&2 & trap '' HUP INT TERM; echo $!; exec >&-
while read -r line; do directory=$line; done; kill -9 $!; wait $!; ${directory:+rm -rf "$directory"}"#;

/// The same for a container, which is there before anything runs in it: so nobody can be too early to remove it. The
/// process id is that of the client of Docker, which ends when the container does.
const CONTAINER: &str = r#"docker create --name "$0" "$@" >&2 </dev/null || exit
docker start --attach "$0" >&2 </dev/null & trap '' HUP INT TERM; echo $!; exec >&-
while read -r line; do directory=$line; done; docker rm --force "$0" >&2; ${directory:+rm -rf "$directory"}"#;

/// The label of all containers that this makes.
const LABEL: &str = "distlock-test";

/// A server process, on this machine or in a container, which then shares the network and the temporary directory of this
/// machine. It ends when this is dropped, or when the test process ends.
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
    /// If the log cannot be written, or no container can be made; that there is no such program is only seen in the log.
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

    /// Asks it to end (`SIGTERM`). One that has ended already is left alone.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, as `QUIT`: some servers end by another one than `TERM`.
    pub fn signal(&self, signal: &str) {
        match &self.container {
            Some(name) => drop(docker(&["kill", "--signal", signal, name])),
            None => drop(signals::send(signal, self.pid)),
        }
    }

    /// Makes it stand still, as if its machine were asleep, until [`resume`](Self::resume): with the processes that it has
    /// started, as a server does that has one for each client. When this returns, none of their threads runs any more.
    ///
    /// # Panics
    /// If it does not.
    pub fn pause(&self) {
        match &self.container {
            Some(name) => docker(&["pause", name]).unwrap_or_else(|why| panic!("{name} goes on: {why}")),
            None => signals::pause(self.pid),
        }
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Panics
    /// If a container stays as it is.
    pub fn resume(&self) {
        match &self.container {
            Some(name) => docker(&["unpause", name]).unwrap_or_else(|why| panic!("{name} stands: {why}")),
            None => drop(signals::resume(self.pid)),
        }
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // Until its watchdog has taken note, a server that ended is a zombie.
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    fn tell_watchdog(&mut self, line: &str) {
        // One that has ended has nothing more to do.
        let _ = self.watchdog.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.tell_watchdog("");
        // Killed by its watchdog, which is what waits for it and returns when it is no more.
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

    /// Ctrl-C is told to all processes that a terminal has started, and so are other signals.
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
