//! The messages in a notification. Unknown messages are ignored: a missing hint costs only time.

use lock_core::{EntryId, FencingToken};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// `A <entry> <token>`: the entry holds its lock.
    Admitted { entry: EntryId, token: FencingToken },
    /// `C`: every waiter of this process has to look again.
    Changed,
}

/// The messages for one process, one on each line.
pub(crate) fn messages(payload: &[u8]) -> impl Iterator<Item = Message> {
    payload.split(|&byte| byte == b'\n').filter_map(message)
}

fn message(line: &[u8]) -> Option<Message> {
    if line == b"C" {
        return Some(Message::Changed);
    }
    let (entry, token) = std::str::from_utf8(line).ok()?.strip_prefix("A ")?.split_once(' ')?;
    Some(Message::Admitted { entry: entry.parse().ok()?, token: token.parse().ok()? })
}

/// Reads a message of the eviction channel: the entry that was evicted.
pub(crate) fn entry(payload: &[u8]) -> Option<EntryId> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "000000000000000000000000000000ff";

    #[test]
    fn every_line_is_a_message_of_its_own() {
        let text = format!("A {ID} 42\nC\nA {ID} 43");
        let admitted =
            |token| Message::Admitted { entry: EntryId::new(255), token: FencingToken::new(token) };
        let all: Vec<_> = messages(text.as_bytes()).collect();
        assert_eq!(all, [admitted(42), Message::Changed, admitted(43)]);
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for line in [
            "",
            "A",
            "A x 1",
            "Z",
            "c",
            &format!("A {ID}"),
            &format!("A {ID} -1"),
            &format!("A {ID} 1 2"),
            &format!("A {ID} +1"),
        ] {
            assert_eq!(messages(line.as_bytes()).next(), None, "{line}");
        }
        assert_eq!(messages(b"\xff\xfe").next(), None);
        assert_eq!(entry(b"\xff"), None);
        assert_eq!(entry(ID.as_bytes()), Some(EntryId::new(255)));
    }
}
