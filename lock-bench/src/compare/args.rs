//! [`CompareArgs`]: the command line of `lock-bench compare`.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::drivers::FLOOR;

/// Compares distlock with other lock libraries
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Run all scenarios, in more and longer rounds; without it, those that take at most 15 minutes together
    #[arg(long)]
    pub(crate) full: bool,

    /// How often all systems take turns, instead of 3 times, or 5 with `--full`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// Only these stores: redis, etcd, zk, sqlite
    #[arg(long, value_name = "STORE,…", value_delimiter = ',')]
    pub(crate) stores: Vec<String>,

    /// Only these systems, and the floors: `distlock,rslock`
    #[arg(long, value_name = "SYSTEM,…", value_delimiter = ',')]
    pub(crate) systems: Vec<String>,

    /// Only these scenarios, long ones too: `pair,handoff-2`
    #[arg(long, value_name = "SCENARIO,…", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,

    /// Only these rows: `redis/rslock/pair`, `etcd/jetcd`
    #[arg(long, value_name = "STORE/SYSTEM/SCENARIO,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Where to write report.json, report.md and index.html; other rows of a report there are kept
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Measure nothing: write report.md and index.html again, from the report.json in `--out`
    #[arg(long, requires = "out")]
    pub(crate) render: bool,
}

impl CompareArgs {
    /// By default a folder of today below cargo's target folder, because raw data are not committed.
    pub(crate) fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            target_folder(env::var_os("CARGO_TARGET_DIR")).join("lock-bench").join(&today[..10])
        })
    }

    pub(crate) fn wants_store(&self, store: &str) -> bool {
        (self.stores.is_empty() || self.stores.iter().any(|one| one == store)) && self.only_allows(&[store])
    }

    pub(crate) fn wants_system(&self, store: &str, system: &str) -> bool {
        let floor = system == FLOOR;
        (floor || self.systems.is_empty() || self.systems.iter().any(|one| one == system))
            && (floor || self.only_allows(&[store, system]))
    }

    pub(crate) fn wants(&self, store: &str, system: &str, scenario: &str) -> bool {
        let floor_of_another = system == FLOOR
            && self.only.iter().any(|row| row.split('/').nth(2).is_none_or(|only| only == scenario));
        floor_of_another || self.only_allows(&[store, system, scenario])
    }

    /// A row may be given in part: what is missing stands for all.
    fn only_allows(&self, row: &[&str]) -> bool {
        self.only.is_empty()
            || self.only.iter().any(|only| only.split('/').zip(row).all(|(only, part)| only == *part))
    }
}

/// Where cargo writes what it builds.
fn target_folder(configured: Option<OsString>) -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    configured.map_or_else(usual, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn raw_data_are_written_to_a_folder_that_git_ignores() {
        let usual = target_folder(None);
        let ignored = fs::read_to_string(usual.with_file_name(".gitignore")).unwrap();
        assert!(usual.ends_with("target") && ignored.lines().any(|line| line == "/target"), "{ignored}");
        assert_eq!(target_folder(Some("elsewhere".into())), Path::new("elsewhere"));

        let nothing = Vec::new;
        let args = CompareArgs {
            full: false,
            rounds: None,
            stores: nothing(),
            systems: nothing(),
            scenarios: nothing(),
            only: nothing(),
            out: None,
            render: false,
        };
        assert!(args.out().starts_with(target_folder(env::var_os("CARGO_TARGET_DIR"))));
    }
}
