use std::{
    io::{self, Read},
    iter,
    net::{Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    thread,
};

use lock_conformance::{Authority, Impostor, Issued, Port};
use lock_test_servers::redis::tls_arguments;

use super::*;

/// Time limits so long that no test waits for them: an error that comes in time comes before anything has timed out.
const PATIENT: &str = "connect_timeout=60s&command_timeout=60s";

/// A server with TLS, and the certificates for its clients.
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
        let port = Port::reserve();
        let arguments = tls_arguments(port.number(), files.path(), client_certificates);
        let server = Server::start_with(&arguments.each_ref().map(String::as_str));
        Self { server, port, files }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn client(&self, host: &str, options: &[(&str, &str)]) -> Client {
        let options: Vec<_> =
            options.iter().map(|(option, file)| format!("{option}={}", self.file(file).display())).collect();
        client(&format!("rediss://{host}:{}?{}", self.port, options.join("&")))
    }
}

#[test]
fn a_server_with_a_certificate_of_the_given_authority_is_trusted() {
    let shielded = Shielded::start("no");
    let client = shielded.client("localhost", &[("ca", "ca.pem")]);
    assert_eq!(ask(&client, "SET k v").unwrap(), Value::Okay);
    runtime().block_on(client.command(&words("PING"))).unwrap();
    assert!(shielded.server.clients().iter().any(|line| line.contains(" name=distlock ")));
}

#[test]
fn a_server_that_cannot_be_trusted_is_denied_unsent() {
    let shielded = Shielded::start("no");
    for (host, options) in [
        ("localhost", &[("ca", "stranger.pem")][..]),
        // The certificates that the system trusts do not include the authority of this test.
        ("localhost", &[][..]),
        // The certificate is for another name.
        ("127.0.0.1", &[("ca", "ca.pem")][..]),
    ] {
        let config = format!("{host} {options:?}");
        let error = refused(&shielded.client(host, options), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{config}: {error}");
        assert!(error.to_string().contains("certificate"), "{config}: {error}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_the_given_one() {
    let shielded = Shielded::start("yes");
    let known = [("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client-key.pem")];
    ask(&shielded.client("localhost", &known), "PING").unwrap();
    let stranger = [("ca", "ca.pem"), ("cert", "self.pem"), ("key", "self-key.pem")];
    for options in [&[("ca", "ca.pem")][..], &stranger[..]] {
        let error = refused(&shielded.client("localhost", options), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{options:?}: {error}");
    }
}

fn assert_wrong_port(error: &BackendError, what: &str, instead: &str) {
    let Kind::WrongServer(said) = error.kind() else { panic!("{error:?}") };
    assert!(said.contains(what) && said.contains(instead), "{said}");
    assert!(error.is_unsent() && !error.is_transient(), "{error:?}");
}

#[test]
fn tls_to_a_port_without_it_is_told_at_once() {
    let shielded = Shielded::start("no");
    let locked = Server::start_with(&["--requirepass", "right"]);
    let ca = shielded.file("ca.pem");
    for (user, port) in [("", shielded.server.port()), (":right@", locked.port())] {
        let client = client(&format!("rediss://{user}localhost:{port}?{PATIENT}&ca={}", ca.display()));
        let error = refused(&client, "PING");
        assert_wrong_port(&error, "does not speak tls", "use its port for tls, or redis://");
        assert_eq!(error.to_string(), format!("redis: localhost:{port} answers without tls"));
    }
}

#[test]
fn a_port_with_tls_to_a_client_without_it_is_told_at_once() {
    for certificates in ["no", "yes"] {
        let shielded = Shielded::start(certificates);
        let error = refused(&client(&format!("redis://localhost:{}?{PATIENT}", shielded.port)), "PING");
        assert_wrong_port(&error, "speaks tls", "use rediss://");
        assert_eq!(error.to_string(), format!("redis: localhost:{} answers with tls", shielded.port));
    }
}

/// The port may belong to a server that is not Redis.
#[test]
fn a_server_that_ends_connections_without_a_word_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().for_each(drop));
    let error = refused(&client(&format!("redis://127.0.0.1:{port}?{PATIENT}")), "PING");
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::Unreachable, true), "{error}");
}

/// A proxy to a server with TLS, which serves the client only after the client has opened a second connection. The proxy ends that
/// connection without an answer, and the thread returns the bytes that the client sent on it.
fn slow(server: u16) -> (u16, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let (mut second, _) = listener.accept().unwrap();
        second.shutdown(Shutdown::Write).unwrap();
        let mut asked = Vec::new();
        second.read_to_end(&mut asked).unwrap();
        relay(&client, server);
        asked
    });
    (port, asked)
}

