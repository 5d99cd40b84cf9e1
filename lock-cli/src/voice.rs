//! [`Voice`]: what the command says on the standard error while it works.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use distlock::harmless;

/// Says things from a thread of its own: a terminal that was halted, or a pipe that nobody empties, must not hold up
/// whoever renews the lease or watches over the command. The thread begins with the first word, and most commands say none.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    words: Arc<OnceLock<mpsc::Sender<Word>>>,
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
        let terminal = std::io::stderr().is_terminal();
        Self { words: Arc::default(), quiet, terminal }
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
        let status = status.into();
        let is_there = || self.words.get().is_some();
        if self.shows_status() && (!status.is_empty() || is_there()) {
            self.send(Word::Status(harmless(&status)));
        }
    }

    /// Waits until all was said, for a moment at the most: there may be nobody who listens.
    pub(crate) fn finish(&self) {
        if self.words.get().is_none() {
            return;
        }
        let (done, all_said) = mpsc::channel();
        self.send(Word::Tell(done));
        let _ = all_said.recv_timeout(Duration::from_millis(500));
    }

    fn send(&self, word: Word) {
        // The thread ends with the process.
        let _ = self.words.get_or_init(begin).send(word);
    }
}

fn begin() -> mpsc::Sender<Word> {
    let (words, told) = mpsc::channel();
    // Where there is no room for one more, nothing is said, and the command is watched over all the same.
    let _ = thread::Builder::new().name("distlock-voice".into()).spawn(move || speak(&told));
    words
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
