//! [`Watchdog`]: a process that kills the command when the supervisor cannot.

use std::{
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, ExitCode, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use distlock::{BootTime, Clock, SystemClock};
use nix::{
    sys::signal::{SigSet, Signal},
    unistd::Pid,
};

use super::{
    command::this_program,
    group::{Group, OutOfReach},
    supervisor::CANNOT_BE_STOPPED,
};
use crate::{exit::Exit, voice::Voice};

/// The first argument of this program when it is to be the watchdog.
pub(super) const INNER: &str = "__watchdog";

/// What it ends with when it had to do its duty.
const HAS_KILLED: i32 = 2;

/// The same where somebody of the group runs as another user.
const COULD_NOT_KILL: i32 = 3;

/// The supervisor's end of it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    process: Child,
    dead_by: Option<BootTime>,
}

impl Watchdog {
    /// Starts it, in a group of its own: what a terminal sends to the others is not for it.
    pub(crate) fn start() -> io::Result<Self> {
        let mut program = this_program();
        program.arg(INNER).stdin(Stdio::piped()).stdout(Stdio::null());
        Ok(Self { process: program.process_group(0).spawn()?, dead_by: None })
    }

    /// Tells whom to watch.
    pub(crate) fn guard(&mut self, group: Group) {
        self.tell(&format!("group {}", group.id()));
    }

    /// Tells by when the group has to be dead, unless it is told another time before.
    pub(crate) fn dead_by(&mut self, time: BootTime) {
        if self.dead_by.replace(time) != Some(time) {
            self.tell(&format!("dead-by {}", time.since_start().as_nanos()));
        }
    }

    /// Lets it go: the group is none of its business any more.
    pub(crate) fn dismiss(mut self) -> Duty {
        self.tell("dismissed");
        match self.process.wait().map(|status| status.code()) {
            Ok(Some(HAS_KILLED)) => Duty::HasKilled,
            Ok(Some(COULD_NOT_KILL)) => Duty::CouldNotKill,
            _ => Duty::Watched,
        }
    }

    fn tell(&mut self, line: &str) {
        if let Some(pipe) = &mut self.process.stdin {
            // If it was killed, the supervisor goes on without it.
            let _ = writeln!(pipe, "{line}");
        }
    }
}

/// What a watchdog had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Watched,
    HasKilled,
    CouldNotKill,
}

/// What the supervisor says.
enum Told {
    Group(Group),
    DeadBy(BootTime),
    Dismissed,
}

/// Is the watchdog, until it is dismissed or has killed the group.
pub(super) fn watch() -> ExitCode {
    // Threads that are started later inherit it. What ends it is its pipe, and SIGKILL.
    let _ = SigSet::all().thread_block();
    let (sender, told) = mpsc::channel();
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
        // In slices, because this wait does not count the time that the machine sleeps.
        let left = dead_by.since(SystemClock.now()).min(Duration::from_secs(1));
        match told.recv_timeout(left) {
            Ok(Told::Group(told)) => group = Some(told),
            Ok(Told::DeadBy(time)) => dead_by = time,
            Ok(Told::Dismissed) => return Exit::DONE.into(),
            Err(RecvTimeoutError::Timeout) if SystemClock.now() < dead_by => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let killed = group.is_none_or(|group| kill(group).is_ok());
    if !killed {
        leave_word_to(&told);
    }
    let code = if killed { HAS_KILLED } else { COULD_NOT_KILL };
    ExitCode::from(code.to_le_bytes()[0])
}

/// What could not be stopped is told by the supervisor, as soon as it runs again. If it does not any more, nobody else would.
fn leave_word_to(supervisor: &mpsc::Receiver<Told>) {
    loop {
        match supervisor.recv() {
            Ok(Told::Dismissed) => return,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let voice = Voice::start(false);
    voice.say(CANNOT_BE_STOPPED);
    voice.finish();
}

fn read(line: &str) -> Option<Told> {
    match line.split_once(' ') {
        Some(("group", id)) => Some(Told::Group(Group::new(Pid::from_raw(id.parse().ok()?)))),
        Some(("dead-by", nanos)) => {
            Some(Told::DeadBy(BootTime::new(Duration::from_nanos(nanos.parse().ok()?))))
        }
        _ if line == "dismissed" => Some(Told::Dismissed),
        _ => None,
    }
}

/// Kills all of the group, and returns when nobody is left of it, or cannot be killed.
fn kill(group: Group) -> Result<(), OutOfReach> {
    let mut killed = group.signal(Signal::SIGKILL);
    // A supervisor that is stopped waits for nobody, so that its child stays there, dead.
    for _ in 0..500 {
        if group.is_there() == Ok(false) {
            break;
        }
        thread::sleep(Duration::from_millis(2));
        // Whoever was just being born.
        killed = group.signal(Signal::SIGKILL);
    }
    killed
}
