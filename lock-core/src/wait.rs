//! The wait engine: enter; then on every hint or timer tick, enter again.
//!
//! Looking again on a timer is already correct, so a hint that is lost or late costs nothing but time. There is always a timer:
//! the time that the store names, a third of the waiter's own ttl (which also keeps its lease alive), and the end of `wait`.
//! A store that has no hints says how soon to look again. But hints have to be true: a waiter that is told [`Hint::Admitted`]
//! with its token goes on without another look, unless it has to ask for a longer lease than it waited with.

use std::{future::Future, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{StreamExt, future::poll_fn};
use tracing::Instrument;

use crate::{
    AcquireOptions, BackendError, BootTime, Claim, Error, FencingToken, Guard, Hint, Hints, Hold, Holder,
    Keeper, LockName, Outage, Standing, WaitMode, client::Client, journal::Event, place::Place, shown_label,
    telemetry::AcquireSpan,
};

/// So many grants that come after their own lease has ended are bad luck; one more is a ttl that is too short.
const TOO_SLOW: u32 = 3;

/// Takes the lock, waiting for it as the options say.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
) -> Result<Guard, Error> {
    let mode = if options.wait == Some(Duration::ZERO) { WaitMode::Try } else { WaitMode::Queue };
    // It was only tried where there is no time to wait. Who asks for a wait is told that it is over, and so are those who look at traces.
    let granted = begin(client, name, claim, options, mode, "timed out").await?;
    granted.ok_or_else(|| timed_out(client, name, claim, Duration::ZERO, None))
}

/// Takes the lock if it is free.
pub(crate) async fn try_acquire(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
) -> Result<Option<Guard>, Error> {
    begin(client, name, claim, options, WaitMode::Try, "busy").await
}

/// `refused` is how a try ends that was refused, for who looks at traces.
async fn begin(
    client: &Arc<Client>,
    name: &LockName,
    claim: Claim,
    options: &AcquireOptions,
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
    let told = AcquireSpan::new(name, claim, &client.keeper, started);
    let ttl = waiting_ttl(client, options, mode);
    let place = Place::new(client, name, claim, options, ttl);
    AcquireSpan::entry(told.span(), place.entry().id);
    let waiting = Waiting {
        span: told.span().clone(),
        client,
        options,
        mode,
        ttl,
        give_up,
        queued: false,
        failures: 0,
        looks: 0,
        too_slow: 0,
        seen: None,
        listening: None,
    };
    let mut work = pin!(waiting.run(place).instrument(told.span().clone()));
    let ended = poll_fn(|cx| {
        let over = || Err(Error::Closed { name: name.clone() });
        // Whoever was not polled for long asks the store for nothing any more.
        if client.closing.is_closed() {
            return Poll::Ready(over());
        }
        match work.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => closed.as_mut().poll(cx).map(|()| over()),
        }
    })
    .await;
    told.end(&ended, refused);
    ended
}

/// The ttl of a lease while it waits. One that nobody renews ends as it began, and in a session that others share an entry lives as long as
/// that.
fn waiting_ttl(client: &Client, options: &AcquireOptions, mode: WaitMode) -> Duration {
    let changes = mode == WaitMode::Queue && options.renew && !client.backend.guarantees().shared_leases;
    options.waiting_ttl.filter(|_| changes).map_or(options.ttl, |waiting_ttl| waiting_ttl.min(options.ttl))
}

/// One acquisition on its way.
struct Waiting<'a> {
    span: tracing::Span,
    client: &'a Arc<Client>,
    options: &'a AcquireOptions,
    mode: WaitMode,
    /// That of the lease while it waits.
    ttl: Duration,
    give_up: Option<BootTime>,
    /// Whether the store has ever answered that we stand in the queue.
    queued: bool,
    /// Errors in a row.
    failures: u32,
    /// Answers that it has to wait.
    looks: u32,
    /// Grants in a row that came after the end of their own lease.
    too_slow: u32,
    /// What was ahead when the queue was last seen.
    seen: Option<(u64, Option<Holder>)>,
    /// What the last answered look left to listen to.
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
    /// The store made us the holder, and the lease lasts.
    Granted(BootTime),
    LookAgain,
    GiveUp,
}

