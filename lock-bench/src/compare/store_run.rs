//! [`StoreRun`]: one store while it is measured, with the systems that take part.

use std::time::Duration;

use super::{
    args::CompareArgs,
    results::ScenarioResult,
    scenario::{Scenario, Schedule, Work},
    systems::{DriverCommands, SystemSpec, asked_for, store_kind},
    turn::{TurnResult, run_turn},
};
use crate::{
    drivers::{DriverProcess, FLOOR, protocol::Kind},
    error::Result,
    store::{self, Store},
};

/// The ttl of locks and sessions where no holder is killed.
const TTL: Duration = Duration::from_secs(30);

/// One store, while it is measured.
pub(crate) struct StoreRun<'a> {
    pub(crate) store: &'static str,
    pub(crate) server: Box<dyn Store>,
    /// `host:port`, or the path of a file.
    pub(crate) address: String,
    drivers: &'a DriverCommands,
    pub(crate) schedule: Schedule,
    pub(crate) participants: Vec<Participant>,
}

/// One system, while its store is measured.
pub(crate) struct Participant {
    pub(crate) spec: SystemSpec,
    /// The processes of its driver.
    team: Vec<DriverProcess>,
    /// As its driver says.
    version: String,
    kinds: Vec<Kind>,
    /// Why it cannot take part at all.
    missing: Option<String>,
}

impl<'a> StoreRun<'a> {
    pub(crate) async fn start(
        args: &CompareArgs,
        store: &'static str,
        drivers: &'a DriverCommands,
    ) -> Result<Self> {
        let server = store::start(store_kind(store)?).await?;
        let address = server.address().ok_or("other processes cannot reach this store")?;
        let mut schedule = if args.full { Schedule::FULL } else { Schedule::SHORT };
        if let Some(rounds) = args.rounds {
            schedule.rounds = rounds as usize;
        }
        let participants = asked_for(args, store).into_iter().map(Participant::new).collect();
        Ok(Self { store, server, address, drivers, schedule, participants })
    }

    /// Starts all drivers, and lets each work for a while.
    pub(crate) async fn warm_up(&mut self) {
        let schedule = Schedule { turn: self.schedule.warm_up, ..self.schedule };
        for i in 0..self.participants.len() {
            eprintln!("{}: {} starts", self.store, self.participants[i].spec.name);
            let ready = self.ready(i, 1).await;
            let participant = &mut self.participants[i];
            match ready {
                Ok(()) => {
                    let name = format!("warm-{}", participant.spec.name);
                    if let Err(error) =
                        run_turn(Work::Pairs { tasks: 16 }, &mut participant.team, &name, &schedule).await
                    {
                        // Each scenario starts it again.
                        eprintln!("{}: {} does not warm up: {error}", self.store, participant.spec.name);
                        participant.stop();
                    }
                }
                Err(error) => {
                    eprintln!("{}: {} is missing: {error}", self.store, participant.spec.name);
                    participant.missing = Some(error.to_string());
                }
            }
        }
    }

    /// One turn of one system.
    pub(crate) async fn turn(&mut self, participant: usize, work: Work, name: &str) -> Result<TurnResult> {
        let processes = if let Work::HandOff { processes, .. } = work { processes } else { 1 };
        self.ready(participant, processes).await?;
        run_turn(work, &mut self.participants[participant].team, name, &self.schedule).await
    }

    /// Starts or ends processes of this system until there are so many.
    async fn ready(&mut self, participant: usize, processes: usize) -> Result<()> {
        let spec = self.participants[participant].spec;
        while self.participants[participant].team.len() < processes {
            let driver = self.start_driver(&spec, &self.address, TTL).await?;
            let participant = &mut self.participants[participant];
            (participant.version, participant.kinds) = (driver.version.clone(), driver.kinds.clone());
            participant.team.push(driver);
        }
        self.participants[participant].team.truncate(processes);
        Ok(())
    }

    /// One more process of this system.
    pub(crate) async fn start_driver(
        &self,
        spec: &SystemSpec,
        address: &str,
        ttl: Duration,
    ) -> Result<DriverProcess> {
        DriverProcess::start(&self.drivers.command(spec, address, ttl)?).await
    }
}

impl Participant {
    fn new(spec: SystemSpec) -> Self {
        Self { spec, team: Vec::new(), version: String::new(), kinds: Vec::new(), missing: None }
    }

    /// Ends its processes.
    pub(crate) fn stop(&mut self) {
        self.team.clear();
    }

    /// A row without figures. `None` if it is not asked for, or the system has no such lock.
    pub(crate) fn row(&self, args: &CompareArgs, scenario: &Scenario) -> Option<ScenarioResult> {
        let needs_locks = matches!(scenario.work, Work::Shared { .. } | Work::Takeover | Work::Held { .. });
        // Processes that share a file have no messages and no connection.
        let (is_file, is_floor) = (self.spec.store == "sqlite", self.spec.name == FLOOR);
        match scenario.work {
            Work::Costs { .. } if is_file => return None,
            Work::HandOff { .. } if is_file && is_floor => return None,
            _ => {}
        }
        let mut row = ScenarioResult::new(&self.spec, scenario.name);
        if !args.wants(&row.store, &row.system, scenario.name) || row.is_floor() && needs_locks {
            return None;
        }
        row.version.clone_from(&self.version);
        row.failed.clone_from(&self.missing);
        if let (Work::Shared { kind }, None) = (scenario.work, &row.failed)
            && !self.kinds.contains(&kind)
        {
            return None;
        }
        Some(row)
    }
}
