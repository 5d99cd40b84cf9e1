//! [`Store`]: the store that the settings name, connected.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use distlock::Locks;
use tokio::time;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
use {
    distlock::{
        Backend, ConnectError, Keeper, SystemEntropy,
        sqlite::{ConnectError as SqliteError, Sqlite, SqliteConfig},
    },
    std::sync::Arc,
};

use crate::{
    args::{LockArgs, OutagePolicy},
    exit::Exit,
    failure::Failure,
    outage_throttle::OutageThrottle,
    output::Output,
    settings::Settings,
    signals::Signals,
};

/// The first and the longest pause between two attempts to connect. Each is twice as long as the one before.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// The connected store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) locks: Locks,
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    sqlite: Option<Arc<Sqlite>>,
}

impl Store {
    /// # Errors
    /// If it cannot be connected to, or if it is the memory store, which is of no use to a command.
    pub(crate) async fn connect(settings: &Settings) -> Result<Self, Failure> {
        let url = &settings.url;
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        if scheme == "memory" {
            let message = "a `memory:` lock is in the memory of one process, and holds no other one up";
            return Err(Failure::new(Exit::USAGE, message).hint("another --url, or DISTLOCK_URL"));
        }
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        if scheme == "sqlite" {
            let sqlite = sqlite(url).await.map_err(|error| {
                let explained = || Failure::from(ConnectError::of_backend("sqlite", error));
                permission_failure(url).unwrap_or_else(explained)
            })?;
            let sqlite = Arc::new(sqlite);
            let backend = Arc::clone(&sqlite) as Arc<dyn Backend>;
            let locks = Locks::with(backend, Keeper::shared(), Arc::new(SystemEntropy));
            return Ok(Self { locks, sqlite: Some(sqlite) });
        }
        Ok(Self {
            locks: distlock::connect(url).await?,
            #[cfg(all(feature = "sqlite", target_os = "linux"))]
            sqlite: None,
        })
    }

    /// Connects to take a lock. With `--outage wait` it tries until the store is there, or the wait for the lock is over. A signal ends the
    /// attempt. Also returns how much of the wait that took.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub(crate) async fn connect_for(
        args: &LockArgs,
        settings: &Settings,
        signals: &mut Signals,
        output: &Output,
    ) -> Result<(Self, Duration), Failure> {
        tokio::select! {
            biased;
            signal = signals.next() => Err(Failure::silent(Exit::from_signal(signal))),
            connected = Self::connect_by_policy(args, settings, output) => connected,
        }
    }

    async fn connect_by_policy(
        args: &LockArgs,
        settings: &Settings,
        output: &Output,
    ) -> Result<(Self, Duration), Failure> {
        if args.outage != Some(OutagePolicy::Wait) {
            return Ok((Self::connect(settings).await?, Duration::ZERO));
        }
        let wait = args.wait.or(settings.file.wait);
        let (started, mut pause, mut outages) = (Instant::now(), LEAST_PAUSE, OutageThrottle::default());
        let mut waited = Duration::ZERO;
        loop {
            let failure = match Self::connect(settings).await {
                Ok(store) => return Ok((store, waited)),
                Err(failure) => failure,
            };
            let left = wait.map_or(Duration::MAX, |wait| wait.saturating_sub(started.elapsed()));
            if left.is_zero() || !failure.is_transient() {
                return Err(failure);
            }
            if outages.should_report(Instant::now()) {
                output.timed_line(format!(
                    "the store cannot be connected to, trying again ({})",
                    failure.cause()
                ));
            }
            time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(MOST_PAUSE);
            waited = started.elapsed();
        }
    }

    /// The process file of SQLite. Each child that is started while it is open inherits it, and the lock counts as held by a living process
    /// as long as one of them has it open (PR34). `None` on stores that only know leases.
    ///
    /// # Errors
    /// If the store cannot give it.
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    pub(crate) async fn process_file(&self) -> Result<Option<File>, Failure> {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};

        let Some(sqlite) = &self.sqlite else { return Ok(None) };
        let file = sqlite.process_file().await;
        let file =
            file.map_err(|error| Failure::of_store("the store cannot be told of the command", &error))?;
        let inherited = fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty()));
        inherited.map_err(|error| Failure::new(Exit::STORE, "a file cannot be inherited").because(&error))?;
        Ok(Some(file))
    }

    #[cfg(not(all(feature = "sqlite", target_os = "linux")))]
    #[allow(clippy::unused_async, reason = "another store has one to give")]
    pub(crate) async fn process_file(&self) -> Result<Option<File>, Failure> {
        Ok(None)
    }
}

/// As [`distlock::connect`] does it, but with the type of the backend.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
async fn sqlite(url: &str) -> Result<Sqlite, SqliteError> {
    Sqlite::connect(url.parse()?, &Keeper::shared()).await
}

/// A failure that says that this user may not open the file. SQLite only says that it cannot be opened.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
fn permission_failure(url: &str) -> Option<Failure> {
    use nix::{
        errno::Errno,
        unistd::{AccessFlags, access},
    };

    let path = SqliteConfig::from_url(url).ok()?.path?;
    let may = access(&path, AccessFlags::R_OK | AccessFlags::W_OK);
    let shown = path.display();
    (may == Err(Errno::EACCES)).then(|| {
        let failure = Failure::new(Exit::STORE, format!("this user may not read and write {shown}"));
        failure.hint(format!("its owner, group and mode: ls -l {shown}"))
    })
}
