//! [`Store`]: what each store declares. The files are those of the stores' own tests.

#[path = "../../../lock-etcd/tests/server/declared.rs"]
mod etcd;
#[path = "../memory_harness/declared.rs"]
mod memory;
#[path = "../../../examples/postgres-backend/tests/declared/mod.rs"]
mod postgres;
#[path = "../../../lock-redis/tests/server/declared.rs"]
mod redis;
#[path = "../../../lock-sqlite/tests/declared/mod.rs"]
mod sqlite;
#[path = "../../../lock-zk/tests/server/declared.rs"]
mod zk;

use lock_conformance::{Case, Declared, Mode, not_run};

/// A column of the page.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    declared: &'static [Declared],
    notifications: bool,
    /// What it declares where a test knows no more of a server than its URL.
    by_url: &'static [Declared],
}

/// The columns of the page.
pub(crate) static STORES: [Store; 7] = [
    Store::new("memory", "in the memory of one process", memory::OWN),
    Store {
        notifications: false,
        ..Store::new(
            "polled",
            "the same without notifications, so that waiters look again by themselves",
            memory::OWN,
        )
    },
    Store::new("SQLite", "a file", sqlite::OWN),
    Store { by_url: redis::BY_URL, ..Store::new("Redis", "a server", redis::OWN) },
    Store { by_url: etcd::BY_URL, ..Store::new("etcd", "a server", etcd::OWN) },
    Store { by_url: zk::BY_URL, ..Store::new("ZooKeeper", "a server", zk::OWN) },
    Store::new(
        "PostgreSQL",
        "a server; the backend that `examples` has for those who write one",
        postgres::OWN,
    ),
];

impl Store {
    const fn new(name: &'static str, about: &'static str, declared: &'static [Declared]) -> Self {
        Self { name, about, declared, notifications: true, by_url: &[] }
    }

    /// Why a case is not run on it.
    pub(crate) fn not_run(&self, case: &Case) -> Option<&'static Declared> {
        not_run(case, Mode::Both, self.declared, self.notifications)
    }

    /// What is not run only because the server is not the test's own.
    pub(crate) fn only_by_url(&self) -> Vec<&'static Declared> {
        self.by_url.iter().filter(|declared| !self.declared.contains(declared)).collect()
    }
}
