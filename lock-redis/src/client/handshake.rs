//! The first commands on every connection: the login, the database, and the name of the client.
//!
//! This module sends them, and not the driver, because they have to be the same for command and notification connections, have to
//! give typed errors, and must not repeat a password. All answers are lines. The handshake takes one round trip.

use std::io;

use lock_core::{BackendErrorKind as Kind, excerpt, isolate};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{endpoint::Endpoint, tls_probe};
use crate::error::{Failure, SENTINEL, kind_of_code};

/// The maximum length of all answers together. Longer ones are an error.
const MAX_ANSWERS: usize = 16 * 1024;

/// A password with at least this many characters is not part of another word by chance.
const SURELY_A_SECRET: usize = 6;

struct Greeting {
    what: &'static str,
    command: redis::Cmd,
    /// Whether the connection is unusable if the server refuses this command.
    needed: bool,
}

pub(crate) async fn greet(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    endpoint: &Endpoint,
) -> Result<(), Failure> {
    let greetings = greetings(endpoint);
    let packed: Vec<u8> =
        greetings.iter().flat_map(|greeting| greeting.command.get_packed_command()).collect();
    let failed = |error| Failure::io(&format!("greeting {}", endpoint.address), error);
    socket.write_all(&packed).await.map_err(failed)?;
    socket.flush().await.map_err(failed)?;
    let mut answers = Answers::default();
    for (to_come, greeting) in (0..greetings.len()).rev().zip(greetings) {
        let answer = answers.next(socket).await;
        let line = answer.map_err(|error| {
            let failure = failed(error);
            if answers.are_none() { failure.unanswered() } else { failure }
        })?;
        let Err(failure) = check(&greeting, &line, endpoint) else { continue };
        // A sentinel has no databases, and so does not know `SELECT`.
        let asks = *failure.kind() == Kind::Unsupported;
        if asks && is_a_sentinel(socket, answers, to_come).await.unwrap_or(false) {
            return Err(Failure::new(Kind::WrongServer(SENTINEL), failure.message()));
        }
        return Err(failure);
    }
    Ok(())
}

