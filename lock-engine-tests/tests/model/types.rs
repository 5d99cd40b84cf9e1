//! The types that all models use.

/// Time, in ticks.
pub(crate) type Ticks = u8;

/// A fencing token. Only their order counts, so that the states of the model stay finite: see `SystemState::settle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u8);

/// The id of an entry. A number is used again when nothing in the system remembers it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) client: u8,
    pub(crate) n: u8,
}

/// The client as a letter, the entry as a number: `A1`.
impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", name(self.client), self.n)
    }
}

pub(crate) fn name(client: u8) -> char {
    char::from(b'A' + client)
}
