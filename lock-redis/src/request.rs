//! [`Request`]: one verb for the server.

use lock_core::EntryId;

use crate::scripts::{ENTER, LEAVE, Script};

/// A verb with its keys and arguments, which can be sent alone or with others.
#[derive(Debug)]
pub(crate) struct Request {
    form: Form,
    /// The entry that it may create, if any.
    pub(crate) creates: Option<EntryId>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Enter,
    Leave,
    /// Writes the tombstone of the entry.
    LeaveInDoubt,
}

impl Request {
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

    /// The script that runs it alone.
    pub(crate) fn script(&self) -> &'static Script {
        match self.form {
            Form::Enter => &ENTER,
            Form::Leave | Form::LeaveInDoubt => &LEAVE,
        }
    }

    /// The letter of the verb in a batch.
    pub(crate) fn op(&self) -> u8 {
        match self.form {
            Form::Enter => b'e',
            Form::Leave => b'l',
            Form::LeaveInDoubt => b'd',
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
