//! [`Settings`]: the store of a service, and the options of its locks.

use std::fmt;

use lock_core::{AcquireOptions, Locks, settings::ByName};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{ConnectError, connect};

/// What a service reads from its configuration: the store, and the options of its locks.
///
/// Any self-describing format of serde works. An unknown setting is an error, and so is an empty `url`, for example from a variable that
/// is not set. No error shows the URL, because it may contain a password.
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
    /// The URL of the store, as for [`connect`]. It may contain a password.
    pub url: String,
    /// The options of all locks. An option that is left out has its default.
    pub options: AcquireOptions,
}

impl Settings {
    /// Connects to the store. Its locks have these options.
    ///
    /// # Errors
    /// [`ConnectError::Options`] for an option that is not allowed, before the store is contacted, and those of [`connect`].
    ///
    /// # Cancel safety
    /// As [`connect`].
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

        // Only by name: if a URL stands in the place of the settings, serde's error would repeat it, with its password.
        let Read { url, options } = Read::deserialize(ByName(format))?;
        if url.is_empty() {
            return Err(D::Error::custom(
                "`url` is empty; name a store, as `memory:` or `redis://localhost`",
            ));
        }
        Ok(Self { url, options })
    }
}

/// Hides everything that may be a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        let url = if scheme.is_empty() { "***".to_owned() } else { format!("{scheme}://***") };
        f.debug_struct("Settings").field("url", &url).field("options", &self.options).finish()
    }
}
