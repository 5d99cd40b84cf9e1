//! [`excerpt`] and [`harmless`]: the words of others.

use std::fmt::{self, Write};

/// What a store or somebody else wrote, as a [`BackendError`](crate::BackendError) repeats it to people: the first 200
/// characters, in one line. No more than that is ever made of it, however long it is.
///
/// ```
/// assert_eq!(lock_core::excerpt(format_args!("no\tway\n")), "no\\tway\\n");
/// ```
#[must_use]
pub fn excerpt(said: fmt::Arguments<'_>) -> String {
    let mut excerpt = Excerpt { text: String::new(), room: 200 };
    if excerpt.write_fmt(said).is_err() {
        excerpt.text.push('…');
    }
    excerpt.text
}

/// What somebody else wrote, as it can be shown on a terminal: characters that move its cursor, turn the direction of the text
/// or are not seen are written as their codes.
///
/// ```
/// assert_eq!(lock_core::harmless("web\u{1b}[2J \u{202e}1-ä"), "web\\u{1b}[2J \\u{202e}1-ä");
/// ```
#[must_use]
pub fn harmless(said: &str) -> String {
    let mut harmless = String::with_capacity(said.len());
    said.chars().for_each(|c| push(&mut harmless, c));
    harmless
}

fn push(text: &mut String, c: char) {
    if is_tricky(c) { text.extend(c.escape_default()) } else { text.push(c) }
}

/// Whether a character is not just itself on a terminal: controls, what has no width, and what turns the direction of the text
/// ([Unicode TR 36](https://www.unicode.org/reports/tr36/)).
fn is_tricky(c: char) -> bool {
    let unseen =
        matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    let marks = matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || unseen || turns || breaks || marks
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
