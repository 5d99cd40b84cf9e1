//! [`Tls`]: the certificates to trust, and the one to present.

use std::{fmt, io, path::Path, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use lock_core::settings::{ConfigError, read_pem};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use zookeeper_client::{Connector, TlsOptions};

use super::stream::Stream;
use crate::ZkConfig;

/// What a TLS connection needs, made once from the files of a [`ZkConfig`]: for the ZooKeeper client, and for other connections.
#[derive(Clone)]
pub(crate) struct Tls {
    options: TlsOptions,
    connector: TlsConnector,
}

impl Tls {
    /// Reads the files. `None` if the configuration is without TLS.
    pub(crate) fn load(config: &ZkConfig) -> Result<Option<Self>, ConfigError> {
        if !config.server.tls {
            return Ok(None);
        }
        for endpoint in &config.endpoints {
            server_name(endpoint.host()).map_err(|_| {
                let hint = "it has to be the name in a certificate: use a host name or an address";
                ConfigError::Setting { option: "endpoints", given: endpoint.to_string(), hint }
            })?;
        }
        choose_provider();
        let roots = match &config.server.ca {
            Some(ca) => pem("ca", ca, "CERTIFICATE")?,
            None => trusted_by_the_system()?,
        };
        let mut options = TlsOptions::new().with_pem_ca(&roots).map_err(|error| unusable(config, &error))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for the default versions of tls")
            .with_root_certificates(store(&roots, config)?);
        let client = match (&config.server.cert, &config.server.key) {
            (Some(cert), Some(key)) => {
                let (chain, key) = (pem("cert", cert, "CERTIFICATE")?, pem("key", key, "PRIVATE KEY")?);
                options = options.with_pem_identity(&chain, &key).map_err(|error| not_shown(cert, &error))?;
                let key =
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| not_shown(cert, &error))?;
                let chain = certificates(&chain).map_err(|error| not_shown(cert, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| not_shown(cert, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(Self { options, connector: TlsConnector::from(Arc::new(client)) }))
    }

    /// Makes the ZooKeeper client connect with TLS.
    pub(crate) fn secure(&self, connector: Connector) -> Connector {
        connector.with_tls(self.options.clone())
    }

    /// A connection to a server whose certificate has to be for `host`.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        let host = server_name(host).map_err(io::Error::other)?;
        Ok(Box::new(self.connector.connect(host, stream).await?))
    }

    /// Whether one side does not trust the other, which an operator has to fix.
    pub(crate) fn is_refusal(error: &io::Error) -> bool {
        use rustls::Error as Tls;
        matches!(
            error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()),
            Some(
                Tls::InvalidCertificate(_)
                    | Tls::InvalidCertRevocationList(_)
                    | Tls::NoCertificatesPresented
                    | Tls::AlertReceived(_)
            )
        )
    }
}

/// Makes sure that the process has a provider of cryptography.
///
/// The ZooKeeper client always uses the provider of the process. If the program has installed one, it is used. If only one were compiled
/// in, rustls would install that one; but the client brings aws-lc-rs and this crate brings ring, so rustls would panic.
fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // If another thread was quicker, there is a provider as well.
        drop(ring::default_provider().install_default());
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, impl std::error::Error + Send + Sync + 'static> {
    ServerName::try_from(host.to_owned())
}

/// Reads a PEM file, which is text.
fn pem(option: &'static str, path: &Path, label: &str) -> Result<String, ConfigError> {
    String::from_utf8(read_pem(option, path, label)?).map_err(|error| file(option, path, &error))
}

/// The certificates as PEM, because the ZooKeeper client accepts nothing else.
fn trusted_by_the_system() -> Result<String, ConfigError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(ConfigError::Tls { reason: format!("this system trusts no certificates{why}") });
    }
    let section = |certificate: &CertificateDer<'_>| {
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(certificate))
    };
    Ok(found.certs.iter().map(section).collect())
}

fn store(roots: &str, config: &ZkConfig) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    let found = certificates(roots).map_err(|error| unusable(config, &error))?;
    // A system may have certificates that rustls rejects. The others are used.
    store.add_parsable_certificates(found);
    Ok(store)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

/// The error if none of the trusted certificates can be used.
fn unusable(config: &ZkConfig, reason: &dyn fmt::Display) -> ConfigError {
    match &config.server.ca {
        Some(ca) => file("ca", ca, reason),
        None => ConfigError::Tls { reason: format!("this system's certificates cannot be used: {reason}") },
    }
}

fn not_shown(cert: &Path, reason: &dyn fmt::Display) -> ConfigError {
    file("cert", cert, reason)
}

fn file(option: &'static str, path: &Path, reason: &dyn fmt::Display) -> ConfigError {
    ConfigError::File { option, path: path.into(), reason: reason.to_string() }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
