//! [`Departure`]: whether an entry that was to leave was still in its queue.

/// What [`Backend::leave`](crate::Backend::leave) and [`Operator::evict`](crate::Operator::evict) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The entry was there and is gone now.
    Left,
    /// The entry was not there.
    Absent,
}
