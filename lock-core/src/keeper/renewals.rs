//! [`Renewals`]: every lease that one client keeps, when it is due, and what to do then.

mod ward;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use self::ward::Overdue;
use super::{
    Cleanup, Keeper, Owed, Tenure,
    book::{Book, Kept, Leave, Work},
    guarded,
};
use crate::{
    Alarms, Backend, BackendError, BootTime, Creates, Entry, EntryId, Hold, Lease, LockName, LostReason,
    Renewal,
    closing::Closing,
    hold::{Loss, Proof},
    journal::{Event, Journal},
    telemetry,
    wakers::panic_text,
};

/// At most so many leases go into one request, so that its answer is not late for all of them.
const BATCH: usize = 256;

/// At most so many requests for leases of one ttl are made before one of them is answered or late: a request is larger
/// than all else that is kept for its leases.
const AT_ONCE: usize = 4;

/// After so many others have their turn: a loss wakes tasks, which are code of others, and a departure is logged, which takes longer.
const LOSSES: usize = 512;
const DEPARTURES: usize = 64;

/// The leases of one client: guards, which are renewed, and waiters, which are not (they renew themselves, by entering
/// again). Each has a dead-man's timer: when its deadline passes, the keeper leaves for it.
#[derive(Debug)]
pub(crate) struct Renewals {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    journal: Arc<Journal>,
    cleanup: Arc<Cleanup>,
    closing: Arc<Closing>,
    book: Mutex<Book>,
    wake: Arc<Notify>,
    overdue: Mutex<Option<Overdue>>,
}

