//! `docs/guarantees.md` and the code promise the same. The test needs all features: without one, a row of the document has no store.
#![cfg(all(feature = "etcd", feature = "redis", feature = "sqlite", feature = "zk", target_os = "linux"))]

use distlock::{
    Backend, Keeper, Memory,
    etcd::{Etcd, EtcdConfig},
    redis::{Redis, RedisConfig},
    sqlite::{Sqlite, SqliteConfig},
    zk::{ZkConfig, ZooKeeper},
};

const DOCUMENT: &str = include_str!("../../docs/guarantees.md");

#[test]
fn the_table_has_the_row_of_every_store_and_no_other() {
    let written: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| **")).collect();
    let promised: Vec<String> = stores().iter().map(|store| store.guarantees().to_string()).collect();
    for row in &promised {
        assert!(written.contains(&row.as_str()), "docs/guarantees.md lacks the row\n{row}");
    }
    for row in written {
        assert!(
            promised.iter().any(|promised| promised == row),
            "docs/guarantees.md has a row of no store\n{row}"
        );
    }
}

/// One backend of each store. None of them connects.
fn stores() -> Vec<Box<dyn Backend>> {
    let redis = Redis::new(RedisConfig::default(), &Keeper::shared()).expect("the defaults are valid");
    let etcd = Etcd::new(EtcdConfig::default(), &Keeper::shared()).expect("the defaults are valid");
    let mut config = SqliteConfig::default();
    config.path = Some("/locks.db".into());
    let sqlite = Sqlite::new(config, &Keeper::shared()).expect("nothing is opened");
    let zookeeper = ZooKeeper::new(ZkConfig::default(), &Keeper::shared()).expect("the defaults are valid");
    vec![Box::new(Memory::new()), Box::new(redis), Box::new(etcd), Box::new(sqlite), Box::new(zookeeper)]
}