/// Carries bytes between a client and a server.
fn relay(client: &TcpStream, server: u16) {
    let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
    for (from, to) in [(client, &server), (&server, client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from, &mut to));
    }
}

#[test]
fn a_slow_handshake_is_waited_for_and_nothing_but_a_ping_is_said() {
    let shielded = Shielded::start("no");
    shielded.server.run("ACL SETUSER app on >secret ~* &* +@all");
    let (port, asked) = slow(shielded.port.number());
    let ca = shielded.file("ca.pem");
    let client = client(&format!("rediss://app:secret@localhost:{port}?{PATIENT}&ca={}", ca.display()));
    ask(&client, "PING").unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.join().unwrap()), "PING\r\n");
}

/// Its port is known to be right, so the client never probes it again, whether the server is silent later or ends connections.
#[test]
fn a_server_that_was_reached_is_never_asked_without_tls() {
    let shielded = Shielded::start("no");
    let ca = shielded.file("ca.pem");
    for ends_them in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let limits = "connect_timeout=2s&command_timeout=2s";
        let client = client(&format!("rediss://localhost:{port}?{limits}&ca={}", ca.display()));
        let (theirs, server) = (listener.try_clone().unwrap(), shielded.port.number());
        let first = thread::spawn(move || {
            let (client, _) = theirs.accept().unwrap();
            relay(&client, server);
            client
        });
        ask(&client, "PING").unwrap();
        let connection = client.pool.connection(&());
        // On a slow machine, the client may have probed before it reached the server.
        drop(beginnings(&listener));
        first.join().unwrap().shutdown(Shutdown::Both).unwrap();
        eventually(|| connection.is_closed());

        // The kernel accepts connections, and no program answers on them.
        let theirs = listener.try_clone().unwrap();
        let ender = ends_them.then(|| thread::spawn(move || drop(theirs.accept())));
        let error = refused(&client, "PING");
        assert!(error.is_unsent(), "{error}");
        if let Some(ender) = ender {
            ender.join().unwrap();
        }
        let heard = beginnings(&listener);
        assert!(!heard.iter().any(|said| said.starts_with(b"P")), "{heard:?}");
        assert!(ends_them || heard.iter().any(|said| said.starts_with(b"\x16")), "{heard:?}");
    }
}

/// The first bytes of the connections that are waiting to be accepted.
fn beginnings(listener: &TcpListener) -> Vec<Vec<u8>> {
    listener.set_nonblocking(true).unwrap();
    let callers: Vec<_> = iter::from_fn(|| listener.accept().ok()).collect();
    listener.set_nonblocking(false).unwrap();
    let said = |(caller, _): (TcpStream, _)| {
        caller.set_read_timeout(Some(LATE)).unwrap();
        let mut said = Vec::new();
        caller.take(6).read_to_end(&mut said).unwrap();
        said
    };
    callers.into_iter().map(said).collect()
}

/// The client sends neither the password nor any command that reveals something: an impostor could use both.
#[test]
fn a_server_is_told_nothing_before_it_has_shown_who_it_is() {
    let files = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    ours.write(files.path(), "ca.pem");
    let ca = files.path().join("ca.pem");
    let client_to = |impostor: &Impostor, limits: &str| {
        client(&format!("rediss://app:secret@localhost:{}?{limits}&ca={}", impostor.port(), ca.display()))
    };
    for (what, impostor) in Impostor::all(&ours) {
        // With these limits it is refused for its certificate, and not because the handshake takes long on a busy machine.
        let error = refused(&client_to(&impostor, PATIENT), "PING");
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, true), "{what}: {error}");
        impostor.assert_heard_nothing(what);
    }
    // A server with a good certificate gets the password; a server without TLS does not. Neither of them answers, so the test waits for
    // these limits. They are long enough for a handshake on a busy machine.
    let limits = "connect_timeout=5s&command_timeout=5s";
    let good = Impostor::with(&ours.issue(&["localhost"]));
    refused(&client_to(&good, limits), "PING");
    assert!(String::from_utf8_lossy(&good.heard()).contains("secret"));
    let plain = Impostor::without_tls();
    refused(&client_to(&plain, limits), "PING");
    let heard = String::from_utf8_lossy(&plain.heard()).into_owned();
    // Apart from one probe whether it speaks without TLS.
    let heard = heard.replacen("PING\r\n", "", 1);
    assert!(heard.starts_with('\u{16}') && !heard.contains("secret"), "{heard:?}");
    assert!(!heard.contains("PING") && !heard.contains("AUTH"), "{heard:?}");
}
