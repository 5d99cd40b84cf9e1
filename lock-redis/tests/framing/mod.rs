//! [`Resp`]: where commands and answers end on a connection to Redis.

/// The scripts themselves, for their digests, which name them on the wire.
#[path = "../../src/scripts.rs"]
#[allow(dead_code)] // Not all of them are verbs.
mod scripts;

use std::{collections::VecDeque, io};

use lock_conformance::{Answer, Frame, Frames, Request};

use self::scripts::{ENTER, LEAVE, RELEASE, RENEW};

/// Both versions of the protocol. A connection that has subscribed only carries hints from then on.
#[derive(Debug, Default)]
pub(crate) struct Resp {
    /// For each request that is not answered yet the number of its answers: a transaction is one request.
    open: VecDeque<usize>,
    subscribed: bool,
    third_version: bool,
}

/// An answer cannot be nested deeper than this.
const DEEPEST: usize = 32;

impl Frames for Resp {
    fn request(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Request>>> {
        let Some(mut len) = value(sent, 0)? else { return Ok(None) };
        let words = words(&sent[..len]);
        let mut verb = verb_of(&words);
        let subscribes = verb.ends_with("SUBSCRIBE");
        self.subscribed |= subscribes;
        self.third_version |= verb == "HELLO" && words.get(1).is_some_and(|version| *version == b"3");
        // Answers to commands on such a connection are pushed messages, like notifications.
        if subscribes || self.subscribed && !self.third_version {
            return Ok(Some(Frame { len, what: Request::Aside }));
        }
        let mut script = words.get(1).filter(|_| verb == "EVALSHA").and_then(|sha| name_of(sha));
        let (mut commands, mut creates) = (1, 0);
        if verb == "MULTI" {
            while verb != "EXEC" {
                let Some(more) = value_at(sent, len)? else { return Ok(None) };
                verb = verb_of(&self::words(&sent[len..len + more]));
                creates += usize::from(verb == "SET");
                (len, commands) = (len + more, commands + 1);
            }
            script = (creates == 1).then_some("enter");
        }
        self.open.push_back(commands);
        Ok(Some(Frame { len, what: Request::Ask(script.map_or(verb, str::to_owned)) }))
    }

    fn answer(&mut self, sent: &[u8]) -> io::Result<Option<Frame<Answer>>> {
        let Some(mut len) = value(sent, 0)? else { return Ok(None) };
        let unasked = sent[0] == b'>' || self.open.is_empty();
        let what = if !unasked {
            for _ in 1..self.open[0] {
                let Some(more) = value_at(sent, len)? else { return Ok(None) };
                len += more;
            }
            self.open.pop_front();
            Answer::End
        } else if words(&sent[..len]).first().is_some_and(|kind| kind.ends_with(b"message")) {
            Answer::Hint
        } else {
            Answer::Aside
        };
        Ok(Some(Frame { len, what }))
    }
}

fn verb_of(words: &[&[u8]]) -> String {
    words.first().map(|word| text(word).to_ascii_uppercase()).unwrap_or_default()
}

/// The length of the value at a place, if the value is complete.
fn value_at(bytes: &[u8], at: usize) -> io::Result<Option<usize>> {
    bytes.get(at..).filter(|rest| !rest.is_empty()).map_or(Ok(None), |rest| value(rest, 0))
}

/// The verb of the script with this digest. None if the script is no verb, or several verbs.
fn name_of(sha: &[u8]) -> Option<&'static str> {
    let verbs = [("enter", &ENTER), ("renew", &RENEW), ("leave", &LEAVE), ("leave", &RELEASE)];
    verbs.into_iter().find(|(_, script)| script.sha().as_bytes() == sha).map(|(verb, _)| verb)
}

/// The length of the value at the start of these bytes, if the value is complete.
fn value(bytes: &[u8], depth: usize) -> io::Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = (&bytes[1..end.max(1)], end + 2);
    let values = match bytes[0] {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(after)),
        b'$' | b'!' | b'=' => {
            // The null value has the length -1.
            let len = usize::try_from(number(line)?).map_or(after, |len| after + len + 2);
            return Ok((bytes.len() >= len).then_some(len));
        }
        b'*' | b'~' | b'>' => number(line)?,
        b'%' => number(line)? * 2,
        // Attributes belong to the value that follows them.
        b'|' => number(line)? * 2 + 1,
        _ => return Err(refused("the redis protocol", bytes)),
    };
    if depth == DEEPEST {
        return Err(refused("a value that is not nested so deep", bytes));
    }
    let mut len = after;
    for _ in 0..values {
        match bytes.get(len..).filter(|rest| !rest.is_empty()) {
            Some(rest) => match value(rest, depth + 1)? {
                Some(more) => len += more,
                None => return Ok(None),
            },
            None => return Ok(None),
        }
    }
    Ok(Some(len))
}

/// The strings in an array of strings, up to the first element that is not a string.
fn words(array: &[u8]) -> Vec<&[u8]> {
    let mut lines = array.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = Vec::new();
    lines.next();
    // A name that contains a line break is cut there. It is no verb.
    while let (Some([b'$', ..]), Some(word)) = (lines.next(), lines.next()) {
        words.push(word);
    }
    words
}

