//! [`ConnectionPool`]: one connection for each runtime, server and purpose, opened once for all callers.

mod connector;
mod pool;
mod pooled_connection;
mod runtime_selector;

pub use self::{
    connector::{ConnectionTask, Connector},
    pool::ConnectionPool,
    pooled_connection::{OpenConnection, PooledConnection},
    runtime_selector::RuntimeSelector,
};

#[cfg(test)]
mod tests;
