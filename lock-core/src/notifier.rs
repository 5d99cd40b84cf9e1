//! [`Notifier`]: hands hints to the entries that wait for them, and alarms to keepers.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_core::Stream;

use crate::{Alarms, EntryId, Hint, Hints, panic_isolation::isolate, sync::Mutex};

/// Distributes the notifications of a store: hints to the waiters of an entry, and alarms to the keepers of holders.
///
/// Listen **before** the request that judges the standing is sent: then no hint is missed. Two listeners of one entry both get every hint,
/// so that an old stream stays good while a new look is under way.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    listeners: Arc<Mutex<Listeners>>,
}

#[derive(Debug, Default)]
struct Listeners {
    next: u64,
    // Ordered, so that a simulation wakes its waiters in the same order each time.
    hints: BTreeMap<(EntryId, u64), UnboundedSender<Hint>>,
    alarms: BTreeMap<u64, UnboundedSender<EntryId>>,
}

impl Notifier {
    /// A stream of the hints for an entry from now on. Dropping it ends the subscription.
    #[must_use]
    pub fn listen(&self, entry: EntryId) -> Hints {
        let (sender, hints) = unbounded();
        let mut listeners = self.listeners.lock();
        listeners.next += 1;
        let key = (entry, listeners.next);
        listeners.hints.insert(key, sender);
        drop(listeners);
        Box::pin(Listener { key, hints, notifier: self.clone(), pid: std::process::id() })
    }

    /// Gives a hint to the listeners of an entry.
    pub fn send(&self, entry: EntryId, hint: Hint) {
        let listeners: Vec<_> = self
            .listeners
            .lock()
            .hints
            .range((entry, 0)..=(entry, u64::MAX))
            .map(|(_, s)| s.clone())
            .collect();
        deliver(listeners, hint);
    }

    /// Has every waiter look again: call it after a gap in the notifications of the store, in which hints may have been missed.
    pub fn changed_for_all(&self) {
        let listeners: Vec<_> = self.listeners.lock().hints.values().cloned().collect();
        deliver(listeners, Hint::Changed);
    }

    /// A stream of the entries that may have been lost from now on: what [`Backend::alarms`](crate::Backend::alarms) gives.
    /// Dropping it ends the subscription.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        let (sender, alarms) = unbounded();
        let mut listeners = self.listeners.lock();
        listeners.next += 1;
        let key = listeners.next;
        listeners.alarms.insert(key, sender);
        drop(listeners);
        Box::pin(AlarmListener { key, alarms, notifier: self.clone(), pid: std::process::id() })
    }

    /// Tells all that listen for alarms that an entry may have been lost.
    pub fn alarm(&self, entry: EntryId) {
        let listeners: Vec<_> = self.listeners.lock().alarms.values().cloned().collect();
        deliver(listeners, entry);
    }

    /// How many listeners for hints there are.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listeners.lock().hints.len()
    }
}

/// Called when nothing is locked: sending wakes a task, which is foreign code. If it panics, the others still receive the message.
fn deliver<T: Copy>(listeners: Vec<UnboundedSender<T>>, message: T) {
    for sender in listeners {
        // A listener that is being dropped needs no message.
        isolate(|| drop(sender.unbounded_send(message)));
        disconnect(Some(sender));
    }
}

/// The drop of the last sender wakes the listener.
fn disconnect<T>(sender: Option<UnboundedSender<T>>) {
    isolate(|| drop(sender));
}

struct Listener {
    key: (EntryId, u64),
    hints: UnboundedReceiver<Hint>,
    notifier: Notifier,
    /// The process that listens: in a fork of it, the listeners may stay locked forever by a thread that does not exist there.
    pid: u32,
}

impl Stream for Listener {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        Pin::new(&mut self.hints).poll_next(cx)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            let sender = self.notifier.listeners.lock().hints.remove(&self.key);
            // Only now, unlocked: a waker is dropped with it, which is foreign code.
            disconnect(sender);
        }
    }
}