fn number(line: &[u8]) -> io::Result<i64> {
    text(line).parse().map_err(|_| refused("a length", line))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(what: &str, bytes: &[u8]) -> io::Error {
    let begin = &bytes[..bytes.len().min(32)];
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is expected, not `{}`", begin.escape_ascii()))
}

mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";

    fn ask(name: &str) -> Request {
        Request::Ask(name.to_owned())
    }

    /// All frames of the bytes in `said`, which are given one more byte at a time.
    fn answers(frames: &mut Resp, said: &[u8]) -> Vec<Frame<Answer>> {
        let (mut begin, mut found) = (0, Vec::new());
        for end in 0..=said.len() {
            while let Some(frame) = frames.answer(&said[begin..end]).unwrap() {
                begin += frame.len;
                assert_eq!(begin, end, "a frame ends as soon as its last byte is there");
                found.push(frame);
            }
        }
        assert_eq!(begin, said.len(), "something is left over");
        found
    }

    fn asked(frames: &mut Resp, sent: &[u8]) -> Request {
        for end in 0..sent.len() {
            assert_eq!(frames.request(&sent[..end]).unwrap(), None, "{end}");
        }
        let frame = frames.request(sent).unwrap().unwrap();
        assert_eq!(frame.len, sent.len());
        frame.what
    }

    #[test]
    fn a_command_ends_at_its_last_byte_and_is_named_by_its_first_word() {
        let mut frames = Resp::default();
        assert_eq!(asked(&mut frames, GET), ask("GET"));
        let binary = b"*3\r\n$7\r\nevalsha\r\n$4\r\n\r\n\r\n\r\n$0\r\n\r\n";
        assert_eq!(asked(&mut frames, binary), ask("EVALSHA"));
    }

    #[test]
    fn a_script_is_named_by_its_verb_and_another_one_by_the_command() {
        let mut frames = Resp::default();
        for (name, sha) in [("enter", ENTER.sha()), ("renew", RENEW.sha()), ("leave", LEAVE.sha())] {
            assert_eq!(
                asked(&mut frames, format!("*3\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n$1\r\n0\r\n").as_bytes()),
                ask(name)
            );
        }
        let unknown = "0".repeat(40);
        assert_eq!(
            asked(&mut frames, format!("*2\r\n$7\r\nEVALSHA\r\n$40\r\n{unknown}\r\n").as_bytes()),
            ask("EVALSHA")
        );
    }

    #[test]
    fn a_transaction_is_one_request_with_one_answer() {
        let mut frames = Resp::default();
        let [multi, set, exec] = [
            &b"*1\r\n$5\r\nMULTI\r\n"[..],
            b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*1\r\n$4\r\nEXEC\r\n",
        ];
        assert_eq!(asked(&mut frames, &[multi, GET, set, exec].concat()), ask("enter"));
        assert_eq!(asked(&mut frames, &[multi, set, set, exec].concat()), ask("EXEC"), "for two");
        assert_eq!(asked(&mut frames, GET), ask("GET"));
        let answer = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n+OK\r\n";
        let found = answers(&mut frames, &[&answer[..], answer, b"$-1\r\n"].concat());
        let lengths: Vec<_> = found.iter().map(|frame| (frame.len, frame.what)).collect();
        assert_eq!(lengths, [(answer.len(), Answer::End), (answer.len(), Answer::End), (5, Answer::End)]);
    }

    #[test]
    fn each_of_many_commands_in_one_piece_has_one_answer_of_any_shape() {
        let mut frames = Resp::default();
        let shapes: [&[u8]; 12] = [
            b"+OK\r\n",
            b"-NOSCRIPT no\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"$4\r\n\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n$1\r\na\r\n:7\r\n",
            b"_\r\n",
            b"%1\r\n+a\r\n#t\r\n",
            b"|1\r\n+ttl\r\n:5\r\n,1.5\r\n",
            b"!5\r\nERR x\r\n",
        ];
        for _ in &shapes {
            assert_eq!(asked(&mut frames, GET), ask("GET"));
        }
        let found = answers(&mut frames, &shapes.concat());
        let expected: Vec<_> =
            shapes.iter().map(|shape| Frame { len: shape.len(), what: Answer::End }).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_pushed_answers_nothing() {
        let mut frames = Resp::default();
        assert_eq!(asked(&mut frames, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"), ask("HELLO"));
        assert_eq!(asked(&mut frames, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"), Request::Aside);
        assert_eq!(asked(&mut frames, GET), ask("GET"));
        let said = b"%1\r\n+proto\r\n:3\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n$1\r\nv\r\n";
        let found: Vec<_> = answers(&mut frames, said).into_iter().map(|frame| frame.what).collect();
        assert_eq!(found, [Answer::End, Answer::Aside, Answer::Hint, Answer::End]);
    }

    #[test]
    fn a_connection_of_the_second_version_that_subscribed_only_pushes() {
        let mut frames = Resp::default();
        assert_eq!(asked(&mut frames, GET), ask("GET"));
        assert_eq!(asked(&mut frames, b"*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n"), Request::Aside);
        assert_eq!(asked(&mut frames, b"*1\r\n$4\r\nPING\r\n"), Request::Aside);
        let said = b"$1\r\nv\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n";
        let found: Vec<_> = answers(&mut frames, said).into_iter().map(|frame| frame.what).collect();
        assert_eq!(found, [Answer::End, Answer::Aside, Answer::Hint, Answer::Aside]);
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error() {
        assert!(Resp::default().answer(b"HTTP/1.1 400\r\n").is_err());
        assert!(Resp::default().answer(b"$x\r\n").is_err());
    }
}
