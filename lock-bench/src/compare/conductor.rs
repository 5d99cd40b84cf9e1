//! [`compare`]: the rounds.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use super::{
    args::{CompareArgs, FLOOR},
    markdown,
    measure::{Turn, distribution, turn},
    page,
    peer::Peer,
    protocol::Kind,
    record::{Figures, Record, Row},
    scenario::{SCENARIOS, Scenario, Schedule, Work},
    special,
    systems::{Drivers, STORES, SYSTEMS, SystemSpec, asked_for, store_kind},
};
use crate::{
    Result,
    store::{self, Store},
};

/// Of locks and sessions, where nobody dies.
const TTL: Duration = Duration::from_secs(30);

/// One store, while it is measured.
pub(crate) struct Field<'a> {
    pub(crate) store: &'static str,
    pub(crate) server: Box<dyn Store>,
    /// `host:port`, or the path of a file.
    pub(crate) address: String,
    pub(crate) drivers: &'a Drivers,
    pub(crate) schedule: Schedule,
    pub(crate) entrants: Vec<Entrant>,
}

/// One system, while its store is measured.
pub(crate) struct Entrant {
    pub(crate) spec: SystemSpec,
    team: Vec<Peer>,
    /// As its driver says.
    version: String,
    kinds: Vec<Kind>,
    /// Why it cannot take part at all.
    missing: Option<String>,
}

