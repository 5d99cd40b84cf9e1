//! [`Attending`]: what one waiter hears of those ahead.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use lock_core::{EntryId, Hint, Hints};

use super::Board;

/// Hints for one waiter. When it is dropped, nobody attends to those ahead any more.
pub(crate) struct Attending {
    hints: Hints,
    entry: EntryId,
    board: Arc<Board>,
    /// The process that it was made in.
    pid: u32,
}

impl Attending {
    /// The board counts it until it is dropped.
    pub(super) fn new(hints: Hints, entry: EntryId, board: &Arc<Board>) -> Self {
        Self { hints, entry, board: Arc::clone(board), pid: std::process::id() }
    }
}

impl Stream for Attending {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.hints.as_mut().poll_next(cx)
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        // In a fork the keeper, which is not there, may seem to hold the board for ever.
        if self.pid == std::process::id() {
            self.board.release(self.entry);
        }
    }
}
