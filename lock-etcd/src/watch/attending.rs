//! [`Attending`]: what one waiter hears of those ahead.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use lock_core::{EntryId, Hint, Hints};

use super::{Board, vigil::Room};

/// What a waiter is told of those ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is worth looking again.
    Changed,
    /// They leave room.
    Room(Room),
}

/// What one waiter is told. When it is dropped, nobody attends to those ahead any more.
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
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        let room = match ready!(self.hints.as_mut().poll_next(cx)) {
            Some(Hint::Admitted { .. }) => self.board.room(self.entry),
            Some(Hint::Changed) => None,
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(room.map_or(Told::Changed, Told::Room)))
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
