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
}

impl Attending {
    /// The board counts it until it is dropped.
    pub(super) fn new(hints: Hints, entry: EntryId, board: &Arc<Board>) -> Self {
        Self { hints, entry, board: Arc::clone(board) }
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
        self.board.release(self.entry);
    }
}
