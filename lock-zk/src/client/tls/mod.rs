//! TLS, if the feature `tls` is enabled.

mod stream;
#[cfg(feature = "tls")]
mod with;
#[cfg(not(feature = "tls"))]
mod without;

pub(crate) use self::stream::Stream;
#[cfg(feature = "tls")]
pub(crate) use self::with::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without::Tls;
