//! [`EntryNode`]: the name and the data of an entry's node.

use std::time::Duration;

use lock_core::{Claim, EntryId, FencingToken, shown_label};

/// An entry in a queue, read from the name of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryNode {
    /// The name of the node, without its path.
    pub(crate) name: String,
    pub(crate) entry: EntryId,
    pub(crate) claim: Claim,
    /// Its place in the queue, from the container's counter of 32 bits. A node whose sequence is not valid is about to leave, and is
    /// behind all others.
    pub(crate) sequence: i32,
}

/// The name of an entry's node, up to its sequence.
pub(crate) fn prefix(entry: EntryId, claim: Claim) -> String {
    use lock_core::Kind;
    match claim.kind() {
        Kind::Mutex => format!("{entry}-m-"),
        Kind::RwLock if claim == Claim::writer() => format!("{entry}-w-"),
        Kind::RwLock => format!("{entry}-r-"),
        Kind::Semaphore => format!("{entry}-s{}.{}-", claim.permits(), claim.limit()),
    }
}

/// The same in the format of Apache Curator.
pub(crate) fn curator_prefix(entry: EntryId) -> String {
    let hex = entry.to_string();
    // An id has 32 digits.
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    format!("_c_{uuid}-lock-")
}

/// The name of a node, from its prefix and the number that the server gave it.
pub(crate) fn node_name(prefix: &str, sequence: i64) -> String {
    format!("{prefix}{sequence:010}")
}

/// Whether a sequence determines a place. At the end of its range the counter stops, or continues below zero, or both: then
/// several nodes get the same number, which does not show their order (H97).
pub(crate) fn is_valid_sequence(sequence: i64) -> bool {
    (0..i64::from(i32::MAX)).contains(&sequence)
}

/// The token of a node: the transaction that created it. Transactions grow over the whole ensemble, forever.
pub(crate) fn token(czxid: i64) -> FencingToken {
    FencingToken::new(czxid.unsigned_abs())
}

/// The data of an entry's node: how long the entry outlives its client, and its label.
pub(crate) fn write_data(timeout: Duration, label: Option<&str>) -> Vec<u8> {
    let label = label.map(|label| format!("\n{label}")).unwrap_or_default();
    format!("{}{label}", timeout.as_millis()).into_bytes()
}

/// Reads the data of an entry's node. `None` if others wrote it.
pub(crate) fn read_data(data: &[u8]) -> Option<(Duration, Option<String>)> {
    let text = std::str::from_utf8(data).ok()?;
    let (millis, label) = text.split_once('\n').map_or((text, None), |(millis, label)| (millis, Some(label)));
    Some((Duration::from_millis(millis.parse().ok()?), label.map(|label| shown_label(label.as_bytes()))))
}

/// A number as the server writes it: at least ten characters, including the sign.
#[cfg(test)]
pub(crate) fn written(sequence: i32) -> String {
    node_name("", sequence.into())
}

