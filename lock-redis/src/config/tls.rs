//! [`Tls`]: the certificates to trust, and the one to present.

use std::{fmt, path::Path, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::{ConfigError, RedisConfig};

/// What a TLS connection needs, made once from the files of a [`RedisConfig`].
///
/// Each connection gets the cryptography provider. None is installed for the whole process, so that this works beside any other use of
/// rustls.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) server: ServerName<'static>,
}

impl Tls {
    /// Reads the files. `None` if the configuration is without TLS.
    pub(crate) fn load(config: &RedisConfig) -> Result<Option<Self>, ConfigError> {
        if !config.server.tls {
            return Ok(None);
        }
        let server = ServerName::try_from(config.host.clone()).map_err(|_| {
            let hint = "it has to be the name in a certificate: use a host name or an address";
            ConfigError::Setting { option: "host", given: config.host.clone(), hint }
        })?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for the default versions of tls")
            .with_root_certificates(roots(config.server.ca.as_deref())?);
        let client = match (&config.server.cert, &config.server.key) {
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(certificates("cert", cert)?, private_key(key)?)
                .map_err(|error| unusable("cert", cert, &error))?,
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(Self { connector: TlsConnector::from(Arc::new(client)), server }))
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    if let Some(ca) = ca {
        for certificate in certificates("ca", ca)? {
            store.add(certificate).map_err(|error| unusable("ca", ca, &error))?;
        }
        return Ok(store);
    }
    let found = rustls_native_certs::load_native_certs();
    // A system may have certificates that rustls rejects. The others are used.
    let (taken, _) = store.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(ConfigError::Tls { reason: format!("this system trusts no certificates{why}") });
    }
    Ok(store)
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<_, _>>)
        .map_err(|error| unusable(option, path, &error))?;
    if found.is_empty() {
        return Err(unusable(option, path, &"it contains no certificate in PEM"));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable("key", path, &error))
}

fn unusable(option: &'static str, path: &Path, reason: &dyn fmt::Display) -> ConfigError {
    ConfigError::File { option, path: path.into(), reason: reason.to_string() }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server", &self.server).finish_non_exhaustive()
    }
}
