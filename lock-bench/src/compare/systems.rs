//! [`SystemSpec`]: the systems that are compared, and how their drivers are started.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use clap::ValueEnum;

use super::args::CompareArgs;
use crate::{
    drivers::{FLOOR, arguments, own_program},
    error::Result,
    store::StoreKind,
};

/// A lock library on a store, or the floor of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemSpec {
    pub(crate) store: &'static str,
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// What a reader of its figures should know.
    pub(crate) note: &'static str,
}

/// The language of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// Rust, in this binary.
    Own,
    Rust,
    Go,
    /// Go, in a module of its own, because some mirrors do not have it.
    Rueidis,
    Java,
    Python,
}

impl Language {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own | Self::Rust => "Rust",
            Self::Go | Self::Rueidis => "Go",
            Self::Java => "Java",
            Self::Python => "Python",
        }
    }

    /// The name of its build in `peers/setup`.
    fn build(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Rueidis => "rueidislock",
            Self::Java => "java",
            Self::Python => "python",
        }
    }
}

const fn system(
    store: &'static str,
    name: &'static str,
    language: Language,
    note: &'static str,
) -> SystemSpec {
    SystemSpec { store, name, language, note }
}

/// All systems. The floor is the first one of each store.
pub(crate) const SYSTEMS: [SystemSpec; 24] = {
    use Language::{Go, Java, Own, Python, Rueidis, Rust};
    [
        system("redis", FLOOR, Own, "SET NX PX and compare-and-delete; PUBLISH to its receipt"),
        system("redis", "distlock", Own, "queue, fencing token, renewal"),
        system("redis", "rslock", Rust, "no queue, no token, no renewal; polls"),
        system("redis", "distkit", Rust, "no queue, no token; polls; waits for a timer's first tick"),
        system("redis", "distributed-lock", Rust, "no queue, no token; our loop of 10 ms around its try"),
        system("redis", "redsync", Go, "no queue, no token, no renewal; polls"),
        system(
            "redis",
            "bsm-redislock",
            Go,
            "no queue, no token, no renewal; polls; our back-off of 16 to 64 ms",
        ),
        system(
            "redis",
            "go-zero",
            Go,
            "no queue, no token, no renewal; our loop of 10 ms around its try; its circuit breaker opens at first on Redis before 7.2",
        ),
        system("redis", "rueidislock", Rueidis, "no token; wakes its waiters by client-side caching"),
        system("redis", "redisson", Java, "no queue; wakes its waiters by pub/sub"),
        system("redis", "redisson-fair", Java, "queue; wakes its waiters by pub/sub"),
        system("redis", "redis-py", Python, "no queue, no token, no renewal; polls every 100 ms"),
        system("etcd", FLOOR, Own, "a transaction that creates, and a delete; a delete to its event"),
        system("etcd", "distlock", Own, "queue, fencing token, renewal"),
        system("etcd", "concurrency", Go, "the client's own Mutex: queue, renewal"),
        system("etcd", "etcd-client", Rust, "the server's lock service, v3lock"),
        system("etcd", "jetcd", Java, "the server's lock service, v3lock"),
        system("zk", FLOOR, Own, "a create and a delete; a delete to its event"),
        system("zk", "distlock", Own, "queue, fencing token, sessions that writes prove alive"),
        system(
            "zk",
            "zookeeper-client",
            Rust,
            "queue; deletes in the background: a release cannot be awaited",
        ),
        system("zk", "curator", Java, "InterProcessMutex: queue"),
        system("zk", "kazoo", Python, "Lock: queue"),
        system("sqlite", FLOOR, Own, "one bare transaction"),
        system("sqlite", "distlock", Own, "queue, fencing token, sees at once that a process died"),
    ]
};

/// The stores that can be compared, in order.
pub(crate) const STORES: [&str; 4] = ["redis", "etcd", "zk", "sqlite"];

/// The systems of a store that are asked for.
pub(crate) fn asked_for(args: &CompareArgs, store: &str) -> Vec<SystemSpec> {
    SYSTEMS.into_iter().filter(|one| one.store == store && args.wants_system(store, one.name)).collect()
}

/// How drivers are started: the builds of `peers/setup`, or why one is missing.
#[derive(Debug, Default)]
pub(crate) struct DriverCommands(BTreeMap<String, Result<String, String>>);

impl DriverCommands {
    /// Builds the drivers of these systems that are not built yet, which may take minutes.
    pub(crate) fn build(systems: &[SystemSpec]) -> Result<Self> {
        let mut wanted: Vec<&str> = systems.iter().map(|system| system.language.build()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|build| *build != Language::Own.build());
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/setup");
        let mut printing = Command::new(&setup);
        printing.arg("--print").args(&wanted).stderr(Stdio::inherit());
        let output = printing.output().map_err(|error| format!("peers/setup: {error}"))?;
        Ok(Self(String::from_utf8(output.stdout)?.lines().filter_map(built).collect()))
    }

    /// # Errors
    /// Why there is no driver.
    pub(crate) fn command(&self, system: &SystemSpec, address: &str, ttl: Duration) -> Result<Vec<String>> {
        let mut command = if system.language == Language::Own {
            own_program(system.store)?
        } else {
            let wanted = system.language.build();
            let printed =
                self.0.get(wanted).ok_or_else(|| format!("peers/setup says nothing of {wanted}"))?;
            printed.clone()?.split('\t').map(str::to_owned).collect()
        };
        command.extend(arguments(system.name, address, ttl));
        Ok(command)
    }
}

/// `go<tab>ok<tab>program<tab>argument…`, or `go<tab>missing<tab>reason`.
fn built(line: &str) -> Option<(String, Result<String, String>)> {
    let (name, rest) = line.split_once('\t')?;
    let (state, rest) = rest.split_once('\t')?;
    let built = if state == "ok" { Ok(rest.to_owned()) } else { Err(format!("{NOT_INSTALLED}: {rest}")) };
    Some((name.to_owned(), built))
}

/// What the reason begins with where a library cannot be installed.
pub(crate) const NOT_INSTALLED: &str = "not installed";

/// # Errors
/// If this binary was built without the store.
pub(crate) fn store_kind(name: &str) -> Result<StoreKind> {
    StoreKind::from_str(name, false).map_err(|_| format!("this lock-bench was built without {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_setup_could_not_build_is_told_with_its_reason() {
        assert_eq!(built("go\tok\t/bin/peers"), Some(("go".into(), Ok("/bin/peers".into()))));
        let missing = Err("not installed: no such module".into());
        assert_eq!(built("rueidislock\tmissing\tno such module"), Some(("rueidislock".into(), missing)));
        assert_eq!(built("Downloading"), None);
        let system = SYSTEMS.iter().find(|system| system.name == "redsync").unwrap();
        let mut drivers = DriverCommands::default();
        drivers.0.extend(built("go\tmissing\tno compiler"));
        let error = drivers.command(system, "here:1", Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "not installed: no compiler");
    }

    #[test]
    fn every_system_has_a_name_of_its_own_and_every_store_a_floor() {
        for (i, one) in SYSTEMS.iter().enumerate() {
            assert!(SYSTEMS[..i].iter().all(|other| (one.store, one.name) != (other.store, other.name)));
        }
        for store in STORES {
            assert_eq!(SYSTEMS.iter().find(|system| system.store == store).unwrap().name, FLOOR);
        }
    }
}
