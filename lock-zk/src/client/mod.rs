//! Connections to the ensemble, and requests on them.

mod driver;
mod ensemble;
mod reconnecting_client;
mod session_limits;
mod tls;

#[cfg(test)]
pub(crate) use self::ensemble::silence;
pub(crate) use self::{
    ensemble::Ensemble,
    reconnecting_client::{ReconnectingClient, Watcher},
};
