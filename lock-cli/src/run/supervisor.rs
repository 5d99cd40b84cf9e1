//! [`Supervisor`]: watches over the command and the lock.

use std::{pin::pin, time::Duration};

use distlock::{BootTime, Hold, HoldState, Keeper, LostReason};
use nix::{
    sys::signal::{Signal, kill, raise},
    unistd::Pid,
};
use tokio::signal::unix;

use super::{
    command::{Change, Command},
    group::{Group, OutOfReach},
    terminal::Terminal,
    timing::Timing,
    watchdog::{Dismissed, Duty, Watchdog},
};
use crate::{exit::Exit, print, signals::Signals, voice::Voice};

/// How often those are looked at who should be dying.
const LOOK_AT_DYING: Duration = Duration::from_millis(5);

/// The same for those who cannot be killed, or do not die for longer than a moment.
const LOOK_AT_OTHERS: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_secs(1);

/// What is said of processes that cannot be sent signals.
pub(super) const CANNOT_BE_STOPPED: &str =
    "the command runs as another user and cannot be stopped: it works on without the lock";

/// Watches over the command and the lock, until neither is there.
#[derive(Debug)]
pub(crate) struct Supervisor {
    hold: Hold,
    command: Command,
    group: Group,
    watchdog: Watchdog,
    timing: Timing,
    keeper: Keeper,
    voice: Voice,
    terminal: Option<Terminal>,
    /// Whether the command's group had the terminal last.
    lent: bool,
    /// We are about to be sent a stop signal by ourselves, which is not for the command.
    stops_itself: bool,
    stage: Stage,
    /// Whether a process of the group could not be sent the signals that were to stop it.
    out_of_reach: bool,
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

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// That of the command.
    pub(crate) exit: Exit,
    /// Why the command was stopped, if it was.
    pub(crate) lost: Option<String>,
    /// Some of it could not be stopped, and ended by itself.
    pub(crate) out_of_reach: bool,
}

impl Ended {
    /// With what the watchdog had to do.
    pub(crate) fn and(mut self, duty: Duty) -> Self {
        if duty != Duty::Watched {
            let why = || "this process did not run in time to renew its lease".to_owned();
            self.lost.get_or_insert_with(why);
        }
        self.out_of_reach |= duty == Duty::CouldNotKill;
        self
    }
}

impl Supervisor {
    pub(crate) fn new(
        hold: Hold,
        command: Command,
        watchdog: Watchdog,
        timing: Timing,
        voice: Voice,
    ) -> Self {
        let group = command.group();
        let terminal = Terminal::open();
        let mut supervisor = Self {
            hold,
            command,
            group,
            watchdog,
            timing,
            keeper: Keeper::shared(),
            voice,
            terminal,
            lent: false,
            stops_itself: false,
            stage: Stage::Running,
            out_of_reach: false,
            exit: None,
            lost: None,
        };
        if Terminal::is_all_there_is() {
            supervisor.lend_terminal();
        }
        supervisor
    }

    /// Returns when the command has ended, and all of its group if it had to be stopped. The watchdog was let go by then, and may still
    /// have to be asked what it had to do.
    pub(crate) async fn watch(
        mut self,
        signals: &mut Signals,
        mut children: unix::Signal,
    ) -> (Ended, Option<Dismissed>) {
        let mut lost = pin!(self.hold.lost());
        loop {
            let next_look = self.look_at_lock();
            self.look_at_command();
            if let Some(ended) = self.ended() {
                self.leave_terminal();
                let watchdog = self.watchdog.dismiss();
                if ended.exit == Exit::by(Signal::SIGKILL) {
                    // That may have been the watchdog, which ends when all of the group are dead.
                    return (ended.and(watchdog.duty()), None);
                }
                return (ended, Some(watchdog));
            }
            let next_look = next_look.min(self.look_at_watchdog()).min(self.look_at_others());
            tokio::select! {
                biased;
                _ = children.recv() => {}
                signal = signals.next() => self.pass_on(signal),
                _ = &mut lost, if self.stage == Stage::Running => {}
                () = self.keeper.sleep_until(next_look) => {}
            }
        }
    }

    /// Stops the command when that is due, and says when to look again.
    fn look_at_lock(&mut self) -> BootTime {
        let now = self.keeper.now();
        let remaining = self.hold.remaining();
        match self.stage {
            Stage::Running => {
                let needed = self.timing.needed_to_stop();
                if remaining <= needed {
                    return self.stop(now, remaining);
                }
                self.watchdog.dead_by(now + remaining - self.timing.reserve / 2);
                now + remaining.saturating_sub(needed).min(self.timing.look_every())
            }
            Stage::Stopping { kill_at } if now >= kill_at => {
                self.stage = Stage::Killed { since: now };
                self.kill(now, now)
            }
            Stage::Stopping { kill_at } => kill_at,
            // Those that were just being born.
            Stage::Killed { since } => self.kill(now, since),
        }
    }

