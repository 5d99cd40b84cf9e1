//! How backends read their settings: the same form for every store, and no error that shows a password.
//!
//! ```
//! use std::time::Duration;
//! use lock_core::settings::{ByName, Password};
//! use serde::{Deserialize, Deserializer};
//!
//! #[derive(Debug, Default, Deserialize)]
//! #[serde(remote = "Self", default, deny_unknown_fields)]
//! struct Config {
//!     password: Option<Password>,
//!     #[serde(with = "lock_core::settings::duration")]
//!     command_timeout: Duration,
//! }
//!
//! impl<'de> Deserialize<'de> for Config {
//!     fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
//!         Self::deserialize(ByName(format)) // The derived one, which is not that of the trait.
//!     }
//! }
//!
//! let config: Config = serde_json::from_str(r#"{ "password": "hunter2", "command_timeout": "1m 30s" }"#)?;
//! assert_eq!(config.command_timeout, Duration::from_secs(90));
//! assert!(!format!("{config:?}").contains("hunter2"));
//!
//! for mistake in [r#"{ "password": 1234567 }"#, r#""redis://user:1234567@host""#] {
//!     let error = serde_json::from_str::<Config>(mistake).unwrap_err();
//!     assert!(!error.to_string().contains("1234567"), "{error}");
//! }
//! # Ok::<(), serde_json::Error>(())
//! ```

mod by_name;
mod config_error;
pub mod duration;
mod endpoint;
mod login;
mod password;
mod store_url;
mod tls_files;

pub use self::{
    by_name::ByName,
    config_error::ConfigError,
    endpoint::Endpoint,
    login::Login,
    password::Password,
    store_url::{StoreUrl, UrlForm},
    tls_files::{TlsFiles, read_pem},
};
