//! [`DriverProcess`]: a driver that runs, and its protocol.

use std::{
    env,
    fs::File,
    io::{Read, Seek, SeekFrom},
    time::Duration,
};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use super::{
    driver::Driver,
    protocol::{Hello, Kind, Request, Response},
};
use crate::{error::Result, line_process::LineProcess, store::Store};

/// The process is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct DriverProcess {
    process: LineProcess,
    stderr: File,
    pub(crate) version: String,
    pub(crate) kinds: Vec<Kind>,
}

/// How long a driver may take to start: a Java virtual machine is slow on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a response may take where the request says nothing else.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

impl DriverProcess {
    /// Starts a driver of our locks.
    pub(crate) async fn own(store: &dyn Store, ttl: Duration) -> Result<Self> {
        let address = store.address().ok_or("other processes cannot reach this store")?;
        let mut command = own_program(store.kind().name())?;
        command.extend(arguments("distlock", &address, ttl));
        Self::start(&command).await
    }

    /// Starts a driver, and waits until it is connected.
    ///
    /// # Errors
    /// The reason that it gives, or its last line on the standard error.
    pub(crate) async fn start(command: &[String]) -> Result<Self> {
        let [program, arguments @ ..] = command else { return Err("nothing to start".into()) };
        let stderr = tempfile::tempfile()?;
        let mut command = Command::new(program);
        command.args(arguments).stderr(stderr.try_clone()?);
        let process = LineProcess::start(&mut command)
            .map_err(|error| format!("its driver could not be started: {error}"))?;
        let mut driver = Self { process, stderr, version: String::new(), kinds: Vec::new() };
        match driver.line(START_TIMEOUT).await? {
            Hello::Ready { version, kinds } => Ok(Self { version, kinds, ..driver }),
            Hello::Failed(reason) => Err(reason.into()),
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// # Errors
    /// The reason that the driver gives, or that it did not answer in time.
    pub(crate) async fn ask(&mut self, request: &Request, limit: Duration) -> Result<Response> {
        self.tell(request).await?;
        self.response(limit).await
    }

    /// Sends a request without waiting for the response.
    pub(crate) async fn tell(&mut self, request: &Request) -> Result<()> {
        let line = serde_json::to_string(request)?;
        Ok(self.process.write_line(line).await.map_err(|error| format!("its driver is gone: {error}"))?)
    }

    pub(crate) async fn response(&mut self, limit: Duration) -> Result<Response> {
        match self.line(limit).await? {
            Response::Failed(reason) => Err(reason.into()),
            response => Ok(response),
        }
    }

    /// Kills it (`kill -9`).
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    async fn line<T: DeserializeOwned>(&mut self, limit: Duration) -> Result<T> {
        let Some(line) = self.process.read_line(limit).await? else {
            return Err(self.last_error_line().into());
        };
        Ok(serde_json::from_str(&line).map_err(|error| format!("its driver said {line:?}: {error}"))?)
    }

    fn last_error_line(&mut self) -> String {
        let mut text = String::new();
        let read = self.stderr.seek(SeekFrom::Start(0)).and_then(|_| self.stderr.read_to_string(&mut text));
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
        if read.is_ok() { format!("its driver ended: {last}") } else { "its driver ended".to_owned() }
    }
}

#[async_trait]
impl Driver for DriverProcess {
    async fn handle(&mut self, request: Request) -> Result<Response> {
        self.ask(&request, RESPONSE_TIMEOUT).await
    }
}

/// The program that drives our locks and the floors of a store: this one.
pub(crate) fn own_program(store: &str) -> Result<Vec<String>> {
    let here = env::current_exe()?.to_str().ok_or("the path of this binary is no text")?.to_owned();
    Ok([here.as_str(), "driver", "--store", store].map(str::to_owned).into())
}

/// What every driver is told.
pub(crate) fn arguments(system: &str, address: &str, ttl: Duration) -> [String; 6] {
    let ttl = ttl.as_millis().to_string();
    ["--system", system, "--address", address, "--ttl-ms", &ttl].map(str::to_owned)
}
