//! The suite on a file of its own for each case, with contenders in processes of their own.

mod declared;
mod file;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Harness, ServerControl, Wire};
use lock_core::{Backend, Keeper};

use self::file::OwnFile;

lock_conformance::suite!(SqliteHarness);

/// A file for one case.
#[derive(Debug)]
struct SqliteHarness {
    path: PathBuf,
    /// Only in the process of the case itself, not in its contenders.
    file: Option<OwnFile>,
}

#[async_trait]
impl Harness for SqliteHarness {
    fn store() -> &'static str {
        "sqlite"
    }

    fn cuts_show_nothing() -> Option<&'static str> {
        Some("a client looks in the file for those of its waiters whose datagrams found no way")
    }

    fn declared() -> &'static [Declared] {
        declared::OWN
    }

    async fn start(_case: &'static Case) -> Self {
        let file = OwnFile::new();
        Self { path: file.path(), file: Some(file) }
    }

    async fn attach(address: &str) -> Self {
        Self { path: address.into(), file: None }
    }

    fn address(&self) -> Option<String> {
        Some(self.path.to_str().expect("folders for tests have readable names").to_owned())
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        Arc::new(file::client(&self.path, keeper))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        None
    }

    fn server(&self) -> &dyn ServerControl {
        self.file.as_ref().expect("a contender leaves the file alone")
    }
}
