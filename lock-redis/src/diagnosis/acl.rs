//! Finds the users that may forge a hand-off.

use lock_core::excerpt;
use redis::Value;

use crate::server_info::text;

/// `+` with one of these lets a user publish, and `-` forbids it.
const PUBLISHING: &[&str] = &["@all", "@fast", "@pubsub", "publish"];

/// `+` with one of these lets a user write what our scripts read.
const WRITING: &[&str] = &[
    "@all",
    "@fast",
    "@hash",
    "@keyspace",
    "@scripting",
    "@slow",
    "@sortedset",
    "@string",
    "@write",
    "copy",
    "del",
    "eval",
    "evalsha",
    "getset",
    "hset",
    "mset",
    "psetex",
    "rename",
    "restore",
    "set",
    "setex",
    "setnx",
    "setrange",
    "zadd",
    "zrem",
];

/// A user of the server, as `ACL LIST` shows it.
#[derive(Debug, Default)]
struct User {
    is_on: bool,
    /// The rights by the user's own rules, and those of each selector. One of these has to permit all that a command needs.
    rights: Vec<Rights>,
}

#[derive(Debug, Default)]
struct Rights {
    publishing: Right,
    writing: Right,
}

/// Whether commands of a kind are permitted, and whether on our keys or channels.
#[derive(Debug, Default)]
struct Right {
    commands: bool,
    ours: bool,
}

impl Right {
    fn is_whole(&self) -> bool {
        self.commands && self.ours
    }
}

/// The users that may publish on our channels, but not write our keys: a hint that they forge makes a waiter believe that it has the
/// lock. `list` is the answer to `ACL LIST`.
pub(super) fn forgers(list: &Value, prefix: &str) -> Vec<String> {
    let Value::Array(users) = list else { return Vec::new() };
    let forger = |line: String| {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next()?;
        User::read(words, prefix).forges().then(|| excerpt(format_args!("{name}")))
    };
    users.iter().filter_map(text).filter_map(forger).collect()
}

impl User {
    /// Rules apply in their order. Rules in parentheses are a selector.
    fn read<'a>(rules: impl Iterator<Item = &'a str>, prefix: &str) -> Self {
        let mut user = Self { is_on: false, rights: vec![Rights::default()] };
        let mut selector = None;
        for rule in rules {
            let mut rule = rule;
            if selector.is_none()
                && let Some(first) = rule.strip_prefix('(')
            {
                (selector, rule) = (Some(Rights::default()), first);
            }
            let Some(rights) = &mut selector else {
                match rule {
                    "on" => user.is_on = true,
                    "off" => user.is_on = false,
                    rule => user.rights[0].add(rule, prefix),
                }
                continue;
            };
            let last = rule.strip_suffix(')');
            rights.add(last.unwrap_or(rule), prefix);
            if last.is_some() {
                user.rights.extend(selector.take());
            }
        }
        user
    }

    fn forges(&self) -> bool {
        let publishes = self.rights.iter().any(|rights| rights.publishing.is_whole());
        let writes = self.rights.iter().any(|rights| rights.writing.is_whole());
        self.is_on && publishes && !writes
    }
}

impl Rights {
    fn add(&mut self, rule: &str, prefix: &str) {
        let Self { publishing, writing } = self;
        match rule {
            "allcommands" => (publishing.commands, writing.commands) = (true, true),
            "nocommands" => (publishing.commands, writing.commands) = (false, false),
            "allkeys" => writing.ours = true,
            "resetkeys" => writing.ours = false,
            "allchannels" => publishing.ours = true,
            "resetchannels" => publishing.ours = false,
            _ => {
                if let Some(given) = rule.strip_prefix('+') {
                    publishing.commands |= PUBLISHING.contains(&given);
                    writing.commands |= WRITING.contains(&given);
                } else if let Some(taken) = rule.strip_prefix('-') {
                    publishing.commands &= !PUBLISHING.contains(&taken);
                    // With any other rule, some of the commands that write are left.
                    writing.commands &= !matches!(taken, "@all" | "@write");
                }
                let keys = ["~", "%RW~", "%W~"].iter().find_map(|sign| rule.strip_prefix(sign));
                writing.ours |= keys.is_some_and(|pattern| meets(pattern, prefix));
                publishing.ours |= rule.strip_prefix('&').is_some_and(|pattern| meets(pattern, prefix));
            }
        }
    }
}

/// Whether a pattern may match names that begin with the prefix, judged by the text before its first wildcard.
fn meets(pattern: &str, prefix: &str) -> bool {
    let fixed = pattern.split(['*', '?', '[', '\\']).next().unwrap_or_default();
    prefix.starts_with(fixed) || fixed.starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> bool {
        let list = Value::Array(vec![Value::BulkString(line.as_bytes().to_vec())]);
        !forgers(&list, "locks:").is_empty()
    }

    #[test]
    fn who_may_publish_and_not_write_is_found() {
        for line in [
            "user spy on #ab ~* &* -@all +@read +publish",
            "user user on #ab ~* &* -@all +@read +publish",
            "user spy on #ab ~* &* allcommands nocommands +@read +publish",
            "user spy on #ab %R~* allchannels +@all",
            "user spy on #ab %R~* &* -@all +@fast",
            "user spy on #ab ~other:* &locks:* +@all",
            "user spy on #ab ~other:* allchannels +@all",
            "user spy on #ab ~* resetchannels &locks:h:* -@all +@pubsub",
            "user spy on #ab resetchannels -@all (resetchannels &locks:* -@all +publish)",
            "user spy on #ab ~* resetchannels -@all +@read (~x -@all +get) (allchannels -@all +@fast)",
            "user spy on #ab resetchannels -@all (&* +publish) (~other:* +@all)",
        ] {
            assert!(found(line), "{line}");
        }
        for line in [
            "user default on nopass sanitize-payload ~* &* +@all",
            "user app on #ab resetchannels ~locks:* &locks:* -@all +evalsha +publish",
            "user app on #ab ~* &* -@all +@fast",
            "user spy off #ab ~* &* -@all +@read +publish",
            "user spy off #ab resetchannels -@all (&* +publish)",
            "user spy on #ab ~* resetchannels -@all +@read +publish",
            "user spy on #ab ~* resetchannels &other:* -@all +@read +publish",
            "user spy on #ab ~* &* -@all +@read +@pubsub -publish",
            "user spy on #ab ~* &* -@all +@read +@fast -@fast",
            // What two selectors permit only together is not permitted.
            "user spy on #ab resetchannels -@all (&* -@all +get) (resetchannels +publish)",
            "user app on #ab resetchannels -@all (&* +publish) (~locks:* +@write)",
        ] {
            assert!(!found(line), "{line}");
        }
        assert!(forgers(&Value::Nil, "").is_empty());
    }

    #[test]
    fn a_name_is_shown_as_harmless_as_it_is_long() {
        let line = format!("user \u{1b}[2J\u{202e}{} on &* +publish", "x".repeat(1_000));
        let shown = forgers(&Value::Array(vec![Value::SimpleString(line)]), "").concat();
        assert!(shown.starts_with("\\u{1b}[2J\\u{202e}x") && shown.len() < 300, "{shown}");
    }
}
