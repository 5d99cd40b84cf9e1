//! The certificates to trust, and the one to present.

use etcd_client::{Certificate, Identity, TlsOptions};
use lock_core::settings::{ConfigError, read_pem};

use crate::{EtcdConfig, error::chain};

/// Reads the files, and checks that they match. `None` if the configuration is without TLS.
pub(super) fn load(config: &EtcdConfig) -> Result<Option<TlsOptions>, ConfigError> {
    let server = &config.server;
    if !server.tls {
        return Ok(None);
    }
    let mut options = TlsOptions::new();
    options = match &server.ca {
        Some(ca) => options.ca_certificate(Certificate::from_pem(read_pem("ca", ca, "CERTIFICATE")?)),
        None => options.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&server.cert, &server.key) {
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

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    #[test]
    fn certificates_that_cannot_be_used_name_their_option_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| -> PathBuf {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let cert = file("cert.pem", &signed.cert.pem());
        let (empty, missing) = (file("empty.pem", "nothing"), dir.path().join("missing.pem"));
        let mut tls = EtcdConfig::default();
        (tls.server.tls, tls.server.ca) = (true, Some(cert.clone()));
        assert!(load(&tls).unwrap().is_some());
        let shows = |cert: &PathBuf, key: &PathBuf| {
            let mut config = tls.clone();
            (config.server.cert, config.server.key) = (Some(cert.clone()), Some(key.clone()));
            config
        };
        for bad in [&empty, &missing] {
            let mut config = tls.clone();
            config.server.ca = Some(bad.clone());
            let error = load(&config).unwrap_err();
            assert!(matches!(&error, ConfigError::File { option: "ca", path, .. } if path == bad), "{error}");
            let error = load(&shows(&cert, bad)).unwrap_err();
            assert!(
                matches!(&error, ConfigError::File { option: "key", path, .. } if path == bad),
                "{error}"
            );
        }
        let other = file("other.pem", &rcgen::KeyPair::generate().unwrap().serialize_pem());
        assert!(matches!(load(&shows(&cert, &other)).unwrap_err(), ConfigError::Tls { .. }));
    }
}
