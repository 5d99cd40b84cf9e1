//! The suite on the store in the memory of this process.

mod memory_harness;

use self::memory_harness::MemoryHarness;

lock_conformance::suite!(MemoryHarness);
