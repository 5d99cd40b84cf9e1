//! [`ReplyLimit`]: limits the length of the server's replies.

use std::io;

/// The longest reply of a command: a queue of a hundred thousand, which is one reply, is a little shorter.
pub(super) const MAX_REPLY_BYTES: usize = 64 << 20;

/// What each value of a reply counts beside its bytes: the driver keeps so much for it, though the shortest has three bytes on the wire.
pub(crate) const BYTES_PER_VALUE: usize = 64;

/// How much of a line is kept to read the kind of its value and its length: the longest number has twenty characters.
const LINE_START_BYTES: usize = 24;

/// Parses the bytes from a server far enough to know where each reply ends, and refuses a reply that is too long before the driver stores
/// it. The driver stores bytes until a reply is complete, and allocates room for as many values as the reply announces.
///
/// It follows the [specification of RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/) as the driver reads it: if the two
/// disagreed about the end of a reply, the bytes behind it would not be counted. The driver refuses what is not RESP, except for lengths
/// that it would read differently.
#[derive(Debug)]
pub(crate) struct ReplyLimit {
    /// The longest reply.
    max: usize,
    /// The number of values of this reply that are still to come.
    values: usize,
    /// The length of this reply so far, plus [`BYTES_PER_VALUE`] for each of its values.
    length: usize,
    /// The number of bytes of the current text that are still to come.
    text: usize,
    /// The start of the line that is being read.
    line_start: Vec<u8>,
    /// Whether the last byte was a carriage return in a line.
    returned: bool,
}

impl ReplyLimit {
    /// Limits each reply to `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            values: 1,
            length: 0,
            text: 0,
            line_start: Vec::with_capacity(LINE_START_BYTES),
            returned: false,
        }
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// If a reply is too long, or announces that it will be. The connection cannot be used any more.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = if self.text > 0 { self.read_text(bytes) } else { self.read_line(bytes)? };
            self.length += taken;
            if self.length > self.max {
                return Err(self.too_long());
            }
            if self.values == 0 {
                (self.values, self.length) = (1, 0);
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Whether no reply has begun that is not complete yet.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn is_between_replies(&self) -> bool {
        (self.values, self.length, self.text) == (1, 0, 0) && self.line_start.is_empty()
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
        let (line, is_whole) = self.line(bytes);
        let room = (LINE_START_BYTES - self.line_start.len()).min(line.len());
        self.line_start.extend_from_slice(&line[..room]);
        if is_whole {
            self.end_of_line()?;
            self.line_start.clear();
        }
        Ok(line.len())
    }

    /// The bytes that belong to the current line, and whether they complete it. A line feed alone does not end a line.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        let mut before = self.returned;
        for (i, &byte) in bytes.iter().enumerate() {
            if before && byte == b'\n' {
                self.returned = false;
                return (&bytes[..=i], true);
            }
            before = byte == b'\r';
        }
        self.returned = before;
        (bytes, false)
    }

    /// Counts what a complete line announces.
    fn end_of_line(&mut self) -> io::Result<()> {
        // Not empty: a complete line has at least its line end.
        match self.line_start[0] {
            kind @ (b'$' | b'!' | b'=') => match self.number()? {
                Some(length) if length > self.max => return Err(self.too_long()),
                Some(length) => {
                    self.text = length + 2;
                    return Ok(());
                }
                // Only this kind has a null value, with a negative length.
                None if kind == b'$' => {}
                None => return Err(no_length()),
            },
            b'*' | b'~' | b'>' => self.announced(1)?,
            b'%' => self.announced(2)?,
            b'|' => {
                // An attribute precedes a value and is not a value itself.
                self.announced(2)?;
                return Ok(());
            }
            _ => {}
        }
        self.values -= 1;
        Ok(())
    }

    /// Counts the values that the line announces, `times` over.
    fn announced(&mut self, times: usize) -> io::Result<()> {
        let values = self.number()?.unwrap_or(0).saturating_mul(times);
        self.values = self.values.saturating_add(values);
        self.length = self.length.saturating_add(values.saturating_mul(BYTES_PER_VALUE));
        if self.length > self.max { Err(self.too_long()) } else { Ok(()) }
    }

    /// The number in the line, as the driver reads it; none if it is negative.
    fn number(&self) -> io::Result<Option<usize>> {
        // Only the start of a longer line is kept. Such a line has no valid number.
        let line = self.line_start[1..].strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
        let number = line.and_then(|line| line.trim().parse::<i64>().ok()).ok_or_else(no_length)?;
        Ok(usize::try_from(number).ok())
    }

    fn too_long(&self) -> io::Error {
        let max = self.max;
        refused(format!("a reply of more than {max} bytes, which no command of ours asks for"))
    }
}

