//! The clock domain of this process: instants of different clocks are never compared (PR32).

use std::{fs, io, path::Path};

use crate::error::{Failure, of_io};

/// The boot of the machine and the time namespace of this process. Its error is that of a transaction.
///
/// # Errors
/// If `/proc` does not show them.
pub(crate) fn of_this_process() -> Result<String, Failure> {
    here().map_err(|error| {
        let doing = "reading what tells one boot from another, in";
        Failure::Refused(of_io(doing, Path::new("/proc"), error).unsent())
    })
}

/// The boot of the machine and the time namespace of this process, in which `CLOCK_BOOTTIME` means one thing.
///
/// # Errors
/// If `/proc` does not show them.
fn here() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    // Kernels before 5.6 have no time namespaces, and one clock.
    let namespace = match fs::read_link("/proc/self/ns/time") {
        Ok(namespace) => namespace.to_string_lossy().into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "time".to_owned(),
        Err(error) => return Err(error),
    };
    Ok(format!("{} {namespace}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_the_same_each_time_and_names_the_boot() {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(here().unwrap(), here().unwrap());
        assert!(here().unwrap().starts_with(boot.trim()));
    }
}
