//! [`Store`]: the connection, on the one thread that uses it, and what a verb is carried out in.

use std::{
    collections::HashMap,
    fs::File,
    thread,
    time::{Duration, Instant},
};

use lock_core::{BackendError, BootTime, Clock, EntryId, FencingToken, SystemClock};
use rusqlite::Connection;

use crate::{
    error::{self, Fault},
    files::Files,
    home::Home,
    post::Hall,
    presence,
    verb::{News, Verb},
    world::{Begun, World},
};

/// How often a verb starts over in another file, or with more tokens, before something is badly wrong.
const STARTS: u32 = 8;

/// How long a late create finds the door closed behind an entry that left while it was in doubt.
const DOOR_CLOSED: Duration = Duration::from_secs(60);

/// The store as its thread has it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) files: Files,
    pub(crate) hall: Hall,
    /// How long a caller waits.
    patience: Duration,
    /// Opened at first use, and anew when the file was replaced.
    pub(crate) world: Option<World>,
    pub(crate) home: Option<Home>,
    /// Entries that left while a create was in doubt, and until when they may not come back. Only we ever create ours.
    closed_doors: HashMap<EntryId, BootTime>,
    /// Transactions of our own, which SQLite does not tell of.
    pub(crate) commits: u64,
}

impl Store {
    pub(crate) fn new(files: Files, hall: Hall, patience: Duration) -> Self {
        Self { files, hall, patience, world: None, home: None, closed_doors: HashMap::new(), commits: 0 }
    }

    /// Runs a verb as one transaction, and tells everybody whom it concerns when it is done.
    ///
    /// # Errors
    /// What went wrong. Then nothing of it was done, and it may be tried again.
    pub(crate) fn write<T>(
        &mut self,
        give_up: Instant,
        verb: impl Fn(&mut Verb<'_>) -> Result<T, Fault>,
    ) -> Result<T, BackendError> {
        for _ in 0..STARTS {
            self.open(give_up)?;
            // Both were made by `open`.
            let (Some(world), Some(home)) = (&mut self.world, &self.home) else { continue };
            match world.write(home, &self.files, give_up, &verb) {
                Ok(Begun::Done(value, news)) => {
                    self.commits += 1;
                    self.after(&news);
                    return Ok(value);
                }
                Ok(Begun::Elsewhere) => self.world = None,
                Ok(Begun::Again) => {}
                Err(fault) => return Err(self.failed(fault)),
            }
        }
        Err(error::unsupported(
            &self.files.database,
            "the file is replaced again and again; see who does that",
        ))
    }

    /// Reads, on a connection that is open.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn read<T>(
        &mut self,
        give_up: Instant,
        read: impl Fn(&Connection, &Home) -> Result<T, Fault>,
    ) -> Result<T, BackendError> {
        self.open(give_up)?;
        let (Some(world), Some(home)) = (&self.world, &self.home) else {
            return Err(error::unsupported(&self.files.database, "the file was not opened"));
        };
        read(&world.connection, home).map_err(|fault| self.failed(fault))
    }

    /// What the error is to others. After anything but a busy or full database the file is opened anew.
    fn failed(&mut self, fault: Fault) -> BackendError {
        if fault.is_busy() {
            return error::busy(&self.files.database, self.patience);
        }
        if matches!(fault, Fault::Sqlite(_)) && !fault.is_full() {
            self.world = None;
        }
        fault.at(&self.files.database)
    }

    fn after(&self, news: &News) {
        let Some(home) = &self.home else { return };
        for (member, message) in &news.told {
            if *member == home.id() {
                self.hall.tell(*message);
            } else {
                home.post.send(*member, *message);
            }
        }
        for member in &news.buried {
            presence::remove_files(&self.files.processes, *member);
        }
    }

    /// Opens the file if it is not open, or is another one by now.
    pub(crate) fn open(&mut self, give_up: Instant) -> Result<(), BackendError> {
        if self.world.as_ref().is_some_and(|world| self.files.identity() == Some(world.identity)) {
            return Ok(());
        }
        self.world = None;
        self.files.prepare()?;
        let opened = self.try_to_open(give_up);
        opened.map_err(|fault| self.failed(fault).unsent())
    }

    fn try_to_open(&mut self, give_up: Instant) -> Result<(), Fault> {
        let mut world = World::connect(&self.files, give_up)?;
        // Only now: beside a file of somebody else nothing is put.
        let kept = self.home.take().filter(Home::is_in_place);
        let known = kept.is_some();
        let home = match kept {
            Some(home) => home,
            None => Home::make(&self.files, &self.hall).map_err(Fault::Refused)?,
        };
        let joined = world.join(&self.files, &home, give_up);
        match joined {
            // Nobody knows of it yet.
            Err(_) if !known => home.remove(),
            _ => self.home = Some(home),
        }
        let news = joined?;
        self.world = Some(world);
        self.commits += 1;
        self.after(&news);
        Ok(())
    }

    /// The file that tells others that this process lives, once more.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn process_file(&mut self, give_up: Instant) -> Result<File, BackendError> {
        let folder = self.files.processes.clone();
        self.read(give_up, |_, home| {
            home.file()
                .map_err(|error| Fault::Refused(error::of_io("opening again a file in", &folder, error)))
        })
    }

    /// Shuts the door behind an entry.
    pub(crate) fn close_door(&mut self, entry: EntryId, ttl: Duration) {
        let now = SystemClock.now();
        self.closed_doors.retain(|_, until| *until > now);
        self.closed_doors.insert(entry, now + ttl.max(DOOR_CLOSED));
    }

    /// Whether an entry left for good while a create of it was in doubt.
    pub(crate) fn is_closed_to(&self, entry: EntryId) -> bool {
        self.closed_doors.get(&entry).is_some_and(|until| *until > SystemClock.now())
    }

    /// Goes on as if `last` had been minted. Never goes back.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn raise_tokens(&mut self, give_up: Instant, last: FencingToken) -> Result<(), BackendError> {
        self.write(give_up, |verb| verb.raise_tokens(last))
    }

    /// Leaves the file in an orderly way: what is still there of this client is free at once.
    pub(crate) fn close(mut self, give_up: Instant) {
        let known = self.world.is_some();
        let Some(me) = self.home.as_ref().map(Home::id) else { return };
        let left = known && self.write(give_up, |verb| verb.bury(me)).is_ok();
        self.world = None;
        // If the others still know of us, our file has to tell them that we are gone.
        if let Some(home) = self.home.take().filter(|_| left) {
            home.remove();
        }
    }
}

/// Tries until it is not busy, or the time is over. SQLite's own way to wait sleeps for up to 100 ms at a time.
///
/// # Errors
/// Those of `work`.
pub(crate) fn patiently<T>(give_up: Instant, mut work: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    const YIELDS: u32 = 8;
    const LONGEST: Duration = Duration::from_millis(1);
    let mut pause = Duration::from_micros(20);
    for tries in 0.. {
        match work() {
            Err(fault) if fault.is_busy() && Instant::now() < give_up => {}
            done => return done,
        }
        if tries < YIELDS {
            thread::yield_now();
        } else {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
    unreachable!("it is tried without an end")
}

/// The time, as it stands in the file.
pub(crate) fn now() -> i64 {
    nanos(SystemClock.now().since_start())
}

/// 292 years fit.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
