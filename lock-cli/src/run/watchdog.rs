//! [`Watchdog`]: a process that kills the command when the supervisor cannot.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use distlock::{BootTime, Clock, SystemClock};
use nix::{
    sys::signal::{SigSet, Signal},
    unistd::Pid,
};

use super::{
    command::this_program,
    process_group::{CANNOT_BE_STOPPED, NotPermitted, ProcessGroup},
};
use crate::{exit::Exit, output::Output};

/// The first argument with which this program becomes the watchdog.
pub(super) const INTERNAL_ARG: &str = "__watchdog";

/// The exit code of a watchdog that has killed the group.
const KILLED: i32 = 2;

/// The exit code of one that could not, because the group runs as another user.
const COULD_NOT_KILL: i32 = 3;

/// A watchdog that lives shorter counts as failing: the next one may end for the same reason.
const SHORT_LIFE: Duration = Duration::from_secs(10);

/// After more short lives than this in a row, no further watchdog is started.
const MOST_SHORT_LIVES: u32 = 5;

/// The watchdog, as the supervisor sees it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: Child,
    group: Option<ProcessGroup>,
    dead_by: Option<BootTime>,
    started: Instant,
    short_lives: u32,
    /// Each watchdog inherits it, as the command does: the store counts this process as alive as long as one of them has it open.
    _process_file: Option<File>,
}

impl Watchdog {
    /// Starts it in a process group of its own, so that it gets no signals of the terminal.
    pub(crate) fn start(process_file: Option<File>) -> io::Result<Self> {
        Ok(Self {
            process: spawn(Vec::new())?,
            group: None,
            dead_by: None,
            started: Instant::now(),
            short_lives: 0,
            _process_file: process_file,
        })
    }

    /// Tells it which group to watch.
    pub(crate) fn watch(&mut self, group: ProcessGroup) {
        self.group = Some(group);
        self.send(&Instruction::Group(group));
    }

    /// Tells it by when the group has to be dead. The last time that is told counts.
    pub(crate) fn dead_by(&mut self, time: BootTime) {
        if self.dead_by.replace(time) != Some(time) {
            self.send(&Instruction::DeadBy(time));
        }
    }

    /// Starts another watchdog if the last one has ended without being dismissed. Returns the exit status of the last one.
    ///
    /// # Errors
    /// If no watchdog can be started.
    pub(crate) fn restart_if_dead(&mut self) -> io::Result<Option<ExitStatus>> {
        // Nobody else waits for this child, so this cannot fail.
        let Ok(Some(status)) = self.process.try_wait() else { return Ok(None) };
        if matches!(status.code(), Some(KILLED | COULD_NOT_KILL)) {
            // It has killed the group, or tried to: the command is being stopped.
            return Ok(None);
        }
        self.short_lives = if self.started.elapsed() < SHORT_LIFE { self.short_lives + 1 } else { 0 };
        if self.short_lives > MOST_SHORT_LIVES {
            return Err(io::Error::other(format!("each one ends as soon as it is started ({status})")));
        }
        // As arguments, so that it knows them from the start: this process may be stopped before it can write to the pipe.
        let known = [self.group.map(Instruction::Group), self.dead_by.map(Instruction::DeadBy)];
        self.process = spawn(known.iter().flatten().map(Instruction::line).collect())?;
        self.started = Instant::now();
        Ok(Some(status))
    }

    /// Tells it to end without killing the group.
    pub(crate) fn dismiss(mut self) -> Dismissed {
        self.send(&Instruction::Dismissed);
        Dismissed(self.process)
    }

    fn send(&mut self, instruction: &Instruction) {
        if let Some(pipe) = &mut self.process.stdin {
            // It fails if the watchdog was killed. The next one gets all of this at its start.
            let _ = writeln!(pipe, "{}", instruction.line());
        }
    }
}

fn spawn(known: Vec<String>) -> io::Result<Child> {
    let mut program = this_program();
    program.arg(INTERNAL_ARG).args(known).stdin(Stdio::piped()).stdout(Stdio::null());
    program.process_group(0).spawn()
}

