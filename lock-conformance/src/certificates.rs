//! [`Authority`]: certificates for the servers and clients of a test.

use std::{fmt, fs, path::Path};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// A certificate authority. Only the clients that a test configures with its certificate trust it.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Issued {
    pub(crate) certificate: Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    /// An authority of this name.
    ///
    /// # Panics
    /// If no key can be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, key()).expect("an authority can sign for itself"))
    }

    /// A certificate for these hosts, valid for longer than any test takes.
    ///
    /// # Panics
    /// If a host is not valid, or no key can be created.
    #[must_use]
    pub fn issue(&self, hosts: &[&str]) -> Issued {
        self.sign(&params(hosts))
    }

    /// The same, expired long ago.
    ///
    /// # Panics
    /// As [`issue`](Self::issue) does.
    #[must_use]
    pub fn issue_expired(&self, hosts: &[&str]) -> Issued {
        let mut params = params(hosts);
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
        self.sign(&params)
    }

    /// Writes its own certificate to a file, for clients that are to trust it.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write(&self, folder: &Path, file: &str) {
        write(folder, file, &self.0.pem());
    }

    fn sign(&self, params: &CertificateParams) -> Issued {
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("an authority can sign");
        Issued { certificate, key }
    }
}

impl Issued {
    /// A self-signed certificate.
    ///
    /// # Panics
    /// As [`Authority::issue`] does.
    #[must_use]
    pub fn by_nobody(hosts: &[&str]) -> Self {
        let key = key();
        let certificate = params(hosts).self_signed(&key).expect("a key can sign for itself");
        Self { certificate, key }
    }

    /// Writes them as `who.pem` and `who-key.pem`.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path, who: &str) {
        write(folder, &format!("{who}.pem"), &self.certificate.pem());
        write(folder, &format!("{who}-key.pem"), &self.key.serialize_pem());
    }
}

fn params(hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    CertificateParams::new(hosts).expect("hosts can be named in a certificate")
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}

fn write(folder: &Path, file: &str, text: &str) {
    fs::write(folder.join(file), text).expect("a certificate can be written");
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}
