//! The row of the guarantees table for ZooKeeper.

use lock_core::Guarantees;

pub(crate) static ZOOKEEPER: Guarantees = Guarantees {
    store: "ZooKeeper",
    exclusive_while: "a majority of the servers keeps its data, `tick` is no less than their `tickTime`, and the leader pings \
                      the other servers between two heartbeats of a session; whatever leader changes, partitions, crashes \
                      of a minority and wall clocks do",
    overlap_when: "the data is restored from a backup within a session, or an operator deletes nodes of locks; or a clock \
                   runs more than 1 % fast; or the holder acts beyond its deadline",
    tokens: "grow forever, being transactions of the ensemble; they start over with a new ensemble, and go back with a backup",
    freed_after_death: "when its session ends: its ttl in ticks, rounded up to 6 or 8 times a power of two, then by the \
                        servers' own limits, and up to a tick later; after a change of the leader, up to once more. A lock \
                        that is not renewed is deleted at its ttl by the client that holds it, and ends with the session \
                        if that one dies",
    fairness: "first come, first served",
    foreign_clients: "none, on nodes of our own. With `interop=curator`: `InterProcessMutex` of Apache Curator on the same \
                      path, for mutexes, first come, first served among all",
    shared_leases: true,
    polls: None,
};