struct AlarmListener {
    key: u64,
    alarms: UnboundedReceiver<EntryId>,
    notifier: Notifier,
    pid: u32,
}

impl Stream for AlarmListener {
    type Item = EntryId;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<EntryId>> {
        Pin::new(&mut self.alarms).poll_next(cx)
    }
}

impl Drop for AlarmListener {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            let sender = self.notifier.listeners.lock().alarms.remove(&self.key);
            // Only now, unlocked: a waker is dropped with it, which is foreign code.
            disconnect(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::{process::Command, time::Instant};
    use std::{
        sync::mpsc,
        task::{Wake, Waker},
        thread,
        time::Duration,
    };

    use futures_util::{FutureExt, StreamExt};

    use super::*;
    use crate::FencingToken;

    /// The most that a busy machine takes for anything here.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A waker that asks the notifier how many listen, and reports the answer.
    struct Asking {
        notifier: Notifier,
        told: mpsc::Sender<usize>,
    }

    impl Wake for Asking {
        fn wake(self: Arc<Self>) {
            self.told.send(self.notifier.listeners()).unwrap();
        }
    }

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("an ordered panic of a waker"));
        }
    }

    /// Waits for the next of a stream with a waker that asks.
    fn wait_asking(notifier: &Notifier, stream: &mut (impl Stream + Unpin), told: &mpsc::Sender<usize>) {
        let waker = Waker::from(Arc::new(Asking { notifier: notifier.clone(), told: told.clone() }));
        assert!(stream.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
    }

    #[test]
    fn both_listeners_of_an_entry_get_a_hint_and_others_get_none() {
        let notifier = Notifier::default();
        let (mut old, mut new) = (notifier.listen(EntryId::new(1)), notifier.listen(EntryId::new(1)));
        let mut other = notifier.listen(EntryId::new(2));
        let hint = Hint::Admitted { token: FencingToken::new(7) };
        notifier.send(EntryId::new(1), hint);
        assert_eq!(old.next().now_or_never(), Some(Some(hint)));
        assert_eq!(new.next().now_or_never(), Some(Some(hint)));
        assert_eq!(other.next().now_or_never(), None);
    }

    /// The end of a subscription wakes its task, too.
    #[test]
    fn a_waker_that_panics_does_not_reach_who_drops_a_listener() {
        let notifier = Notifier::default();
        let waker = Waker::from(Arc::new(Panicking));
        let mut context = Context::from_waker(&waker);
        // One after the other: two panics at once would end the process.
        let mut hints = notifier.listen(EntryId::new(1));
        assert!(hints.poll_next_unpin(&mut context).is_pending());
        drop(hints);
        let mut alarms = notifier.alarms();
        assert!(alarms.poll_next_unpin(&mut context).is_pending());
        drop(alarms);
        assert_eq!(notifier.listeners(), 0);
    }

    #[test]
    fn all_who_listen_for_alarms_hear_of_each_entry() {
        let notifier = Notifier::default();
        let (mut one, mut two) = (notifier.alarms(), notifier.alarms());
        notifier.alarm(EntryId::new(7));
        assert_eq!(one.next().now_or_never(), Some(Some(EntryId::new(7))));
        assert_eq!(two.next().now_or_never(), Some(Some(EntryId::new(7))));
        assert_eq!(one.next().now_or_never(), None);
    }

    #[test]
    fn a_dropped_listener_leaves_nothing_behind() {
        let notifier = Notifier::default();
        drop(notifier.alarms());
        assert!(notifier.listeners.lock().alarms.is_empty());
        let one = notifier.listen(EntryId::new(1));
        drop(notifier.listen(EntryId::new(1)));
        assert_eq!(notifier.listeners(), 1);
        drop(one);
        assert_eq!(notifier.listeners(), 0);
    }

    /// On a thread of its own, which hangs if the listeners are locked meanwhile.
    #[test]
    fn a_waker_that_a_message_wakes_may_use_the_notifier() {
        let notifier = Notifier::default();
        let (mut hints, mut alarms) = (notifier.listen(EntryId::new(1)), notifier.alarms());
        let (tell, told) = mpsc::channel();
        wait_asking(&notifier, &mut hints, &tell);
        wait_asking(&notifier, &mut alarms, &tell);
        let speaking = thread::spawn(move || {
            notifier.send(EntryId::new(1), Hint::Changed);
            notifier.alarm(EntryId::new(7));
            (hints, alarms)
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(1), "woken by a hint");
        assert_eq!(told.recv_timeout(PATIENCE), Ok(1), "woken by an alarm");
        drop(speaking.join().unwrap());
    }

    #[test]
    fn a_waker_that_panics_keeps_a_message_from_no_other_listener() {
        let notifier = Notifier::default();
        let waker = Waker::from(Arc::new(Panicking));
        let (mut hints, mut alarms) = (notifier.listen(EntryId::new(1)), notifier.alarms());
        assert!(hints.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
        assert!(alarms.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
        let (mut next_hints, mut next_alarms) = (notifier.listen(EntryId::new(1)), notifier.alarms());
        notifier.send(EntryId::new(1), Hint::Changed);
        notifier.alarm(EntryId::new(7));
        assert_eq!(next_hints.next().now_or_never(), Some(Some(Hint::Changed)));
        assert_eq!(next_alarms.next().now_or_never(), Some(Some(EntryId::new(7))));
    }

    #[test]
    fn a_waker_that_a_disconnect_wakes_may_use_the_notifier() {
        let notifier = Notifier::default();
        let (mut hints, mut alarms) = (notifier.listen(EntryId::new(1)), notifier.alarms());
        let (tell, told) = mpsc::channel();
        wait_asking(&notifier, &mut hints, &tell);
        wait_asking(&notifier, &mut alarms, &tell);
        let disconnecting = thread::spawn(move || {
            drop(hints);
            drop(alarms);
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(0), "woken by the end of the hints");
        assert_eq!(told.recv_timeout(PATIENCE), Ok(0), "woken by the end of the alarms");
        disconnecting.join().unwrap();
    }

    /// The child drops its copies, as when it ends, while a thread of the parent sends.
    #[cfg(unix)]
    #[test]
    fn a_fork_unsubscribes_though_a_thread_of_its_parent_holds_the_lock() {
        let notifier = Notifier::default();
        let streams = (notifier.listen(EntryId::new(1)), notifier.alarms());
        let speaking = notifier.listeners.lock();
        let fork::Fork::Parent(child) = fork::fork().unwrap() else {
            drop(streams);
            std::process::exit(0);
        };
        assert_eq!(end_of(child), Some(0), "the child hung, or failed");
        drop(speaking);
        drop(streams);
        assert_eq!(notifier.listeners(), 0);
    }

    /// As on a store in memory, of which it has a copy.
    #[cfg(unix)]
    #[test]
    fn a_fork_ends_its_own_subscriptions() {
        let notifier = Notifier::default();
        let stream = notifier.listen(EntryId::new(1));
        let fork::Fork::Parent(child) = fork::fork().unwrap() else {
            drop((notifier.listen(EntryId::new(2)), notifier.alarms()));
            let left = (notifier.listeners(), notifier.listeners.lock().alarms.len());
            std::process::exit(i32::from(left != (1, 0)));
        };
        assert_eq!(end_of(child), Some(0), "the child leaves something behind, or hung");
        drop(stream);
    }

    /// How a child ended, or that it did not.
    #[cfg(unix)]
    fn end_of(child: i32) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        let mut ended = None;
        while ended.is_none() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
            ended = fork::waitpid_nohang(child).unwrap();
        }
        if ended.is_none() {
            Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
            fork::waitpid(child).unwrap();
        }
        ended
    }
}