    /// Without a watchdog nobody would kill the command if this process could not. Says when to look again.
    fn look_at_watchdog(&mut self) -> BootTime {
        match self.watchdog.look_after() {
            Ok(Some(ended)) => {
                self.voice.say(format!("the watchdog has ended ({ended}), and was started again"));
            }
            Err(error) if self.stage == Stage::Running => {
                let why = format!("its watchdog has ended, and there is no other: {error}");
                return self.give_up(self.keeper.now(), self.timing.grace, why);
            }
            // It is there, or the command is at its end already.
            Ok(None) | Err(_) => {}
        }
        BootTime::FAR_FUTURE
    }

    /// When to look whether the others of the group have ended, if the first process has: nobody tells of their end.
    fn look_at_others(&self) -> BootTime {
        match self.stage {
            Stage::Stopping { .. } if self.exit.is_some() => {
                self.keeper.now() + if self.out_of_reach { LOOK_AT_OTHERS } else { LOOK_AT_DYING }
            }
            _ => BootTime::FAR_FUTURE,
        }
    }

    fn kill(&mut self, now: BootTime, since: BootTime) -> BootTime {
        if self.group.signal(Signal::SIGKILL).is_ok() {
            return now + if now.since(since) < MOMENT { LOOK_AT_DYING } else { LOOK_AT_OTHERS };
        }
        // The others of the group, if there were any, are dead by now.
        self.cannot_stop();
        now + LOOK_AT_OTHERS
    }

    fn cannot_stop(&mut self) {
        if !std::mem::replace(&mut self.out_of_reach, true) {
            self.voice.say(CANNOT_BE_STOPPED);
        }
    }

    fn stop(&mut self, now: BootTime, remaining: Duration) -> BootTime {
        let left = remaining.saturating_sub(self.timing.reserve);
        let (grace, why) = match self.hold.state() {
            // Others may be working already; a grace that is longer than none is for the user to weigh.
            HoldState::Lost(reason @ LostReason::Gone) => (self.timing.grace, reason.to_string()),
            HoldState::Lost(reason) => (Duration::ZERO, reason.to_string()),
            // What could be renewed ends only for this.
            HoldState::Held if self.timing.has_max_hold => (left, LostReason::MaxHold.to_string()),
            _ => (left, "its lease could not be renewed in time".to_owned()),
        };
        self.give_up(now, grace, why)
    }

    /// Tells the command to end, and says when it has to be dead.
    fn give_up(&mut self, now: BootTime, grace: Duration, why: String) -> BootTime {
        let kill_at = now + grace;
        self.watchdog.dead_by(kill_at + self.timing.reserve / 2);
        self.voice.say(format!("lock `{}` is lost: {why}; stopping the command", self.hold.name()));
        if self.group.signal(Signal::SIGTERM).is_err() {
            self.cannot_stop();
        }
        // Who was stopped has to be woken, or he hears of nothing.
        self.send(Signal::SIGCONT);
        self.lost = Some(why);
        self.stage = Stage::Stopping { kill_at };
        kill_at
    }

    fn look_at_command(&mut self) {
        while let Some(change) = self.command.look() {
            match change {
                Change::Ended(exit) => {
                    self.exit = Some(exit);
                    return;
                }
                Change::Stopped(signal) => self.stopped_by(signal),
            }
        }
    }

    fn ended(&mut self) -> Option<Ended> {
        let exit = self.exit?;
        if self.stage == Stage::Running {
            return Some(Ended { exit, lost: None, out_of_reach: false });
        }
        // Before, those who are there may have a grace; who has ended then, and is not waited for, is looked for when it is over.
        let is_there = match self.stage {
            Stage::Killed { .. } => self.group.is_alive(),
            _ => self.group.is_there(),
        };
        match is_there {
            Ok(true) => None,
            Ok(false) => Some(Ended { exit, lost: self.lost.take(), out_of_reach: self.out_of_reach }),
            // The signals have reached the others, and not these.
            Err(OutOfReach) => {
                self.cannot_stop();
                None
            }
        }
    }

    /// Sends the command a signal that it may ignore.
    fn send(&self, signal: Signal) {
        if self.group.signal(signal).is_err() {
            self.voice.say(format!("the command runs as another user and cannot be sent {signal}"));
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCONT if self.lent => self.lend_terminal(),
            // That of our own may be told later than the SIGCONT after it: another thread may pass both on to this one.
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
        let Some(terminal) = &self.terminal else { return };
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        // It may have asked in the moment before it was given.
        if wants_terminal && (terminal.is_ours() || terminal.is_of(self.group)) {
            self.lend_terminal();
            self.send(Signal::SIGCONT);
            return;
        }
        let left = print::duration(self.hold.remaining());
        let name = self.hold.name();
        self.voice.say(format!(
            "stopped: lock `{name}` is lost in {left} and the command killed, if it is not continued"
        ));
        self.voice.finish();
        self.return_terminal();
        // All of our job stops, as Ctrl-Z would have it, and so a shell that waits for it sees that. SIGCONT comes as a
        // signal of its own.
        self.stops_itself = true;
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        let _ = raise(Signal::SIGSTOP);
    }

    fn lend_terminal(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours()) {
            terminal.give_to(self.group);
            self.lent = true;
        }
    }

    fn return_terminal(&self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|_| self.lent) {
            terminal.take_back();
        }
    }

    fn leave_terminal(&self) {
        self.return_terminal();
        if let Some(terminal) = self.terminal.as_ref().filter(|_| self.stage != Stage::Running) {
            terminal.mend();
        }
    }
}
