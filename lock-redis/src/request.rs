//! [`Request`]: one verb for the server.

use lock_core::EntryId;

use crate::scripts::{ENTER, LEAVE, RELEASE, Script};

/// A verb with its keys and arguments, which can be sent alone or with others.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) form: Form,
    /// The entry that it may create, if any.
    pub(crate) creates: Option<EntryId>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Creates the holder of a free mutex by plain commands.
    CreatePlainly,
    /// Deletes a mutex for which nobody waits.
    Release,
    Enter,
    Leave,
    /// Writes the tombstone of the entry.
    LeaveInDoubt,
}

impl Request {
    /// The keys are the queue, the counter and the lock, the arguments the value and the ttl.
    pub(crate) fn create_plainly(entry: EntryId, keys: [Vec<u8>; 3], args: [Vec<u8>; 2]) -> Self {
        Self { form: Form::CreatePlainly, creates: Some(entry), keys: keys.into(), args: args.into() }
    }

    /// The argument is what the value begins with.
    pub(crate) fn release(lock: Vec<u8>, unmarked: Vec<u8>) -> Self {
        Self { form: Form::Release, creates: None, keys: vec![lock], args: vec![unmarked] }
    }

    pub(crate) fn enter(creates: Option<EntryId>, keys: [Vec<u8>; 5], args: [Vec<u8>; 4]) -> Self {
        Self { form: Form::Enter, creates, keys: keys.into(), args: args.into() }
    }

    pub(crate) fn leave(keys: [Vec<u8>; 3], args: [Vec<u8>; 3]) -> Self {
        Self { form: Form::Leave, creates: None, keys: keys.into(), args: args.into() }
    }

    /// The last key is the tombstone, and the last argument its ttl.
    pub(crate) fn leave_in_doubt(keys: [Vec<u8>; 4], args: [Vec<u8>; 4]) -> Self {
        Self { form: Form::LeaveInDoubt, creates: None, keys: keys.into(), args: args.into() }
    }

    /// The script that runs it alone, unless it has none.
    pub(crate) fn script(&self) -> Option<&'static Script> {
        match self.form {
            Form::CreatePlainly => None,
            Form::Release => Some(&RELEASE),
            Form::Enter => Some(&ENTER),
            Form::Leave | Form::LeaveInDoubt => Some(&LEAVE),
        }
    }

    /// The letter of the verb in a [`BATCH`](crate::scripts::BATCH), unless it has none.
    pub(crate) fn op(&self) -> Option<u8> {
        match self.form {
            Form::CreatePlainly | Form::Release => None,
            Form::Enter => Some(b'e'),
            Form::Leave => Some(b'l'),
            Form::LeaveInDoubt => Some(b'd'),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(Vec::as_slice)
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &[u8]> {
        self.args.iter().map(Vec::as_slice)
    }

    /// The size of its keys and arguments, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.keys.iter().chain(&self.args).map(Vec::len).sum()
    }
}
