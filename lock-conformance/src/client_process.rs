//! [`ClientProcess`]: a client in another process, which can be killed.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
    thread,
};

use lock_core::FencingToken;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Client, Command, Reply, Side, audit, command::Interpreter, signals};

/// The variable that makes the test `contender` a client process.
pub(crate) const VARIABLE: &str = "DISTLOCK_CONTENDER";

/// The prefix of each reply, because the test harness writes lines of its own.
pub(crate) const MARK: &str = "@contender ";

/// A client in another process: this test binary, started again. For a store that other processes cannot reach, a client in
/// this process that crashes as a process would.
#[derive(Debug)]
pub struct ClientProcess {
    body: Body,
    replies: UnboundedReceiver<Reply>,
}

#[derive(Debug)]
enum Body {
    Real { child: Child, commands: ChildStdin },
    StandIn { client: Box<Client>, commands: UnboundedSender<Command> },
}

impl ClientProcess {
    /// Starts the process, and waits until it accepts commands.
    pub(crate) async fn start(address: &str) -> Self {
        let binary = std::env::current_exe().expect("the test binary knows its path");
        let mut child = std::process::Command::new(binary)
            .args(["contender", "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary can be started once more");
        let commands = child.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (sender, replies) = unbounded_channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, reply)) = line.split_once(MARK) {
                    let reply = serde_json::from_str(reply);
                    let reply = reply.unwrap_or_else(|error| Reply::Failed(format!("{line}: {error}")));
                    if sender.send(reply).is_err() {
                        break;
                    }
                }
            }
        });
        let mut process = Self { body: Body::Real { child, commands }, replies };
        assert_eq!(process.reply().await, Reply::Ready, "a contender could not be started");
        process
    }

    /// The client of a store that no other process can reach.
    pub(crate) async fn stand_in(client: Client) -> Self {
        let (commands, mut told) = unbounded_channel();
        let (sender, replies) = unbounded_channel();
        let locks = client.locks.clone();
        tokio::spawn(async move {
            let mut interpreter = Interpreter::new(locks);
            let _ = sender.send(Reply::Ready);
            while let Some(command) = told.recv().await {
                let reply = tokio::select! {
                    reply = interpreter.execute(command) => reply,
                    // The crash may interrupt the current work.
                    () = sender.closed() => break,
                };
                let _ = sender.send(reply);
            }
        });
        let mut process = Self { body: Body::StandIn { client: Box::new(client), commands }, replies };
        assert_eq!(process.reply().await, Reply::Ready, "a contender could not be started");
        process
    }

    /// Whether it is a real process.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self.body, Body::Real { .. })
    }

    /// Its process id, if it is a real process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.body {
            Body::Real { child, .. } => Some(child.id()),
            Body::StandIn { .. } => None,
        }
    }

    /// Sends a command, without waiting for the reply.
    ///
    /// # Panics
    /// If it has ended.
    pub fn tell(&mut self, command: &Command) {
        match &mut self.body {
            Body::Real { commands, .. } => {
                let mut line = serde_json::to_string(command).expect("commands can be written as JSON");
                line.push('\n');
                commands.write_all(line.as_bytes()).expect("the contender listens");
            }
            Body::StandIn { commands, .. } => {
                commands.send(command.clone()).expect("the contender listens");
            }
        }
    }

    /// The next reply.
    ///
    /// # Panics
    /// If it has ended, or does not reply within a minute.
    ///
    /// # Cancel safety
    /// If the future is dropped, the reply stays for the next call.
    pub async fn reply(&mut self) -> Reply {
        let minute = std::time::Duration::from_secs(60);
        let reply = audit::within("the reply of a contender", minute, self.replies.recv()).await;
        reply.expect("the contender ended without a reply; its output says why")
    }

    /// Sends a command, and waits for the reply.
    ///
    /// # Panics
    /// As [`tell`](Self::tell) and [`reply`](Self::reply) do.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command is still carried out, and its reply is the next one.
    pub async fn ask(&mut self, command: &Command) -> Reply {
        self.tell(command);
        self.reply().await
    }

    /// Makes it take a lock.
    ///
    /// # Panics
    /// If it does not get it.
    ///
    /// # Cancel safety
    /// As for [`ask`](Self::ask).
    pub async fn acquire(
        &mut self,
        name: &str,
        side: Side,
        options: &lock_core::AcquireOptions,
    ) -> FencingToken {
        let (name, options) = (name.to_owned(), options.clone());
        match self.ask(&Command::Acquire { name, side, options }).await {
            Reply::Granted(token) => token,
            reply => panic!("a contender did not get its lock: {reply:?}"),
        }
    }

    /// Pauses it (`SIGSTOP`), as if its machine were asleep, until [`resume`](Self::resume).
    ///
    /// # Panics
    /// If it is not a real process: then the case has to be declared.
    pub fn pause(&self) {
        signals::pause(self.real());
    }

    /// Resumes it after [`pause`](Self::pause).
    ///
    /// # Panics
    /// As `pause` does.
    pub fn resume(&self) {
        assert!(signals::resume(self.real()), "a process of our own can be sent a signal");
    }

    fn real(&self) -> u32 {
        self.pid().expect("a case that pauses a process is declared where there is none")
    }

    /// Kills it (`SIGKILL`): nothing is cleaned up.
    ///
    /// # Panics
    /// If the operating system refuses.
    ///
    /// # Cancel safety
    /// A real process ends even if the future is dropped after its first poll.
    pub async fn kill(mut self) {
        match &mut self.body {
            Body::StandIn { client, .. } => (**client).clone().crash().await,
            Body::Real { child, .. } => {
                child.kill().expect("a process of our own can be killed");
                child.wait().expect("a process of our own can be waited for");
            }
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        if let Body::Real { child, .. } = &mut self.body {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
