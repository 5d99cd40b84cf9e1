//! [`Result`]: an error ends the benchmark, and is printed.

use std::error::Error;

pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;
