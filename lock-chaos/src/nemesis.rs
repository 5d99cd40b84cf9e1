//! [`Nemesis`]: carries out the plan.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{BootTime, Clock, SystemClock, sync::Mutex};
use tokio::time::{Instant, sleep};

use crate::{
    cluster::Cluster,
    crew::Crew,
    error::Result,
    excuse::Deed,
    fault::{Fault, ServerFault, Target},
    network::Network,
    plan::{Plan, Step},
};

/// Breaks a cluster, its networks and its clients, and heals them.
#[derive(Debug)]
pub(crate) struct Nemesis<'a> {
    cluster: &'a dyn Cluster,
    network: &'a Network,
    crew: &'a Crew,
    notes: Mutex<Notes>,
}

/// What went wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// When each fault began and ended.
    pub(crate) faults: Vec<(BootTime, String)>,
    /// What a store may break a promise for, in the order in which it ended.
    pub(crate) deeds: Vec<Deed>,
    /// How many there were of each kind. One counts when it is over.
    pub(crate) counts: BTreeMap<&'static str, usize>,
}

impl<'a> Nemesis<'a> {
    pub(crate) fn new(cluster: &'a dyn Cluster, network: &'a Network, crew: &'a Crew) -> Self {
        Self { cluster, network, crew, notes: Mutex::default() }
    }

    /// Carries out as much of the plan as `length` has room for: servers take their time to start. Everything is healed when it returns.
    ///
    /// # Errors
    /// If a fault cannot be brought about or healed.
    pub(crate) async fn run(&self, plan: &Plan, length: Duration) -> Result<()> {
        let end = Instant::now() + length;
        tokio::try_join!(self.carry_out(&plan.servers, end), self.carry_out(&plan.clients, end))?;
        Ok(())
    }

    pub(crate) fn notes(&self) -> Notes {
        self.notes.lock().clone()
    }

    async fn carry_out(&self, steps: &[Step], end: Instant) -> Result<()> {
        for step in steps {
            sleep(step.pause).await;
            if Instant::now() >= end {
                break;
            }
            self.bring_about(step).await?;
        }
        Ok(())
    }

    async fn bring_about(&self, step: &Step) -> Result<()> {
        let fault = step.fault;
        let members = self.members(fault).await?;
        let pauses = matches!(fault, Fault::Server(ServerFault::Pause, _));
        let pauses_leader = pauses && members.contains(&self.cluster.leader().await?);
        self.note(format!("{fault} {members:?}"));
        let from = SystemClock.now();
        match fault {
            Fault::Server(fault, _) => self.cluster.inflict(fault, &members).await?,
            Fault::Cut(side, cut) => self.network.cut(side, cut),
            Fault::Client(fault, seat) => self.crew.inflict(fault, seat)?,
        }
        if let Fault::Server(ServerFault::SetClock(by), _) = fault {
            self.record(Deed::SetClock { from, until: SystemClock.now(), by });
        }
        sleep(step.lasts).await;
        if pauses_leader {
            self.record(Deed::PausedLeader { from, until: SystemClock.now() });
        }
        match fault {
            Fault::Server(fault, _) => self.cluster.undo(fault, &members).await?,
            Fault::Cut(side, _) => self.network.heal(side),
            Fault::Client(fault, seat) => self.crew.undo(fault, seat),
        }
        self.note(format!("over: {fault} {members:?}"));
        *self.notes.lock().counts.entry(fault.kind()).or_default() += 1;
        Ok(())
    }

    /// The servers that are to suffer it.
    async fn members(&self, fault: Fault) -> Result<Vec<usize>> {
        Ok(match fault {
            Fault::Server(_, Target::Leader) => vec![self.cluster.leader().await?],
            Fault::Server(_, Target::Member(member)) => vec![member],
            Fault::Server(_, Target::All) => (0..self.cluster.addresses().len()).collect(),
            Fault::Cut(..) | Fault::Client(..) => Vec::new(),
        })
    }

    fn record(&self, deed: Deed) {
        self.notes.lock().deeds.push(deed);
    }

    fn note(&self, text: String) {
        self.notes.lock().faults.push((SystemClock.now(), text));
    }
}
