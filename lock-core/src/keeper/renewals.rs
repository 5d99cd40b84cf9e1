//! [`Renewals`]: every lease that one client keeps, when it is due, and what to do then.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::StreamExt;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{Cleanup, Keeper, Tenure, guarded};
use crate::{
    Backend, BackendError, BootTime, Creates, Entry, EntryId, Hold, Lease, LostReason, Renewal, hold::Proof,
    telemetry,
};

/// Renewals that are due within this time of another may go along with it, if it is short against their ttl.
const COMPANY: Duration = Duration::from_secs(1);

/// At most so many leases go into one request, so that its answer is not late for all of them.
const BATCH: usize = 256;

/// At most so many requests for leases of one ttl are made before one of them is answered or late: a request is larger
/// than all else that is kept for its leases.
const AT_ONCE: usize = 4;

/// The leases of one client: guards, which are renewed, and waiters, which are not (they renew themselves, by entering
/// again). Each has a dead-man's timer: when its deadline passes, the keeper leaves for it.
#[derive(Debug)]
pub(crate) struct Renewals {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    cleanup: Arc<Cleanup>,
    book: Mutex<Book>,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct Book {
    rows: HashMap<EntryId, Row>,
    due: BTreeSet<(BootTime, EntryId)>,
    /// When the task will look next without being woken.
    parked_until: BootTime,
    started: bool,
}

#[derive(Debug)]
struct Row {
    due: BootTime,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Tenure(Tenure),
    /// A waiter, whose future should have entered again before its place was lost.
    Place {
        entry: Arc<Entry>,
        creates: Creates,
    },
}

/// What is to be done for one row that is due.
enum Work {
    Renew(Tenure),
    /// The lease ended, or the hold did: leave, so that others need not wait for the store to notice. With how long the
    /// entry can live on if that fails.
    Leave(Arc<Entry>, Creates, Duration),
}

impl Renewals {
    pub(crate) fn new(backend: Arc<dyn Backend>, keeper: Keeper, cleanup: Arc<Cleanup>) -> Arc<Self> {
        let book = Book {
            rows: HashMap::new(),
            due: BTreeSet::new(),
            parked_until: BootTime::FAR_FUTURE,
            started: false,
        };
        Arc::new(Self { backend, keeper, cleanup, book: Mutex::new(book), wake: Arc::new(Notify::new()) })
    }

    /// Keeps a lock that was granted, until [`end`](Self::end). False if its place was watched, and was given up
    /// meanwhile: then the keeper is leaving for it, and whatever the store granted is not to be relied on.
    pub(crate) fn keep(self: &Arc<Self>, tenure: Tenure, watched: bool) -> bool {
        let due = tenure.next_due(self.keeper.now());
        self.put(tenure.hold.entry_id(), due, Kept::Tenure(tenure), watched)
    }

    /// Watches over a place in a queue whose lease is good until `valid_until`. False as with [`keep`](Self::keep).
    pub(crate) fn watch_place(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        creates: Creates,
        valid_until: BootTime,
        watched: bool,
    ) -> bool {
        self.put(entry.id, valid_until, Kept::Place { entry, creates }, watched)
    }

    /// Forgets a lease. False if it is not in the book: never kept, or its end was already seen to.
    pub(crate) fn end(&self, id: EntryId) -> bool {
        let mut book = self.lock();
        let row = book.rows.remove(&id);
        if let Some(row) = &row {
            book.due.remove(&(row.due, id));
        }
        drop(book);
        row.is_some()
    }

    /// The locks that are held now.
    pub(crate) fn held(&self) -> Vec<Hold> {
        let holds = |row: &Row| match &row.kept {
            Kept::Tenure(tenure) => Some(tenure.hold.clone()),
            Kept::Place { .. } => None,
        };
        let kept: Vec<_> = self.lock().rows.values().filter_map(holds).collect();
        kept.into_iter().filter(Hold::is_held).collect()
    }

    /// Renews one lease now, on the caller's runtime.
    pub(crate) async fn renew_now(&self, hold: &Hold) -> Result<(), BackendError> {
        let lease = Lease { entry: Arc::clone(hold.entry()), token: hold.token() };
        let answer = self.ask(std::slice::from_ref(&lease)).await.pop();
        match answer.unwrap_or_else(|| Err(too_few(&*self.backend))) {
            Ok(renewal) => {
                self.settle(hold, renewal);
                Ok(())
            }
            Err(error) => {
                hold.suspect();
                Err(error)
            }
        }
    }

