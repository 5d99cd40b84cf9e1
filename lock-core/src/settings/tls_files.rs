//! [`TlsFiles`]: which servers to trust, and the identity of the client, as files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::ConfigError;

/// The settings `ca`, `cert` and `key` of a backend: PEM files that mean something only with TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsFiles<'a> {
    /// The only certificates to trust. Otherwise those that the system trusts.
    pub ca: &'a Option<PathBuf>,
    /// The certificate to show, with its chain. Only with `key`.
    pub cert: &'a Option<PathBuf>,
    /// The private key of `cert`. Only with `cert`.
    pub key: &'a Option<PathBuf>,
}

impl TlsFiles<'_> {
    /// Checks which of them are there, and opens none.
    ///
    /// # Errors
    /// [`ConfigError::OnlyWithTls`] and [`ConfigError::OnlyTogether`].
    pub fn validate(&self, tls: bool) -> Result<(), ConfigError> {
        for (option, path) in [("ca", self.ca), ("cert", self.cert), ("key", self.key)] {
            if path.is_some() && !tls {
                return Err(ConfigError::OnlyWithTls { option });
            }
        }
        match (self.cert, self.key) {
            (Some(_), None) => Err(ConfigError::OnlyTogether { given: "cert", missing: "key" }),
            (None, Some(_)) => Err(ConfigError::OnlyTogether { given: "key", missing: "cert" }),
            _ => Ok(()),
        }
    }
}

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
