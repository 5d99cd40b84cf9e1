//! [`Entropy`]: where entry ids and jitter come from.

use std::fmt;

/// Random bits. A value, not a global: a simulation draws them from its seed.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// 128 bits that no other client will draw.
    fn bits(&self) -> u128;
}

/// The operating system's randomness, read again each time: a copy of this process or machine draws other bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    /// If the operating system has no randomness to give, as it may be before it has finished to boot.
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        u128::from_le_bytes(bytes)
    }
}
