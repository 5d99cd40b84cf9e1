//! [`Packets`]: where requests and answers end on a connection to ZooKeeper.

use std::io;

use lock_conformance::{Answer, Frame, Frames, Request};

/// Each request and answer is a packet after its length. A server answers the requests of a session in their order, and sends
/// notifications of watches with a number that no request has.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// The first packets open the session, and have no number.
    greeted: bool,
    welcomed: bool,
    /// Whether the connection carries one question in four letters, and its answer, instead of a session.
    status: bool,
}

/// Asks a server for its status. It answers in text, and closes the connection.
const STATUS: &[u8] = b"srvr";

/// The number of notifications.
const WATCHED: i32 = -1;

impl Frames for Packets {
    fn request(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>> {
        if !self.greeted && sent.starts_with(STATUS) {
            (self.greeted, self.status) = (true, true);
            return Ok(Some(Frame { len: STATUS.len(), what: Request::Ask("status".to_owned()) }));
        }
        let Some((len, packet)) = packet(sent)? else { return Ok(None) };
        let name = if std::mem::replace(&mut self.greeted, true) {
            operation(number(packet, 4)?).to_owned()
        } else {
            "connect".to_owned()
        };
        Ok(Some(Frame { len, what: Request::Ask(name) }))
    }

    fn answer(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Answer>>> {
        if self.status {
            return Ok((!sent.is_empty()).then_some(Frame { len: sent.len(), what: Answer::Part }));
        }
        let Some((len, packet)) = packet(sent)? else { return Ok(None) };
        let is_word = std::mem::replace(&mut self.welcomed, true) && number(packet, 0)? == WATCHED;
        Ok(Some(Frame { len, what: if is_word { Answer::Hint } else { Answer::End } }))
    }
}

fn packet(bytes: &[u8]) -> io::Result<Option<(usize, &[u8])>> {
    if bytes.len() < 4 {
        return Ok(None);
    }
    let len = usize::try_from(number(bytes, 0)?).map_err(io::Error::other)? + 4;
    Ok(bytes.get(4..len).map(|packet| (len, packet)))
}

fn number(bytes: &[u8], at: usize) -> io::Result<i32> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map(|word| i32::from_be_bytes(*word)).ok_or_else(|| io::Error::other("a packet is too short"))
}

fn operation(code: i32) -> &'static str {
    match code {
        1 | 15 | 19 | 21 => "create",
        2 => "delete",
        3 => "exists",
        4 => "get data",
        5 => "set data",
        8 | 12 => "list",
        9 => "sync",
        11 => "ping",
        14 => "multi",
        -11 => "close",
        _ => "other",
    }
}

mod tests {
    use super::*;

    fn packed(words: &[i32]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        [&i32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn every_packet_is_a_request_and_the_first_one_opens_the_session() {
        let sent = [packed(&[0, 0, 0, 10_000]), packed(&[1, 15, 7]), packed(&[-2, 11]), packed(&[2, 12, 0])];
        let mut frames = Packets::default();
        let names = ["connect", "create", "ping", "list"].map(|name| Request::Ask(name.to_owned()));
        assert_eq!(Frame::all(&sent.concat(), |sent| frames.request(sent)), names);
    }

    #[test]
    fn a_question_for_the_status_is_answered_in_text() {
        let mut frames = Packets::default();
        assert_eq!(Frame::all(STATUS, |sent| frames.request(sent)), [Request::Ask("status".to_owned())]);
        assert_eq!(Frame::all(b"Mode", |sent| frames.answer(sent)), [Answer::Part; 4]);
    }

    #[test]
    fn what_is_watched_answers_nothing() {
        // The first answer begins with the version of the protocol, which may have any value.
        let said =
            [packed(&[-1, 0]), packed(&[1, 0, 5, 0]), packed(&[-1, 0, 0, 0, 2, 3]), packed(&[-2, 0, 5, 0])];
        let mut frames = Packets::default();
        let found = Frame::all(&said.concat(), |sent| frames.answer(sent));
        assert_eq!(found, [Answer::End, Answer::End, Answer::Hint, Answer::End]);
    }
}
