//! Why a server does not do what a case asks for.

/// Why one is not ended, paused or emptied that the test has not started.
pub const NOT_OURS: &str = "the server is known by its URL only, and perhaps serves others";

/// Why a store that has no room left throws nothing out.
pub const NOTHING_IS_EVICTED: &str = "a store without room refuses writes, and never throws anything out";
