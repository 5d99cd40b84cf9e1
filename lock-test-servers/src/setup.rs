//! [`printed_by`]: what `scripts/setup` has installed.

use std::process::Command;

/// The lines that a setup script, such as `scripts/etcd/setup`, prints about the installed servers.
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
