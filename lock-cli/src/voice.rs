//! [`Voice`]: what the command says on the standard error while it works.

use std::{
    io::{IsTerminal, Write},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use distlock::harmless;

/// Says things from a thread of its own: a terminal that was halted, or a pipe that nobody empties, must not hold up
/// whoever renews the lease or watches over the command.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    words: mpsc::Sender<Word>,
    quiet: bool,
    terminal: bool,
}

enum Word {
    /// A line that stays.
    Line(String),
    /// What stands in the last line of the terminal, until something else does.
    Status(String),
    /// All that was to be said before is said.
    Tell(mpsc::Sender<()>),
}

impl Voice {
    pub(crate) fn start(quiet: bool) -> Self {
        let (words, told) = mpsc::channel();
        thread::spawn(move || speak(&told));
        let terminal = std::io::stderr().is_terminal();
        Self { words, quiet, terminal }
    }

    /// Says a line, unless it was told to be quiet.
    pub(crate) fn say(&self, line: impl AsRef<str>) {
        if !self.quiet {
            self.send(Word::Line(format!("distlock: {}", harmless(line.as_ref()))));
        }
    }

    /// Says that something has happened, where nobody may be there to see when: with the time.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        if self.terminal {
            return self.say(line);
        }
        let now = humantime::format_rfc3339_seconds(SystemTime::now());
        self.say(format!("{now} {}", line.as_ref()));
    }

    /// Whether it was told to be quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether there is somebody to see a status.
    pub(crate) fn shows_status(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// Shows a status in place of the last one; an empty one removes it.
    pub(crate) fn status(&self, status: impl Into<String>) {
        if self.shows_status() {
            self.send(Word::Status(harmless(&status.into())));
        }
    }

    /// Waits until all was said, for a moment at the most: there may be nobody who listens.
    pub(crate) fn finish(&self) {
        let (done, all_said) = mpsc::channel();
        self.send(Word::Tell(done));
        let _ = all_said.recv_timeout(Duration::from_millis(500));
    }

    fn send(&self, word: Word) {
        // The thread ends with the process.
        let _ = self.words.send(word);
    }
}

fn speak(told: &mpsc::Receiver<Word>) {
    const CLEAR: &str = "\r\x1b[2K";
    let mut status = String::new();
    // Longer than the line is wide, it would not be cleared whole: no line break meanwhile.
    let shown =
        |status: &str| if status.is_empty() { String::new() } else { format!("\x1b[?7l{status}\x1b[?7h") };
    for word in told {
        let clear = if status.is_empty() { "" } else { CLEAR };
        let text = match word {
            Word::Line(line) => format!("{clear}{line}\n{}", shown(&status)),
            Word::Status(new) => {
                status = new;
                format!("{clear}{}", shown(&status))
            }
            Word::Tell(done) => {
                // Whoever waited may have given up.
                let _ = done.send(());
                continue;
            }
        };
        // Nothing can be done about a standard error that is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
