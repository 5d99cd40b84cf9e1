//! [`Messages`]: where requests and answers end on a connection to PostgreSQL.

use std::io;

use lock_conformance::{Answer, Frame, Frames, Request};

/// A request is everything that a client sends up to the next `Sync` or simple query. Its answer is everything up to `ReadyForQuery`, which
/// ends a step if no transaction is open then. The login is repeated on the second connection, so the server has to trust its clients, or to
/// accept passwords in clear text.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// Whether the first message, which has no letter, was read.
    started: bool,
    /// The number of requests without an answer.
    open: usize,
}

const START: &[u8] = &[0, 3];
const CANCEL: &[u8] = &[4, 210, 22, 46];

impl Frames for Messages {
    fn request(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>> {
        if !self.started {
            return self.first(sent);
        }
        let (mut len, mut name) = (0, None);
        while let Some((letter, body)) = message(&sent[len..])? {
            len += 5 + body.len();
            let named = match letter {
                b'Q' => Some(statement(body)),
                // After the name of the prepared statement.
                b'P' => body.split(|byte| *byte == 0).nth(1).map(statement),
                b'p' => Some("password".to_owned()),
                _ => None,
            };
            name = name.or(named);
            match letter {
                b'X' => return Ok(Some(Frame { len, what: Request::Aside })),
                b'Q' | b'S' | b'F' | b'p' => {
                    self.open += 1;
                    let name = name.unwrap_or_else(|| "execute".to_owned());
                    return Ok(Some(Frame { len, what: Request::Ask(name) }));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn answer(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Answer>>> {
        let Some((letter, body)) = message(sent)? else { return Ok(None) };
        let what = match (letter, body) {
            (b'A', _) => Answer::Hint,
            // A message without a request, for example that the server shuts down.
            _ if self.open == 0 => Answer::Aside,
            (b'Z', b"I") => Answer::End,
            // A transaction is open; or the server asks for a password, or for the next step of the login.
            (b'Z', _) | (b'R', [0, 0, 0, 3 | 5 | 10 | 11, ..]) => Answer::Turn,
            _ => Answer::Part,
        };
        self.open -= usize::from(matches!(what, Answer::End | Answer::Turn));
        Ok(Some(Frame { len: 5 + body.len(), what }))
    }
}

impl Messages {
    fn first(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>> {
        let Some(len) = length(sent, 0)? else { return Ok(None) };
        if sent.len() < len {
            return Ok(None);
        }
        let what = match &sent[4..len] {
            begin if begin.starts_with(START) => Request::Ask("startup".to_owned()),
            begin if begin.starts_with(CANCEL) => Request::Aside,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "no startup without encryption")),
        };
        self.started = true;
        self.open += usize::from(what != Request::Aside);
        Ok(Some(Frame { len, what }))
    }
}

/// The first message, if it is complete: its letter, and the bytes after its length.
fn message(bytes: &[u8]) -> io::Result<Option<(u8, &[u8])>> {
    let Some(len) = length(bytes, 1)? else { return Ok(None) };
    Ok(bytes.get(5..1 + len).map(|body| (bytes[0], body)))
}

/// The length at this place, which counts itself.
fn length(bytes: &[u8], at: usize) -> io::Result<Option<usize>> {
    let Some(len) = bytes.get(at..at + 4) else { return Ok(None) };
    let len = len.iter().fold(0_usize, |len, byte| len << 8 | usize::from(*byte));
    if len < 4 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {len} bytes")));
    }
    Ok(Some(len))
}

/// The kind of a statement, or the name of the function that it calls.
fn statement(sql: &[u8]) -> String {
    let sql = String::from_utf8_lossy(sql);
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    let kind = words(sql.trim_start()).unwrap_or_default().to_uppercase();
    let called = sql.split_once('(').and_then(|(before, _)| before.split_whitespace().last());
    match called {
        Some(called) if kind == "SELECT" => format!("{kind} {called}"),
        _ if kind.is_empty() => "nothing".to_owned(),
        _ => kind,
    }
}

mod tests {
    use super::*;

    fn said(letter: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[letter], &len[..], body].concat()
    }

    fn startup() -> Vec<u8> {
        [&[0, 0, 0, 16, 0, 3, 0, 0][..], b"user\0me\0"].concat()
    }

    fn ask(name: &str) -> Request {
        Request::Ask(name.to_owned())
    }

    fn started(requests: &[u8]) -> (Messages, Vec<Request>) {
        let mut frames = Messages::default();
        let found = Frame::all(&[&startup(), requests].concat(), |sent| frames.request(sent));
        (frames, found)
    }

    #[test]
    fn a_request_goes_on_to_its_sync_and_is_named_by_what_it_asks() {
        let enter = [
            said(b'P', b"\0SELECT * FROM enter($1, $2)\0\0\0"),
            said(b'B', b"\0\0"),
            said(b'D', b"P\0"),
            said(b'E', b"\0\0\0\0\0"),
            said(b'S', b""),
        ];
        let others = [
            said(b'Q', b"SELECT leave('a')\0"),
            said(b'Q', b"\0"),
            said(b'Q', b"begin; commit\0"),
            said(b'X', b""),
        ];
        let (_, found) = started(&[enter.concat(), others.concat()].concat());
        let names = [ask("startup"), ask("SELECT enter"), ask("SELECT leave"), ask("nothing"), ask("BEGIN")];
        assert_eq!(found, [&names[..], &[Request::Aside]].concat());
    }

    #[test]
    fn an_answer_ends_when_the_server_is_ready_and_no_transaction_is_open() {
        let (mut frames, _) = started(&[said(b'Q', b"BEGIN\0"), said(b'Q', b"COMMIT\0")].concat());
        let answers = [
            said(b'R', &[0, 0, 0, 0]),
            said(b'Z', b"I"),
            said(b'C', b"BEGIN\0"),
            said(b'Z', b"T"),
            said(b'C', b"COMMIT\0"),
            said(b'Z', b"I"),
        ];
        let found = Frame::all(&answers.concat(), |sent| frames.answer(sent));
        let (part, end, turn) = (Answer::Part, Answer::End, Answer::Turn);
        assert_eq!(found, [part, end, part, turn, part, end]);
    }

    #[test]
    fn what_the_server_says_unasked_answers_nothing() {
        let (mut frames, _) = started(b"");
        let answers = [
            said(b'A', b"\0\0\0\0channel\0payload\0"),
            said(b'S', b"TimeZone\0UTC\0"),
            said(b'Z', b"I"),
            said(b'A', b"\0\0\0\0channel\0payload\0"),
            said(b'E', b"SFATAL\0\0"),
        ];
        let found = Frame::all(&answers.concat(), |sent| frames.answer(sent));
        assert_eq!(found, [Answer::Hint, Answer::Part, Answer::End, Answer::Hint, Answer::Aside]);
    }

    #[test]
    fn who_is_asked_for_a_password_answers_before_the_server_is_ready() {
        let (mut frames, found) = started(&said(b'p', b"secret\0"));
        assert_eq!(found, [ask("startup"), ask("password")]);
        let answers = [said(b'R', &[0, 0, 0, 3]), said(b'R', &[0, 0, 0, 0]), said(b'Z', b"I")];
        let found = Frame::all(&answers.concat(), |sent| frames.answer(sent));
        assert_eq!(found, [Answer::Turn, Answer::Part, Answer::End]);
    }

    #[test]
    fn what_wants_encryption_is_an_error() {
        assert!(Messages::default().request(&[0, 0, 0, 8, 4, 210, 22, 47]).is_err());
    }
}
