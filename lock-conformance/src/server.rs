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
        Err(self.refusal().to("kill"))
    }

    /// Ends the server in an orderly way. It is down until [`start`](Self::start).
    async fn stop(&self) -> Control {
        Err(self.refusal().to("stop"))
    }

    /// Starts a server that is down, at its old address, and returns when it answers.
    async fn start(&self, data: Data) -> Control {
        let _ = data;
        Err(self.refusal().to("start"))
    }

    /// Stops the server without ending it: it accepts connections and answers nothing.
    async fn pause(&self) -> Control {
        Err(self.refusal().to("pause"))
    }

    /// Lets a paused server go on.
    async fn resume(&self) -> Control {
        Err(self.refusal().to("resume"))
    }

    /// Deletes the data of one lock, as an operator does who means it well.
    async fn delete(&self, name: &LockName) -> Control {
        let _ = name;
        Err(self.refusal().to("delete"))
    }

    /// Deletes everything that the store holds.
    async fn flush(&self) -> Control {
        Err(self.refusal().to("flush"))
    }

    /// Makes the server forget whatever it may forget at any time without losing a lock: scripts, history, caches.
    async fn forget(&self) -> Control {
        Err(self.refusal().to("forget"))
    }

    /// Makes the server so full that it stores nothing more, until [`make_room`](Self::make_room).
    async fn fill(&self) -> Control {
        Err(self.refusal().to("fill"))
    }

    /// Ends what [`fill`](Self::fill) began.
    async fn make_room(&self) -> Control {
        Err(self.refusal().to("make_room"))
    }

    /// Makes the server throw out all that it holds for want of room, as if it were a cache that its owner made too small.
    async fn evict(&self) -> Control {
        Err(self.refusal().to("evict"))
    }

    /// Takes from all clients the right to do anything, and closes their connections, until [`let_in`](Self::let_in).
    async fn lock_out(&self) -> Control {
        Err(self.refusal().to("lock_out"))
    }

    /// Gives the clients back what [`lock_out`](Self::lock_out) took.
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

    /// Makes the next token of a name one above `last`, as if that many had been minted. A store that cannot count so
    /// far goes to the last that it has.
    async fn raise_tokens(&self, name: &LockName, last: FencingToken) -> Control {
        let _ = (name, last);
        Err(self.refusal().to("raise_tokens"))
    }

    /// What the clients of this case have at the server now. Asked for after each case, too: then all is zero but what is
    /// kept on purpose, unless somebody has crashed.
    async fn footprint(&self) -> Result<Footprint, Unsupported>;

    /// Breaks the connections by which all clients get their hints. The clients may open them again.
    async fn cut_notifications(&self) -> Control {
        Err(self.refusal().to("cut_notifications"))
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

impl Unsupported {
    /// The same, with the name of the verb, so that whoever writes a harness knows what to write.
    fn to(self, verb: &str) -> Self {
        // Never freed: a test is told it once, and mostly ends by it.
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

    /// A server of which nobody has written how to tell it anything.
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
