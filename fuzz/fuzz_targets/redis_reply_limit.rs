#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lock_redis::fuzzing::reply_limit(data));
