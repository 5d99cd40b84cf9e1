//! The promises about input that this crate reads from users and servers. They hold for any bytes.
//!
//! Each function panics if its promise is broken. The programs in `fuzz/` call the functions, and so do the tests below. This module is
//! not part of the library: it is compiled only for tests and with `--cfg fuzzing`.

use std::{fmt::Debug, sync::Arc};

use futures_util::FutureExt;
use lock_core::{BackendError, BootTime, LockName};
use percent_encoding::percent_decode_str;
use redis::{ErrorKind, Msg, Value};

use crate::{
    RedisConfig,
    client::{Endpoint, ReplyLimit, handshake::greet},
    diagnosis::is_too_old,
    error::refused,
    keys::{Keys, promises},
    notify::message::{Message, entry, messages},
    reply::{self, EnterReply},
    server_info::{ServerInfo, time},
};

/// The password in the inputs. It occurs nowhere else in the texts that these functions read or write.
const SECRET: &str = "hunter2";

/// A limit for error messages. None needs to be longer, except for what users wrote themselves.
const LONG: usize = 2_000;

/// The address of the server that sends the answers.
const SERVER: &str = "localhost:6379";

/// A URL is refused, or gives a valid configuration. If it contains a password, no output shows the password.
///
/// The bytes are used twice: as a URL, and as four parts between `|` around a password: `1|2|3|4` stands for `1:2PASSWORD3@4`.
pub fn urls(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(config) = RedisConfig::from_url(&text) {
        assert_eq!(config.validate(), Ok(()), "{text:?}");
    }
    let mut parts = text.splitn(4, '|');
    let mut part = || parts.next().unwrap_or_default();
    let (start, before, after, end) = (part(), part(), part(), part());
    let elsewhere = percent_decode_str(start).chain(percent_decode_str(end)).collect::<Vec<_>>();
    if String::from_utf8_lossy(&elsewhere).contains(SECRET) {
        return;
    }
    match RedisConfig::from_url(&format!("{start}:{before}{SECRET}{after}@{end}")) {
        Ok(config) => hides_it(&format!("{config} {config:?} {config:#?}"), &text),
        Err(error) => hides_it(&format!("{error} {error:?} {error:#?}"), &text),
    }
}

/// A file of settings is refused, or gives a configuration. No output shows the value in place of the password or of all the settings,
/// whatever that value is.
pub fn settings(data: &[u8]) {
    if let Ok(config) = serde_json::from_slice::<RedisConfig>(data) {
        // The configuration may be invalid, but must not panic.
        let _ = config.validate();
    }
    // One value of JSON, with nothing after it.
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let shown = match serde_json::from_value::<RedisConfig>(serde_json::json!({ "password": value })) {
        Ok(config) => format!("{config} {config:?} {:?}", config.validate()),
        Err(error) => format!("{error} {error:?}"),
    };
    hides_it(&shown, &value);
    if !value.is_object()
        && let Err(error) = serde_json::from_value::<RedisConfig>(value.clone())
    {
        hides_it(&format!("{error} {error:?}"), &value);
    }
}

/// Different locks never share a key, the keys of one lock have one slot, and the name can be read back from them. The bytes are used
/// twice: as a prefix and two names between `|`, and as a key that another program wrote.
pub fn keys(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '|');
    let mut part = || parts.next().unwrap_or_default();
    let config = RedisConfig { prefix: part().into(), ..RedisConfig::default() };
    let names = [LockName::new(part()), LockName::new(part())];
    if config.validate().is_err() {
        return;
    }
    let prefix = &config.prefix;
    promises::is_no_name_or_a_right_one(prefix, data);
    promises::is_no_name_or_a_right_one(prefix, &[&crate::keys::queue_prefix(prefix), data].concat());
    let [Ok(one), Ok(other)] = names else { return };
    let keys = [&one, &other].map(|name| Keys::new(prefix, name));
    for (keys, name) in keys.iter().zip([&one, &other]) {
        promises::have_one_slot(keys);
        promises::are_read_back(keys, prefix, name.as_str());
        promises::are_short(keys, prefix, name.as_str());
        if !prefix.is_empty() {
            promises::have_companions_apart(keys, &Keys::new("", name));
        }
    }
    if one != other {
        promises::never_meet(&keys[0], &keys[1]);
    }
}

/// Each reader of answers understands or refuses any answer of the server, as it comes over the wire.
pub fn replies(data: &[u8]) {
    if let Ok(answer) = redis::parse_redis_value(data) {
        self::answer(&answer);
    }
}