impl Waiting<'_> {
    async fn run(mut self, mut place: Place) -> Result<Option<Guard>, Error> {
        loop {
            self.client.check_open(&place.entry().name)?;
            let sent = self.client.keeper.now();
            let Some(answer) = until(&self.client.keeper, self.give_up, place.enter(self.mode)).await else {
                return Err(self.timed_out(&place));
            };
            let look_at = match answer {
                Ok(Standing::Admitted { valid_until, .. }) => {
                    // It waited with a shorter lease than it is to hold with: it asks for that one before it holds.
                    if self.client.keeper.now() < valid_until && place.ask_for(self.options.ttl) {
                        // That is another request, with tries of its own.
                        self.failures = 0;
                        continue;
                    }
                    match self.take(place, valid_until)? {
                        Ok(guard) => return Ok(Some(guard)),
                        Err(late) => {
                            place = late;
                            continue;
                        }
                    }
                }
                Ok(Standing::Waiting { token, ttl, valid_until, ahead, holder, look_again, hints }) => {
                    self.queued = true;
                    (self.failures, self.too_slow) = (0, 0);
                    self.looks = self.looks.saturating_add(1);
                    self.seen = Some((ahead, holder));
                    self.listening = Some(Listening { token, valid_until, ttl, hints: Some(hints) });
                    self.next_look(sent, look_again)
                }
                Ok(Standing::Busy) => return Ok(None),
                Ok(Standing::Gone) => {
                    self.client.check_open(&place.entry().name)?;
                    self.client.journal.note(Event::PlaceLost { entry: Arc::clone(place.entry()) });
                    self.listening = None;
                    place.start_over();
                    AcquireSpan::entry(&self.span, place.entry().id);
                    continue;
                }
                Err(error) => self.after_failure(&place, error)?,
            };
            match self.pause(look_at).await {
                Woken::Granted(_) if self.ttl < self.options.ttl => {
                    place.ask_for(self.options.ttl);
                }
                Woken::Granted(valid_until) => match self.take(place, valid_until)? {
                    Ok(guard) => return Ok(Some(guard)),
                    Err(late) => place = late,
                },
                Woken::LookAgain => {}
                Woken::GiveUp => return Err(self.timed_out(&place)),
            }
        }
    }

    /// When to look again after an answer to a request sent at `sent`: never later than a third of its ttl after it, or
    /// the place would be lost. Where no hint will come, soon: others may have gone since, and nobody says so.
    fn next_look(&self, sent: BootTime, asked: BootTime) -> BootTime {
        let bounds = &self.options.look_again;
        let now = self.client.keeper.now();
        let polled = self.client.backend.guarantees().polls.map_or(BootTime::FAR_FUTURE, |polls| {
            now + polls.pause(self.looks, self.client.entropy.bits() as u64)
        });
        let asked = asked.min(polled);
        asked.max(now + bounds.least).min(now + bounds.most).min(sent + self.ttl / 3)
    }

    /// A grant is taken only while its deadline is ahead; otherwise the place comes back.
    fn take(&mut self, place: Place, valid_until: BootTime) -> Result<Result<Guard, Place>, Error> {
        let (name, ttl) = (place.entry().name.clone(), place.entry().ttl);
        match place.grant(valid_until, self.options) {
            Ok(guard) => Ok(Ok(guard)),
            Err(place) => {
                self.client.check_open(&name)?;
                self.too_slow += 1;
                self.listening = None;
                if self.too_slow > TOO_SLOW {
                    return Err(Error::TooSlow { name, ttl });
                }
                Ok(Err(place))
            }
        }
    }

    /// When to try again after an error, or the error if it is not for us to wait.
    fn after_failure(&mut self, place: &Place, error: BackendError) -> Result<BootTime, Error> {
        let entry = place.entry();
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
            // What may have been carried out is asked once more: the same entry gets the same answer. A store that did
            // not answer in time has had its time.
            let timed_out = *error.kind() == crate::BackendErrorKind::TimedOut;
            self.failures == 1 && error.is_transient() && !error.is_unsent() && !timed_out
        };
        if !again {
            return Err(Error::from_backend(&entry.name, entry.claim, error));
        }
        self.client.journal.note(Event::StoreAway { entry: Arc::clone(entry), verb: "enter", error });
        let now = self.client.keeper.now();
        if !patient {
            return Ok(now);
        }
        Ok(now + self.options.back_off.pause(self.failures, self.client.entropy.bits() as u64))
    }

    /// Waits for a hint, until `look_at` at the latest.
    async fn pause(&mut self, look_at: BootTime) -> Woken {
        let keeper = &self.client.keeper;
        let mut timer =
            pin!(keeper.sleep_until(self.give_up.map_or(look_at, |give_up| give_up.min(look_at))));
        let (client, asked, listening) = (self.client, self.ttl, &mut self.listening);
        let woken = poll_fn(|cx| {
            if let Some(Listening { token, valid_until, ttl, hints }) = listening {
                let near = asked.min(*ttl) / 3;
                match hints.as_mut().map_or(Poll::Pending, |hints| hints.poll_next_unpin(cx)) {
                    // A lease that is about to end is refreshed before it is relied on.
                    Poll::Ready(Some(Hint::Admitted { token: granted }))
                        if granted == *token && client.keeper.now() + near < *valid_until =>
                    {
                        return Poll::Ready(Woken::Granted(*valid_until));
                    }
                    Poll::Ready(Some(_)) => return Poll::Ready(Woken::LookAgain),
                    Poll::Ready(None) => *hints = None,
                    Poll::Pending => {}
                }
            }
            timer.as_mut().poll(cx).map(|()| Woken::LookAgain)
        })
        .await;
        match woken {
            Woken::LookAgain if self.give_up.is_some_and(|give_up| self.client.keeper.now() >= give_up) => {
                Woken::GiveUp
            }
            woken => woken,
        }
    }

    fn timed_out(&self, place: &Place) -> Error {
        let entry = place.entry();
        // Only a wait that has an end is over.
        let waited = self.options.wait.unwrap_or_default();
        timed_out(self.client, &entry.name, entry.claim, waited, self.seen.clone())
    }
}

/// A wait is over, at whose last look so many were ahead, of whom one held the lock.
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
    // All that hold it were ahead. So nobody else holds it if no more than our own were, nor if we have all permits.
    let alone = permits >= u64::from(claim.limit()) || ahead.is_some_and(|ahead| ahead <= own.len() as u64);
    let first = own.iter().min_by_key(|hold| hold.token());
    let label = |hold: &Hold| hold.entry().label.as_deref().map(|label| shown_label(label.as_bytes()));
    let holder = first.map(|hold| Holder::Ours { label: label(hold) }).or(holder);
    let here = first.is_some();
    Error::WaitTimeout { name: name.clone(), waited, ahead, holder, here, others: here && !alone }
}

/// Runs a request until it is answered, or there is no time left to wait for the answer.
async fn until<T>(
    keeper: &Keeper,
    give_up: Option<BootTime>,
    request: impl Future<Output = T> + Send,
) -> Option<T> {
    let Some(give_up) = give_up else { return Some(request.await) };
    let mut request = pin!(request);
    let mut timer = pin!(keeper.sleep_until(give_up));
    poll_fn(|cx| match request.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
