//! [`Mailbox`]: one datagram socket for each process, for messages from the others. Lost messages are found by looking. A message of a
//! grant is believed until the renewal of the lock is refused: until then, a user who may send to the socket can make a waiter take
//! itself for a holder.

use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixDatagram,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use lock_core::isolate;

use super::{
    message::{BUFFER, Message},
    notifier::Notifier,
};
use crate::{
    access::Access,
    process_folder::ProcessFolder,
    process_lock::{new_name, socket_name},
};

/// Sends messages to the other processes of a store, and receives those for this one, on a thread that ends with the mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    folder: Arc<ProcessFolder>,
    sender: UnixDatagram,
    receiver: UnixDatagram,
    ended: Arc<AtomicBool>,
}

impl Mailbox {
    /// # Errors
    /// If the socket cannot be created, or its thread cannot be started.
    pub(crate) fn open(
        folder: &Arc<ProcessFolder>,
        id: i64,
        access: Access,
        notifier: Notifier,
    ) -> io::Result<Self> {
        let receiver = folder.bind(&socket_name(id), &new_name(id), access)?;
        let sender = UnixDatagram::unbound()?;
        sender.set_nonblocking(true)?;
        let ended = Arc::new(AtomicBool::new(false));
        let (socket, over) = (receiver.try_clone()?, Arc::clone(&ended));
        thread::Builder::new()
            .name("distlock-sqlite-post".into())
            .spawn(move || receive(&socket, &over, &notifier))?;
        Ok(Self { folder: Arc::clone(folder), sender, receiver, ended })
    }

    /// Sends without waiting. If the socket of a process is full or gone, the message is lost.
    pub(crate) fn send(&self, to: i64, message: Message) {
        let address = self.folder.address(&socket_name(to));
        if let Err(error) = self.sender.send_to(message.to_string().as_bytes(), address) {
            isolate(|| tracing::debug!(%message, %error, "a hint was not delivered"));
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // The receiving thread wakes up, and ends.
        let _ = self.receiver.shutdown(Shutdown::Both);
    }
}

fn receive(socket: &UnixDatagram, ended: &AtomicBool, notifier: &Notifier) {
    let mut buffer = [0; BUFFER];
    loop {
        let received = socket.recv(&mut buffer);
        if ended.load(Ordering::Acquire) {
            return;
        }
        match received {
            Ok(length) => {
                if let Some(message) = Message::read(&buffer[..length]) {
                    notifier.tell(message);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt, StreamExt};
    use lock_core::{EntryId, FencingToken, Hint};

    use super::*;
    use crate::access::own;

    #[test]
    fn what_is_sent_to_a_client_arrives_however_deep_its_folder_is() {
        let root = tempfile::tempdir().unwrap();
        for path in [root.path().join("x"), root.path().join("x".repeat(200))] {
            let folder = Arc::new(ProcessFolder::open(&path, own()).unwrap());
            let notifier = Notifier::default();
            let mut hints = notifier.waiters.listen(EntryId::new(7));
            let (here, there) = (
                Mailbox::open(&folder, 1, own(), Notifier::default()),
                Mailbox::open(&folder, 2, own(), notifier),
            );
            let (here, there) = (here.unwrap(), there.unwrap());
            let token = FencingToken::new(5);
            here.send(2, Message::Admitted(EntryId::new(7), token));
            here.send(3, Message::Evicted(EntryId::new(7)));
            let hint = futures_executor(&mut hints);
            assert_eq!(hint, Some(Hint::Admitted { token }));
            drop(there);
        }
    }

    /// The next hint, within two seconds.
    fn futures_executor(hints: &mut lock_core::Hints) -> Option<Hint> {
        for _ in 0..200 {
            if let Some(hint) = hints.next().now_or_never() {
                return hint;
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}
