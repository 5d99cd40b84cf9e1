//! What backends read their settings with, so that they look the same everywhere and no error shows a password.
//!
//! A store with servers has a [`ServerConfig`] in its configuration, which [`UrlForm`] reads from a URL and [`Flattened`] from a file.
//! Any other backend reads its own settings by their names:
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
mod connect_error;
pub mod duration;
mod endpoint;
mod flattened;
mod password;
mod pem;
mod server_config;
mod store_url;

pub use self::{
    by_name::ByName,
    config_error::ConfigError,
    connect_error::ConnectError,
    endpoint::Endpoint,
    flattened::Flattened,
    password::Password,
    pem::read_pem,
    server_config::ServerConfig,
    store_url::{StoreUrl, UrlForm},
};
