//! [`Supervisor`]: watches the command and the lock.

use std::{pin::pin, time::Duration};

use distlock::{BootTime, Hold, HoldState, Keeper, LostReason};
use nix::{
    sys::signal::{Signal, kill, raise},
    unistd::{Pid, getpgrp, getsid},
};
use tokio::signal::unix;

use super::{
    command::{Command, StateChange},
    process_group::{CANNOT_BE_STOPPED, NotPermitted, ProcessGroup},
    terminal_loan::TerminalLoan,
    timing::Timing,
    watchdog::{Dismissed, Watchdog, WatchdogResult},
};
use crate::{exit::Exit, output::Output, render, signals::Signals};

/// How often killed processes are checked.
const DYING_POLL: Duration = Duration::from_millis(5);

/// The same for processes that cannot be killed, or are still there after `DYING_TIME`.
const SLOW_POLL: Duration = Duration::from_millis(100);
const DYING_TIME: Duration = Duration::from_secs(1);

/// Watches the command and the lock until the command has ended.
#[derive(Debug)]
pub(crate) struct Supervisor {
    hold: Hold,
    command: Command,
    group: ProcessGroup,
    watchdog: Watchdog,
    timing: Timing,
    keeper: Keeper,
    output: Output,
    terminal: TerminalLoan,
    /// This process is about to get a stop signal from itself, which is not for the command.
    stops_itself: bool,
    /// This process got SIGINT or SIGQUIT itself.
    interrupted: bool,
    stage: Stage,
    /// Whether a process of the group could not be signalled.
    unstoppable: bool,
    exit: Option<Exit>,
    lost: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// SIGTERM was sent.
    Stopping {
        kill_at: BootTime,
    },
    /// SIGKILL was sent.
    Killed {
        since: BootTime,
    },
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct RunResult {
    /// The exit code of the command.
    pub(crate) exit: Exit,
    /// Why the command was stopped, if it was.
    pub(crate) lost: Option<String>,
    /// Whether a part of the command could not be stopped, and ended by itself.
    pub(crate) unstoppable: bool,
    /// The signal that the terminal has sent to the command and not to our own group, if the command has died of it.
    pub(crate) interrupt: Option<Signal>,
}

impl RunResult {
    /// Adds what the watchdog had to do.
    pub(crate) fn with_watchdog(mut self, result: WatchdogResult) -> Self {
        if result != WatchdogResult::Idle {
            let why = || "this process did not run in time to renew its lease".to_owned();
            self.lost.get_or_insert_with(why);
        }
        self.unstoppable |= result == WatchdogResult::CouldNotKill;
        self
    }
}

impl Supervisor {
    pub(crate) fn new(
        hold: Hold,
        command: Command,
        watchdog: Watchdog,
        timing: Timing,
        output: Output,
    ) -> Self {
        let group = command.group();
        Self {
            hold,
            command,
            group,
            watchdog,
            timing,
            keeper: Keeper::shared(),
            output,
            terminal: TerminalLoan::new(group),
            stops_itself: false,
            interrupted: false,
            stage: Stage::Running,
            unstoppable: false,
            exit: None,
            lost: None,
        }
    }

    /// Returns when the command has ended, and all of its group if it had to be stopped. The watchdog is dismissed then; the caller waits
    /// for its result.
    pub(crate) async fn watch(
        mut self,
        signals: &mut Signals,
        mut children: unix::Signal,
    ) -> (RunResult, Option<Dismissed>) {
        let mut lost = pin!(self.hold.lost());
        loop {
            let next_check = self.check_lock();
            self.check_command();
            if let Some(ended) = self.ended() {
                self.restore_terminal();
                let watchdog = self.watchdog.dismiss();
                if ended.exit == Exit::from_signal(Signal::SIGKILL) {
                    // The watchdog may have killed it. It ends when the whole group is dead.
                    return (ended.with_watchdog(watchdog.result()), None);
                }
                return (ended, Some(watchdog));
            }
            let next_check = next_check.min(self.check_watchdog()).min(self.next_check_of_others());
            tokio::select! {
                biased;
                _ = children.recv() => {}
                signal = signals.next() => self.forward(signal),
                _ = &mut lost, if self.stage == Stage::Running => {}
                () = self.keeper.sleep_until(next_check) => {}
            }
        }
    }

