//! [`Password`]: text that is only shown to the server.

use std::{fmt, fs, path::Path};

use serde::{Deserialize, Deserializer, de::Error};

use super::ConfigError;

/// A password. Neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The text, for the server only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The only line of a file, which the setting `password_file` names.
    pub(super) fn read(file: &Path) -> Result<Self, ConfigError> {
        let unusable = |reason: &str| ConfigError::File {
            option: "password_file",
            path: file.into(),
            reason: reason.to_owned(),
        };
        let text = fs::read_to_string(file).map_err(|error| unusable(&error.to_string()))?;
        // An editor ends the line.
        let line = text.strip_suffix('\n').unwrap_or(&text);
        match line.strip_suffix('\r').unwrap_or(line) {
            "" => Err(unusable("it is empty")),
            line if line.contains('\n') => Err(unusable("it has more than one line")),
            line => Ok(line.into()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_only_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            Password::read(&file)
        };
        for text in ["a b\u{e4}", "a b\u{e4}\n", "a b\u{e4}\r\n"] {
            assert_eq!(read(text), Ok("a b\u{e4}".into()), "{text:?}");
        }
        for (text, reason) in [("", "empty"), ("\n", "empty"), ("secret\nsecret\n", "more than one line")] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("secret"), "{text:?}: {error}");
        }
        fs::remove_file(&file).unwrap();
        let error = Password::read(&file).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
}
