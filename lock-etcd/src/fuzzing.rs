//! The promises about input that this crate reads from users and servers. They hold for any bytes.
//!
//! Each function panics if its promise is broken. The programs in `fuzz/` call the functions, and so do the tests below. This module is
//! not part of the library: it is compiled only for tests and with `--cfg fuzzing`. The etcd client reads the answers themselves.

use std::fmt::Debug;

use etcd_client::Error;
use lock_core::{AcquireOptions, BackendError, Claim, Entry, EntryId, LockName};
use percent_encoding::percent_decode_str;
use tonic::{Code, Status};

use crate::{
    EtcdConfig,
    error::Failure,
    keys::{self, Keys, Range},
    queue::foreign,
    version::{Version, floor},
};

/// The password in the inputs. It occurs nowhere else in the texts that these functions read or write.
const SECRET: &str = "hunter2";

/// A limit for error messages. None needs to be longer, except for what users wrote themselves.
const LONG: usize = 2_000;

/// A URL is refused, or gives a valid configuration. If it contains a password, no output shows the password.
///
/// The bytes are used twice: as a URL, and as four parts between `|` around a password: `1|2|3|4` stands for `1:2PASSWORD3@4`.
pub fn urls(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(config) = EtcdConfig::from_url(&text) {
        assert_eq!(config.validate(), Ok(()), "{text:?}");
        assert!(config.prefix.ends_with('/') && !config.endpoints.is_empty(), "{text:?}");
    }
    let mut parts = text.splitn(4, '|');
    let mut part = || parts.next().unwrap_or_default();
    let (start, before, after, end) = (part(), part(), part(), part());
    let elsewhere = percent_decode_str(start).chain(percent_decode_str(end)).collect::<Vec<_>>();
    if String::from_utf8_lossy(&elsewhere).contains(SECRET) {
        return;
    }
    match EtcdConfig::from_url(&format!("{start}:{before}{SECRET}{after}@{end}")) {
        Ok(config) => hides_it(&format!("{config} {config:?} {config:#?}"), &text),
        Err(error) => hides_it(&format!("{error} {error:?} {error:#?}"), &text),
    }
}

/// A file of settings is refused, or gives a configuration. No output shows the value in place of the password or of all the settings,
/// whatever that value is.
pub fn settings(data: &[u8]) {
    if let Ok(config) = serde_json::from_slice::<EtcdConfig>(data) {
        // The configuration may be invalid, but must not panic.
        let _ = config.validate();
    }
    // One value of JSON, with nothing after it.
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let shown = match serde_json::from_value::<EtcdConfig>(serde_json::json!({ "password": value })) {
        Ok(config) => format!("{config} {config:?} {:?}", config.validate()),
        Err(error) => format!("{error} {error:?}"),
    };
    hides_it(&shown, &value);
    if !value.is_object()
        && let Err(error) = serde_json::from_value::<EtcdConfig>(value.clone())
    {
        hides_it(&format!("{error} {error:?}"), &value);
    }
}

/// Different locks never share a key, and the name can be read back from a key. The bytes are used twice: as a prefix and two names
/// between `|`, and as a key and a value that another program wrote.
pub fn keys(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '|');
    let mut part = || parts.next().unwrap_or_default();
    let config = EtcdConfig { prefix: part().into(), ..EtcdConfig::default() };
    let names = [LockName::new(part()), LockName::new(part())];
    is_legible(&foreign(data).into());
    is_no_value_or_a_right_one(data);
    if config.validate().is_err() {
        return;
    }
    let prefix = &config.prefix;
    is_no_key_or_a_right_one(prefix, data);
    is_no_key_or_a_right_one(prefix, &[prefix.as_bytes(), b"q1/", data].concat());
    let [Ok(one), Ok(other)] = names else { return };
    let queues = [&one, &other].map(|name| Keys::new(prefix, name));
    for (queue, name) in queues.iter().zip([&one, &other]) {
        is_read_back(queue, prefix, name);
    }
    if one != other {
        let [one, other] = queues.map(|queue| queue.all());
        assert!(!contains(&one, &other.0) && !contains(&other, &one.0), "{text:?}");
    }
}

