//! The suite on a file of its own for each case, with contenders in processes of their own.

mod file;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Harness, ServerControl, Wire};
use lock_core::{Backend, Keeper};

use self::file::OwnFile;

lock_conformance::suite!(SqliteHarness);

const NO_WIRE: &str = "there is no wire between the store and its clients";
const NO_SERVER: &str = "there is no server that could end or lose data while its clients go on";

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
        const fn no(reason: &'static str, id: &'static str) -> Declared {
            Declared { id, reason }
        }
        const DECLARED: &[Declared] = &[
            no("there is no way to put anything but locks into it", "X12"),
            no(NO_SERVER, "L06"),
            no(NO_WIRE, "T01"),
            no(NO_WIRE, "T02"),
            no(NO_WIRE, "T03"),
            no(NO_WIRE, "T04"),
            no(NO_WIRE, "T05"),
            no(NO_WIRE, "T06"),
            no(NO_WIRE, "T07"),
            no(NO_WIRE, "T08"),
            no(NO_WIRE, "T15"),
            no(
                "its bound is the disk, on which nothing at all can be written then; it has a test of its own",
                "T19",
            ),
            no(NO_SERVER, "T21"),
            no("whoever may open the file need not show who he is", "T24"),
            no("a fork would take the locks of its parent for its own, and is refused", "C20"),
        ];
        DECLARED
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
