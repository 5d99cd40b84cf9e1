//! [`drive`]: this binary as the driver of our locks or of a floor, and [`DriverArgs`]: its command line.

use std::{sync::Arc, time::Duration};

use super::{
    driver::serve,
    floor::{FLOOR, Floor},
    own::Distlock,
    protocol::{Hello, Kind},
};
use crate::{
    error::Result,
    store::{self, Store, StoreKind},
};

/// The command line of this binary as a driver.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DriverArgs {
    #[arg(long, value_enum)]
    store: StoreKind,
    #[arg(long)]
    system: String,
    #[arg(long)]
    address: String,
    #[arg(long)]
    ttl_ms: u64,
}

/// Handles requests until the standard input ends.
pub(crate) async fn drive(args: &DriverArgs) -> Result<()> {
    let store: Arc<dyn Store> = Arc::from(store::connect(args.store, &args.address)?);
    let ready = |kinds: &[Kind]| Hello::Ready {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kinds: kinds.to_vec(),
    };
    if args.system == FLOOR {
        let floor = Floor::connect(&store, None).await?.ok_or("this store has no floor")?;
        return serve(ready(&[Kind::Mutex]), floor).await;
    }
    let distlock = Distlock::new(store, Duration::from_millis(args.ttl_ms))?;
    serve(ready(&[Kind::Mutex, Kind::Rw, Kind::Semaphore]), distlock).await
}
