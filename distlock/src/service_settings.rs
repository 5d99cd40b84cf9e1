//! [`Settings`]: where a service has its locks, and how it takes them.

use std::fmt;

use lock_core::{AcquireOptions, Locks, settings::ByName};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{ConnectError, connect};

/// What a service reads from its configuration: where its locks are, and how they are taken.
///
/// Any self-describing format of serde will do. A setting that is unknown is an error, and so is an empty `url`, as from a variable that
/// was not set. No error that is made here shows the URL.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = r#"{ "url": "memory:", "options": { "ttl": "10s", "wait": "5s" } }"#;
/// let settings: distlock::Settings = serde_json::from_str(file)?;
/// let locks = settings.connect().await?;
/// # assert!(locks.mutex("job").is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// The store, as [`connect`] takes it. There may be a password in it.
    pub url: String,
    /// Options for all locks; the defaults for what is left out.
    pub options: AcquireOptions,
}

impl Settings {
    /// Connects to the store, for locks with these options.
    ///
    /// # Errors
    /// [`ConnectError::Options`] for an option that is not allowed, before anything is connected to, and those of [`connect`].
    ///
    /// # Cancel safety
    /// As [`connect`] is.
    pub async fn connect(&self) -> Result<Locks, ConnectError> {
        self.options.validate()?;
        Ok(connect(&self.url).await?.with_options(self.options.clone()))
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Read {
            url: String,
            #[serde(default)]
            options: AcquireOptions,
        }

        // A URL alone in the place of the settings would be repeated in the error, with its password.
        let Read { url, options } = Read::deserialize(ByName(format))?;
        if url.is_empty() {
            return Err(D::Error::custom(
                "`url` is empty; name a store, as `memory:` or `redis://localhost`",
            ));
        }
        Ok(Self { url, options })
    }
}

/// Without what may be a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        let url = if scheme.is_empty() { "***".to_owned() } else { format!("{scheme}://***") };
        f.debug_struct("Settings").field("url", &url).field("options", &self.options).finish()
    }
}
