//! [`Message`]: what one process tells another, in a datagram.

use std::fmt;

use lock_core::{EntryId, FencingToken};

/// What one process tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// This entry of the receiver was admitted.
    Admitted(EntryId, FencingToken),
    /// This entry of the receiver was evicted.
    Evicted(EntryId),
    /// This entry of the receiver is the first waiter.
    Next(EntryId),
}

/// Longer than any message, in bytes.
pub(crate) const BUFFER: usize = 128;

impl Message {
    /// Reads a message. None if the bytes are no message: other programs may send anything.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A user who may send to the socket may send anything.
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
}
