//! Copies the source of `lock-core`, and puts the switches in.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use switches::{BUGS, LIBRARY};

#[path = "../switches.rs"]
#[allow(dead_code, reason = "what a case says is of use to the tests")]
mod switches;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = here.join("../../../lock-core/src");
    for path in [&source, &here.join("../switches.rs")] {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    // A feature of the tools that fuzz lock-core.
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    for switch in BUGS.iter().flat_map(|bug| bug.switches) {
        let file = switch.file;
        assert!(
            source.join(file).exists(),
            "there is no lock-core/src/{file}, where a switch is to be put in"
        );
    }
    let copy = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder")).join("src");
    if copy.exists() {
        fs::remove_dir_all(&copy).expect("what was built before can be removed");
    }
    copy_tree(&source, Path::new(""), &copy);
}

fn copy_tree(root: &Path, at: &Path, to: &Path) {
    fs::create_dir_all(to.join(at)).expect("a folder can be made where cargo says");
    for file in fs::read_dir(root.join(at)).expect("the source can be read") {
        let file = file.expect("the source can be read");
        let name = at.join(file.file_name());
        if file.path().is_dir() {
            copy_tree(root, &name, to);
        } else if file.path().extension().is_some_and(|is| is == "rs") {
            let text = fs::read_to_string(file.path()).expect("source is text");
            fs::write(to.join(&name), switched(&name, text)).expect("a file can be written where cargo says");
        }
    }
}

/// The source of a file with its switches.
fn switched(name: &Path, mut text: String) -> String {
    if name == Path::new("lib.rs") {
        // An included file can have no inner documentation or attributes.
        let inner = |line: &str| line.starts_with("//!") || line.starts_with("#![");
        text = text.lines().filter(|line| !inner(line)).map(|line| format!("{line}\n")).collect();
    }
    // The unit tests of lock-core are run in lock-core itself.
    text = text.replace("#[cfg(test)]", "#[cfg(any())]").replace("cfg(any(test, ", "cfg(any(");
    let switches = BUGS.iter().flat_map(|bug| bug.switches.iter().map(move |switch| (bug.id, switch)));
    let here = std::iter::once(("all", &LIBRARY)).chain(switches);
    for (id, switch) in here.filter(|(_, switch)| name == Path::new(switch.file)) {
        let (places, file) = (text.matches(switch.from).count(), switch.file);
        assert_eq!(
            places, 1,
            "{id}: where is this in lock-core/src/{file} now? The switch in lock-engine-tests/bugs/switches.rs has to follow \
             it.\n{}",
            switch.from
        );
        text = text.replacen(switch.from, switch.to, 1);
    }
    text
}
