//! [`Result`]: an error says that the rig could not do its work, and nothing about the locks.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;