impl Renewals {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        keeper: Keeper,
        journal: Arc<Journal>,
        cleanup: Arc<Cleanup>,
        closing: Arc<Closing>,
    ) -> Arc<Self> {
        let (book, wake, overdue) = (Mutex::new(Book::new()), Arc::default(), Mutex::default());
        Arc::new(Self { backend, keeper, journal, cleanup, closing, book, wake, overdue })
    }

    /// Keeps a lock that was granted, until [`end`](Self::end). False if its place was watched, and was given up
    /// meanwhile: then the keeper is leaving for it, and whatever the store granted is not to be relied on.
    pub(crate) fn keep(self: &Arc<Self>, tenure: Tenure, watched: bool) -> bool {
        let (due, deadline) = (tenure.next_due(self.keeper.now()), tenure.hold.deadline());
        let kept = self.put(tenure.hold.entry_id(), due, Kept::Tenure(tenure), watched);
        self.keeper.expect_by(deadline);
        kept
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

    /// Forgets a lease of which nothing is in the store.
    pub(crate) fn end(&self, id: EntryId) {
        // Only when the book is free: with it may go what is code of others.
        let kept = self.lock().take(id);
        drop(kept);
        self.closing.is_gone();
    }

    /// Forgets a lease, and owes the departure in one step: a close finds the lease or the debt. `None` if it is not in the book:
    /// somebody else leaves for it, or has.
    pub(crate) fn take_out(&self, entry: &Arc<Entry>, creates: Creates, free_by: BootTime) -> Option<Owed> {
        let mut book = self.lock();
        let kept = book.take(entry.id);
        let owed = kept.as_ref().map(|_| self.cleanup.owe(Arc::clone(entry), creates, free_by));
        drop(book);
        owed
    }

    /// Keeps nothing more, and leaves for all who wait. From here on nothing is granted.
    pub(crate) fn close(&self) {
        let now = self.keeper.now();
        let mut book = self.lock();
        let owed: Vec<_> = book.close().into_iter().map(|leave| self.owe(leave, now).1).collect();
        drop(book);
        drop(owed);
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The locks that are held now.
    pub(crate) fn held(&self) -> Vec<Hold> {
        let kept: Vec<_> = self.lock().tenures().map(|tenure| tenure.hold.clone()).collect();
        kept.into_iter().filter(Hold::is_held).collect()
    }

    /// The locks of this name that are held now.
    pub(crate) fn held_of(&self, name: &LockName) -> Vec<Hold> {
        let named: Vec<_> = self
            .lock()
            .tenures()
            .map(|tenure| &tenure.hold)
            .filter(|hold| hold.name() == name)
            .cloned()
            .collect();
        named.into_iter().filter(Hold::is_held).collect()
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
        if !book.is_open_to(id, replaces) {
            return false;
        }
        let old = book.put(id, due, kept);
        let wake = due < book.parked_until;
        if wake {
            book.parked_until = due;
        }
        // What is never due needs no task.
        let start = due < BootTime::FAR_FUTURE && !std::mem::replace(&mut book.started, true);
        drop(book);
        drop(old);
        if start {
            self.start();
        } else if wake {
            self.wake.notify_one();
        }
        true
    }

    /// Starts the task of this client on the keeper. It ends when nobody keeps the client.
    fn start(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.keeper.watch_over(weak);
        let (renewals, wake, keeper) = (Arc::downgrade(self), Arc::clone(&self.wake), self.keeper.clone());
        let mut alarms = self.backend.alarms();
        self.keeper.spawn(async move {
            loop {
                let served = Self::serve(&renewals, &wake, &keeper, alarms);
                let Err(panic) = AssertUnwindSafe(served).catch_unwind().await else { return };
                // What a backend tells by panics is not listened to any more.
                telemetry::keeper_panicked(&panic_text(&*panic));
                alarms = Box::pin(stream::pending());
            }
        });
    }

    /// Does what is due, again and again.
    async fn serve(renewals: &Weak<Self>, wake: &Notify, keeper: &Keeper, alarms: Alarms) {
        // A stream that has ended gives no more alarms, which is not the end of this task.
        let mut alarms = alarms.chain(stream::pending());
        while let Some(parked_until) = Self::upgrade(renewals, Self::run_due) {
            tokio::select! {
                biased;
                Some(id) = alarms.next() => { Self::upgrade(renewals, |renewals| renewals.alarm(id)); }
                () = wake.notified() => {}
                () = keeper.sleep_until(parked_until) => {}
            }
        }
    }

    fn upgrade<T>(renewals: &Weak<Self>, f: impl FnOnce(&Arc<Self>) -> T) -> Option<T> {
        renewals.upgrade().as_ref().map(f)
    }

    /// The store says that this one may be lost: renew it now, which tells.
    fn alarm(self: &Arc<Self>, id: EntryId) {
        let Some(tenure) = self.lock().tenure(id).cloned() else { return };
        let renewals = Arc::clone(self);
        self.keeper.spawn(async move { renewals.renew_batch(vec![tenure], None).await });
    }

    /// Does what is due, and says when to look again.
    fn run_due(self: &Arc<Self>) -> BootTime {
        let now = self.keeper.now();
        let mut batches: BTreeMap<Duration, Vec<Tenure>> = BTreeMap::new();
        let mut leaving = Vec::new();
        let mut book = self.lock();
        for id in book.due_ids(now) {
            match book.work(id, now) {
                Some(Work::Renew(tenure)) => batches.entry(tenure.hold.lease()).or_default().push(tenure),
                // While it is in the book or owed: a close must not find neither.
                Some(Work::Leave(leave)) => leaving.push(self.owe(leave, now)),
                None => {}
            }
        }
        let parked_until = book.first_due().map_or(BootTime::FAR_FUTURE, |(due, _)| due);
        book.parked_until = parked_until;
        drop(book);
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
        self.leave(leaving);
        parked_until
    }

    fn owe(&self, leave: Leave, now: BootTime) -> (Option<Loss>, Owed) {
        let Leave { entry, creates, ttl, loss } = leave;
        (loss, self.cleanup.owe(entry, creates, now + ttl))
    }

    /// Announces losses, and hands departures on: when all are announced, because what is logged of a departure takes time. Where
    /// they are many, others have their turn in between.
    fn leave(&self, leaving: Vec<(Option<Loss>, Owed)>) {
        let (mut losses, mut owed): (Vec<_>, Vec<_>) = leaving.into_iter().unzip();
        announce(&mut losses);
        if losses.is_empty() && owed.len() <= DEPARTURES {
            return drop(owed);
        }
        self.keeper.spawn(async move {
            while !losses.is_empty() {
                tokio::task::yield_now().await;
                announce(&mut losses);
            }
            while !owed.is_empty() {
                drop(owed.drain(..owed.len().min(DEPARTURES)));
                tokio::task::yield_now().await;
            }
        });
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
                        let entry = Arc::clone(tenure.hold.entry());
                        self.journal.note(Event::StoreAway { entry, verb: "renew", error });
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
            // Whoever takes the row out of the book sees to the departure.
            let kept = book.take(hold.entry_id());
            let owed = kept.map(|kept| self.owe(kept.leave(None), self.keeper.now()));
            drop(book);
            drop(owed);
        }
        proof
    }

    /// Sets when a tenure that is still in the book is due next, at its deadline at the latest.
    fn reschedule(&self, tenure: &Tenure, due: BootTime) {
        let id = tenure.hold.entry_id();
        let due = due.min(tenure.hold.deadline());
        let mut book = self.lock();
        if !book.move_due(id, due) {
            return;
        }
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

/// Announces the first ones, and takes them out.
fn announce(losses: &mut Vec<Option<Loss>>) {
    losses.drain(..losses.len().min(LOSSES)).flatten().for_each(Loss::announce);
}

fn too_few(backend: &dyn Backend) -> BackendError {
    BackendError::new(
        backend.guarantees().store,
        crate::BackendErrorKind::Protocol,
        "renew gave too few answers",
    )
}
