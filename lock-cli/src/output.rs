//! [`Output`]: messages on the standard error while the command works.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use distlock::escape_unprintable;

/// Writes from a thread of its own: a terminal that was halted, or a pipe that nobody empties, must not hold up
/// the renewal of the lease or the supervision of the command. The thread starts with the first message; most commands write none.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    messages: Arc<OnceLock<mpsc::Sender<Message>>>,
    quiet: bool,
    terminal: bool,
}

enum Message {
    /// A line that stays.
    Line(String),
    /// The text of the last line of the terminal, until the next message replaces it.
    Status(String),
    /// Answered when all earlier messages are written.
    Flush(mpsc::Sender<()>),
}

impl Output {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { messages: Arc::default(), quiet, terminal }
    }

    /// Writes a line, unless `--quiet` was given.
    pub(crate) fn line(&self, line: impl AsRef<str>) {
        if !self.quiet {
            self.send(Message::Line(format!("distlock: {}", escape_unprintable(line.as_ref()))));
        }
    }

    /// Writes a line about an event. If the standard error is no terminal, the line begins with the time, because it may be read much later.
    pub(crate) fn timed_line(&self, line: impl AsRef<str>) {
        if self.terminal {
            return self.line(line);
        }
        let now = humantime::format_rfc3339_seconds(SystemTime::now());
        self.line(format!("{now} {}", line.as_ref()));
    }

    /// Whether `--quiet` was given.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a status is shown: only on a terminal.
    pub(crate) fn shows_status(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// Shows a status in place of the last one; an empty one removes it.
    pub(crate) fn status(&self, status: impl Into<String>) {
        let status = status.into();
        let has_written = || self.messages.get().is_some();
        if self.shows_status() && (!status.is_empty() || has_written()) {
            self.send(Message::Status(escape_unprintable(&status)));
        }
    }

    /// Waits until everything is written, for a moment at most, because a pipe without a reader accepts nothing more.
    pub(crate) fn flush(&self) {
        if self.messages.get().is_none() {
            return;
        }
        let (done, all_written) = mpsc::channel();
        self.send(Message::Flush(done));
        let _ = all_written.recv_timeout(Duration::from_millis(500));
    }

    fn send(&self, message: Message) {
        // The thread ends with the process.
        let _ = self.messages.get_or_init(start_thread).send(message);
    }
}

fn start_thread() -> mpsc::Sender<Message> {
    let (messages, received) = mpsc::channel();
    // If the system has no room for one more thread, nothing is written, and the command is still supervised.
    let _ = thread::Builder::new().name("distlock-output".into()).spawn(move || write_messages(&received));
    messages
}

fn write_messages(received: &mpsc::Receiver<Message>) {
    const CLEAR: &str = "\r\x1b[2K";
    let mut status = String::new();
    // No line break meanwhile: a status that is wider than the terminal could not be cleared completely.
    let shown =
        |status: &str| if status.is_empty() { String::new() } else { format!("\x1b[?7l{status}\x1b[?7h") };
    for message in received {
        let clear = if status.is_empty() { "" } else { CLEAR };
        let text = match message {
            Message::Line(line) => format!("{clear}{line}\n{}", shown(&status)),
            Message::Status(new) => {
                status = new;
                format!("{clear}{}", shown(&status))
            }
            Message::Flush(done) => {
                // The caller may have given up.
                let _ = done.send(());
                continue;
            }
        };
        // Nothing can be done about a standard error that is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
