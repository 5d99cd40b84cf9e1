//! Promises about names, ids, tokens and options that hold for any input bytes.
//!
//! A function panics if its promise is broken. The programs in `fuzz/` and the tests below call these functions. They are compiled only
//! for tests and with `--cfg fuzzing`.

use std::time::Duration;

use crate::{AcquireOptions, EntryId, FencingToken, LockName, MAX_TTL, MIN_TTL, settings::duration};

/// A text is refused, or is the name, the id or the token that it was read as, to the last byte.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match LockName::new(&text) {
        Ok(name) => same_name(&name, &text),
        Err(error) => {
            assert!(text.is_empty() || text.len() > LockName::MAX_LEN, "{error}");
            assert!(error.to_string().len() < 100, "{error}");
        }
    }
    if let Ok(id) = text.parse::<EntryId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(token) = text.parse::<FencingToken>() {
        assert_eq!(token.to_string(), text);
    }
    if let Ok(name) = serde_json::from_slice::<LockName>(data) {
        same_name(&name, &serde_json::from_slice::<String>(data).expect("a name is a text"));
    }
    if let Ok(token) = serde_json::from_slice::<FencingToken>(data) {
        assert_eq!(token.to_string(), text.trim());
    }
}

fn same_name(name: &LockName, text: &str) {
    assert_eq!(name.as_str(), text);
    let written = serde_json::to_string(name).expect("a name can be written");
    assert_eq!(serde_json::from_str::<LockName>(&written).expect("and read back"), *name);
    // At most `\u{e0fff}` for each of 120 characters, or four bytes.
    let shown = format!("{name} {name:?}");
    assert!(shown.len() < 2 * 120 * 9 + 40, "{shown}");
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
}

/// Options from a file are refused, or read back as they were written; those that are valid are within their limits.
pub fn options(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(read) = duration::parse(text)
    {
        let written = serde_json::to_string(&AcquireOptions::new().wait(read)).expect("it can be written");
        assert_eq!(serde_json::from_str::<AcquireOptions>(&written).expect("and read back").wait, Some(read));
    }
    let Ok(options) = serde_json::from_slice::<AcquireOptions>(data) else { return };
    let written = serde_json::to_string(&options).expect("options can be written");
    assert_eq!(serde_json::from_str::<AcquireOptions>(&written).expect("and read back"), options);
    match options.validate() {
        Ok(()) => within_limits(&options),
        Err(error) => assert!(error.to_string().len() < 300, "{error}"),
    }
}

fn within_limits(options: &AcquireOptions) {
    assert!((MIN_TTL..=MAX_TTL).contains(&options.ttl));
    assert!(options.label.as_ref().is_none_or(|label| label.len() <= AcquireOptions::MAX_LABEL));
    for (failures, random) in [(0, 0), (1, u64::MAX), (u32::MAX, 0), (u32::MAX, u64::MAX)] {
        let pause = options.back_off.pause(failures, random);
        assert!(pause > Duration::ZERO && pause <= options.back_off.most, "{pause:?}");
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::{
        replay::{Target, assert_programs},
        *,
    };

    const TARGETS: [Target; 2] = [
        Target { name: "core_names", run: names, per_byte: 16, fixed: 8 * 1024 },
        Target { name: "core_options", run: options, per_byte: 16, fixed: 8 * 1024 },
    ];

    #[test]
    fn no_bytes_of_the_corpus_break_a_promise_about_input() {
        TARGETS.iter().for_each(Target::replay);
    }

    #[test]
    fn nothing_that_is_made_of_the_corpus_breaks_a_promise_about_input() {
        TARGETS.iter().for_each(Target::replay_mutated);
    }

    #[test]
    fn every_fuzz_target_is_a_test_too() {
        assert_programs("lock_core", &TARGETS);
    }
}
