//! What this store promises, and what breaks it.

use lock_core::Guarantees;

pub(crate) static GUARANTEES: Guarantees = Guarantees {
    store: "PostgreSQL, one server",
    exclusive_while: "the server keeps what it committed, and its clock is not set forward",
    overlap_when: "the server's clock jumps forward, or it loses commits within a lease (`synchronous_commit` off, `fsync` off, \
                   a failover to a replica that lags, a restored backup); or the holder acts beyond its deadline",
    tokens: "grow across release, expiry, crashes and the loss of the schema, unless the clock is then behind the time at which \
             it was made; a failover to a replica that lags may mint some twice",
    freed_after_death: "when its ttl ends",
    fairness: "first come, first served",
    foreign_clients: "none: a schema of our own",
    shared_leases: false,
    polls: None,
};