/// The same for an answer that the driver has read.
pub(crate) fn answer(answer: &Value) {
    let parts = if let Value::Array(parts) = answer { parts.len() } else { 0 };
    if let Some(EnterReply::Waiting { look_again, .. }) = understood(reply::enter(answer, SERVER)) {
        let now = BootTime::new(look_again);
        assert!(now + look_again >= now, "an instant has no overflow");
    }
    understood(reply::departure(answer, SERVER));
    for count in [0, 1, parts] {
        if let Some(answers) = understood(reply::renewals(answer, count, SERVER)) {
            assert_eq!(answers.len(), count);
            for answer in answers {
                understood(answer);
            }
        }
    }
    if let Some(rows) = understood(reply::rows(answer, SERVER)) {
        assert!(rows.len() <= parts);
        assert!(rows.is_sorted_by_key(|row| (!row.admitted, row.token)), "{rows:?}");
    }
    if let Value::ServerError(error) = answer {
        is_legible(&refused(SERVER, error));
    }
    if let Some(hint) = reply::hint(answer) {
        notifications(hint);
    }
    if let Some(message) = Msg::from_value(answer) {
        notifications(message.get_payload_bytes());
    }
    if let Some((_, keys)) = reply::scan_page(answer) {
        keys.for_each(|key| promises::is_no_name_or_a_right_one("", key));
    }
    for facts in [ServerInfo::from_info(answer), ServerInfo::from_pairs(answer)] {
        is_too_old(facts.get("version").unwrap_or_default());
        let _ = facts.number("maxmemory");
    }
    let _ = time(answer);
}

/// A notification is read line by line, and each message that is understood is one of its lines.
pub fn notifications(data: &[u8]) {
    let lines: Vec<_> = data.split(|&byte| byte == b'\n').collect();
    let understood: Vec<_> = messages(data).collect();
    assert!(understood.len() <= lines.len());
    for message in understood {
        let line = match message {
            Message::Admitted { entry, token } => format!("A {entry} {token}"),
            Message::Changed => "C".into(),
        };
        assert!(lines.contains(&line.as_bytes()), "{line} was not said");
    }
    if let Some(entry) = entry(data) {
        assert_eq!(entry.to_string().as_bytes(), data);
    }
}

/// Whatever a server answers to the handshake, the error is one short line without the password.
pub fn greetings(data: &[u8]) {
    let mut config = RedisConfig { database: 2, ..RedisConfig::default() };
    config.server.password = Some(SECRET.into());
    let endpoint = Endpoint::new(Arc::new(config)).expect("the configuration is valid");
    let mut socket = tokio::io::join(data, tokio::io::sink());
    let greeted = greet(&mut socket, &endpoint).now_or_never().expect("it is all there, or the end is");
    if let Err(failure) = greeted {
        let shown = format!("{failure:?} {}", failure.message());
        hides_it(&shown, &data);
        is_legible(&failure.to_unsent());
    }
}

/// The verdict on the lengths of replies does not depend on how the bytes are cut into pieces; no accepted reply is longer than the
/// limit; and a reply ends where the driver takes it to end. The bytes are the size of the pieces, the limit in units of 64 bytes, and
/// what the server sends.
pub fn reply_limit(data: &[u8]) {
    let [piece, most, bytes @ ..] = data else { return };
    let (piece, most) = (usize::from(*piece).max(1), usize::from(*most) * 64);
    let whole = ReplyLimit::new(most).read(bytes).is_ok();
    let mut limit = ReplyLimit::new(most);
    assert_eq!(bytes.chunks(piece).all(|piece| limit.read(piece).is_ok()), whole, "in pieces of {piece}");

    let (mut limit, mut begin, mut is_resp) = (ReplyLimit::new(most), 0, true);
    for (end, byte) in (1..).zip(bytes) {
        if limit.read(&[*byte]).is_err() {
            assert!(!whole, "refused byte by byte");
            return;
        }
        let (reply, has_ended) = (&bytes[begin..end], limit.is_between_replies());
        assert!(reply.len() <= most, "{} bytes of a reply", reply.len());
        // The driver parses from the start each time, so long replies are left out.
        is_resp &= reply.len() <= 512;
        if is_resp {
            match redis::parse_redis_value(reply) {
                Ok(value) => assert!(has_ended, "{value:?} is whole: {}", reply.escape_ascii()),
                Err(error) if error.kind() == ErrorKind::Io => {
                    assert!(!has_ended, "the driver waits for more: {}", reply.escape_ascii());
                }
                // The driver does not read on after this error.
                Err(_) => is_resp = false,
            }
        }
        if has_ended {
            begin = end;
        }
    }
    assert!(whole, "refused as a whole");
}

fn hides_it(shown: &str, given: &dyn Debug) {
    assert!(!shown.contains(SECRET), "{given:?} is told as {shown}");
}

fn understood<T>(answer: Result<T, BackendError>) -> Option<T> {
    answer.map_err(|error| is_legible(&error)).ok()
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

    const TARGETS: [Target; 7] = [
        Target { name: "redis_urls", run: urls, per_byte: 64, fixed: 16 * KIB },
        Target { name: "redis_settings", run: settings, per_byte: 64, fixed: 16 * KIB },
        // The first input builds the table of slots.
        Target { name: "redis_keys", run: keys, per_byte: 64, fixed: 256 * KIB },
        // The driver allocates room for 4096 elements of an array at once, in each of 100 nested arrays.
        Target { name: "redis_replies", run: replies, per_byte: 64, fixed: 24 * KIB * KIB },
        Target { name: "redis_notifications", run: notifications, per_byte: 64, fixed: 16 * KIB },
        Target { name: "redis_greetings", run: greetings, per_byte: 64, fixed: 64 * KIB },
        // The driver allocates room for 4096 elements of an array at once.
        Target { name: "redis_reply_limit", run: reply_limit, per_byte: 64, fixed: 24 * KIB * KIB },
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
        assert_programs("lock_redis", &TARGETS);
    }
}
