//! [`Keys`]: the paths of all nodes in ZooKeeper.
//!
//! ```text
//! chroot/q1/ name                                    a lock: a container, which the server removes some time after its last entry
//! chroot/q1/ name / entry - claim - sequence         an entry: ephemeral; its data is its session's timeout and its label
//! chroot/s1/ session                                 the node that a session writes to prove that it is alive: ephemeral
//! chroot/e1                                          the entry that was evicted last
//! ```
//!
//! `1` is the version of the stored format. The claim is part of the name, so that a list of the names suffices to judge every entry
//! (PR16). The name of a lock is escaped, except for letters, digits and a few signs: so no two locks share a node, and ZooKeeper
//! accepts every name (H112).
//!
//! If locks are shared with Apache Curator, an entry is `chroot/ name /_c_ uuid -lock- sequence`, and the name is a path.

pub(crate) mod entry_node;

use lock_core::{Claim, Entry, EntryId, Kind, LockName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use self::entry_node::EntryNode;

/// The characters that are escaped. A name of one or two dots would be a step in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b':')
    .remove(b',')
    .remove(b'=')
    .remove(b'@')
    .remove(b'+')
    .remove(b' ');

/// How nodes are named, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Own,
    /// The layout of Apache Curator's `InterProcessMutex`.
    Curator,
}

/// The paths of all nodes under a chroot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The chroot without a `/` at its end; empty for all of ZooKeeper.
    root: String,
    pub(crate) layout: Layout,
}

impl Keys {
    pub(crate) fn new(chroot: &str, layout: Layout) -> Self {
        Self { root: chroot.trim_end_matches('/').to_owned(), layout }
    }

    /// The node under which all others are.
    pub(crate) fn chroot(&self) -> &str {
        if self.root.is_empty() { "/" } else { &self.root }
    }

    /// The parent of the chroot, where other programs have nodes as well. Empty if it is the root of ZooKeeper.
    pub(crate) fn above(&self) -> &str {
        self.root.rsplit_once('/').map_or("", |(above, _)| above)
    }

    /// The node under which the locks are.
    pub(crate) fn locks(&self) -> String {
        match self.layout {
            Layout::Own => format!("{}/q1", self.root),
            Layout::Curator if self.root.is_empty() => "/".to_owned(),
            Layout::Curator => self.root.clone(),
        }
    }

    /// The container of a lock. `None` if ZooKeeper refuses its name.
    pub(crate) fn lock(&self, name: &LockName) -> Option<String> {
        match self.layout {
            Layout::Own => {
                let mut path = self.locks();
                path.push('/');
                path.extend(utf8_percent_encode(name.as_str(), ESCAPED));
                Some(path)
            }
            Layout::Curator => {
                let path = name.as_str().strip_prefix('/').unwrap_or(name.as_str());
                is_path(path).then(|| format!("{}/{path}", self.root))
            }
        }
    }

    /// The name of an entry's node, up to its sequence.
    pub(crate) fn entry_prefix(&self, entry: &Entry) -> String {
        match self.layout {
            Layout::Own => entry_node::prefix(entry.id, entry.claim),
            Layout::Curator => entry_node::curator_prefix(entry.id),
        }
    }

    /// Reads the name of a node. `None` if the node is not an entry.
    pub(crate) fn read_entry(&self, name: &str) -> Option<EntryNode> {
        match self.layout {
            Layout::Own => EntryNode::read(name),
            Layout::Curator => EntryNode::read_curator(name),
        }
    }

    /// The lock that a container belongs to. `None` if no lock has a container of this name.
    pub(crate) fn lock_name(&self, container: &str) -> Option<LockName> {
        let name = match self.layout {
            Layout::Own => percent_decode_str(container).decode_utf8().ok()?,
            Layout::Curator => container.into(),
        };
        let name = LockName::new(&*name).ok()?;
        let path = self.lock(&name)?;
        (path.rsplit('/').next() == Some(container)).then_some(name)
    }

    pub(crate) fn sessions(&self) -> String {
        format!("{}/s1", self.base())
    }

    pub(crate) fn session(&self, id: i64) -> String {
        format!("{}/{id:016x}", self.sessions())
    }

    pub(crate) fn evictions(&self) -> String {
        format!("{}/e1", self.base())
    }

    /// The parent of all nodes that are not locks. With Curator's layout it is separate from the nodes of others.
    fn base(&self) -> String {
        match self.layout {
            Layout::Own => self.root.clone(),
            Layout::Curator => format!("{}/.distlock", self.root),
        }
    }

    /// Whether the layout has this kind of claim: Curator's has mutexes only.
    pub(crate) fn supports(&self, claim: Claim) -> bool {
        self.layout == Layout::Own || claim.kind() == Kind::Mutex
    }

    /// The entry whose node has this path, if it is the path of an entry.
    pub(crate) fn entry_at(&self, path: &str) -> Option<EntryId> {
        let below = path.strip_prefix(&*self.locks())?;
        self.read_entry(below.rsplit('/').next()?).map(|node| node.entry)
    }
}

/// Whether ZooKeeper accepts this as a path, without the first `/`.
pub(crate) fn is_path(path: &str) -> bool {
    let is_step = |step: &str| !matches!(step, "" | "." | "..");
    let is_taken = |c: char| {
        !c.is_control()
            && !matches!(u32::from(c), 0xE000..=0xF8FF | 0xFFF0..=0xFFFF)
            && u32::from(c) < 0x1_0000
    };
    path.split('/').all(is_step) && path.chars().all(is_taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own() -> Keys {
        Keys::new("/app/locks", Layout::Own)
    }

    proptest! {
        #[test]
        fn every_name_has_one_node_that_zookeeper_takes_and_is_read_back(name in "(?s).{1,64}") {
            let name = LockName::new(name).unwrap();
            let path = own().lock(&name).unwrap();
            let container = path.strip_prefix("/app/locks/q1/").unwrap();
            prop_assert!(is_path(container) && !container.contains('/'), "{path}");
            prop_assert_eq!(own().lock_name(container), Some(name));
        }
    }

    #[test]
    fn short_names_stay_readable_and_steps_are_none() {
        let node = |name: &str| own().lock(&LockName::new(name).unwrap()).unwrap();
        assert_eq!(node("invoices:42"), "/app/locks/q1/invoices:42");
        assert_eq!(node("a/b"), "/app/locks/q1/a%2Fb");
        assert_eq!(node("."), "/app/locks/q1/%2E");
        assert_eq!(node("%2E"), "/app/locks/q1/%252E");
        assert_eq!(own().lock_name("%2e"), None, "we write capitals");
    }

    #[test]
    fn what_is_above_the_chroot_is_not_the_root_of_zookeeper() {
        let above = |chroot| Keys::new(chroot, Layout::Own).above().to_owned();
        assert_eq!(above("/app/team/locks"), "/app/team");
        assert_eq!([above("/locks"), above("/locks/"), above("/"), above("")], [""; 4]);
    }

    #[test]
    fn with_curator_a_name_is_a_path_and_only_a_path() {
        let keys = Keys::new("/", Layout::Curator);
        let node = |name: &str| keys.lock(&LockName::new(name).unwrap());
        assert_eq!(node("orders/7").as_deref(), Some("/orders/7"));
        assert_eq!(node("/orders/7").as_deref(), Some("/orders/7"));
        for bad in ["a//b", "a/", "..", "a/./b", "\u{1}", "\u{E000}", "\u{FFFF}", "\u{1F600}"] {
            assert_eq!(node(bad), None, "{bad:?}");
        }
    }
}
