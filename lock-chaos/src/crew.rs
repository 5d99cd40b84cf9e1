//! [`Crew`]: the clients, each in a process of its own.

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant},
};

use lock_conformance::{ServerProcess, ServerProgram};
use lock_core::{BootTime, Clock, SystemClock, sync::Mutex};
use tokio::time::sleep;

use crate::{error::Result, fault::ClientFault};

/// How long a client may take to end: for its longest wait, its longest hold, and its close, with some to spare.
const PATIENCE: Duration = Duration::from_secs(60);

/// There is one client in each seat. One that is killed is followed by another one, with another number.
#[derive(Debug)]
pub(crate) struct Crew {
    /// How the client in each seat reaches the store.
    urls: Vec<String>,
    seed: u64,
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The client in each seat.
    seats: Vec<Option<Client>>,
    /// When each client was killed, by its number.
    killed: Vec<Option<BootTime>>,
}

#[derive(Debug)]
struct Client {
    number: usize,
    process: ServerProcess,
}

impl Crew {
    /// Starts a client in each seat.
    pub(crate) fn start(urls: Vec<String>, seed: u64, folder: PathBuf) -> Result<Self> {
        let crew = Self { urls, seed, folder, state: Mutex::default() };
        for url in &crew.urls {
            let client = crew.launch(url)?;
            crew.state.lock().seats.push(Some(client));
        }
        Ok(crew)
    }

    pub(crate) fn inflict(&self, fault: ClientFault, seat: usize) {
        let mut state = self.state.lock();
        match (fault, &state.seats[seat]) {
            (ClientFault::Pause, Some(client)) => client.process.pause(),
            (ClientFault::Kill, Some(client)) => {
                // It lives for a moment longer. What it writes until then counts.
                let (number, at) = (client.number, SystemClock.now());
                state.killed[number] = Some(at);
                state.seats[seat] = None;
            }
            (_, None) => {}
        }
    }

    pub(crate) fn undo(&self, fault: ClientFault, seat: usize) -> Result<()> {
        match fault {
            ClientFault::Pause => {
                if let Some(client) = &self.state.lock().seats[seat] {
                    client.process.resume();
                }
            }
            ClientFault::Kill => {
                let client = self.launch(&self.urls[seat])?;
                self.state.lock().seats[seat] = Some(client);
            }
        }
        Ok(())
    }

    fn launch(&self, url: &str) -> Result<Client> {
        let number = {
            let mut state = self.state.lock();
            state.killed.push(None);
            state.killed.len() - 1
        };
        let program = ServerProgram::local([env::current_exe()?.display().to_string()]);
        let (its_number, seed) = (number.to_string(), self.seed.to_string());
        let arguments = ["client", "--url", url, "--number", &its_number, "--seed", &seed].map(str::to_owned);
        let process = ServerProcess::start(&program, &arguments, &self.log(number));
        Ok(Client { number, process })
    }

    /// Tells all clients to end, and returns when they have: the numbers of those that did not, which are killed.
    pub(crate) async fn finish(&self) -> Vec<usize> {
        self.alive(|client| client.process.terminate());
        let end = Instant::now() + PATIENCE;
        while !self.alive(|_| {}).is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(50)).await;
        }
        let hanging = self.alive(|_| {});
        let mut state = self.state.lock();
        for number in &hanging {
            state.killed[*number] = Some(SystemClock.now());
        }
        state.seats.clear();
        hanging
    }

    /// Calls `order` with each client that runs, and returns their numbers.
    fn alive(&self, order: impl Fn(&Client)) -> Vec<usize> {
        let state = self.state.lock();
        let alive = state.seats.iter().flatten().filter(|client| client.process.is_alive());
        alive.inspect(|client| order(client)).map(|client| client.number).collect()
    }

    /// What each client has written, by its number, and when it was killed.
    pub(crate) fn logs(&self) -> Vec<(PathBuf, Option<BootTime>)> {
        let killed = self.state.lock().killed.clone();
        killed.into_iter().enumerate().map(|(number, killed)| (self.log(number), killed)).collect()
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("client-{number}.jsonl"))
    }
}
