//! Bounds of arguments: ttls, permits and labels. In a file of their own, because both the types that check them and the errors that name
//! them import them.

use std::time::Duration;

/// The shortest ttl that is taken: 100 ms.
pub const MIN_TTL: Duration = Duration::from_millis(100);

/// The longest ttl that is taken: 24 h.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest limit of a semaphore.
pub(crate) const MAX_PERMITS: u32 = i32::MAX as u32;

/// The longest label in bytes.
pub(crate) const MAX_LABEL: usize = 256;
