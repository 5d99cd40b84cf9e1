//! [`LockName`]: the name of the thing that a lock protects.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::excerpt::is_unprintable;

/// The name of what a lock protects: any non-empty UTF-8 text of at most [`LockName::MAX_LEN`] bytes.
///
/// Two names are the same only if their bytes are the same: nothing is trimmed, normalised or folded, and no
/// separator has a meaning, so `a`, `a/` and `a/b` are three names that never meet on any backend.
///
/// ```
/// use lock_core::LockName;
///
/// let name = LockName::new("invoices/42")?;
/// assert_eq!(name.as_str(), "invoices/42");
/// assert!(LockName::new("").is_err());
/// # Ok::<(), lock_core::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name in bytes: 4 KiB.
    pub const MAX_LEN: usize = 4096;

    /// Checks a name once, so that nothing behind it has to.
    ///
    /// # Errors
    /// [`NameError`] if the name is empty or longer than [`LockName::MAX_LEN`] bytes.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        match name.len() {
            0 => Err(NameError::Empty),
            len if len > Self::MAX_LEN => Err(NameError::TooLong { len }),
            _ => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text cannot be the name of a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no bytes.
    #[error("a lock name is empty; give it at least one character")]
    Empty,
    /// The name is longer than [`LockName::MAX_LEN`] bytes.
    #[error(
        "a lock name of {len} bytes is too long; use at most {} bytes, or a hash of it",
        LockName::MAX_LEN
    )]
    TooLong {
        /// The length that was given, in bytes.
        len: usize,
    },
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LockName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<LockName> for String {
    fn from(name: LockName) -> Self {
        name.as_str().to_owned()
    }
}

/// Unprintable characters are escaped, as [`escape_unprintable`](crate::escape_unprintable) does, and long names cut. So a name, wherever
/// it comes from, stays in one line of a log, and two different names look different.
impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 120;
        for c in self.0.chars().take(SHOWN) {
            if is_unprintable(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                fmt::Write::write_char(f, c)?;
            }
        }
        if self.0.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockName({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_four_kib_is_taken_and_one_more_byte_is_refused() {
        assert!(LockName::new("x".repeat(4096)).is_ok());
        assert_eq!(LockName::new("x".repeat(4097)), Err(NameError::TooLong { len: 4097 }));
    }

    #[test]
    fn a_name_shown_to_people_has_no_control_characters_and_a_bounded_length() {
        let name = LockName::new(format!("a\n\0{}", "b".repeat(500))).unwrap();
        let shown = name.to_string();
        assert!(shown.starts_with("a\\n\\u{0}b"), "{shown}");
        assert!(!shown.chars().any(char::is_control));
        assert!(shown.chars().count() < 140);
    }

    #[test]
    fn a_name_shown_to_people_hides_no_character_and_turns_no_text() {
        let name = LockName::new("a\u{202e}b\u{200b}c\u{3164}d\u{e0100}ä").unwrap();
        assert_eq!(name.to_string(), "a\\u{202e}b\\u{200b}c\\u{3164}d\\u{e0100}ä");
        assert_eq!(format!("{name:?}"), format!("LockName({name})"));
    }
}
