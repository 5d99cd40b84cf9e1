//! [`ServerControl`]: what a case does to the server of a store.

use std::fmt;

use async_trait::async_trait;
use lock_core::{FencingToken, LockName};

use crate::Footprint;

/// What a case can do to a server. A server that the test owns supports all of it. Methods that are not implemented return
/// [`Unsupported`], as for a server that is only known by its address. That fails the case unless it is declared.
#[async_trait]
pub trait ServerControl: fmt::Debug + Send + Sync {
    /// Why methods that are not implemented cannot be.
    fn refusal(&self) -> Unsupported {
        Unsupported("nobody has written how")
    }

    /// Kills the server, as a crash would. It is down until [`start`](Self::start).
    async fn kill(&self) -> Control {
        Err(self.refusal().to("kill"))
    }

    /// Shuts the server down. It is down until [`start`](Self::start).
    async fn stop(&self) -> Control {
        Err(self.refusal().to("stop"))
    }

    /// Starts a server that is down at its old address, and waits until it answers.
    async fn start(&self, data: Data) -> Control {
        let _ = data;
        Err(self.refusal().to("start"))
    }

    /// Pauses the server: it accepts connections and answers nothing.
    async fn pause(&self) -> Control {
        Err(self.refusal().to("pause"))
    }

    /// Resumes a paused server.
    async fn resume(&self) -> Control {
        Err(self.refusal().to("resume"))
    }

    /// Deletes the data of one lock, as a well-meaning operator would.
    async fn delete(&self, name: &LockName) -> Control {
        let _ = name;
        Err(self.refusal().to("delete"))
    }

    /// Deletes everything that the store holds.
    async fn flush(&self) -> Control {
        Err(self.refusal().to("flush"))
    }

    /// Makes the server drop what it may drop at any time without losing a lock: scripts, history, caches.
    async fn forget(&self) -> Control {
        Err(self.refusal().to("forget"))
    }

    /// Fills the server so that it stores nothing more, until [`make_room`](Self::make_room).
    async fn fill(&self) -> Control {
        Err(self.refusal().to("fill"))
    }

    /// Undoes [`fill`](Self::fill).
    async fn make_room(&self) -> Control {
        Err(self.refusal().to("make_room"))
    }

    /// Makes the server evict all its data for lack of memory, as a cache would.
    async fn evict(&self) -> Control {
        Err(self.refusal().to("evict"))
    }

    /// Revokes all permissions of the clients and closes their connections, until [`let_in`](Self::let_in).
    async fn lock_out(&self) -> Control {
        Err(self.refusal().to("lock_out"))
    }

    /// Undoes [`lock_out`](Self::lock_out).
    async fn let_in(&self) -> Control {
        Err(self.refusal().to("let_in"))
    }

    /// Puts data under a name that no lock has.
    async fn put_foreign(&self, name: &LockName) -> Control {
        let _ = name;
        Err(self.refusal().to("put_foreign"))
    }

    /// Whether the data of [`put_foreign`](Self::put_foreign) is there, untouched.
    async fn has_foreign(&self, name: &LockName) -> Result<bool, Unsupported> {
        let _ = name;
        Err(self.refusal().to("has_foreign"))
    }

    /// Makes the next token of a name the one after `last`, as if that many had been issued. A store that cannot count that far sets its
    /// largest.
    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        let _ = (name, last);
        Err(self.refusal().to("raise_tokens"))
    }

    /// What the clients of this case use at the server now. It is also called after each case: then all figures but
    /// [`kept`](Footprint::kept) have to be zero, unless a client has crashed.
    async fn footprint(&self) -> Result<Footprint, Unsupported>;

    /// Breaks the connections on which clients receive hints. The clients may open new ones.
    async fn cut_notifications(&self) -> Control {
        Err(self.refusal().to("cut_notifications"))
    }
}

/// The result of an operation on a server.
pub type Control = Result<(), Unsupported>;

/// Whether a server still has its data when it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All of it.
    Kept,
    /// None of it.
    Lost,
}

/// Why a server that the test has not started is not ended, paused or emptied.
pub const NOT_OURS: &str = "the server is known by its URL only, and perhaps serves others";

/// Why a store throws nothing out.
pub const NOTHING_IS_EVICTED: &str = "a store without room refuses writes, and never throws anything out";

/// An operation that this server does not support, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub &'static str);

impl Unsupported {
    /// The same, with the name of the method, so that the author of the harness knows what to implement.
    fn to(self, verb: &str) -> Self {
        // Never freed: a test gets it once, and usually fails by it.
        Self(format!("`ServerControl::{verb}`: {}", self.0).leak())
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this server cannot do what the case needs: {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that supports nothing but the footprint.
    #[derive(Debug)]
    struct Bare;

    #[async_trait]
    impl ServerControl for Bare {
        async fn footprint(&self) -> Result<Footprint, Unsupported> {
            Ok(Footprint::default())
        }
    }

    #[tokio::test]
    async fn a_verb_that_is_not_supported_is_named_with_the_reason() {
        let (name, token) = (LockName::new("job").unwrap(), FencingToken::new(1));
        let answers = [
            ("kill", Bare.kill().await),
            ("stop", Bare.stop().await),
            ("start", Bare.start(Data::Kept).await),
            ("pause", Bare.pause().await),
            ("resume", Bare.resume().await),
            ("delete", Bare.delete(&name).await),
            ("flush", Bare.flush().await),
            ("forget", Bare.forget().await),
            ("fill", Bare.fill().await),
            ("make_room", Bare.make_room().await),
            ("evict", Bare.evict().await),
            ("lock_out", Bare.lock_out().await),
            ("let_in", Bare.let_in().await),
            ("put_foreign", Bare.put_foreign(&name).await),
            ("has_foreign", Bare.has_foreign(&name).await.map(|_| ())),
            ("raise_tokens", Bare.raise_tokens(&name, token).await),
            ("cut_notifications", Bare.cut_notifications().await),
        ];
        for (verb, answer) in answers {
            let said = answer.unwrap_err().to_string();
            assert!(said.ends_with(&format!("`ServerControl::{verb}`: nobody has written how")), "{said}");
        }
    }
}
