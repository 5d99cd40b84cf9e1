//! [`ServerControl`]: what a case does to the server side of a store.

use std::fmt;

use async_trait::async_trait;
use lock_core::{FencingToken, LockName};

use crate::Footprint;

/// What a case needs from the server side. A server process of one's own can do it all. What is not implemented is
/// [`Unsupported`], as it is for a server that is only known by its address: that fails the case unless it is declared.
#[async_trait]
pub trait ServerControl: fmt::Debug + Send + Sync {
    /// Why the server cannot be told to do what is not implemented for it.
    fn refusal(&self) -> Unsupported {
        Unsupported("nobody has written how")
    }

    /// Ends the server at once, as a crash does. It is down until [`start`](Self::start).
    async fn kill(&self) -> Control {
        Err(self.refusal())
    }

    /// Ends the server in an orderly way. It is down until [`start`](Self::start).
    async fn stop(&self) -> Control {
        Err(self.refusal())
    }

    /// Starts a server that is down, at its old address, and returns when it answers.
    async fn start(&self, data: Data) -> Control {
        let _ = data;
        Err(self.refusal())
    }

    /// Stops the server without ending it: it accepts connections and answers nothing.
    async fn pause(&self) -> Control {
        Err(self.refusal())
    }

    /// Lets a paused server go on.
    async fn resume(&self) -> Control {
        Err(self.refusal())
    }

    /// Deletes the data of one lock, as an operator does who means it well.
    async fn delete(&self, name: &LockName) -> Control {
        let _ = name;
        Err(self.refusal())
    }

    /// Deletes everything that the store holds.
    async fn flush(&self) -> Control {
        Err(self.refusal())
    }

    /// Makes the server forget whatever it may forget at any time without losing a lock: scripts, history, caches.
    async fn forget(&self) -> Control {
        Err(self.refusal())
    }

    /// Makes the server so full that it stores nothing more, until [`make_room`](Self::make_room).
    async fn fill(&self) -> Control {
        Err(self.refusal())
    }

    /// Ends what [`fill`](Self::fill) began.
    async fn make_room(&self) -> Control {
        Err(self.refusal())
    }

    /// Makes the server throw out all that it holds for want of room, as if it were a cache that its owner made too small.
    async fn evict(&self) -> Control {
        Err(self.refusal())
    }

    /// Takes from all clients the right to do anything, and closes their connections, until [`let_in`](Self::let_in).
    async fn lock_out(&self) -> Control {
        Err(self.refusal())
    }

    /// Gives the clients back what [`lock_out`](Self::lock_out) took.
    async fn let_in(&self) -> Control {
        Err(self.refusal())
    }

    /// Puts data under a name that no lock has.
    async fn put_foreign(&self, name: &LockName) -> Control {
        let _ = name;
        Err(self.refusal())
    }

    /// Whether the data of [`put_foreign`](Self::put_foreign) is there, untouched.
    async fn has_foreign(&self, name: &LockName) -> Result<bool, Unsupported> {
        let _ = name;
        Err(self.refusal())
    }

    /// Makes the next token of a name one above `last`, as if that many had been minted. A store that cannot count so
    /// far goes to the last that it has.
    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        let _ = (name, last);
        Err(self.refusal())
    }

    /// What the clients of this case have at the server now. Asked for after each case, too: then all is zero but what is
    /// kept on purpose, unless somebody has crashed.
    async fn footprint(&self) -> Result<Footprint, Unsupported>;

    /// Breaks the connections by which all clients get their hints. The clients may open them again.
    async fn cut_notifications(&self) -> Control {
        Err(self.refusal())
    }
}

/// What became of an order to a server.
pub type Control = Result<(), Unsupported>;

/// Whether a server finds what it held when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Everything that it held when it ended.
    Kept,
    /// Nothing.
    Lost,
}

/// A server that cannot be told to do this, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this server cannot do what the case needs: {}", self.0)
    }
}

impl std::error::Error for Unsupported {}
