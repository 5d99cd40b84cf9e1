//! How backends read their settings: the same form for every store, and no error that shows a password.
//!
//! The configuration of a store with servers has a [`ServerConfig`], which [`UrlForm`] reads from a URL and [`Flattened`] from a file.
//! Any other backend reads its settings [`ByName`].
//!
//! ```
//! use std::time::Duration;
//! use lock_core::settings::{Flattened, ServerConfig};
//! use serde::{Deserialize, Deserializer};
//!
//! #[derive(Debug, Default, Deserialize)]
//! #[serde(remote = "Self", default, deny_unknown_fields)]
//! struct Config {
//!     #[serde(skip)]
//!     server: ServerConfig,
//!     #[serde(with = "lock_core::settings::duration")]
//!     heartbeat: Duration,
//! }
//!
//! impl<'de> Deserialize<'de> for Config {
//!     fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
//!         let mut server = ServerConfig::default();
//!         // The derived function, and not that of the trait.
//!         let own = Self::deserialize(Flattened { format, server: &mut server })?;
//!         Ok(Self { server, ..own })
//!     }
//! }
//!
//! let config: Config = serde_json::from_str(r#"{ "password": "hunter2", "heartbeat": "1m 30s" }"#)?;
//! assert_eq!(config.heartbeat, Duration::from_secs(90));
//! assert!(config.server.password.is_some());
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
