//! Commands for a user to paste into a shell.

use distlock::{LockName, escape_unprintable};

/// The command that shows a lock.
pub(crate) fn show_command(name: &LockName) -> String {
    lock_command("show", name, "")
}

/// A command for a lock, with its flags, quoted for a shell.
pub(crate) fn lock_command(verb: &str, name: &LockName, flags: &str) -> String {
    let (name, dash) = (quoted(name.as_str()), name.as_str().starts_with('-'));
    let words = if dash { [verb, flags, "--", &name] } else { [verb, &name, flags, ""] };
    let words = words.iter().filter(|word| !word.is_empty());
    words.fold("distlock".to_owned(), |command, word| format!("{command} {word}"))
}

/// A name, quoted for a shell.
fn quoted(text: &str) -> String {
    let harmless_here = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    if escape_unprintable(text) != text {
        // Text with unprintable characters is written as escaped bytes.
        let quoted: String = text.chars().map(in_dollar_quotes).collect();
        format!("$'{quoted}'")
    } else if !text.starts_with('-') && !text.is_empty() && text.chars().all(harmless_here) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn in_dollar_quotes(c: char) -> String {
    let text = c.to_string();
    match c {
        '\'' | '\\' => format!("\\{c}"),
        _ if escape_unprintable(&text) == text => text,
        _ => {
            let mut bytes = String::new();
            bytes.extend(text.bytes().map(|byte| format!("\\x{byte:02x}")));
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("reports/2026-11-21"), "reports/2026-11-21");
        assert_eq!(quoted("it's; rm -r /"), r"'it'\''s; rm -r /'");
        assert_eq!(quoted("-rf"), "'-rf'");
        assert_eq!(quoted("a'\\\u{1b}1\u{202e}ä"), r"$'a\'\\\x1b1\xe2\x80\xaeä'");
    }

    #[test]
    fn a_name_that_begins_with_a_dash_is_suggested_behind_an_escape() {
        let name = |name: &str| LockName::new(name).unwrap();
        assert_eq!(show_command(&name("a b")), "distlock show 'a b'");
        assert_eq!(show_command(&name("-rf")), "distlock show -- '-rf'");
        assert_eq!(lock_command("break", &name("a"), "--yes"), "distlock break a --yes");
        assert_eq!(lock_command("break", &name("-rf"), "--yes"), "distlock break --yes -- '-rf'");
    }
}
