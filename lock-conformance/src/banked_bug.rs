//! [`BankedBug`]: a bug that locks have had, and the case that has to find it.

use std::sync::Arc;

use crate::{Harness, MakeBug, Sound, finds};

/// A bug of the bank in `docs/bug-bank.md`.
#[derive(Clone, Copy, Debug)]
pub struct BankedBug {
    /// Its id in the bank.
    pub id: &'static str,
    /// The group and the name of the case that has to find it.
    pub case: (&'static str, &'static str),
    /// A part of the message with which the case fails.
    pub says: &'static str,
    /// Puts it into a client.
    pub make: MakeBug,
}

impl BankedBug {
    /// Checks that the case of a bug passes without the bug, and fails with it.
    ///
    /// # Panics
    /// If it does not, or if no bug has this id.
    pub fn assert_found<H: Harness>(bugs: &[Self], id: &str) {
        let bug = bugs.iter().find(|bug| bug.id == id).expect("it is in the list");
        let (group, case) = bug.case;
        let sound = finds::<H>(group, case, |_| Arc::new(Sound));
        assert_eq!(sound, None, "{group}::{case} fails without the bug");
        let said = finds::<H>(group, case, bug.make);
        let said = said.unwrap_or_else(|| panic!("{group}::{case} does not find {id}"));
        assert!(said.contains(bug.says), "{group}::{case} found something else than {id}: {said}");
    }
}
