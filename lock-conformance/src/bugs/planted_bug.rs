//! [`PlantedBug`]: a bug between the clients and the store, and the case that has to find it.

use crate::MakeBug;

/// A bug of the bank, which `docs/bug-bank.md` describes. It is a [`Layer`](crate::Layer), and uses nothing but the verbs and the operations
/// of a backend, so that it can be planted in any store.
#[derive(Clone, Copy, Debug)]
pub struct PlantedBug {
    /// Its number in the bank.
    pub id: &'static str,
    /// The group and the name of the case that has to find it.
    pub case: (&'static str, &'static str),
    /// A part of the message with which the case fails. There are several if it depends on the store which of its checks fails first.
    pub says: &'static [&'static str],
    /// What a store needs for the bug to make a difference.
    pub needs: Needs,
    /// Makes the layer of a new client.
    pub make: MakeBug,
}

/// What a store needs for a [`PlantedBug`] to make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: every store can have it.
    Nothing,
    /// Hints: see [`Harness::notifications`](crate::Harness::notifications).
    Hints,
    /// Hints that are missed if notifications are cut: see [`Harness::cuts_show_nothing`](crate::Harness::cuts_show_nothing).
    MissedHints,
}

impl PlantedBug {
    /// What is wrong with the answer of the case that has to find it: the message with which it failed, or `None` if it passed. `None` if
    /// it has found the bug.
    pub(crate) fn complaint(&self, said: Option<&str>) -> Option<String> {
        let (id, (group, name)) = (self.id, self.case);
        match said {
            None => Some(format!("{group}::{name} does not find {id}")),
            Some(said) if self.says.iter().any(|words| said.contains(words)) => None,
            Some(said) => Some(format!("{group}::{name} found something else than {id}: {said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Sound;

    const BUG: PlantedBug = PlantedBug {
        id: "b00",
        case: ("group", "a_name"),
        says: &["too early", "too late"],
        needs: Needs::Nothing,
        make: |_| Arc::new(Sound),
    };

    #[test]
    fn a_case_that_passes_or_says_something_else_is_complained_of() {
        let complaint = |said| BUG.complaint(said);
        assert_eq!(complaint(None).as_deref(), Some("group::a_name does not find b00"));
        let other = "group::a_name found something else than b00: there is no server";
        assert_eq!(complaint(Some("there is no server")).as_deref(), Some(other));
    }

    #[test]
    fn a_case_that_says_any_of_the_words_has_found_the_bug() {
        assert_eq!(BUG.complaint(Some("it came 3 ms too early")), None);
        assert_eq!(BUG.complaint(Some("it came 3 ms too late")), None);
    }
}
