//! [`Settings`]: where a service has its locks, and how it takes them.

use std::fmt;

use lock_core::{AcquireOptions, Locks};
use serde::{Deserialize, Serialize};

use crate::{ConnectError, connect};

/// What a service reads from its configuration: where its locks are, and how they are taken.
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The store, as [`connect`] takes it. There may be a password in it.
    pub url: String,
    /// Options for all locks; the defaults for what is left out.
    #[serde(default)]
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

/// Without what may be a password.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        let url = if scheme.is_empty() { "***".to_owned() } else { format!("{scheme}://***") };
        f.debug_struct("Settings").field("url", &url).field("options", &self.options).finish()
    }
}
