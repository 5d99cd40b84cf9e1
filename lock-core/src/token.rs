//! [`FencingToken`]: the number by which a resource refuses writes of former holders.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::InputError;

/// A number that grows with every grant of a name.
///
/// Send it along with what you write, and let the resource refuse a token smaller than the largest it has seen:
/// then a holder that was paused past its lease can do no harm. If one grant of a name was returned before another
/// was asked for, its token is the smaller one. Tokens of different names say nothing about each other.
///
/// In a database, the token has a column in the row that it protects, and the write has a condition. If it changes no row, a later holder
/// has written, and this one has to stop:
///
/// ```sql
/// UPDATE orders SET state = $1, token = $2 WHERE id = $3 AND token <= $2
/// ```
///
/// A signed column of 64 bits (`BIGINT`) will do: no store gets beyond 2^63 − 1.
///
/// A token is minted when an entry joins the queue, so it also tells one life of an entry from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Wraps a number that a store minted. Only a [`Backend`](crate::Backend) has a reason to.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, exact to the last bit. JSON and Lua lose bits past 2^53: pass it on as text there.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Exactly what `Display` writes: decimal digits without a sign and without zeros before them.
impl FromStr for FencingToken {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let as_written = text == "0" || !text.starts_with(['0', '+']);
        text.parse().ok().filter(|_| as_written).map(Self).ok_or(InputError::Token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_as_it_was_written() {
        for number in [0, 1, 10, (1 << 53) + 1, u64::MAX] {
            let token = FencingToken::new(number);
            assert_eq!(token.to_string().parse(), Ok(token));
        }
    }

    #[test]
    fn nothing_but_the_digits_of_a_number_of_64_bits_is_a_token() {
        for text in
            ["", "+1", "-1", "01", "00", " 1", "1 ", "1.0", "1e3", "0x1", "18446744073709551616", "\u{661}"]
        {
            assert_eq!(text.parse::<FencingToken>(), Err(InputError::Token), "{text}");
        }
    }
}