impl EntryNode {
    /// Reads a name that consists of a [`prefix`] and a sequence, and nothing else.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let (entry, rest) = name.split_at_checked(32)?;
        let (claim, sequence) = rest.strip_prefix('-')?.split_once('-')?;
        let claim = match claim {
            "m" => Claim::mutex(),
            "r" => Claim::reader(),
            "w" => Claim::writer(),
            _ => {
                let (permits, limit) = claim.strip_prefix('s')?.split_once('.')?;
                Claim::semaphore(permits.parse().ok()?, limit.parse().ok()?).ok()?
            }
        };
        let entry = entry.parse().ok()?;
        let node = Self { name: name.to_owned(), entry, claim, sequence: sequence.parse().ok()? };
        (node_name(&prefix(entry, claim), node.sequence.into()) == name).then_some(node)
    }

    /// The same for a name in the format of Apache Curator.
    pub(crate) fn read_curator(name: &str) -> Option<Self> {
        let (uuid, sequence) = name.strip_prefix("_c_")?.split_once("-lock-")?;
        let entry = uuid.replace('-', "").parse().ok()?;
        let node =
            Self { name: name.to_owned(), entry, claim: Claim::mutex(), sequence: sequence.parse().ok()? };
        (node_name(&curator_prefix(entry), node.sequence.into()) == name).then_some(node)
    }

    /// How far it is behind `other`; negative if it is ahead. Correct across an overflow of the counter.
    pub(crate) fn behind(&self, other: i32) -> i32 {
        self.sequence.wrapping_sub(other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> EntryId {
        EntryId::new(0x0123_4567_89ab_cdef)
    }

    #[test]
    fn a_node_is_read_back_as_it_was_called() {
        let some = Claim::semaphore(3, 5).unwrap();
        for claim in [Claim::mutex(), Claim::reader(), Claim::writer(), some] {
            for sequence in [0, 7, i32::MAX, i32::MIN, -1] {
                let name = prefix(entry(), claim) + &written(sequence);
                let node = EntryNode::read(&name).unwrap();
                assert_eq!(
                    (node.entry, node.claim, node.sequence, &node.name),
                    (entry(), claim, sequence, &name)
                );
            }
        }
        let name = curator_prefix(entry()) + &written(7);
        assert_eq!(name, "_c_00000000-0000-0000-0123-456789abcdef-lock-0000000007");
        assert_eq!(EntryNode::read_curator(&name).unwrap().entry, entry());
    }

    #[test]
    fn names_that_others_gave_are_no_entries() {
        let id = entry().to_string();
        for name in [
            "",
            "lock-0000000001",
            &format!("{id}-m-1"),
            &format!("{id}-m-+000000001"),
            &format!("{id}-x-0000000001"),
            &format!("{id}-s0.5-0000000001"),
            &format!("{id}-s6.5-0000000001"),
            &format!("{id}-s01.5-0000000001"),
            &format!("{id}-m-0000000001x"),
            &format!("{}é-m-0000000001", &id[..31]),
            &"é".repeat(40),
        ] {
            assert_eq!(EntryNode::read(name), None, "{name}");
            assert_eq!(EntryNode::read_curator(name), None, "{name}");
        }
    }

    proptest! {
        /// Clients with the right to create nodes may give them any name.
        #[test]
        fn whatever_a_node_is_called_is_no_entry_or_one_as_it_is_written(
            wild in "(?s).{0,80}",
            own in "[0-9a-f]{31,33}-(m|r|w|x|s[0-9]{0,3}[.][0-9]{0,3})-[-+]?[0-9]{9,11}",
            curators in "_c_[0-9a-f]{8}(-[0-9a-f]{3,5}){3}-[0-9a-f]{11,13}-lock-[-+]?[0-9]{9,11}",
        ) {
            for name in [wild, own, curators] {
                if let Some(node) = EntryNode::read(&name) {
                    prop_assert_eq!(prefix(node.entry, node.claim) + &written(node.sequence), name.as_str());
                    prop_assert_eq!(&node.name, &name);
                }
                if let Some(node) = EntryNode::read_curator(&name) {
                    prop_assert_eq!(curator_prefix(node.entry) + &written(node.sequence), name.as_str());
                    prop_assert_eq!((node.claim, &node.name), (Claim::mutex(), &name));
                }
            }
        }
    }

    #[test]
    fn data_that_others_wrote_tells_nothing() {
        assert_eq!(read_data(b"1200"), Some((Duration::from_millis(1_200), None)));
        assert_eq!(read_data(b"1200\n"), Some((Duration::from_millis(1_200), Some(String::new()))));
        assert_eq!(read_data(b"1\na\nb").and_then(|(_, label)| label).as_deref(), Some("a\nb"));
        assert!(read_data(&[b"1\n", &b"x".repeat(1 << 20)[..]].concat()).unwrap().1.unwrap().len() < 300);
        assert_eq!((read_data(b"127.0.0.1"), read_data(b""), read_data(&[0xFF])), (None, None, None));
    }

    #[test]
    fn no_sequence_is_valid_at_the_end_of_the_counter() {
        assert!(is_valid_sequence(0) && is_valid_sequence(i64::from(i32::MAX) - 1));
        assert!(
            !is_valid_sequence(i32::MAX.into())
                && !is_valid_sequence(i32::MIN.into())
                && !is_valid_sequence(-1)
        );
    }

    /// H97.
    #[test]
    fn the_order_goes_on_across_an_overflow_of_the_counter() {
        let node =
            |sequence: i32| EntryNode::read(&(prefix(entry(), Claim::mutex()) + &written(sequence))).unwrap();
        assert!(node(i32::MIN).behind(i32::MAX) > 0);
        assert!(node(i32::MAX).behind(i32::MIN) < 0);
        assert!(node(0).behind(-1) > 0 && node(8).behind(9) < 0 && node(8).behind(8) == 0);
    }
}
