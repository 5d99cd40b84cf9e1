//! [`shared_library`]: a library in C that is loaded before others, so that a program gets something else from the system.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a source in C to a shared library `name.so` in a folder, for `LD_PRELOAD`.
///
/// # Panics
/// If there is no compiler (`cc`, or the one that the variable `CC` names), or it refuses the source.
#[must_use]
pub fn shared_library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&file, source).expect("a folder of the test can be written to");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &file])
        .output()
        .unwrap_or_else(|error| panic!("`{compiler}` is needed for this test: {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}
