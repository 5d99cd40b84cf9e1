//! [`printed_by`]: what `scripts/setup` has got.

use std::process::Command;

/// The lines that a script which gets a server, as `scripts/etcd/setup`, prints about what is there.
///
/// # Errors
/// If it cannot be run.
pub(crate) fn printed_by(script: &str) -> Result<Vec<String>, String> {
    let script = format!("{}/../{script}", env!("CARGO_MANIFEST_DIR"));
    let printed = Command::new(&script).arg("--print").output();
    let printed = printed.map_err(|error| format!("{script} cannot be run: {error}"))?;
    let printed = String::from_utf8(printed.stdout).map_err(|error| format!("{script}: {error}"))?;
    Ok(printed.lines().map(str::to_owned).collect())
}
