//! The wait engine: enter; then on every hint or timer tick, enter again.
//!
//! Looking again on a timer is already correct, so a hint that is lost or late costs nothing but time. There is always a timer:
//! the time that the store names, a third of the waiter's own ttl (which also keeps its lease alive), and the end of `wait`.
//! A store without hints says how soon to look again. But hints have to be true: a waiter that receives [`Hint::Admitted`]
//! with its token takes the lock without another look, unless it has to ask for a longer lease than it waited with.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{StreamExt, future::poll_fn};

use crate::{
    AcquireOptions, AcquireProgress, BackendError, BootTime, Claim, Entry, Error, FencingToken, Guard, Hint,
    Hints, Hold, Holder, LockName, Outage, Standing, WaitMode, acquire_span::AcquireSpan, client::Client,
    event_log::Event, pending_entry::PendingEntry, shown_label,
};

/// How many answers in a row may come after the lease that they are about has ended; one more, and the ttl is too short.
const MAX_LATE_ANSWERS: u32 = 3;

/// Takes the lock, waiting for it as the options say.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
    progress: Option<&AcquireProgress>,
) -> Result<Guard, Error> {
    let mode = if options.wait == Some(Duration::ZERO) { WaitMode::Try } else { WaitMode::Queue };
    // Without time to wait it is only tried. The caller and the trace learn that the wait is over, and not that the lock is busy.
    let granted = begin(client, name, claim, options, progress, mode, "timed out").await?;
    granted.ok_or_else(|| timed_out(client, name, claim, Duration::ZERO, None))
}

/// Takes the lock if it is free.
pub(crate) async fn try_acquire(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
) -> Result<Option<Guard>, Error> {
    begin(client, name, claim, options, None, WaitMode::Try, "busy").await
}

/// `refused` is the outcome in the trace of a try that was refused.
async fn begin(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
    progress: Option<&AcquireProgress>,
    mode: WaitMode,
    refused: &'static str,
) -> Result<Option<Guard>, Error> {
    options.validate()?;
    let mut closed = pin!(client.closing.begun());
    client.check_open(name)?;
    let started = client.keeper.now();
    let give_up = match mode {
        WaitMode::Queue => options.wait.map(|wait| started + wait),
        // One question; the store's time limit for a command bounds it.
        WaitMode::Try => None,
    };
    let trace = AcquireSpan::new(name, claim, &client.keeper, started);
    let ttl = waiting_ttl(client, options, mode);
    let pending = PendingEntry::new(client, name, claim, options, ttl);
    let ended = {
        let acquisition = Acquisition {
            span: &trace,
            client,
            options,
            progress,
            mode,
            ttl,
            give_up,
            queued: false,
            failures: 0,
            looks: 0,
            late_answers: 0,
            seen: None,
            listening: None,
        };
        acquisition.tell_entry(&pending);
        let mut work = pin!(acquisition.run(pending));
        poll_fn(|cx| {
            let over = || Err(Error::Closed { name: name.clone() });
            // A future that was not polled for long sends nothing after the close.
            if client.closing.is_closed() {
                return Poll::Ready(over());
            }
            let polled = {
                let _entered = trace.enter();
                work.as_mut().poll(cx)
            };
            match polled {
                Poll::Ready(answer) => Poll::Ready(answer),
                Poll::Pending => closed.as_mut().poll(cx).map(|()| over()),
            }
        })
        .await
    };
    trace.end(&ended, refused);
    ended
}

/// The ttl of the lease while it waits. Without renewal it stays the ttl of the start, and in a shared session it is that of the session.
fn waiting_ttl(client: &Client, options: &AcquireOptions, mode: WaitMode) -> Duration {
    let changes = mode == WaitMode::Queue && options.renew && !client.backend.guarantees().shared_leases;
    options.waiting_ttl.filter(|_| changes).map_or(options.ttl, |waiting_ttl| waiting_ttl.min(options.ttl))
}

/// One call of `acquire` or `try_acquire`, until it is granted or fails.
struct Acquisition<'a> {
    span: &'a AcquireSpan<'a>,
    client: &'a Arc<Client>,
    options: &'a AcquireOptions,
    /// Shows people the progress, if they asked for it.
    progress: Option<&'a AcquireProgress>,
    mode: WaitMode,
    /// The ttl of the lease while it waits.
    ttl: Duration,
    give_up: Option<BootTime>,
    /// Whether the store has ever answered that the entry is in the queue.
    queued: bool,
    /// Errors in a row.
    failures: u32,
    /// How often the store answered that the entry has to wait.
    looks: u32,
    /// Answers in a row that came after the lease that they are about had ended: grants, and others to creates.
    late_answers: u32,
    /// What was ahead when the queue was last seen.
    seen: Option<(u64, Option<Holder>)>,
    /// What to listen to since the last answered look.
    listening: Option<Listening>,
}

