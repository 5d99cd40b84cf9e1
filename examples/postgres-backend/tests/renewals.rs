//! Whose lease a renewal extends.

#[allow(dead_code, reason = "shared with the suite")]
mod server;

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Claim, Entry, EntryId, Keeper, Lease, LockName, Renewal, Standing, Step, WaitMode};
use postgres_backend::Postgres;

use self::server::own::OwnServer;

/// A waiter that was told by mistake that it holds the lock learns the truth from its first renewal.
#[tokio::test]
async fn a_renewal_extends_the_lease_of_a_holder_and_of_no_waiter() {
    let server = OwnServer::start().await;
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let url = format!("postgres://clients@127.0.0.1:{}/postgres?application_name=renewals", server.port());
    let client: Postgres = server::client(url.parse().unwrap(), &keeper);
    let mut leases = Vec::new();
    for id in 0..2 {
        let name = LockName::new("job").unwrap();
        let entry = Arc::new(Entry::new(name, EntryId::new(id), Claim::mutex(), Duration::from_secs(30)));
        let standing = client.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
        let (Standing::Admitted { token, .. } | Standing::Waiting { token, .. }) = standing else {
            panic!("{standing:?}")
        };
        leases.push(Lease { entry, token });
    }
    let renewed = client.renew(&leases).await;
    assert!(matches!(renewed[..], [Ok(Renewal::Renewed { .. }), Ok(Renewal::Lost)]), "{renewed:?}");
}
