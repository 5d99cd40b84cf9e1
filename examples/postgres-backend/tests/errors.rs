//! The text of errors when something is wrong with the server.

use lock_conformance::Port;
use lock_core::{DistributedLock, Keeper, Locks};
use postgres_backend::Postgres;

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address_and_advice() {
    let port = Port::reserve();
    let server = format!("postgres://app:hunter2@127.0.0.1:{port}/app").parse().unwrap();
    let locks = Locks::new(Postgres::new(server, "locks", &Keeper::shared()).unwrap());
    let said = locks.mutex("job").unwrap().acquire().await.unwrap_err().to_string();
    let trouble = format!("lock `job`: the store cannot be reached (postgres: 127.0.0.1:{port}: ");
    assert!(said.starts_with(&trouble) && said.ends_with("; check its address, and that it runs"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
