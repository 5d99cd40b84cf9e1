//! [`CAPACITY`]: the maximum number and size of the entries in a session.

use lock_core::session_pool::Capacity;

/// When a session ends, all its nodes are deleted in one transaction, which contains their paths and has to fit into a message between
/// servers. If it does not, the servers stop and do not start again (ZOOKEEPER-4306). So the capacity is less than half of the default
/// limit: in addition to the counted entries there may be nodes that are being deleted or that were created twice.
pub(super) const CAPACITY: Capacity = Capacity { slots: 1_000, bytes: 500_000 };

/// The longest message between servers: the default of `jute.maxbuffer`.
const MOST_SENT: usize = 0xf_ffff;

const _: () = assert!(CAPACITY.bytes * 2 < MOST_SENT);

/// The size of a node in that transaction, from the length of its path without the sequence: the sequence has up to 11 bytes, and the
/// length before the path has 4.
pub(super) const fn size(path: usize) -> usize {
    path + 11 + 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of the servers: the number of paths, then each path after its length.
    #[test]
    fn what_is_counted_is_no_less_than_what_the_servers_send() {
        let path = "/distlock/q1/job/0123456789abcdef0123456789abcdef-m-";
        for sequence in ["0000000000", "2147483646", "-2147483648"] {
            assert!(4 + path.len() + sequence.len() <= size(path.len()));
        }
        // A chroot of 1 KiB, and a name of 4 KiB in which each byte is escaped to three.
        let longest =
            size(1024 + "/q1/".len() + 3 * 4096 + "/".len() + 32 + "-s4294967295.4294967295-".len());
        assert!(longest * 30 < CAPACITY.bytes, "{longest}");
    }
}
