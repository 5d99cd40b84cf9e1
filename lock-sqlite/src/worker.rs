//! The thread that does what takes time, so that nobody else waits for other processes or the disk, and that looks after those
//! who wait.

use std::{
    collections::BTreeSet,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use lock_core::{BackendError, EntryId, Hint, LockName};

use crate::{
    desk::{Desk, Job},
    error::Fault,
    presence::{self, Member},
    store::Store,
    verb::member,
};

/// How often those are looked at whom somebody here waits for (PR34).
const LOOK: Duration = Duration::from_millis(25);

/// With so many looks, one is for hints that were lost.
const HINTS_EVERY: u32 = 4;

/// How often somebody who does nothing looks whether the file is still where it was: if he has half of it, others wait for him.
const PLACE: Duration = Duration::from_secs(5);

/// How long a look waits for others.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long the end waits for others.
const FAREWELL: Duration = Duration::from_secs(2);

/// # Errors
/// If the thread cannot be started.
pub(crate) fn start(jobs: Receiver<Job>, desk: Arc<Desk>) -> io::Result<()> {
    thread::Builder::new().name("distlock-sqlite".into()).spawn(move || work(&jobs, &desk)).map(drop)
}

/// Until nobody is left who could give it something to do.
fn work(jobs: &Receiver<Job>, desk: &Arc<Desk>) {
    let (mut watch, mut next_look) = (Watch::default(), Instant::now());
    loop {
        let asleep = desk.may_sleep();
        let pause = if asleep { PLACE } else { next_look.saturating_duration_since(Instant::now()) };
        match jobs.recv_timeout(pause) {
            Ok(job) => desk.carry_out(job),
            Err(RecvTimeoutError::Timeout) if asleep => desk.with(Store::let_go),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return desk.with(|store| store.close(Instant::now() + FAREWELL));
            }
        }
        if Instant::now() >= next_look && !desk.hall.waiters.is_empty() {
            // What is logged is told to code of others.
            let looked = catch_unwind(AssertUnwindSafe(|| desk.with(|store| watch.look(store))));
            // They wake tasks, for which the store has to be free.
            for (entry, hint) in looked.unwrap_or_default() {
                desk.hall.waiters.tell(entry, hint);
            }
            next_look = Instant::now() + LOOK;
        }
    }
}

/// Who holds what somebody here waits for.
#[derive(Debug, Default)]
struct Watch {
    looks: u32,
    /// When the file was last asked: what SQLite counts of others, and what we count of our own.
    asked_at: Option<(i64, u64)>,
    names: BTreeSet<LockName>,
    holders: Vec<Member>,
}

impl Watch {
    /// A dead process tells nobody. And what it would have told, had it lived, may be lost: that is given.
    fn look(&mut self, store: &mut Store) -> Vec<(EntryId, Hint)> {
        let give_up = Instant::now() + PATIENCE;
        self.looks = self.looks.wrapping_add(1);
        self.try_to_look(store, give_up).unwrap_or_else(|error| {
            tracing::debug!(%error, "the holders could not be looked at");
            Vec::new()
        })
    }

    fn try_to_look(
        &mut self,
        store: &mut Store,
        give_up: Instant,
    ) -> Result<Vec<(EntryId, Hint)>, BackendError> {
        let places = store.hall.waiters.places();
        let names: BTreeSet<LockName> = places.iter().map(|(_, name, _)| name.clone()).collect();
        let commits = store.commits;
        let asked_at = store.read(give_up, |connection, _| {
            let mut version = connection.prepare_cached("PRAGMA data_version")?;
            Ok((version.query_row([], |row| row.get::<_, i64>(0))?, commits))
        })?;
        let changed = self.asked_at != Some(asked_at) || names != self.names;
        if changed {
            self.holders = store.read(give_up, |connection, home| {
                let me = home.id();
                let mut holders: Vec<Member> = Vec::new();
                for name in &names {
                    holders_of(connection, name, me, &mut holders)?;
                }
                Ok(holders)
            })?;
            (self.names, self.asked_at) = (names, Some(asked_at));
        }
        // It was made by what has just been read.
        let Some(folder) = store.home.as_ref().map(|home| Arc::clone(home.folder())) else {
            return Ok(Vec::new());
        };
        let dead: Vec<i64> = self
            .holders
            .iter()
            .filter(|member| presence::is_dead(&folder, member))
            .map(|member| member.id)
            .collect();
        if !dead.is_empty() {
            store.write(give_up, |verb| verb.bury_dead(dead.iter().copied()))?;
            self.asked_at = None;
        }
        if self.looks.is_multiple_of(HINTS_EVERY) { lost_hints(store, give_up) } else { Ok(Vec::new()) }
    }
}

fn holders_of(
    connection: &rusqlite::Connection,
    name: &LockName,
    me: i64,
    holders: &mut Vec<Member>,
) -> Result<(), Fault> {
    let mut select = connection.prepare_cached(
        "SELECT members.id, device, inode, admitted FROM entries LEFT JOIN members ON members.id = member
         WHERE name = ?1 ORDER BY token",
    )?;
    let mut rows = select.query([name.as_str()])?;
    while let Some(row) = rows.next()? {
        // Those who are admitted come first.
        if !row.get::<_, bool>(3)? {
            break;
        }
        if row.get::<_, Option<i64>>(0)?.is_none_or(|id| id == me) {
            continue;
        }
        let holder = member(row)?;
        if !holders.contains(&holder) {
            holders.push(holder);
        }
    }
    Ok(())
}

/// A datagram that found no room is not sent again.
fn lost_hints(store: &mut Store, give_up: Instant) -> Result<Vec<(EntryId, Hint)>, BackendError> {
    let places = store.hall.waiters.places();
    store.read(give_up, |connection, _| {
        let mut find =
            connection.prepare_cached("SELECT admitted FROM entries WHERE name = ?1 AND token = ?2")?;
        let mut hints = Vec::new();
        for (entry, name, token) in &places {
            let mut rows = find.query((name.as_str(), token.get().cast_signed()))?;
            match rows.next()?.map(|row| row.get::<_, bool>(0)).transpose()? {
                Some(true) => hints.push((*entry, Hint::Admitted { token: *token })),
                Some(false) => {}
                None => hints.push((*entry, Hint::Changed)),
            }
        }
        Ok(hints)
    })
}
