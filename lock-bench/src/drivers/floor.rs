//! [`Floor`]: the driver of a floor: what a store takes without our locks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::{task::JoinSet, time::sleep};

use super::{
    driver::{Driver, now},
    link::Link,
    protocol::{Contend, Pairs, Request, Response},
};
use crate::{
    error::Result,
    samples::Samples,
    store::{Floors, ForwardingRound, Rival, Stop, Store},
    timestamp::Timestamp,
};

/// The name of the system that is the floor, and not a library.
pub(crate) const FLOOR: &str = "floor";

/// Bare requests and bare messages, or the lock of another project.
pub(crate) struct Floor {
    store: Arc<dyn Store>,
    floors: Arc<dyn Floors>,
    /// Whose pairs it takes, instead of raw ones.
    rival: Option<Rival>,
    link: Link,
}

impl Floor {
    /// Connects. `None` if the store has no floor, or no such rival.
    pub(crate) async fn connect(store: &Arc<dyn Store>, rival: Option<Rival>) -> Result<Option<Self>> {
        let Some(floors) = store.floors().await? else { return Ok(None) };
        let is_there = match rival {
            Some(rival) => floors.rival(rival, "bench:rival", Stop::After(0)).await?.is_some(),
            None => true,
        };
        Ok(is_there.then(|| Self { store: Arc::clone(store), floors, rival, link: Link::default() }))
    }

    /// The shortest request that there is, one after the other.
    pub(crate) async fn pings(&mut self, stop: Stop) -> Result<Samples> {
        self.floors.pings(stop).await
    }

    async fn pairs(&mut self, request: &Pairs) -> Result<Response> {
        let started = Instant::now();
        let stop = match request.count {
            0 => Stop::At(started + Duration::from_millis(request.run_ms)),
            count => Stop::After(count),
        };
        let mut running = JoinSet::new();
        for task in 0..request.tasks {
            let (floors, rival) = (Arc::clone(&self.floors), self.rival);
            let name = format!("{}-{task}", request.name);
            running.spawn(async move {
                match rival {
                    None => floors.pairs(&name, stop).await,
                    // It was there when this driver connected.
                    Some(rival) => Ok(floors.rival(rival, &name, stop).await?.unwrap_or_default()),
                }
            });
        }
        let mut samples = Samples::default();
        while let Some(task) = running.join_next().await {
            samples.add(&task??);
        }
        let ns = u64::try_from(started.elapsed().as_nanos())?;
        let count = samples.len();
        let latencies = if request.tasks == 1 { samples.0 } else { Vec::new() };
        Ok(Response::Pairs { count, ns, latencies })
    }

    /// One message passes through all processes, as the lock does otherwise.
    async fn forward(&mut self, request: &Contend) -> Result<Response> {
        let channel = |process: usize| format!("{}-{}", request.name, process % request.processes);
        self.link.listen(&*self.store, &channel(request.process), &channel(request.process + 1)).await?;
        sleep(Duration::from_nanos(request.start_ns.saturating_sub(now()))).await;
        let round = ForwardingRound {
            first: request.process == 0,
            hold: Duration::from_micros(request.hold_us),
            until: Timestamp(request.until_ns),
        };
        self.link.pass_on(round).await
    }
}

#[async_trait]
impl Driver for Floor {
    async fn handle(&mut self, request: Request) -> Result<Response> {
        match request {
            Request::Pairs(request) => self.pairs(&request).await,
            Request::Contend(request) => self.forward(&request).await,
            Request::GiveBack {} => Ok(Response::Done { lost: 0 }),
            _ => Err("a floor has no locks".into()),
        }
    }
}