    /// Whoever takes a row out of the book owns the departure. So a row that was there may only be replaced.
    fn put(self: &Arc<Self>, id: EntryId, due: BootTime, kept: Kept, replaces: bool) -> bool {
        let mut book = self.lock();
        if replaces && !book.rows.contains_key(&id) {
            return false;
        }
        if let Some(old) = book.rows.insert(id, Row { due, kept }) {
            book.due.remove(&(old.due, id));
        }
        book.due.insert((due, id));
        let wake = due < book.parked_until;
        if wake {
            book.parked_until = due;
        }
        let start = !std::mem::replace(&mut book.started, true);
        drop(book);
        if start {
            self.start();
        } else if wake {
            self.wake.notify_one();
        }
        true
    }

    /// Starts the task of this client on the keeper. It ends when nobody keeps the client.
    fn start(self: &Arc<Self>) {
        let (renewals, wake, keeper) = (Arc::downgrade(self), Arc::clone(&self.wake), self.keeper.clone());
        let alarms = self.backend.alarms();
        self.keeper.spawn(async move {
            // A stream that has ended gives no more alarms, which is not the end of this task.
            let mut alarms = alarms.chain(futures_util::stream::pending());
            while let Some(parked_until) = Self::upgrade(&renewals, Self::run_due) {
                tokio::select! {
                    biased;
                    Some(id) = alarms.next() => { Self::upgrade(&renewals, |renewals| renewals.alarm(id)); }
                    () = wake.notified() => {}
                    () = keeper.sleep_until(parked_until) => {}
                }
            }
        });
    }

    fn upgrade<T>(renewals: &Weak<Self>, f: impl FnOnce(&Arc<Self>) -> T) -> Option<T> {
        renewals.upgrade().as_ref().map(f)
    }

    /// The store says that this one may be lost: renew it now, which tells.
    fn alarm(self: &Arc<Self>, id: EntryId) {
        let tenure = match self.lock().rows.get(&id) {
            Some(Row { kept: Kept::Tenure(tenure), .. }) => tenure.clone(),
            _ => return,
        };
        let renewals = Arc::clone(self);
        self.keeper.spawn(async move { renewals.renew_batch(vec![tenure], None).await });
    }

    /// Does what is due, and says when to look again.
    fn run_due(self: &Arc<Self>) -> BootTime {
        let now = self.keeper.now();
        let mut batches: BTreeMap<Duration, Vec<Tenure>> = BTreeMap::new();
        let mut leaving = Vec::new();
        let mut book = self.lock();
        for id in Self::due_ids(&book, now) {
            match Self::work(&mut book, id, now) {
                Some(Work::Renew(tenure)) => batches.entry(tenure.hold.lease()).or_default().push(tenure),
                Some(Work::Leave(entry, creates, ttl)) => leaving.push((entry, creates, now + ttl)),
                None => {}
            }
        }
        let parked_until = book.due.first().map_or(BootTime::FAR_FUTURE, |(due, _)| *due);
        book.parked_until = parked_until;
        drop(book);
        for (entry, creates, free_by) in leaving {
            self.cleanup.owe(entry, creates, free_by);
        }
        // One task for each batch: a slow store, or a class of long leases, never delays the others.
        for class in batches.into_values() {
            let turns = Arc::new(Semaphore::new(AT_ONCE));
            for batch in class.chunks(BATCH) {
                let (renewals, batch, turns) = (Arc::clone(self), batch.to_vec(), Arc::clone(&turns));
                self.keeper.spawn(async move {
                    // Nobody closes it.
                    let turn = turns.acquire_owned().await.ok();
                    renewals.renew_batch(batch, turn).await;
                });
            }
        }
        parked_until
    }

    /// What is due, and those renewals that are due so soon that they can go along.
    fn due_ids(book: &Book, now: BootTime) -> Vec<EntryId> {
        let soon = book.due.range(..=(now + COMPANY, EntryId::new(u128::MAX)));
        let goes = |&(due, id): &(BootTime, EntryId)| {
            let along = |row: &Row| match &row.kept {
                Kept::Tenure(tenure) => tenure.renews() && due.since(now) <= tenure.hold.lease() / 30,
                Kept::Place { .. } => false,
            };
            (due <= now || book.rows.get(&id).is_some_and(along)).then_some(id)
        };
        soon.filter_map(goes).collect()
    }

