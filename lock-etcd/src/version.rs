//! [`Version`]s of etcd, and which of them have bugs that affect locks.

use std::fmt;

/// The first release of each series in which these bugs that affect locks are fixed: lost deletes (3.4.36, 3.5.18), leases
/// revoked wrongly (3.4.31, 3.5.13), answered keep-alives of revoked leases (3.4.38, 3.5.23, 3.6.5), stale reads after a
/// pause (3.4.42, 3.5.28, 3.6.9). Later series have no such bug that a newer release is known to fix.
const FLOORS: [Version; 3] = [Version(3, 4, 42), Version(3, 5, 28), Version(3, 6, 9)];

/// Major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32, u32);

impl Version {
    /// Reads `3.5.28`, and also `3.5.28-something`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().ok());
        Some(Self(parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
    }

    /// Whether this version has what the recipe needs.
    pub(crate) fn is_supported(self) -> bool {
        self >= Self(3, 4, 0)
    }
}

/// The release to use instead of this one, if this one has such bugs.
pub(crate) fn floor(version: Version) -> Option<Version> {
    if version < FLOORS[0] && (version.0, version.1) < (3, 4) {
        return Some(FLOORS[0]);
    }
    FLOORS.into_iter().find(|floor| (floor.0, floor.1) == (version.0, version.1) && version < *floor)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_its_floor_and_later_ones_have_none() {
        let floor = |text: &str| floor(Version::parse(text).unwrap()).map(|floor| floor.to_string());
        for (version, wanted) in [
            ("3.3.27", Some("3.4.42")),
            ("3.4.23", Some("3.4.42")),
            ("3.4.42", None),
            ("3.5.16", Some("3.5.28")),
            ("3.5.28", None),
            ("3.6.8", Some("3.6.9")),
            ("3.6.16", None),
            ("3.7.0-rc.1", None),
            ("3.7.3", None),
            ("4.0.0", None),
        ] {
            assert_eq!(floor(version).as_deref(), wanted, "{version}");
        }
        assert_eq!(Version::parse("unknown"), None);
        assert!(!Version::parse("3.3.9").unwrap().is_supported());
    }
}
