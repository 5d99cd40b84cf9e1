//! [`Curator`]: the locks of Apache Curator, in a Java process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use lock_test_servers::java;

/// A client with the locks of Apache Curator, which carries out one command after the other: see `scripts/zk/Curator.java`.
/// Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Curator {
    process: Child,
    commands: ChildStdin,
    replies: Receiver<String>,
}

impl Curator {
    /// Starts one that is connected.
    ///
    /// # Panics
    /// If it cannot be.
    pub(crate) fn start(address: &str, session: Duration) -> Self {
        let mut process = Command::new(java::program())
            .args(java::SHORT_RUN)
            .args([
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp",
                java::client_classes(),
                "Curator",
            ])
            .args([address, &session.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Java can be started");
        let commands = process.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        let (sender, replies) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let curator = Self { process, commands, replies };
        assert_eq!(curator.reply(), "ready");
        curator
    }

    /// Sends a command, without waiting for the reply.
    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("Curator listens");
    }

    /// Its next reply.
    ///
    /// # Panics
    /// If there is no reply within a minute.
    pub(crate) fn reply(&self) -> String {
        self.replies.recv_timeout(Duration::from_secs(60)).expect("Curator replies")
    }

    /// Its next reply, if there is one within a while.
    ///
    /// # Panics
    /// If it has ended.
    pub(crate) fn reply_within(&self, time: Duration) -> Option<String> {
        match self.replies.recv_timeout(time) {
            Ok(reply) => Some(reply),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("Curator has ended"),
        }
    }

    /// Its reply to a command.
    ///
    /// # Panics
    /// As [`reply`](Self::reply) does.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.reply()
    }
}

impl Drop for Curator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
