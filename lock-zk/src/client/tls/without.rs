//! The replacement for builds without the feature `tls`.

use std::io;

use lock_core::settings::ConfigError;
use tokio::net::TcpStream;
use zookeeper_client::Connector;

use super::stream::Stream;
use crate::ZkConfig;

/// Cannot be made in this build.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

impl Tls {
    /// Always `None`: a configuration with TLS is not valid in this build.
    #[allow(clippy::unnecessary_wraps, reason = "the other one reads files")]
    pub(crate) fn load(_: &ZkConfig) -> Result<Option<Self>, ConfigError> {
        Ok(None)
    }

    pub(crate) fn secure(&self, _: Connector) -> Connector {
        match *self {}
    }

    #[allow(clippy::unused_async, reason = "the other one waits")]
    pub(crate) async fn connect(&self, _: &str, _: TcpStream) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }

    pub(crate) fn is_refusal(_: &io::Error) -> bool {
        false
    }
}
