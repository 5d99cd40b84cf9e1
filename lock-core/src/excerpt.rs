//! [`excerpt`]: the words of others.

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

struct Excerpt {
    text: String,
    room: usize,
}

impl Write for Excerpt {
    /// An error once it is full, so that nothing more is written.
    fn write_str(&mut self, said: &str) -> fmt::Result {
        for c in said.chars() {
            self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
            if c.is_control() { self.text.extend(c.escape_default()) } else { self.text.push(c) }
        }
        Ok(())
    }
}