    /// Stops the command if that is due. Returns when to check again.
    fn check_lock(&mut self) -> BootTime {
        let now = self.keeper.now();
        let remaining = self.hold.remaining();
        match self.stage {
            Stage::Running => {
                let needed = self.timing.needed_to_stop();
                if remaining <= needed {
                    return self.stop(now, remaining);
                }
                self.watchdog.dead_by(now + remaining - self.timing.reserve / 2);
                now + remaining.saturating_sub(needed).min(self.timing.check_interval())
            }
            Stage::Stopping { kill_at } if now >= kill_at => {
                self.stage = Stage::Killed { since: now };
                self.kill(now, now)
            }
            Stage::Stopping { kill_at } => kill_at,
            // A process may have forked just before it was killed.
            Stage::Killed { since } => self.kill(now, since),
        }
    }

    /// Restarts the watchdog if it has ended: without one, nobody would kill the command if this process could not. Returns when to check
    /// again.
    fn check_watchdog(&mut self) -> BootTime {
        match self.watchdog.restart_if_dead() {
            Ok(Some(ended)) => {
                self.output.line(format!("the watchdog has ended ({ended}), and was started again"));
            }
            Err(error) if self.stage == Stage::Running => {
                let why = format!("its watchdog has ended, and there is no other: {error}");
                return self.give_up(self.keeper.now(), self.timing.grace, why);
            }
            // The watchdog is alive, or the command is being stopped already.
            Ok(None) | Err(_) => {}
        }
        BootTime::FAR_FUTURE
    }

    /// When to check whether the rest of the group has ended, after the first process has: no signal reports the end of the others.
    fn next_check_of_others(&self) -> BootTime {
        match self.stage {
            Stage::Stopping { .. } if self.exit.is_some() => {
                self.keeper.now() + if self.unstoppable { SLOW_POLL } else { DYING_POLL }
            }
            _ => BootTime::FAR_FUTURE,
        }
    }

    fn kill(&mut self, now: BootTime, since: BootTime) -> BootTime {
        if self.group.signal(Signal::SIGKILL).is_ok() {
            return now + if now.since(since) < DYING_TIME { DYING_POLL } else { SLOW_POLL };
        }
        // Only processes of other users are left.
        self.mark_unstoppable();
        now + SLOW_POLL
    }

    fn mark_unstoppable(&mut self) {
        if !std::mem::replace(&mut self.unstoppable, true) {
            self.output.line(CANNOT_BE_STOPPED);
        }
    }

    fn stop(&mut self, now: BootTime, remaining: Duration) -> BootTime {
        let left = remaining.saturating_sub(self.timing.reserve);
        let (grace, why) = match self.hold.state() {
            // The next holder may be working already: the user decides by `--grace` whether the command still gets time.
            HoldState::Lost(reason @ LostReason::Gone) => (self.timing.grace, reason.to_string()),
            HoldState::Lost(reason) => (Duration::ZERO, reason.to_string()),
            // A lease that is renewed ends only for this reason.
            HoldState::Held if self.timing.has_max_hold => (left, LostReason::MaxHold.to_string()),
            _ => (left, "its lease could not be renewed in time".to_owned()),
        };
        self.give_up(now, grace, why)
    }

