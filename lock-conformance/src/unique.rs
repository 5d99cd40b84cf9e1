//! [`unique`]: digits that are used nowhere else.

use lock_core::{Entropy, SystemEntropy};

/// 16 hexadecimal digits that are used nowhere else: for the prefix or the schema of one case, or the name of a file.
#[must_use]
pub fn unique() -> String {
    format!("{:016x}", SystemEntropy.bits() as u64)
}