/// Runs what is asked for, and writes the report after each scenario: a long run that is stopped keeps what it has.
pub(crate) async fn compare(args: &CompareArgs) -> Result<ExitCode> {
    check(args)?;
    let started = Instant::now();
    let folder = args.out();
    let mut record = Record::read(&folder)?;
    if args.render {
        return render(&record, &folder);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stores: Vec<_> = STORES.into_iter().filter(|store| args.wants_store(store)).collect();
    let systems: Vec<_> = stores.iter().flat_map(|store| asked_for(args, store)).collect();
    let drivers = Drivers::build(&systems)?;
    for store in stores {
        match Field::start(args, store, &drivers).await {
            Ok(mut field) => field.measure(args, &mut record, &folder).await?,
            Err(error) => {
                eprintln!("{store}: not measured: {error}");
                record.stores.insert(store.to_owned(), format!("not measured: {error}"));
                write(&record, &folder)?;
            }
        }
    }
    println!("{}", markdown::page(&record));
    eprintln!("written to {} after {} s", folder.display(), started.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// Writes the summary and the page of a report that is there.
fn render(record: &Record, folder: &Path) -> Result<ExitCode> {
    if record.rows.is_empty() {
        let folder = folder.display();
        return Err(format!("{folder}: there is no report.json; run `lock-bench compare` first").into());
    }
    write(record, folder)?;
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// If something is asked for that there is not.
fn check(args: &CompareArgs) -> Result<()> {
    let scenarios = SCENARIOS.map(|scenario| scenario.name);
    let systems = SYSTEMS.map(|system| system.name);
    let mut asked: Vec<(&str, &[&str], &str)> = Vec::new();
    asked.extend(args.stores.iter().map(|name| ("store", &STORES[..], &**name)));
    asked.extend(args.systems.iter().map(|name| ("system", &systems[..], &**name)));
    asked.extend(args.scenarios.iter().map(|name| ("scenario", &scenarios[..], &**name)));
    let kinds = [("store", &STORES[..]), ("system", &systems[..]), ("scenario", &scenarios[..])];
    for row in &args.only {
        asked.extend(row.split('/').zip(kinds).map(|(name, (what, known))| (what, known, name)));
    }
    for (what, known, name) in asked {
        if !known.contains(&name) {
            let mut known = known.to_vec();
            known.dedup();
            return Err(format!("there is no {what} `{name}`; there are {}", known.join(", ")).into());
        }
    }
    Ok(())
}

fn write(record: &Record, folder: &Path) -> Result<()> {
    // Whole or not at all, also for whoever is stopped just then.
    let put = |name: &str, what: String| {
        let (path, new) = (folder.join(name), folder.join(format!(".{name}.new")));
        fs::write(&new, what)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    put("report.json", serde_json::to_string_pretty(record)? + "\n")?;
    put("report.md", markdown::page(record))?;
    put("index.html", page::html(record))?;
    Ok(())
}

/// Whether it is run: it is asked for by its name, or by a row, or is one of those that are run unasked.
fn is_run(args: &CompareArgs, scenario: &Scenario) -> bool {
    let by_row = args.only.iter().any(|row| row.split('/').nth(2) == Some(scenario.name));
    if args.scenarios.is_empty() {
        args.full || scenario.short || by_row
    } else {
        args.scenarios.iter().any(|name| name == scenario.name)
    }
}

impl<'a> Field<'a> {
    async fn start(args: &CompareArgs, store: &'static str, drivers: &'a Drivers) -> Result<Self> {
        let server = store::start(store_kind(store)?).await?;
        let address = server.address().ok_or("other processes cannot reach this store")?;
        let address = address.trim_start_matches("redis://").trim_end_matches('/').to_owned();
        let mut schedule = if args.full { Schedule::FULL } else { Schedule::SHORT };
        if let Some(rounds) = args.rounds {
            schedule.rounds = rounds as usize;
        }
        let entrants = asked_for(args, store).into_iter().map(Entrant::new).collect();
        Ok(Self { store, server, address, drivers, schedule, entrants })
    }

    async fn measure(&mut self, args: &CompareArgs, record: &mut Record, folder: &Path) -> Result<()> {
        let today = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        // Where a file lies is of no interest to anybody else.
        let about =
            format!("{}, {}", self.server.description().replace(&self.address, "one file"), &today[..10]);
        record.stores.insert(self.store.to_owned(), about);
        self.warm_up().await;
        for scenario in SCENARIOS.iter().filter(|scenario| is_run(args, scenario)) {
            let rows = match scenario.work {
                Work::Pairs { .. } | Work::HandOff { .. } | Work::Shared { .. } => {
                    self.rounds(args, scenario).await
                }
                Work::Costs { .. } | Work::Takeover | Work::Held { .. } => {
                    special::rows(self, args, scenario).await
                }
            };
            for row in rows {
                record.put(row);
            }
            write(record, folder)?;
        }
        Ok(())
    }

    /// Starts all drivers, and lets them work for a while.
    async fn warm_up(&mut self) {
        let schedule = Schedule { turn: self.schedule.warm_up, ..self.schedule };
        for i in 0..self.entrants.len() {
            eprintln!("{}: {} starts", self.store, self.entrants[i].spec.name);
            let ready = self.ready(i, 1).await;
            let entrant = &mut self.entrants[i];
            match ready {
                Ok(()) => {
                    let name = format!("warm-{}", entrant.spec.name);
                    if let Err(error) =
                        turn(Work::Pairs { tasks: 16 }, &mut entrant.team, &name, &schedule).await
                    {
                        // It gets another chance in each scenario.
                        eprintln!("{}: {} does not get warm: {error}", self.store, entrant.spec.name);
                        entrant.team.clear();
                    }
                }
                Err(error) => {
                    eprintln!("{}: {} is missing: {error}", self.store, entrant.spec.name);
                    entrant.missing = Some(error.to_string());
                }
            }
        }
    }

    /// So many processes of this system.
    async fn ready(&mut self, entrant: usize, processes: usize) -> Result<()> {
        let spec = self.entrants[entrant].spec;
        while self.entrants[entrant].team.len() < processes {
            let peer = self.start_peer(&spec, &self.address, TTL).await?;
            let entrant = &mut self.entrants[entrant];
            (entrant.version, entrant.kinds) = (peer.version.clone(), peer.kinds.clone());
            entrant.team.push(peer);
        }
        self.entrants[entrant].team.truncate(processes);
        Ok(())
    }

    /// One more process of this system.
    pub(crate) async fn start_peer(&self, spec: &SystemSpec, address: &str, ttl: Duration) -> Result<Peer> {
        Peer::start(&self.drivers.command(spec, address, ttl)?).await
    }

    /// One row for each system: round after round, and in each one system after the other.
    async fn rounds(&mut self, args: &CompareArgs, scenario: &Scenario) -> Vec<Row> {
        let (size, rounds) = (self.entrants.len(), self.schedule.rounds);
        let mut rows: Vec<_> = self.entrants.iter().map(|entrant| entrant.row(args, scenario)).collect();
        let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); size];
        for round in 0..=rounds {
            eprintln!("{}: {}, round {round} of {rounds}", self.store, scenario.name);
            let mut figures: Vec<Option<Figures>> = vec![None; size];
            for place in 0..size {
                // Each time another is first.
                let i = (place + round) % size;
                let Some(row) = rows[i].as_mut().filter(|row| row.failed.is_none()) else { continue };
                match self.turn(i, scenario.work, &format!("{}-{}-{round}", row.system, row.scenario)).await {
                    // In the first round everybody gets warm, but is checked.
                    Ok(done) => figures[i] = take(done, row, &mut latencies[i], round > 0),
                    Err(error) => {
                        eprintln!("{}: {} failed in {}: {error}", self.store, row.system, row.scenario);
                        row.failed = Some(error.to_string());
                        self.entrants[i].team.clear();
                    }
                }
            }
            if round > 0 {
                compare_to_floor(&mut rows, &figures);
            }
        }
        for (row, latencies) in rows.iter_mut().zip(&latencies) {
            if let Some(row) = row {
                row.distribution = distribution(latencies, &PERCENTS);
            }
        }
        rows.into_iter().flatten().collect()
    }

    async fn turn(&mut self, entrant: usize, work: Work, name: &str) -> Result<Turn> {
        let processes = if let Work::HandOff { processes, .. } = work { processes } else { 1 };
        self.ready(entrant, processes).await?;
        turn(work, &mut self.entrants[entrant].team, name, &self.schedule).await
    }
}

/// Of distributions.
const PERCENTS: [f64; 13] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];

fn take(turn: Turn, row: &mut Row, latencies: &mut Vec<u64>, counts: bool) -> Option<Figures> {
    turn.marks.into_iter().for_each(|mark| row.mark(mark));
    counts.then(|| {
        latencies.extend(turn.latencies);
        turn.figures
    })
}

/// Within a round: what slows the machine down for a while slows both down.
fn compare_to_floor(rows: &mut [Option<Row>], round: &[Option<Figures>]) {
    let is_floor = |row: &Option<Row>| row.as_ref().is_some_and(Row::is_floor);
    let floor = rows.iter().position(is_floor).and_then(|floor| round[floor].clone());
    for (row, figures) in rows.iter_mut().zip(round) {
        let (Some(row), Some(figures)) = (row, figures) else { continue };
        row.rounds.push(figures.clone());
        if let Some(floor) = floor.as_ref().filter(|_| !row.is_floor()) {
            let ratio = |(name, value): (&String, &f64)| {
                floor.get(name).filter(|floor| **floor > 0.0).map(|floor| (name.clone(), value / floor))
            };
            row.ratios.push(figures.iter().filter_map(ratio).collect());
        }
    }
}

impl Entrant {
    fn new(spec: SystemSpec) -> Self {
        Self { spec, team: Vec::new(), version: String::new(), kinds: Vec::new(), missing: None }
    }

    /// An empty one, if it is asked for and makes sense.
    pub(crate) fn row(&self, args: &CompareArgs, scenario: &Scenario) -> Option<Row> {
        let needs_locks = matches!(scenario.work, Work::Shared { .. } | Work::Takeover | Work::Held { .. });
        // Processes that share a file have no messages and no connection.
        let (alone, floor) = (self.spec.store == "sqlite", self.spec.name == FLOOR);
        match scenario.work {
            Work::Costs { .. } if alone => return None,
            Work::HandOff { .. } if alone && floor => return None,
            _ => {}
        }
        let mut row = Row::new(&self.spec, scenario.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str) -> Option<Row> {
        Record::systems("redis").find(|one| one.name == system).map(|system| Row::new(system, "pair"))
    }

    fn figures(value: f64) -> Figures {
        Figures::from([("p50_us".to_owned(), value)])
    }

    #[test]
    fn a_ratio_is_that_to_the_floor_of_the_same_round() {
        let mut rows = vec![row("floor"), row("distlock"), row("rslock")];
        compare_to_floor(&mut rows, &[Some(figures(10.0)), Some(figures(20.0)), None]);
        compare_to_floor(&mut rows, &[100.0, 300.0, 100.0].map(|value| Some(figures(value))));
        let ratio = |row: &Option<Row>| row.as_ref().unwrap().ratio("p50_us");
        assert_eq!(ratio(&rows[1]), Some((2.5, 2.0, 3.0)));
        assert_eq!(ratio(&rows[2]), Some((1.0, 1.0, 1.0)));
        assert_eq!(ratio(&rows[0]), None);
    }
}