    /// What one due row needs. A tenure that goes on is put back with its next due time.
    fn work(book: &mut Book, id: EntryId, now: BootTime) -> Option<Work> {
        let row = book.rows.get_mut(&id)?;
        book.due.remove(&(row.due, id));
        let tenure = match &row.kept {
            Kept::Tenure(tenure) if tenure.hold.is_held() => tenure.clone(),
            _ => {
                return match book.rows.remove(&id)?.kept {
                    Kept::Tenure(Tenure { hold, creates, .. }) => {
                        Some(Work::Leave(Arc::clone(hold.entry()), creates, hold.ttl()))
                    }
                    Kept::Place { entry, creates } => {
                        let ttl = entry.ttl;
                        Some(Work::Leave(entry, creates, ttl))
                    }
                };
            }
        };
        let renew = tenure.renews();
        // The answer of the renewal sets the next one; should its task be lost, this does.
        let in_flight = if renew { now + 2 * tenure.try_limit() } else { BootTime::FAR_FUTURE };
        row.due = in_flight.min(tenure.hold.deadline());
        let due = row.due;
        book.due.insert((due, id));
        renew.then_some(Work::Renew(tenure))
    }

    /// Renews leases that have the same ttl. A try that takes too long makes them suspect and is followed by another, but
    /// its answer counts whenever it comes: the store may be slow all the time, and extend every lease.
    async fn renew_batch(self: Arc<Self>, batch: Vec<Tenure>, turn: Option<OwnedSemaphorePermit>) {
        let Some(limit) = batch.iter().map(Tenure::try_limit).min() else { return };
        let leases: Vec<Lease> = batch
            .iter()
            .map(|t| Lease { entry: Arc::clone(t.hold.entry()), token: t.hold.token() })
            .collect();
        let mut asked = pin!(self.ask(&leases));
        let mut answers = self.within(limit, asked.as_mut()).await;
        let late = answers.is_none();
        drop(turn);
        if late {
            for tenure in &batch {
                self.try_again(tenure);
            }
            // No answer is worth anything after the lease.
            answers = self.within(limit * 6, asked).await;
        }
        let mut answers = answers.unwrap_or_default().into_iter();
        for tenure in &batch {
            match answers.next() {
                Some(Ok(renewal)) => {
                    if self.settle(&tenure.hold, renewal) == Proof::Accepted {
                        self.reschedule(tenure, tenure.next_due(self.keeper.now()));
                    }
                }
                // The next try is on its way.
                _ if late => {}
                answer => {
                    if let Some(Err(error)) = answer {
                        telemetry::store_away(tenure.hold.entry(), "renew", &error);
                    }
                    self.try_again(tenure);
                }
            }
        }
    }

    fn try_again(&self, tenure: &Tenure) {
        tenure.hold.suspect();
        self.reschedule(tenure, self.keeper.now() + tenure.retry_pause());
    }

    async fn within<T>(&self, limit: Duration, answer: impl Future<Output = T> + Send) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.keeper.sleep_until(self.keeper.now() + limit) => None,
        }
    }

    async fn ask(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        match guarded(self.backend.guarantees().store, self.backend.renew(leases)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error)],
        }
    }

    /// Takes note of an answer. A loss always arms a leave: the entry may still be there for the store.
    fn settle(&self, hold: &Hold, renewal: Renewal) -> Proof {
        let proof = match renewal {
            Renewal::Renewed { valid_until } => hold.prove(valid_until),
            Renewal::Lost => {
                hold.lose(LostReason::Gone);
                Proof::TooLate
            }
        };
        if proof == Proof::TooLate {
            let mut book = self.lock();
            let row = book.rows.remove(&hold.entry_id());
            if let Some(row) = &row {
                book.due.remove(&(row.due, hold.entry_id()));
            }
            drop(book);
            // Whoever takes the row out of the book sees to the departure.
            if let Some(Row { kept: Kept::Tenure(tenure), .. }) = row {
                let free_by = self.keeper.now() + hold.ttl();
                self.cleanup.owe(Arc::clone(hold.entry()), tenure.creates, free_by);
            }
        }
        proof
    }

    /// Sets when a tenure that is still in the book is due next, at its deadline at the latest.
    fn reschedule(&self, tenure: &Tenure, due: BootTime) {
        let id = tenure.hold.entry_id();
        let due = due.min(tenure.hold.deadline());
        let mut book = self.lock();
        let Some(row) = book.rows.get_mut(&id) else { return };
        let old = std::mem::replace(&mut row.due, due);
        book.due.remove(&(old, id));
        book.due.insert((due, id));
        let wake = due < book.parked_until;
        if wake {
            book.parked_until = due;
        }
        drop(book);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while the book is held, and each change to it is whole.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        // The task looks up, and ends.
        self.wake.notify_one();
    }
}

fn too_few(backend: &dyn Backend) -> BackendError {
    BackendError::new(
        backend.guarantees().store,
        crate::BackendErrorKind::Protocol,
        "renew gave too few answers",
    )
}
