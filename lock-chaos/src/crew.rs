//! [`Crew`]: the clients, each in a process of its own.

use std::{
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
    program: ServerProgram,
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
    pub(crate) fn start(program: ServerProgram, urls: Vec<String>, seed: u64, folder: PathBuf) -> Self {
        let crew = Self { program, urls, seed, folder, state: Mutex::default() };
        for url in &crew.urls {
            let client = crew.launch(url);
            crew.state.lock().seats.push(Some(client));
        }
        crew
    }

    /// # Errors
    /// If the client has ended by itself: then nobody knows what it did last.
    pub(crate) fn inflict(&self, fault: ClientFault, seat: usize) -> Result<()> {
        let mut state = self.state.lock();
        let Some(client) = &state.seats[seat] else { return Ok(()) };
        let number = client.number;
        if !client.process.is_alive() {
            return Err(format!("client {number} has ended without being told to").into());
        }
        match fault {
            ClientFault::Pause => client.process.pause(),
            ClientFault::Kill => {
                // It lives for a moment longer. What it writes until then counts.
                state.killed[number] = Some(SystemClock.now());
                state.seats[seat] = None;
            }
        }
        Ok(())
    }

    pub(crate) fn undo(&self, fault: ClientFault, seat: usize) {
        match fault {
            ClientFault::Pause => {
                if let Some(client) = &self.state.lock().seats[seat] {
                    client.process.resume();
                }
            }
            ClientFault::Kill => {
                let client = self.launch(&self.urls[seat]);
                self.state.lock().seats[seat] = Some(client);
            }
        }
    }

    fn launch(&self, url: &str) -> Client {
        let number = {
            let mut state = self.state.lock();
            state.killed.push(None);
            state.killed.len() - 1
        };
        let (its_number, seed) = (number.to_string(), self.seed.to_string());
        let arguments = ["client", "--url", url, "--number", &its_number, "--seed", &seed].map(str::to_owned);
        let process = ServerProcess::start(&self.program, &arguments, &self.log(number));
        Client { number, process }
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
