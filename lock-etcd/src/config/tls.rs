//! Whom we trust, and who we say we are.

use std::{fs, path::Path};

use etcd_client::{Certificate, Identity, TlsOptions};

use super::{ConfigError, EtcdConfig};

/// Reads the files, and checks that they fit together. `None` if the configuration is without TLS.
pub(crate) fn load(config: &EtcdConfig) -> Result<Option<TlsOptions>, ConfigError> {
    if !config.tls {
        return Ok(None);
    }
    let mut options = TlsOptions::new();
    options = match &config.ca {
        Some(ca) => options.ca_certificate(Certificate::from_pem(read("ca", ca, "CERTIFICATE")?)),
        None => options.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        let cert = read("cert", cert, "CERTIFICATE")?;
        options = options.identity(Identity::from_pem(cert, read("key", key, "PRIVATE KEY")?));
    }
    for endpoint in &config.endpoints {
        let unusable = |error: tonic::transport::Error| ConfigError::Tls { reason: chain(&error) };
        let channel = tonic::transport::Endpoint::from_shared(endpoint.url(true)).map_err(unusable)?;
        channel.tls_config(options.clone()).map_err(unusable)?;
    }
    Ok(Some(options))
}

fn read(option: &'static str, path: &Path, label: &str) -> Result<Vec<u8>, ConfigError> {
    let unusable = |reason: String| ConfigError::File { option, path: path.into(), reason };
    let text = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let marked = String::from_utf8_lossy(&text)
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{label}-----")));
    if marked { Ok(text) } else { Err(unusable(format!("it contains no {} in PEM", label.to_lowercase()))) }
}

/// The error with all that caused it: the outermost one says only that something failed.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
