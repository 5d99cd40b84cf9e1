//! Whom we trust, and who we say we are.

use etcd_client::{Certificate, Identity, TlsOptions};
use lock_core::settings::{ConfigError, read_pem};

use super::EtcdConfig;

/// Reads the files, and checks that they fit together. `None` if the configuration is without TLS.
pub(crate) fn load(config: &EtcdConfig) -> Result<Option<TlsOptions>, ConfigError> {
    if !config.tls {
        return Ok(None);
    }
    let mut options = TlsOptions::new();
    options = match &config.ca {
        Some(ca) => options.ca_certificate(Certificate::from_pem(read_pem("ca", ca, "CERTIFICATE")?)),
        None => options.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        let cert = read_pem("cert", cert, "CERTIFICATE")?;
        options = options.identity(Identity::from_pem(cert, read_pem("key", key, "PRIVATE KEY")?));
    }
    for endpoint in 0..config.endpoints.len() {
        let unusable = |error: tonic::transport::Error| ConfigError::Tls { reason: chain(&error) };
        let channel = tonic::transport::Endpoint::from_shared(config.url(endpoint)).map_err(unusable)?;
        channel.tls_config(options.clone()).map_err(unusable)?;
    }
    Ok(Some(options))
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
