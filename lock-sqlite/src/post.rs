//! [`Post`]: one datagram socket for each client, by which the others tell it something. What is lost is looked for. What is told is
//! believed, until a renewal of it is refused: whoever may send to the socket may have a waiter take itself for a holder for so long.

use std::{
    fmt, io,
    net::Shutdown,
    os::unix::net::UnixDatagram,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use lock_core::{Alarms, EntryId, FencingToken, Hint, Switchboard};

use crate::{
    access::Access,
    folder::Folder,
    presence::{new_name, socket_name},
    waiters::Waiters,
};

/// What one client tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// This entry of yours was made a holder.
    Admitted(EntryId, FencingToken),
    /// This entry of yours was taken out of its queue by force.
    Evicted(EntryId),
    /// This entry of yours is the first that waits.
    Next(EntryId),
}

/// Longer than any message.
const BUFFER: usize = 128;

impl Message {
    /// None if it is no message: anybody may send anything.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let (what, entry) = (words.next()?, words.next()?.parse().ok()?);
        let message = match what {
            "admitted" => Self::Admitted(entry, words.next()?.parse().ok()?),
            "evicted" => Self::Evicted(entry),
            "next" => Self::Next(entry),
            _ => return None,
        };
        words.next().is_none().then_some(message)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted(entry, token) => write!(f, "admitted {entry} {token}"),
            Self::Evicted(entry) => write!(f, "evicted {entry}"),
            Self::Next(entry) => write!(f, "next {entry}"),
        }
    }
}

/// Whoever in this process is told something: waiters, and those who listen for alarms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hall {
    pub(crate) waiters: Waiters,
    board: Switchboard,
}

impl Hall {
    pub(crate) fn alarms(&self) -> Alarms {
        self.board.alarms()
    }

    pub(crate) fn tell(&self, message: Message) {
        match message {
            Message::Admitted(entry, token) => self.waiters.tell(entry, Hint::Admitted { token }),
            Message::Evicted(entry) => {
                self.board.alarm(entry);
                self.waiters.tell(entry, Hint::Changed);
            }
            Message::Next(_) => {}
        }
        // Who holds something by now, or waits for something else, may be the next in another place.
        self.waiters.bell.ring();
    }
}

/// Sends to all clients of a store, and receives for this one, on a thread of its own that ends with it.
#[derive(Debug)]
pub(crate) struct Post {
    folder: Arc<Folder>,
    sender: UnixDatagram,
    receiver: UnixDatagram,
    ended: Arc<AtomicBool>,
}

impl Post {
    /// # Errors
    /// If the socket cannot be made, or its thread not be started.
    pub(crate) fn open(folder: &Arc<Folder>, id: i64, access: Access, hall: Hall) -> io::Result<Self> {
        let receiver = folder.bind(&socket_name(id), &new_name(id), access)?;
        let sender = UnixDatagram::unbound()?;
        sender.set_nonblocking(true)?;
        let ended = Arc::new(AtomicBool::new(false));
        let (socket, over) = (receiver.try_clone()?, Arc::clone(&ended));
        thread::Builder::new()
            .name("distlock-sqlite-post".into())
            .spawn(move || receive(&socket, &over, &hall))?;
        Ok(Self { folder: Arc::clone(folder), sender, receiver, ended })
    }

    /// Without waiting: a client whose socket is full, or gone, is not told.
    pub(crate) fn send(&self, to: i64, message: Message) {
        let address = self.folder.address(&socket_name(to));
        if let Err(error) = self.sender.send_to(message.to_string().as_bytes(), address) {
            tracing::debug!(%message, %error, "a hint was not delivered");
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Its receiver wakes up, and ends.
        let _ = self.receiver.shutdown(Shutdown::Both);
    }
}

fn receive(socket: &UnixDatagram, ended: &AtomicBool, hall: &Hall) {
    let mut buffer = [0; BUFFER];
    loop {
        let received = socket.recv(&mut buffer);
        if ended.load(Ordering::Acquire) {
            return;
        }
        match received {
            Ok(length) => {
                if let Some(message) = Message::read(&buffer[..length]) {
                    hall.tell(message);
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

    use super::*;
    use crate::access::own;

    #[test]
    fn messages_are_read_back_and_nothing_else_is_one() {
        let entry = EntryId::new(u128::MAX / 3);
        let token = FencingToken::new(u64::MAX);
        for message in [Message::Admitted(entry, token), Message::Evicted(entry), Message::Next(entry)] {
            let text = message.to_string();
            assert!(text.len() < BUFFER);
            assert_eq!(Message::read(text.as_bytes()), Some(message));
            for wrong in [
                &text[1..],
                &text[..text.len() - 1].replace(' ', ""),
                &format!("{text} "),
                &format!("{text} 1"),
            ] {
                assert_eq!(Message::read(wrong.as_bytes()), None, "{wrong}");
            }
        }
        assert_eq!(Message::read(&[0xff; 40]), None);
        assert_eq!(Message::read(b""), None);
    }

    /// Who may send to the socket may send anything.
    #[test]
    fn what_is_one_byte_from_a_message_is_none_or_one_as_it_is_written() {
        let entry = EntryId::new(u128::MAX / 3);
        let messages =
            [Message::Admitted(entry, FencingToken::new(105)), Message::Evicted(entry), Message::Next(entry)];
        for text in messages.map(|message| message.to_string().into_bytes()) {
            let places = 0..=text.len();
            for (place, byte) in places.flat_map(|place| (0..=u8::MAX).map(move |byte| (place, byte))) {
                let (before, after) = text.split_at(place);
                let behind = after.get(1..).unwrap_or_default();
                for sent in [
                    [before, &[byte], after].concat(),
                    [before, &[byte], behind].concat(),
                    [before, behind].concat(),
                ] {
                    if let Some(message) = Message::read(&sent) {
                        assert_eq!(message.to_string().as_bytes(), sent, "{}", sent.escape_ascii());
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_sent_to_a_client_arrives_however_deep_its_folder_is() {
        let root = tempfile::tempdir().unwrap();
        for path in [root.path().join("x"), root.path().join("x".repeat(200))] {
            let folder = Arc::new(Folder::open(&path, own()).unwrap());
            let hall = Hall::default();
            let mut hints = hall.waiters.listen(EntryId::new(7));
            let (here, there) =
                (Post::open(&folder, 1, own(), Hall::default()), Post::open(&folder, 2, own(), hall));
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