/// Whatever a server, or a proxy in between, says when it refuses a request, the error is one short line. The first byte is the code of
/// the refusal. And any version that a server reports is either no version, or read as it is.
pub fn refusals(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let code = Code::from_i32(data.first().copied().unwrap_or_default().into());
    let status = Status::new(code, text.clone());
    is_legible(&Failure::of(&"localhost:2379", &Error::GRpcStatus(status)).into());
    for error in [Error::LeaseKeepAliveError(text.clone().into()), Error::WatchError(text.clone().into())] {
        is_legible(&Failure::of(&"localhost:2379", &error).into());
    }
    if let Some(version) = Version::parse(&text) {
        assert!(floor(version).is_none_or(|floor| floor > version && floor.is_supported()), "{version}");
    }
}

/// The name and the claim are read back from the keys of entries.
fn is_read_back(queue: &Keys, prefix: &str, name: &LockName) {
    let semaphore = Claim::semaphore(3, 10).expect("a claim");
    for claim in [Claim::mutex(), Claim::reader(), Claim::writer(), semaphore] {
        let key = format!("{}7", queue.entry_prefix(claim, i64::MAX)).into_bytes();
        assert!(contains(&queue.all(), &key) && contains(&queue.agreeing(claim), &key), "{queue:?}");
        assert!(contains(&keys::starting_with(prefix, name.as_str()), &key), "{queue:?}");
        assert!(!queue.disagreeing(claim).iter().any(|range| contains(range, &key)), "{queue:?}");
        let row = queue.read_entry(&key).expect("it is a key of the queue");
        assert_eq!((row.claim, row.lease, row.number), (claim, i64::MAX, 7), "{queue:?}");
        assert_eq!(keys::name_of(prefix, &key).as_ref(), Some(name), "{queue:?}");
        assert!(key.len() <= prefix.len() + 3 * name.as_str().len() + 64, "{queue:?}");
    }
}

/// Any key, even one that another program wrote, is either not the key of an entry, or one that we could have written.
fn is_no_key_or_a_right_one(prefix: &str, key: &[u8]) {
    let Some(name) = keys::name_of(prefix, key) else { return };
    let queue = Keys::new(prefix, &name);
    let row = queue.read_entry(key).expect("only entries have names");
    assert_eq!(format!("{}{}", queue.entry_prefix(row.claim, row.lease), row.number).as_bytes(), key);
}

/// The same for a value.
fn is_no_value_or_a_right_one(value: &[u8]) {
    let Some((id, label)) = keys::read_value(value) else { return };
    // An id and a colon are 33 bytes. A label that is longer than our limit was cut.
    if value.len() > 33 + AcquireOptions::MAX_LABEL {
        return assert!(label.is_some_and(|label| label.len() < LONG && label.ends_with('…')));
    }
    let entry = |id: EntryId| {
        let name = LockName::new("job").expect("a name");
        Entry::new(name, id, Claim::mutex(), std::time::Duration::from_secs(1)).with_label(label.clone())
    };
    assert_eq!(keys::value(&entry(id)).as_bytes(), value);
}

fn contains(range: &Range, key: &[u8]) -> bool {
    *range.0 <= *key && *key < *range.1
}

fn hides_it(shown: &str, given: &dyn Debug) {
    assert!(!shown.contains(SECRET), "{given:?} is told as {shown}");
}

/// An error is one short line of text, whatever the server said.
fn is_legible(error: &BackendError) {
    let shown = error.to_string();
    assert!(shown.len() < LONG && !shown.chars().any(char::is_control), "{shown:?}");
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

    const KIB: u64 = 1024;

    const TARGETS: [Target; 4] = [
        Target { name: "etcd_urls", run: urls, per_byte: 64, fixed: 16 * KIB },
        Target { name: "etcd_settings", run: settings, per_byte: 64, fixed: 16 * KIB },
        Target { name: "etcd_keys", run: keys, per_byte: 64, fixed: 16 * KIB },
        Target { name: "etcd_refusals", run: refusals, per_byte: 64, fixed: 16 * KIB },
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
        assert_programs("lock_etcd", &TARGETS);
    }
}
