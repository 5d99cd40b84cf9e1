use std::{fs, path::PathBuf};

use lock_conformance::Port;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::*;

/// A server with TLS, and whom its clients may trust.
struct Shielded {
    server: Server,
    port: Port,
    files: tempfile::TempDir,
}

impl Shielded {
    fn start(client_certificates: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let ca = authority("ours");
        let write = |name: &str, text: String| fs::write(files.path().join(name), text).unwrap();
        write("ca.pem", ca.pem());
        write("stranger.pem", authority("a stranger").pem());
        for (name, host) in [("server", "localhost"), ("client", "client")] {
            let key = KeyPair::generate().unwrap();
            let params = named(host, &[host]);
            write(&format!("{name}.pem"), params.signed_by(&key, &ca).unwrap().pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        let key = KeyPair::generate().unwrap();
        write("self.pem", named("client", &["client"]).self_signed(&key).unwrap().pem());
        write("self.key", key.serialize_pem());
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let port = Port::reserve();
        let server = Server::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &path("server.pem"),
            "--tls-key-file",
            &path("server.key"),
            "--tls-ca-cert-file",
            &path("ca.pem"),
            "--tls-auth-clients",
            client_certificates,
        ]);
        Self { server, port, files }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn wire(&self, host: &str, options: &[(&str, &str)]) -> Wire {
        let options: Vec<_> =
            options.iter().map(|(option, file)| format!("{option}={}", self.file(file).display())).collect();
        wire(&format!("rediss://{host}:{}?{}", self.port, options.join("&")))
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = named(name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

#[test]
fn a_server_with_a_certificate_of_the_given_authority_is_trusted() {
    let shielded = Shielded::start("no");
    let wire = shielded.wire("localhost", &[("ca", "ca.pem")]);
    assert_eq!(ask(&wire, "SET k v").unwrap(), Value::Okay);
    runtime().block_on(wire.command(&words("PING"))).unwrap();
    assert!(shielded.server.clients().iter().any(|line| line.contains(" name=distlock ")));
}

#[test]
fn a_server_that_cannot_be_trusted_is_denied_unsent() {
    let shielded = Shielded::start("no");
    for (host, options) in [
        ("localhost", &[("ca", "stranger.pem")][..]),
        // What the system trusts does not contain the authority of this test.
        ("localhost", &[][..]),
        // The certificate is for another name.
        ("127.0.0.1", &[("ca", "ca.pem")][..]),
    ] {
        let config = format!("{host} {options:?}");
        let error = refused(&shielded.wire(host, options), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{config}: {error}");
        assert!(error.to_string().contains("certificate"), "{config}: {error}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_the_given_one() {
    let shielded = Shielded::start("yes");
    let known = [("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key")];
    ask(&shielded.wire("localhost", &known), "PING").unwrap();
    let stranger = [("ca", "ca.pem"), ("cert", "self.pem"), ("key", "self.key")];
    for options in [&[("ca", "ca.pem")][..], &stranger[..]] {
        let error = refused(&shielded.wire("localhost", options), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{options:?}: {error}");
    }
}

#[test]
fn tls_to_a_port_without_it_and_the_other_way_round_are_errors() {
    let shielded = Shielded::start("no");
    let ca = shielded.file("ca.pem");
    let limits = "connect_timeout=500ms&command_timeout=500ms";
    let plain = wire(&format!("rediss://localhost:{}?{limits}&ca={}", shielded.server.port, ca.display()));
    let error = refused(&plain, "PING");
    assert!(error.is_unsent() && *error.kind() != Kind::Denied, "{error:?}");
    let error = refused(&wire(&format!("redis://localhost:{}?{limits}", shielded.port)), "PING");
    assert!(error.is_unsent() && *error.kind() != Kind::Denied, "{error:?}");
}
