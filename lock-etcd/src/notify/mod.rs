//! How waiters are notified: one stream of watches, and what its events mean for each waiter.

mod catch_up;
mod confirmed_hints;
mod hub;
mod hub_state;
mod later_looks;
mod stream;
mod subscription;
mod wait_state;

pub(crate) use self::{confirmed_hints::ConfirmedHints, stream::WatchStream, subscription::Subscription};