/// Whether the server calls itself a sentinel. `to_come` answers come before its own.
async fn is_a_sentinel(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    mut answers: Answers,
    to_come: usize,
) -> io::Result<bool> {
    for _ in 0..to_come {
        answers.next(socket).await?;
    }
    let mut role = redis::Cmd::new();
    role.arg("ROLE");
    socket.write_all(&role.get_packed_command()).await?;
    socket.flush().await?;
    // The answer of a sentinel begins so. Any other may have only one line.
    for line in ["*2", "$8", "sentinel"] {
        if answers.next(socket).await? != line {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends one command on a connection that has greeted and is not in use yet, and gives the line that answers it.
pub(crate) async fn ask(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    endpoint: &Endpoint,
    command: &redis::Cmd,
) -> Result<String, Failure> {
    let failed = |error| Failure::io(&format!("asking {}", endpoint.address), error);
    socket.write_all(&command.get_packed_command()).await.map_err(failed)?;
    socket.flush().await.map_err(failed)?;
    Answers::default().next(socket).await.map_err(failed)
}

fn greetings(endpoint: &Endpoint) -> Vec<Greeting> {
    let config = &endpoint.config;
    let greeting = |what, needed, words: &[&str]| {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        Greeting { what, command, needed }
    };
    let mut greetings = Vec::new();
    if let Some(password) = &endpoint.password {
        let mut words = vec!["AUTH"];
        words.extend(config.server.user.as_deref());
        words.push(password.expose());
        greetings.push(greeting("authentication", true, &words));
    }
    if config.database != 0 {
        greetings.push(greeting(
            "the choice of the database",
            true,
            &["SELECT", &config.database.to_string()],
        ));
    }
    // It is shown by CLIENT LIST; where it is not permitted, the connection is still used. It is always sent, so that the server has
    // answered once before a connection is used.
    greetings.push(greeting("the client name", false, &["CLIENT", "SETNAME", &config.client_name]));
    greetings
}

fn check(greeting: &Greeting, line: &str, endpoint: &Endpoint) -> Result<(), Failure> {
    let address = &endpoint.address;
    let Some(refusal) = line.strip_prefix('-') else {
        if line.starts_with('+') {
            return Ok(());
        }
        return Err(Failure::new(Kind::Protocol, format!("{address} does not speak the redis protocol")));
    };
    let (code, text) = words(refusal);
    // A server that accepts no clients, or none without a password, refuses the first command, whatever it is.
    let kind = kind_of_code(code, text);
    if !greeting.needed && kind != Kind::Unavailable && matches!(code, "ERR" | "NOPERM") {
        let said = excerpt(format_args!("{}", without_password(refusal, endpoint)));
        isolate(|| tracing::debug!(server = %address, "redis refused {}: {said}", greeting.what));
        return Ok(());
    }
    let said = excerpt(format_args!("{}", without_password(refusal, endpoint)));
    // These have different remedies, so the error names the cause and not the command.
    let what = match code {
        "NOAUTH" => "a client without a password",
        "WRONGPASS" => "the user or the password",
        _ => greeting.what,
    };
    Err(Failure::new(kind, format!("{address} refused {what}: {said}")))
}

/// The first word, and the rest.
fn words(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// Removes the password from a refusal: a server without `AUTH` quotes the command, in full, cut off, or reformatted.
fn without_password(refusal: &str, endpoint: &Endpoint) -> String {
    let (refusal, repeated) =
        refusal.split_once(", with args").map_or((refusal, ""), |(said, _)| (said, ", with ***"));
    match &endpoint.password {
        Some(password) if !password.expose().is_empty() => {
            without_secret(refusal, password.expose()) + repeated
        }
        _ => [refusal, repeated].concat(),
    }
}

/// The text without a secret. A secret so short that it may be part of another word is removed only where it is a word of its own.
fn without_secret(text: &str, secret: &str) -> String {
    let short = secret.chars().count() < SURELY_A_SECRET;
    let joined = |left: Option<char>, right: Option<char>| {
        short
            && left.zip(right).is_some_and(|(left, right)| left.is_alphanumeric() && right.is_alphanumeric())
    };
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(secret) {
        shown.push_str(before);
        let inside = joined(shown.chars().next_back(), secret.chars().next())
            || joined(secret.chars().next_back(), after.chars().next());
        shown.push_str(if inside { secret } else { "***" });
        rest = after;
    }
    shown + rest
}

/// Reads the answers as lines. No bytes follow the last one: unasked, a server sends at most a refusal before it closes the connection.
#[derive(Default)]
struct Answers {
    read: Vec<u8>,
    /// Whether the server has answered.
    some: bool,
}

impl Answers {
    /// Whether the server has sent nothing, or only the alert that a TLS server sends to clients without TLS.
    fn are_none(&self) -> bool {
        !self.some && self.read.first().is_none_or(|first| *first == tls_probe::ALERT)
    }

    async fn next(&mut self, socket: &mut (impl AsyncRead + Unpin + Send)) -> io::Result<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.read[..end]).into_owned();
                self.read.drain(..end + 2);
                self.some = true;
                return Ok(line);
            }
            if self.read.len() > MAX_ANSWERS {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer has no end"));
            }
            if socket.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_read_up_to_the_limit_and_refused_beyond_it() {
        let line = |length: usize| "x".repeat(length) + "\r\n";
        let longest = line(MAX_ANSWERS - 2);
        let read = Answers::default().next(&mut longest.as_bytes()).await.unwrap();
        assert_eq!(read.len(), 16 * 1024 - 2);
        let refused = Answers::default().next(&mut line(4 * MAX_ANSWERS).as_bytes()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
    }
}