fn no_length() -> io::Error {
    refused("a reply whose length is not a valid number".to_owned())
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of every kind, with texts that look like lines.
    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "+a\nb\rc\r\n",
        "-ERR no\r\n",
        ":-42\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$ 2 \r\n\r\n\r\n",
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

    fn limit() -> ReplyLimit {
        ReplyLimit::new(MAX_REPLY_BYTES)
    }

    #[test]
    fn the_end_of_each_reply_is_known_wherever_it_is_cut() {
        for reply in REPLIES {
            for cut in 0..reply.len() {
                let (first, second) = reply.as_bytes().split_at(cut);
                let mut limit = limit();
                limit.read(first).unwrap();
                assert_eq!(limit.is_between_replies(), cut == 0, "{reply:?} at {cut}");
                limit.read(second).unwrap();
                assert!(limit.is_between_replies(), "{reply:?} at {cut}: {limit:?}");
            }
        }
        let mut limit = limit();
        limit.read(REPLIES.concat().as_bytes()).unwrap();
        assert!(limit.is_between_replies(), "{limit:?}");
    }

    #[test]
    fn a_value_takes_no_more_than_it_is_counted() {
        assert!(size_of::<redis::Value>() <= BYTES_PER_VALUE);
    }

    #[test]
    fn what_is_announced_to_be_too_long_is_refused_before_it_comes() {
        for line in [
            "$67108865\r\n",
            "*1048577\r\n",
            "%524289\r\n",
            "%99999999999\r\n",
            "*9\r\n~1048577\r\n",
            "*600000\r\n*600000\r\n",
            "$18446744073709551615\r\n",
        ] {
            assert!(limit().read(line.as_bytes()).is_err(), "{line}");
        }
        limit().read(b"$67108864\r\n").unwrap();
        limit().read(b"*1040000\r\n").unwrap();
    }

    /// The driver accepts such lengths, and would wait for that many bytes.
    #[test]
    fn a_length_in_disguise_is_refused() {
        for line in [
            "$000000000000000000000000000099999999999\r\n",
            "$ 99999999999\r\n",
            "=-1\r\n",
            "!-1\r\n",
            "$000000000000000000000000002\r\n",
            "*x\r\n",
        ] {
            for cut in 0..line.len() {
                let (first, second) = line.as_bytes().split_at(cut);
                let mut limit = limit();
                let read = limit.read(first).and_then(|()| limit.read(second));
                assert!(read.is_err(), "{line} at {cut}: {limit:?}");
            }
        }
    }

    #[test]
    fn what_has_no_end_is_refused_when_it_is_too_long() {
        let (part, lines) = (vec![b'x'; 1 << 20], b"xxx\n".repeat(1 << 18));
        for (start, part) in [("+", &part), ("+", &lines), ("*2\r\n$60000000\r\n", &part)] {
            let mut limit = limit();
            limit.read(start.as_bytes()).unwrap();
            let read = (0..128).take_while(|_| limit.read(part).is_ok()).count();
            assert!((60..=64).contains(&read), "{start:?}: {read} MB");
            assert!(limit.line_start.capacity() <= LINE_START_BYTES, "it keeps the line");
        }
        // Any number of short replies passes.
        let mut limit = limit();
        (0..1_000_000).for_each(|_| limit.read(b"$90\r\n").and_then(|()| limit.read(&[b'x'; 92])).unwrap());
    }

    /// The reply has the form of `scripts/queue.lua`.
    #[test]
    fn a_queue_of_a_hundred_thousand_is_not_too_long() {
        let label = "x".repeat(64);
        let row = format!(
            "*6\r\n$1\r\nw\r\n$32\r\n{}\r\n$16\r\n1795201861000467\r\n$1\r\n1\r\n:29999\r\n$64\r\n{label}\r\n",
            "4f".repeat(16)
        );
        let mut limit = limit();
        limit.read(b"*100002\r\n$1\r\nm\r\n$1\r\n1\r\n").unwrap();
        (0..100_000).for_each(|_| limit.read(row.as_bytes()).unwrap());
        assert!(limit.is_between_replies());
    }
}
