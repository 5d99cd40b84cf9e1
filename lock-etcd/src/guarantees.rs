//! The row of the guarantees table for etcd.

use lock_core::Guarantees;

pub(crate) static ETCD: Guarantees = Guarantees {
    store: "etcd",
    exclusive_while: "a majority of the members keeps its data, and no leader goes on that stood still for most of a lease; \
                      whatever other leader changes, partitions, crashes of a minority and wall clocks do",
    overlap_when: "the cluster is restored from a backup within a lease, or an operator deletes keys of locks; or, for some \
                   milliseconds, a leader goes on that stood still for most of a lease, and revokes leases that are alive; or a \
                   clock runs more than 1 % fast; or the holder acts beyond its deadline",
    tokens: "grow forever, being revisions of the cluster; they start over with a new cluster, and go back with a backup that \
             is restored without `--bump-revision`",
    freed_after_death: "when its ttl ends, in whole seconds from 2 up, and up to a second later; after a change of the leader, \
                        up to once more the ttl",
    fairness: "first come, first served",
    foreign_clients: "none: keys of our own, and a name that holds other data is an error",
    shared_leases: true,
    polls: None,
};
