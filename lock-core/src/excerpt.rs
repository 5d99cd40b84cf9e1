//! [`excerpt`] and [`escape_unprintable`]: text from a store or a user, made safe to print.

use std::fmt::{self, Write};

/// A text from a store or another program, as a [`BackendError`](crate::BackendError) quotes it: the first 200 characters, escaped as
/// [`escape_unprintable`] does. A longer text is never formatted beyond them.
///
/// ```
/// assert_eq!(lock_core::excerpt(format_args!("no\tway\n")), "no\\tway\\n");
/// ```
#[must_use]
pub fn excerpt(said: fmt::Arguments<'_>) -> String {
    excerpt_of(200, said)
}

/// The same with a limit of `room` characters.
pub(crate) fn excerpt_of(room: usize, said: fmt::Arguments<'_>) -> String {
    let mut excerpt = Excerpt { text: String::new(), room };
    if excerpt.write_fmt(said).is_err() {
        excerpt.text.push('…');
    }
    excerpt.text
}

/// A text that is safe to print on a terminal and in one line of a log. These characters are escaped as [`char::escape_default`] does,
/// like `\n` and `\u{1b}`:
///
/// * control characters, line ends, tabs and ESC among them;
/// * line and paragraph separators;
/// * marks that change the direction of text;
/// * characters that are not visible, such as a zero-width space.
///
/// Everything else stays as it is, backslashes too: the original text cannot be recovered.
///
/// ```
/// assert_eq!(lock_core::escape_unprintable("web\u{1b}[2J \u{202e}1-ä"), "web\\u{1b}[2J \\u{202e}1-ä");
/// ```
#[must_use]
pub fn escape_unprintable(said: &str) -> String {
    let mut escaped = String::with_capacity(said.len());
    said.chars().for_each(|c| push(&mut escaped, c));
    escaped
}

fn push(text: &mut String, c: char) {
    if is_unprintable(c) { text.extend(c.escape_default()) } else { text.push(c) }
}

/// Whether a terminal does not simply show this character: control characters, invisible ones (`Default_Ignorable_Code_Point` of
/// [Unicode](https://www.unicode.org/reports/tr44/)), and those that break a line or change the direction of text
/// ([TR 36](https://www.unicode.org/reports/tr36/)).
pub(crate) fn is_unprintable(c: char) -> bool {
    let unseen = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    let marks = matches!(c, '\u{fff9}'..='\u{fffb}');
    c.is_control() || unseen || breaks || marks
}

struct Excerpt {
    text: String,
    room: usize,
}

impl Write for Excerpt {
    /// An error once it is full, so that nothing more is written.
    fn write_str(&mut self, said: &str) -> fmt::Result {
        for c in said.chars() {
            self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
            push(&mut self.text, c);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last of each range of `Default_Ignorable_Code_Point`, of what breaks a line, and of the marks.
    #[test]
    fn what_is_not_seen_or_turns_the_text_is_written_as_its_code() {
        let unseen = "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180f}\u{200b}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\
                      \u{2060}\u{2065}\u{206f}\u{3164}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff8}\u{fff9}\u{fffb}\u{1bca0}\u{1bca3}\
                      \u{1d173}\u{1d17a}\u{e0000}\u{e0001}\u{e007f}\u{e0100}\u{e0fff}\u{1b}\u{7f}\u{9b}";
        for c in unseen.chars() {
            assert_eq!(escape_unprintable(&c.to_string()), c.escape_default().to_string());
            assert_eq!(excerpt(format_args!("{c}")), c.escape_default().to_string());
        }
        // Their neighbours are written as they are.
        let seen = "\u{ae}\u{34e}\u{350}\u{61b}\u{115e}\u{1161}\u{17b3}\u{17b6}\u{180a}\u{1810}\u{2010}\u{2027}\u{202f}\u{3163}\u{3165}\
                    \u{fe10}\u{ff9f}\u{ffa1}\u{fffc}\u{fffd}\u{1bc9f}\u{1d172}\u{1d17b} aä語😀";
        assert_eq!(escape_unprintable(seen), seen);
    }
}
