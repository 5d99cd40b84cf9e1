use std::path::PathBuf;

use lock_conformance::{Authority, Impostor, Issued, Port};

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
        let ours = Authority::new("ours");
        ours.write(files.path(), "ca.pem");
        Authority::new("a stranger").write(files.path(), "stranger.pem");
        ours.issue(&["localhost"]).write(files.path(), "server");
        ours.issue(&["client"]).write(files.path(), "client");
        Issued::by_nobody(&["client"]).write(files.path(), "self");
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let port = Port::reserve();
        let server = Server::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &path("server.pem"),
            "--tls-key-file",
            &path("server-key.pem"),
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
    let known = [("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client-key.pem")];
    ask(&shielded.wire("localhost", &known), "PING").unwrap();
    let stranger = [("ca", "ca.pem"), ("cert", "self.pem"), ("key", "self-key.pem")];
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

/// Not the password, and no command: whoever answers there could use both.
#[test]
fn a_server_is_told_nothing_before_it_has_shown_who_it_is() {
    let files = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    ours.write(files.path(), "ca.pem");
    let ca = files.path().join("ca.pem");
    let wire_to = |impostor: &Impostor| {
        let limits = "connect_timeout=2s&command_timeout=2s";
        wire(&format!("rediss://app:secret@localhost:{}?{limits}&ca={}", impostor.port(), ca.display()))
    };
    for (what, impostor) in Impostor::all(&ours) {
        let error = refused(&wire_to(&impostor), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{what}: {error}");
        assert!(impostor.clients() > 0, "{what}: nobody came");
        let heard = String::from_utf8_lossy(&impostor.heard()).into_owned();
        assert_eq!(heard, "", "{what}");
    }
    // To one whose certificate is good it is said; in plain text, to nobody.
    let good = Impostor::with(&ours.issue(&["localhost"]));
    refused(&wire_to(&good), "PING");
    assert!(String::from_utf8_lossy(&good.heard()).contains("secret"));
    let plain = Impostor::without_tls();
    refused(&wire_to(&plain), "PING");
    let heard = String::from_utf8_lossy(&plain.heard()).into_owned();
    assert!(heard.starts_with('\u{16}') && !heard.contains("secret"), "{heard:?}");
}
