//! [`read`]: what a client has written.

use std::{fs, path::Path};

use lock_core::BootTime;

use crate::{
    error::Result,
    history::ClientLog,
    record::{Line, What},
};

/// Reads the log of a client. One that was killed may have been writing a line.
///
/// # Errors
/// If there is something else in it, as the message of a panic is.
pub(crate) fn read(client: usize, path: &Path, killed: Option<BootTime>) -> Result<ClientLog> {
    let text = fs::read_to_string(path)?;
    let end = if killed.is_some() { text.rfind('\n').unwrap_or(0) } else { text.len() };
    let line = |line: &str| {
        let read = serde_json::from_str::<Line>(line);
        read.map_err(|why| format!("client {client} wrote `{line}`: {why}").into())
    };
    Ok(ClientLog { client, lines: text[..end].lines().map(line).collect::<Result<_>>()?, killed })
}

/// What the client said when it ended: what it left behind, if it did.
///
/// # Errors
/// If it has ended without a word.
pub(crate) fn last_word(log: &ClientLog) -> Result<Option<&str>> {
    let closed = log.lines.iter().rev().find_map(|line| match &line.what {
        What::Closed { left } => Some(left),
        _ => None,
    });
    match closed {
        Some(left) => Ok(left.as_deref()),
        None => Err(format!("client {} has ended without being told to", log.client).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_read_only_of_a_client_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let line = Line { at: 1, wall: 2, client: 3, what: What::Connected };
        let text = serde_json::to_string(&line).unwrap();
        fs::write(&path, format!("{text}\n{}", &text[..text.len() / 2])).unwrap();
        let killed = Some(BootTime::new(std::time::Duration::ZERO));
        assert_eq!(read(3, &path, killed).unwrap().lines, [line]);
        assert!(read(3, &path, None).is_err());
    }

    #[test]
    fn a_client_that_ends_without_a_word_is_an_error() {
        let line = |what| Line { at: 1, wall: 2, client: 3, what };
        let lines = |what| vec![line(What::Connected), line(what)];
        let log = |what| ClientLog { client: 3, lines: lines(what), killed: None };
        assert!(last_word(&log(What::Refused { op: 0 })).is_err());
        assert_eq!(last_word(&log(What::Closed { left: None })).unwrap(), None);
        let left = "1 still held".to_owned();
        assert_eq!(last_word(&log(What::Closed { left: Some(left.clone()) })).unwrap(), Some(left.as_str()));
    }
}
