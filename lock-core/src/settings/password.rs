//! [`Password`]: text that is shown to nobody but the server.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error};

/// A password. Neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The text, for the server only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Password {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// From a text. Anything else, such as a number without quotes, is an error that does not repeat it.
impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        let text = String::deserialize(format);
        text.map(Self).map_err(|_| D::Error::custom("the password is no text; put it in quotes"))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
