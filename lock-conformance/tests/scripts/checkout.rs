//! [`Checkout`]: the scripts of this repository with fake programs around them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use lock_conformance::copy_program;

/// A checkout with some real scripts, in which all programs that they call are fakes.
pub(crate) struct Checkout(pub(crate) PathBuf);

impl Checkout {
    pub(crate) fn new(name: &str, scripts: &[&str]) -> Self {
        let checkout = Self(folder(name));
        // Without this folder, the gate requires enough space for a build from scratch.
        for folder in ["bin", "scripts/etcd", "target/debug"] {
            fs::create_dir_all(checkout.0.join(folder)).unwrap();
        }
        for package in ["distlock", "lock-core", "lock-zk"] {
            fs::create_dir(checkout.0.join(package)).unwrap();
            fs::write(checkout.0.join(package).join("Cargo.toml"), "").unwrap();
        }
        let others = ["setup", "run-tests", "deny", "semver", "lint-workflows", "etcd/setup", "etcd/test"];
        for script in others {
            checkout.pretends(&format!("scripts/{script}"), "");
        }
        checkout.pretends("scripts/build-tests", ": >\"$1\"");
        checkout.pretends("bin/cargo", "");
        for script in scripts {
            let path = checkout.0.join("scripts").join(script);
            copy_program(root().join("scripts").join(script), path, 0o755);
        }
        checkout
    }

    /// A program that records its calls and their arguments.
    pub(crate) fn pretends(&self, program: &str, script: &str) {
        let name = program.trim_start_matches("scripts/").trim_start_matches("bin/");
        write_program(&self.0.join(program), &format!("echo \"{name} $*\" >>\"$CALLS\"\n{script}"));
    }

    pub(crate) fn run(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(self.0.join("scripts").join(script));
        // Without tools that happen to be installed here.
        command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", self.0.join("bin").display()));
        command.env("CALLS", self.0.join("calls")).env("CARGO_TARGET_DIR", self.0.join("target"));
        let from_the_gate = ["PROGRAMS_AT_ONCE", "CROWDS_AT_ONCE", "RUST_TEST_THREADS"];
        for variable in ["GITHUB_ACTIONS", "GITHUB_REF_TYPE", "GITHUB_REF_NAME"].iter().chain(&from_the_gate)
        {
            command.env_remove(variable);
        }
        command.envs(variables.iter().copied()).output().unwrap()
    }

    pub(crate) fn calls(&self) -> String {
        fs::read_to_string(self.0.join("calls")).unwrap_or_default()
    }
}

pub(crate) fn green(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

pub(crate) fn red(output: &Output) -> String {
    let said = said(output);
    assert!(!output.status.success(), "{said}");
    said
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn script_of(name: &str) -> Command {
    Command::new(root().join("scripts").join(name))
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}

pub(crate) fn write_program(path: &Path, script: &str) -> PathBuf {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    copy_program(&text, path, 0o755);
    fs::remove_file(text).unwrap();
    path.to_owned()
}

/// An empty folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scripts").join(name);
    // A leftover of an earlier run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