struct Listening {
    token: FencingToken,
    valid_until: BootTime,
    /// The ttl that the store granted, which may be shorter than what was asked for.
    ttl: Duration,
    hints: Option<Hints>,
}

/// Why a pause ended.
enum Woken {
    /// The store made the entry a holder, and the lease lasts.
    Granted(BootTime),
    LookAgain,
    GiveUp,
}

impl Acquisition<'_> {
    async fn run(mut self, mut pending: PendingEntry) -> Result<Option<Guard>, Error> {
        loop {
            self.client.check_open(&pending.entry().name)?;
            let sent = self.client.keeper.now();
            let give_up = self.give_up.unwrap_or(BootTime::FAR_FUTURE);
            let Some(answer) = self.client.keeper.timeout_at(give_up, pending.enter(self.mode)).await else {
                return Err(self.timed_out(&pending));
            };
            let look_at = match answer {
                Ok(Standing::Admitted { valid_until, .. }) => {
                    // It waited with a shorter lease than it is to hold with: it asks for that one before it holds.
                    if self.client.keeper.now() < valid_until && pending.request_ttl(self.options.ttl) {
                        // That is another request, whose failures are counted anew.
                        self.failures = 0;
                        continue;
                    }
                    match self.grant(pending, valid_until)? {
                        Ok(guard) => return Ok(Some(guard)),
                        Err(late) => {
                            pending = late;
                            continue;
                        }
                    }
                }
                Ok(Standing::Waiting { token, ttl, valid_until, ahead, holder, look_again, hints }) => {
                    self.queued = true;
                    (self.failures, self.late_answers) = (0, 0);
                    self.looks = self.looks.saturating_add(1);
                    if let Some(progress) = self.progress {
                        progress.set_seen(ahead, holder.clone());
                    }
                    self.seen = Some((ahead, holder));
                    self.listening = Some(Listening { token, valid_until, ttl, hints: Some(hints) });
                    self.next_look(sent, look_again)
                }
                Ok(Standing::Busy) => return Ok(None),
                Ok(Standing::Gone) => {
                    self.start_over(&mut pending)?;
                    continue;
                }
                Err(error) => self.after_failure(&pending, error)?,
            };
            match self.pause(look_at).await {
                Woken::Granted(_) if self.ttl < self.options.ttl => {
                    pending.request_ttl(self.options.ttl);
                }
                Woken::Granted(valid_until) => match self.grant(pending, valid_until)? {
                    Ok(guard) => return Ok(Some(guard)),
                    Err(late) => pending = late,
                },
                Woken::LookAgain => {}
                Woken::GiveUp => return Err(self.timed_out(&pending)),
            }
        }
    }

    /// The place is lost: the next request is for another one.
    fn start_over(&mut self, pending: &mut PendingEntry) -> Result<(), Error> {
        self.client.check_open(&pending.entry().name)?;
        self.client.event_log.note(Event::PlaceLost { entry: Arc::clone(pending.entry()) });
        self.listening = None;
        if pending.create_was_late() {
            self.note_late_answer(pending.entry())?;
        }
        pending.start_over();
        self.tell_entry(pending);
        Ok(())
    }

    /// Tells the trace and the progress which entry it is.
    fn tell_entry(&self, pending: &PendingEntry) {
        let entry = pending.entry().id;
        self.span.entry(entry);
        if let Some(progress) = self.progress {
            progress.set_entry(entry);
        }
    }

    /// When to look again after an answer to a request sent at `sent`: at a third of the ttl after it at the latest, or the entry
    /// would expire. Where no hint comes, soon: entries ahead may have left meanwhile.
    fn next_look(&self, sent: BootTime, asked: BootTime) -> BootTime {
        let bounds = &self.options.look_again;
        let now = self.client.keeper.now();
        let polled = self.client.backend.guarantees().polls.map_or(BootTime::FAR_FUTURE, |polls| {
            now + polls.pause(self.looks, self.client.entropy.bits() as u64)
        });
        let asked = asked.min(polled);
        asked.max(now + bounds.least).min(now + bounds.most).min(sent + self.ttl / 3)
    }

    /// A grant counts only while its deadline is ahead; otherwise the entry comes back.
    fn grant(
        &mut self,
        pending: PendingEntry,
        valid_until: BootTime,
    ) -> Result<Result<Guard, PendingEntry>, Error> {
        let entry = Arc::clone(pending.entry());
        match pending.grant(valid_until, self.options) {
            Ok(guard) => Ok(Ok(guard)),
            Err(pending) => {
                self.client.check_open(&entry.name)?;
                if pending.entry().id != entry.id {
                    // The keeper had given it up, and it starts over.
                    self.tell_entry(&pending);
                    self.client.event_log.note(Event::PlaceLost { entry: Arc::clone(&entry) });
                }
                self.listening = None;
                self.note_late_answer(&entry)?;
                Ok(Err(pending))
            }
        }
    }

    /// An answer came after the lease of this entry had ended, which is an error if it happens again and again.
    fn note_late_answer(&mut self, entry: &Entry) -> Result<(), Error> {
        self.late_answers += 1;
        if self.late_answers > MAX_LATE_ANSWERS {
            return Err(Error::TooSlow { name: entry.name.clone(), ttl: entry.ttl });
        }
        Ok(())
    }

    /// When to try again after an error, or the error if the options do not say to wait.
    fn after_failure(&mut self, pending: &PendingEntry, error: BackendError) -> Result<BootTime, Error> {
        let entry = pending.entry();
        self.failures += 1;
        let outage = match self.options.outage {
            Some(outage) => outage,
            None if self.queued => Outage::Wait,
            None => Outage::Fail,
        };
        let patient = outage == Outage::Wait && self.mode == WaitMode::Queue;
        let again = if patient {
            if self.queued { error.can_be_mended() } else { error.is_transient() }
        } else {
            // A request that may have been carried out is sent once more: the same entry gets the same answer. But a store that did
            // not answer in time has had its time.
            let timed_out = *error.kind() == crate::BackendErrorKind::TimedOut;
            self.failures == 1 && error.is_transient() && !error.is_unsent() && !timed_out
        };
        if !again {
            return Err(Error::from_backend(&entry.name, entry.claim, error));
        }
        self.client.event_log.note(Event::StoreAway { entry: Arc::clone(entry), verb: "enter", error });
        let now = self.client.keeper.now();
        if !patient {
            return Ok(now);
        }
        // An outage that is waited for says nothing about the ttl.
        self.late_answers = 0;
        Ok(now + self.options.back_off.pause(self.failures, self.client.entropy.bits() as u64))
    }

    /// Waits for a hint, until `look_at` at the latest.
    async fn pause(&mut self, look_at: BootTime) -> Woken {
        let (client, asked, listening) = (self.client, self.ttl, &mut self.listening);
        let hint = poll_fn(|cx| {
            let Some(Listening { token, valid_until, ttl, hints }) = listening else { return Poll::Pending };
            let near = asked.min(*ttl) / 3;
            match hints.as_mut().map_or(Poll::Pending, |hints| hints.poll_next_unpin(cx)) {
                // A lease that is about to end is refreshed before it is relied on.
                Poll::Ready(Some(Hint::Admitted { token: granted }))
                    if granted == *token && client.keeper.now() + near < *valid_until =>
                {
                    Poll::Ready(Woken::Granted(*valid_until))
                }
                Poll::Ready(Some(_)) => Poll::Ready(Woken::LookAgain),
                Poll::Ready(None) => {
                    *hints = None;
                    Poll::Pending
                }
                Poll::Pending => Poll::Pending,
            }
        });
        let until = self.give_up.map_or(look_at, |give_up| give_up.min(look_at));
        let woken = client.keeper.timeout_at(until, hint).await.unwrap_or(Woken::LookAgain);
        match woken {
            Woken::LookAgain if self.give_up.is_some_and(|give_up| self.client.keeper.now() >= give_up) => {
                Woken::GiveUp
            }
            woken => woken,
        }
    }

    fn timed_out(&self, pending: &PendingEntry) -> Error {
        let entry = pending.entry();
        // A wait without an end does not time out.
        let waited = self.options.wait.unwrap_or_default();
        timed_out(self.client, &entry.name, entry.claim, waited, self.seen.clone())
    }
}

/// The error of a wait that is over. `seen` is what the last look showed: how many were ahead, and the holder.
fn timed_out(
    client: &Client,
    name: &LockName,
    claim: Claim,
    waited: Duration,
    seen: Option<(u64, Option<Holder>)>,
) -> Error {
    let (ahead, holder) = seen.map_or((None, None), |(ahead, holder)| (Some(ahead), holder));
    let own = client.renewals.held_of(name);
    let permits: u64 = own.iter().map(|hold| u64::from(hold.entry().claim.permits())).sum();
    // All holders were ahead. So no other client holds it if no more than our own were ahead, or if we have all permits.
    let alone = permits >= u64::from(claim.limit()) || ahead.is_some_and(|ahead| ahead <= own.len() as u64);
    let first = own.iter().min_by_key(|hold| hold.token());
    let label = |hold: &Hold| hold.entry().label.as_deref().map(|label| shown_label(label.as_bytes()));
    let holder = first.map(|hold| Holder::Ours { label: label(hold) }).or(holder);
    let here = first.is_some();
    Error::WaitTimeout { name: name.clone(), waited, ahead, holder, here, others: here && !alone }
}
