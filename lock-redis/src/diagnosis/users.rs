//! Who may forge a hand-over.

use redis::Value;

use super::facts::text;

/// What the server's users may do, as far as it shows that.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rights {
    is_on: bool,
    publishing: Right,
    writing: Right,
}

/// Whether commands of a kind may be used, and whether what is ours is among what they may be used on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Right {
    commands: bool,
    ours: bool,
}

impl Right {
    fn is_whole(&self) -> bool {
        self.commands && self.ours
    }
}

/// The users who may publish on our channels, and not write our keys: a hint that they forge makes a waiter believe that it has the
/// lock. `list` is the answer to `ACL LIST`.
pub(super) fn forgers(list: &Value, prefix: &str) -> Vec<String> {
    let Value::Array(users) = list else { return Vec::new() };
    let forger = |line: String| {
        let mut words = line.split_whitespace().filter(|word| *word != "user");
        let name = words.next()?.to_owned();
        let rights = Rights::read(words, prefix);
        let forges = rights.is_on && rights.publishing.is_whole() && !rights.writing.is_whole();
        forges.then_some(name)
    };
    users.iter().filter_map(text).filter_map(forger).collect()
}

impl Rights {
    /// Rules count in their order. What is in selectors, which are in parentheses, is left out.
    fn read<'a>(rules: impl Iterator<Item = &'a str>, prefix: &str) -> Self {
        let mut rights = Self::default();
        for rule in rules.take_while(|rule| !rule.starts_with('(')) {
            match rule {
                "on" => rights.is_on = true,
                "off" => rights.is_on = false,
                "allcommands" | "+@all" => {
                    (rights.publishing.commands, rights.writing.commands) = (true, true);
                }
                "nocommands" | "-@all" => {
                    (rights.publishing.commands, rights.writing.commands) = (false, false);
                }
                "+publish" | "+@pubsub" => rights.publishing.commands = true,
                "-publish" | "-@pubsub" => rights.publishing.commands = false,
                "+@write" | "+@scripting" | "+set" | "+eval" | "+evalsha" => rights.writing.commands = true,
                "-@write" => rights.writing.commands = false,
                "allkeys" => rights.writing.ours = true,
                "resetkeys" => rights.writing.ours = false,
                "allchannels" => rights.publishing.ours = true,
                "resetchannels" => rights.publishing.ours = false,
                _ => {
                    let keys = ["~", "%RW~", "%W~"].iter().find_map(|sign| rule.strip_prefix(sign));
                    rights.writing.ours |= keys.is_some_and(|pattern| meets(pattern, prefix));
                    rights.publishing.ours |=
                        rule.strip_prefix('&').is_some_and(|pattern| meets(pattern, prefix));
                }
            }
        }
        rights
    }
}

/// Whether a pattern may match what begins with the prefix: by what stands before its first wildcard.
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
            "user spy on #ab %R~* allchannels +@all",
            "user spy on #ab ~other:* &locks:* +@all",
            "user spy on #ab ~* resetchannels &locks:h:* -@all +@pubsub",
        ] {
            assert!(found(line), "{line}");
        }
        for line in [
            "user default on nopass sanitize-payload ~* &* +@all",
            "user app on #ab resetchannels ~locks:* &locks:* -@all +evalsha +publish",
            "user spy off #ab ~* &* -@all +@read +publish",
            "user spy on #ab ~* resetchannels -@all +@read +publish",
            "user spy on #ab ~* resetchannels &other:* -@all +@read +publish",
            "user spy on #ab ~* &* -@all +@read +@pubsub -publish",
        ] {
            assert!(!found(line), "{line}");
        }
        assert!(forgers(&Value::Nil, "").is_empty());
    }
}
