//! Runs fuzz targets as tests, on any compiler: on their corpus, and on random changes of it.
//!
//! Each crate with fuzz targets includes this file in its tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    panic::{catch_unwind, resume_unwind},
    path::{Path, PathBuf},
};

use proptest::{
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestRunner},
};
use tracing::subscriber::{NoSubscriber, with_default};

/// A fuzz target, and how much memory it may use at a time.
pub(crate) struct Target {
    /// The name of its program in `fuzz_targets`, and of the folder of its corpus.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    /// The allowed memory in bytes, for each byte of input.
    pub(crate) per_byte: u64,
    /// The allowed memory in bytes, in addition to that.
    pub(crate) fixed: u64,
}

impl Target {
    /// Runs it on every file of its corpus.
    pub(crate) fn replay(&self) {
        for (file, data) in self.corpus() {
            // Printed if the test fails.
            println!("{file}");
            self.within_bounds(&data);
        }
    }

    /// Runs it on randomly changed files of its corpus: `PROPTEST_CASES` of them, 256 by default.
    pub(crate) fn replay_mutated(&self) {
        let corpus: Vec<_> = self.corpus().into_values().collect();
        let step = (0..5_u8, any::<Index>(), any::<Index>(), any::<u8>(), select(corpus.clone()));
        let mutated = (select(corpus), prop::collection::vec(step, 1..6)).prop_map(|(mut data, steps)| {
            for (kind, from, to, byte, other) in steps {
                mutate(&mut data, kind, from, to, byte, &other);
            }
            Input(data)
        });
        let config = Config { failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&mutated, |Input(data)| {
            self.within_bounds(&data);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    fn within_bounds(&self, data: &[u8]) {
        let mut outcome = Ok(());
        // A panic that unwinds through the counter would make it wrong. So would a global subscriber of another test in this program that
        // stores events.
        let run = || with_default(NoSubscriber::default(), || (self.run)(data));
        let memory = allocation_counter::measure(|| outcome = catch_unwind(run)).bytes_max;
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
        let bound = self.fixed + self.per_byte * data.len() as u64;
        assert!(memory <= bound, "{}: {} bytes in {memory} of memory, not {bound}", self.name, data.len());
    }

    fn corpus(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(folder().join("corpus").join(self.name)).expect("the target has a corpus");
        let paths = files.map(|file| file.expect("the folder can be read").path());
        let read = |path: PathBuf| (path.display().to_string(), fs::read(path).expect("it can be read"));
        let corpus: BTreeMap<_, _> = paths.map(read).collect();
        assert!(corpus.len() >= 5, "{}: the corpus is too small to show anything", self.name);
        corpus
    }
}

/// Prints the input as text, with escapes for other bytes.
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// One mutation, as a fuzzer makes it.
fn mutate(data: &mut Vec<u8>, kind: u8, from: Index, to: Index, byte: u8, other: &[u8]) {
    let (from, to) = (from.index(data.len() + 1), to.index(data.len() + 1));
    let range = from.min(to)..from.max(to);
    match kind {
        0 => data.insert(from, byte),
        1 => drop(data.drain(range)),
        2 => data.extend_from_within(range),
        3 => drop(data.splice(range, other.iter().copied())),
        _ => data.iter_mut().skip(from).take(1).for_each(|changed| *changed = byte),
    }
}

/// Checks that the fuzz programs of a crate are those with tests, and that each calls the same function.
pub(crate) fn assert_programs(krate: &str, targets: &[Target]) {
    let prefix = format!("{}_", krate.trim_start_matches("lock_"));
    let programs = fs::read_dir(folder().join("fuzz_targets")).expect("the folder of the programs");
    let names = programs.map(|file| file.expect("the folder can be read").path());
    let names: BTreeSet<_> = names.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned)).collect();
    let tested: BTreeSet<_> = targets.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.into_iter().filter(|name| name.starts_with(&prefix)).collect::<BTreeSet<_>>(), tested);

    let manifest = fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
    for Target { name, .. } in targets {
        let path = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"{path}\"")), "{name} is not built");
        let program = fs::read_to_string(folder().join(path)).expect("the program");
        let call = format!("{krate}::fuzzing::{}(data)", &name[prefix.len()..]);
        assert!(program.contains(&call), "{name} does not call {call}");
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz"))
}
