//! [`ServerInfo`]: what a server tells about itself, by `INFO`, `HELLO` and `CONFIG GET`.

use std::collections::BTreeMap;

use redis::Value;

use crate::error::{CLUSTER_NODE, REPLICA, SENTINEL};

/// Values by their names.
#[derive(Debug, Default)]
pub(crate) struct ServerInfo(BTreeMap<String, String>);

impl ServerInfo {
    /// From the lines of `INFO`.
    pub(crate) fn from_info(answer: &Value) -> Self {
        let text = text(answer).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect())
    }

    /// From an array in which names and values alternate. A value that is not text is left out.
    pub(crate) fn from_pairs(answer: &Value) -> Self {
        let mut info = Self::default();
        info.add_pairs(answer);
        info
    }

    pub(crate) fn add_pairs(&mut self, answer: &Value) {
        let Value::Array(parts) = answer else { return };
        for pair in parts.chunks_exact(2) {
            if let (Some(name), Some(value)) = (text(&pair[0]), text(&pair[1])) {
                self.0.insert(name, value);
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// What to use instead of a server, if it cannot keep locks. `HELLO` and `INFO` have different words for a replica.
pub(crate) fn use_instead(mode: Option<&str>, role: Option<&str>) -> Option<&'static str> {
    match (mode, role) {
        (Some("cluster"), _) => Some(CLUSTER_NODE),
        (Some("sentinel"), _) => Some(SENTINEL),
        (_, Some("replica" | "slave")) => Some(REPLICA),
        _ => None,
    }
}

/// The answer to `TIME`, in milliseconds.
pub(crate) fn time(answer: &Value) -> Option<i128> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |value| text(value)?.parse::<u64>().ok();
    Some(i128::from(number(seconds)?) * 1000 + i128::from(number(micros)?) / 1000)
}

pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}
