//! The row of the guarantees table.

use lock_core::Guarantees;

pub(crate) static SQLITE: Guarantees = Guarantees {
    store: "SQLite, one machine",
    exclusive_while: "the file stays where it is: client and store read one clock, which counts suspend, and a step of the wall \
                      clock or a crash of any process changes nothing",
    overlap_when: "somebody deletes, replaces or restores the file within a lease; or the holder acts beyond its deadline",
    tokens: "grow across release, expiry, crashes, reboots and a loss of power; over a file that is lost too, unless the wall \
             clock is then behind the time at which the old one was made",
    freed_after_death: "within 100 ms of the end of its process and of all that inherited its file (2 s if the first two who wait \
                        end with it or are stopped); else, as when the process is stopped, when its ttl ends; after a reboot at \
                        once",
    fairness: "first come, first served",
    foreign_clients: "none: a file of our own",
    shared_leases: false,
    polls: None,
};
