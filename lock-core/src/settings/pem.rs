//! [`read_pem`]: a file with a certificate or a key.

use std::{fs, path::Path};

use super::ConfigError;

/// Reads a PEM file that has a section whose label ends so, such as `CERTIFICATE` or `PRIVATE KEY`.
///
/// # Errors
/// [`ConfigError::File`] if it cannot be read, or has no such section.
pub fn read_pem(option: &'static str, path: &Path, label: &str) -> Result<Vec<u8>, ConfigError> {
    let unusable = |reason: String| ConfigError::File { option, path: path.into(), reason };
    let text = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let marked = String::from_utf8_lossy(&text)
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{label}-----")));
    if marked { Ok(text) } else { Err(unusable(format!("it contains no {} in PEM", label.to_lowercase()))) }
}