    /// Tells the command to end. Returns when it has to be dead.
    fn give_up(&mut self, now: BootTime, grace: Duration, why: String) -> BootTime {
        let kill_at = now + grace;
        self.watchdog.dead_by(kill_at + self.timing.reserve / 2);
        self.output.line(format!("lock `{}` is lost: {why}; stopping the command", self.hold.name()));
        if self.group.signal(Signal::SIGTERM).is_err() {
            self.mark_unstoppable();
        }
        // A stopped process handles no SIGTERM until it is continued.
        self.send(Signal::SIGCONT);
        self.lost = Some(why);
        self.stage = Stage::Stopping { kill_at };
        kill_at
    }

    fn check_command(&mut self) {
        while let Some(change) = self.command.poll_change() {
            match change {
                StateChange::Ended(exit) => {
                    self.exit = Some(exit);
                    return;
                }
                StateChange::Stopped(signal) => self.stopped_by(signal),
            }
        }
    }

    fn ended(&mut self) -> Option<RunResult> {
        let exit = self.exit?;
        if self.stage == Stage::Running {
            let interrupt = exit.interrupt().filter(|_| self.terminal.is_lent() && !self.interrupted);
            return Some(RunResult { exit, lost: None, unstoppable: false, interrupt });
        }
        // Zombies are told from living processes only after SIGKILL: that check is expensive, and before, the grace has to pass anyway.
        let exists = match self.stage {
            Stage::Killed { .. } => self.group.is_alive(),
            _ => self.group.exists(),
        };
        match exists {
            Ok(true) => None,
            Ok(false) => {
                let (lost, unstoppable) = (self.lost.take(), self.unstoppable);
                Some(RunResult { exit, lost, unstoppable, interrupt: None })
            }
            // The signals did not reach these processes.
            Err(NotPermitted) => {
                self.mark_unstoppable();
                None
            }
        }
    }

    /// Sends the command a signal that it may ignore.
    fn send(&self, signal: Signal) {
        if self.group.signal(signal).is_err() {
            self.output.line(format!("the command runs as another user and cannot be sent {signal}"));
        }
    }

    fn forward(&mut self, signal: Signal) {
        match signal {
            Signal::SIGINT | Signal::SIGQUIT => self.interrupted = true,
            Signal::SIGCONT => self.terminal.lend_again(),
            // Our own SIGTSTP may be delivered after the SIGCONT that follows it.
            Signal::SIGTSTP if std::mem::take(&mut self.stops_itself) => return,
            _ => {}
        }
        self.send(signal);
    }

    /// The command was stopped: by Ctrl-Z, or because it wanted a terminal that it does not have.
    fn stopped_by(&mut self, signal: Signal) {
        if self.stage != Stage::Running {
            self.send(Signal::SIGCONT);
            return;
        }
        if !self.terminal.has_terminal() {
            return;
        }
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        // It may have asked just before it was given the terminal.
        if wants_terminal && self.terminal.lend() {
            self.send(Signal::SIGCONT);
            return;
        }
        if signal == Signal::SIGTSTP && is_group_of_session_leader() {
            self.send(Signal::SIGCONT);
            return;
        }
        let left = render::duration(self.hold.remaining());
        let name = self.hold.name();
        self.output.line(format!(
            "stopped: lock `{name}` is lost in {left} and the command killed, if it is not continued"
        ));
        self.output.flush();
        self.terminal.take_back();
        // Stops the whole job, as Ctrl-Z does, so that the shell sees it. SIGCONT will come as a signal of its own.
        self.stops_itself = true;
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        let _ = raise(Signal::SIGSTOP);
    }

    fn restore_terminal(&self) {
        self.terminal.take_back();
        if self.stage != Stage::Running {
            self.terminal.restore_modes();
        }
    }
}

/// Whether our own group is that of the session leader: of the first process of a container, or of what `ssh -t` and `xterm -e` start. No shell
/// continues such a group if it stops. The kernel does not stop it for Ctrl-Z, but would stop the group of the command.
fn is_group_of_session_leader() -> bool {
    getsid(None) == Ok(getpgrp())
}
