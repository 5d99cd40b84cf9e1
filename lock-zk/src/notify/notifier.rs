//! [`Notifier`]: raises alarms about entries that may have been lost.

use futures_channel::mpsc::{UnboundedSender, unbounded};
use lock_core::sync::Mutex;
use lock_core::{Alarms, EntryId};

#[derive(Debug, Default)]
pub(crate) struct Notifier(Mutex<Vec<UnboundedSender<EntryId>>>);

impl Notifier {
    /// The alarms that are raised from now on.
    pub(crate) fn listen(&self) -> Alarms {
        let (sender, alarms) = unbounded();
        self.0.lock().push(sender);
        Box::pin(alarms)
    }

    pub(crate) fn notify(&self, entries: impl IntoIterator<Item = EntryId>) {
        let listeners = {
            let mut listeners = self.0.lock();
            listeners.retain(|listener| !listener.is_closed());
            listeners.clone()
        };
        // Not under the lock: sending wakes a task, which is code of others.
        for entry in entries {
            for listener in &listeners {
                // A listener that is being dropped needs no alarm.
                let _ = listener.unbounded_send(entry);
            }
        }
    }
}
