//! The row of the guarantees table for one Redis server.

use lock_core::Guarantees;

pub(crate) static STANDALONE: Guarantees = Guarantees {
    store: "Redis, one server",
    exclusive_while: "the server keeps its data, and its clock does not run ahead by more than 1 % of a lease",
    overlap_when: "the server loses data within a lease: a crash without `appendfsync always`, a failover, an eviction \
                   or a delete by hand; or its clock is set forward; or the holder acts beyond its deadline",
    tokens: "grow across release, expiry, deletes, flushes, restarts and failovers, unless the counter is lost **and** \
             the server's clock is behind an issued token",
    freed_after_death: "when its ttl ends",
    fairness: "first come, first served among clients of this library; none against others",
    foreign_clients: "SETNX locks on the same key and ours exclude each other for mutexes; ours wait for theirs and never \
                      touch them; theirs get no turn while our queue is not empty",
    shared_leases: false,
    polls: None,
};
