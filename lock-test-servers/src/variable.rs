//! [`variable`]: reads an environment variable.

use std::env;

/// The value of a variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
