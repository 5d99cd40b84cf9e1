//! [`Endpoint`]: the address of a server, with the password and the TLS settings for it.

use std::sync::{Arc, atomic::AtomicBool};

use lock_core::{
    CircuitBreaker,
    settings::{ConfigError, Password},
};

use crate::{
    config::{RedisConfig, tls::Tls},
    error::Failure,
};

/// The address of a server, with the password and the TLS settings for it, read from their files.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) config: Arc<RedisConfig>,
    /// `host:port`, for messages.
    pub(crate) address: String,
    /// From the configuration, or from the file that it names.
    pub(crate) password: Option<Password>,
    pub(super) tls: Option<Tls>,
    /// Shared by all connections: each attempt shows whether the server is available.
    pub(super) breaker: CircuitBreaker<Failure>,
    /// Whether a connection was ever opened: then the port is known to be right.
    pub(super) was_reached: AtomicBool,
}

impl Endpoint {
    /// Checks the configuration and reads its files. Opens no connection.
    pub(crate) fn new(config: Arc<RedisConfig>) -> Result<Self, ConfigError> {
        config.validate()?;
        let (password, tls) = (config.server.read_password()?, Tls::load(&config)?);
        // Half of the limit, so that a caller who waited for the pause has the other half for the attempt.
        let breaker = CircuitBreaker::new(Failure::is_of_connection)
            .with_longest_pause(config.server.connect_timeout / 2);
        Ok(Self {
            address: config.address(),
            config,
            password,
            tls,
            breaker,
            was_reached: AtomicBool::new(false),
        })
    }
}
