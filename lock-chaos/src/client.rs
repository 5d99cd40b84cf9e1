//! [`serve`]: a client, in a process of its own.

use std::{sync::Arc, time::Duration};

use distlock::{Locks, connect};
use lock_core::testing::SeededEntropy;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

use crate::{
    args::ClientArgs, error::Result, record::What, recorder::Recorder, stall_watch::watch_for_stalls,
    worker::Worker,
};

/// How many tasks of a client take locks.
const TASKS: usize = 4;

/// How long the end of a client may take.
const CLOSE: Duration = Duration::from_secs(20);

/// How long to wait before a store that is away is connected to once more.
const RETRY: Duration = Duration::from_millis(250);

/// Takes locks until SIGTERM comes, gives all of them back, and closes.
pub(crate) async fn serve(args: ClientArgs) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let recorder = Arc::new(Recorder::new(args.number));
    watch_for_stalls(Arc::clone(&recorder));
    let locks = tokio::select! {
        locks = reach(&args.url) => locks?,
        _ = terminated.recv() => {
            recorder.note(What::Closed { left: None });
            return Ok(());
        }
    };
    recorder.note(What::Connected);
    let (stop, stopped) = watch::channel(false);
    let entropy = SeededEntropy::new(args.seed ^ args.number as u64).branch();
    let mut workers = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, recorder) = (locks.clone(), Arc::clone(&recorder));
        workers.spawn(Worker { locks, recorder, entropy: entropy.branch(), stop: stopped.clone() }.run());
    }
    terminated.recv().await;
    stop.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended?;
    }
    let left = locks.close(CLOSE).await.err().map(|left| left.to_string());
    recorder.note(What::Closed { left });
    Ok(())
}

/// Connects, also where the store is not there yet.
async fn reach(url: &str) -> Result<Locks> {
    loop {
        match connect(url).await {
            Ok(locks) => return Ok(locks),
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error.into()),
        }
        sleep(RETRY).await;
    }
}
