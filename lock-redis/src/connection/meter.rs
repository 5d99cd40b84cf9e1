//! [`Meter`]: how long the replies of a server are.

use std::io;

/// No reply may be longer: a queue of a hundred thousand, which is one reply, is half as long.
const MOST: usize = 64 << 20;

/// The shortest value in a reply: `_\r\n`.
const SHORTEST: usize = 3;

/// So much of a line tells what kind of value it is, and how long.
const HEAD: usize = 24;

/// Reads what a server sends far enough to know where each reply ends, and refuses one that is too long before it is kept. The driver
/// keeps whatever comes until it is whole, and makes room for as many values as are announced.
///
/// By the [specification of RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/). What is no RESP is for the driver to refuse.
#[derive(Debug)]
pub(super) struct Meter {
    /// Values that are still to come of this reply.
    values: usize,
    /// How long it is so far.
    length: usize,
    /// Bytes that are still to come of a text.
    text: usize,
    /// The start of the line that is being read.
    head: Vec<u8>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { values: 1, length: 0, text: 0, head: Vec::with_capacity(HEAD) }
    }

    /// Takes note of what has come.
    ///
    /// # Errors
    /// If a reply is too long, or is going to be: the connection is of no use any more.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = if self.text > 0 { self.read_text(bytes) } else { self.read_line(bytes)? };
            self.length += taken;
            if self.length > MOST {
                return Err(too_long());
            }
            if self.values == 0 {
                (self.values, self.length) = (1, 0);
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn read_text(&mut self, bytes: &[u8]) -> usize {
        let taken = self.text.min(bytes.len());
        self.text -= taken;
        if self.text == 0 {
            self.values -= 1;
        }
        taken
    }

    fn read_line(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        let room = HEAD.saturating_sub(self.head.len()).min(line.len());
        self.head.extend_from_slice(&line[..room]);
        if end.is_some() {
            self.end_of_line()?;
            self.head.clear();
        }
        Ok(line.len() + usize::from(end.is_some()))
    }

    /// What the line announces.
    fn end_of_line(&mut self) -> io::Result<()> {
        let number = self.head.get(1..).and_then(|rest| std::str::from_utf8(rest).ok());
        // Nothing, where there is none: it is minus one.
        let number = number.and_then(|rest| rest.trim_end().parse::<usize>().ok());
        match (self.head.first(), number) {
            (Some(b'$' | b'!' | b'='), Some(length)) if length > MOST => return Err(too_long()),
            (Some(b'$' | b'!' | b'='), Some(length)) => {
                self.text = length + 2;
                return Ok(());
            }
            (Some(b'*' | b'~' | b'>'), Some(values)) => self.announced(values)?,
            (Some(b'%'), Some(pairs)) => self.announced(pairs.saturating_mul(2))?,
            (Some(b'|'), Some(pairs)) => {
                // They come before a value, and are none.
                self.announced(pairs.saturating_mul(2))?;
                return Ok(());
            }
            _ => {}
        }
        self.values -= 1;
        Ok(())
    }

    fn announced(&mut self, values: usize) -> io::Result<()> {
        self.values = self.values.saturating_add(values);
        if self.values > MOST / SHORTEST { Err(too_long()) } else { Ok(()) }
    }
}

fn too_long() -> io::Error {
    let message = format!("a reply of more than {} MB, which no command of ours asks for", MOST >> 20);
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every kind, with texts that look like lines.
    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":-42\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$12\r\n$5\r\n*3\r\n+a\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*3\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n,1.5\r\n",
        "%1\r\n+a\r\n*1\r\n#t\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n+message\r\n$1\r\nc\r\n$1\r\nm\r\n",
        "|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n",
        "=5\r\ntxt:a\r\n",
        "!5\r\nERR a\r\n",
    ];

    fn is_between_replies(meter: &Meter) -> bool {
        (meter.values, meter.length, meter.text) == (1, 0, 0) && meter.head.is_empty()
    }

    #[test]
    fn the_end_of_each_reply_is_known_wherever_it_is_cut() {
        for reply in REPLIES {
            for cut in 0..reply.len() {
                let (first, second) = reply.as_bytes().split_at(cut);
                let mut meter = Meter::new();
                meter.read(first).unwrap();
                assert_eq!(is_between_replies(&meter), cut == 0, "{reply:?} at {cut}");
                meter.read(second).unwrap();
                assert!(is_between_replies(&meter), "{reply:?} at {cut}: {meter:?}");
            }
        }
        let mut meter = Meter::new();
        meter.read(REPLIES.concat().as_bytes()).unwrap();
        assert!(is_between_replies(&meter), "{meter:?}");
    }

    #[test]
    fn what_is_announced_to_be_too_long_is_refused_before_it_comes() {
        for line in [
            "$67108865\r\n",
            "*22369622\r\n",
            "%99999999999\r\n",
            "*9\r\n~22369622\r\n",
            "$18446744073709551615\r\n",
        ] {
            assert!(Meter::new().read(line.as_bytes()).is_err(), "{line}");
        }
        Meter::new().read(b"$67108864\r\n").unwrap();
    }

    #[test]
    fn what_has_no_end_is_refused_when_it_is_too_long() {
        let part = vec![b'x'; 1 << 20];
        for start in ["+", "*2\r\n$60000000\r\n"] {
            let mut meter = Meter::new();
            meter.read(start.as_bytes()).unwrap();
            let read = (0..128).take_while(|_| meter.read(&part).is_ok()).count();
            assert!((60..=64).contains(&read), "{start:?}: {read} MB");
        }
        // Any number of short ones.
        let mut meter = Meter::new();
        (0..1_000_000).for_each(|_| meter.read(b"$90\r\n").and_then(|()| meter.read(&[b'x'; 92])).unwrap());
    }
}
