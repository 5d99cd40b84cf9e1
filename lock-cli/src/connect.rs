//! Connecting to the store of the settings.

use distlock::Locks;

use crate::{exit::Exit, failure::Failure, settings::Settings};

/// The locks of the store.
pub(crate) async fn connect(settings: &Settings) -> Result<Locks, Failure> {
    if settings.url.starts_with("memory:") {
        let failure = Failure::new(
            Exit::USAGE,
            "a `memory:` lock is in the memory of one process, and holds no other one up",
        );
        return Err(failure.hint("another --url, or DISTLOCK_URL"));
    }
    Ok(distlock::connect(&settings.url).await?)
}