/// A watchdog that was told to end.
#[derive(Debug)]
pub(crate) struct Dismissed(Child);

impl Dismissed {
    /// Waits for its end.
    pub(crate) fn result(mut self) -> WatchdogResult {
        match self.0.wait().map(|status| status.code()) {
            Ok(Some(KILLED)) => WatchdogResult::Killed,
            Ok(Some(COULD_NOT_KILL)) => WatchdogResult::CouldNotKill,
            _ => WatchdogResult::Idle,
        }
    }
}

/// What a watchdog had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchdogResult {
    Idle,
    Killed,
    CouldNotKill,
}

/// A message of the supervisor.
enum Instruction {
    Group(ProcessGroup),
    DeadBy(BootTime),
    Dismissed,
}

impl Instruction {
    fn line(&self) -> String {
        match self {
            Self::Group(group) => format!("group {}", group.id()),
            Self::DeadBy(time) => format!("dead-by {}", time.since_start().as_nanos()),
            Self::Dismissed => "dismissed".to_owned(),
        }
    }
}

/// Runs as the watchdog until it is dismissed or has killed the group. `known` is what its predecessor was told.
pub(super) fn run(known: impl Iterator<Item = OsString>) -> ExitCode {
    // Later threads inherit the mask. Only the end of its pipe, and SIGKILL, end the watchdog.
    let _ = SigSet::all().thread_block();
    let (sender, told) = mpsc::channel();
    for known in known.filter_map(|line| read(line.to_str()?)) {
        // The receiver is in this function.
        let _ = sender.send(known);
    }
    thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for told in lines.filter_map(|line| read(&line)) {
            if sender.send(told).is_err() {
                break;
            }
        }
    });
    let (mut group, mut dead_by) = (None, BootTime::FAR_FUTURE);
    loop {
        // In slices of a second, because this wait does not count the time that the machine sleeps.
        let left = dead_by.since(SystemClock.now()).min(Duration::from_secs(1));
        match told.recv_timeout(left) {
            Ok(Instruction::Group(told)) => group = Some(told),
            Ok(Instruction::DeadBy(time)) => dead_by = time,
            Ok(Instruction::Dismissed) => return Exit::DONE.into(),
            Err(RecvTimeoutError::Timeout) if SystemClock.now() < dead_by => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let killed = group.is_none_or(|group| kill(group).is_ok());
    if !killed {
        report_unkilled(&told);
    }
    let code = if killed { KILLED } else { COULD_NOT_KILL };
    ExitCode::from(code.to_le_bytes()[0])
}

/// Waits for the supervisor, which reports what could not be stopped. If the supervisor is dead, reports it here.
fn report_unkilled(supervisor: &mpsc::Receiver<Instruction>) {
    loop {
        match supervisor.recv() {
            Ok(Instruction::Dismissed) => return,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let output = Output::new(false);
    output.line(CANNOT_BE_STOPPED);
    output.flush();
}

fn read(line: &str) -> Option<Instruction> {
    match line.split_once(' ') {
        Some(("group", id)) => Some(Instruction::Group(ProcessGroup::new(Pid::from_raw(id.parse().ok()?)))),
        Some(("dead-by", nanos)) => {
            Some(Instruction::DeadBy(BootTime::new(Duration::from_nanos(nanos.parse().ok()?))))
        }
        _ if line == "dismissed" => Some(Instruction::Dismissed),
        _ => None,
    }
}

/// Kills the group. Returns when no process of it is alive, or none can be killed.
fn kill(group: ProcessGroup) -> Result<(), NotPermitted> {
    let mut killed = group.signal(Signal::SIGKILL);
    for look in 1..=500 {
        // Zombies stay if the supervisor is stopped, or if the init does not reap.
        let alive = if look % 8 == 0 { group.is_alive() } else { group.exists() };
        if alive == Ok(false) {
            break;
        }
        thread::sleep(Duration::from_millis(2));
        // A process may have forked just before it was killed.
        killed = group.signal(Signal::SIGKILL);
    }
    killed
}
