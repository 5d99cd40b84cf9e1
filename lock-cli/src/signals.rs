//! [`Signals`]: the signals that the command answers to.

use std::{fs, future::poll_fn, task::Poll};

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::{exit::Exit, failure::Failure};

/// Signals that from now on have no other effect than to be returned by [`next`](Self::next).
#[derive(Debug)]
pub(crate) struct Signals {
    /// The signals that were ignored when this process was started, as a bit mask: bit 0 is signal 1.
    ignored: u64,
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// The signals that end a process. One that was ignored when this process was started stays ignored: `nohup` relies on that, and so
    /// do shells for background jobs.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn terminating() -> Result<Self, Failure> {
        let mut signals = Self { ignored: ignored(), streams: Vec::new() };
        signals.add(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT])?;
        Ok(signals)
    }

    /// Adds the other signals that are forwarded to a running command.
    ///
    /// # Errors
    /// As for [`terminating`](Self::terminating).
    pub(crate) fn add_forwarded(&mut self) -> Result<(), Failure> {
        use Signal as S;
        self.add(&[S::SIGUSR1, S::SIGUSR2, S::SIGWINCH, S::SIGTSTP, S::SIGCONT])
    }

    fn add(&mut self, signals: &[Signal]) -> Result<(), Failure> {
        for &signal in signals {
            let number = signal as i32;
            if self.ignored & (1 << (number - 1)) == 0 {
                let stream = unix::signal(SignalKind::from_raw(number)).map_err(|error| {
                    Failure::new(Exit::STORE, format!("{signal} cannot be handled")).because(&error)
                })?;
                self.streams.push((signal, stream));
            }
        }
        Ok(())
    }

    /// The next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The signals that are ignored now.
fn ignored() -> u64 {
    // Without such a file, none is known to be ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
