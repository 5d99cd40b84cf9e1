#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lock_etcd::fuzzing::keys(data));
