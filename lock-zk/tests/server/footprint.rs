//! [`Seen`]: what each client uses at a server, by the server's own report.

use std::collections::HashSet;

use lock_conformance::Footprint;

/// What a server reported about all its clients at about one time.
pub(super) struct Seen {
    /// The answer to `dump`: which sessions there are, and their nodes.
    pub(super) dump: String,
    /// The answer to `wchc`: what each session watches.
    pub(super) watches: String,
    /// The answer to `cons`: the connections, without the one that it was asked on.
    pub(super) connections: Vec<String>,
}

impl Seen {
    /// What the clients of a case use. A session is one of theirs if it has a node or a watch below the node of the case: each of ours has a
    /// node as soon as it is used, and watches another one. The server reports only watches on nodes, and not those on children of
    /// nodes, which no client here has.
    pub(super) fn below(&self, chroot: &str) -> Footprint {
        let folder = format!("{chroot}/");
        let has = |text: &str| {
            let ours = by_session(text).into_iter().filter(|(_, path)| path.starts_with(&folder));
            ours.map(|(session, _)| session.to_owned()).collect::<Vec<_>>()
        };
        let watching = has(&self.watches);
        let sessions: HashSet<String> = has(&self.dump).into_iter().chain(watching.iter().cloned()).collect();
        let connections = self.connections.iter().filter(|line| {
            let session = line.split_once("sid=").map(|(_, rest)| rest.split([',', ')']).next());
            session.flatten().is_some_and(|session| sessions.contains(session))
        });
        Footprint {
            queues: queues(&self.dump, chroot),
            sessions: sessions.len() as u64,
            connections: connections.count() as u64,
            subscriptions: watching.len() as u64,
            ..Footprint::default()
        }
    }
}

/// The number of entries' nodes in an answer to `dump`.
pub(super) fn queues(dump: &str, chroot: &str) -> u64 {
    let queues = format!("{chroot}/q1/");
    by_session(dump).iter().filter(|(_, path)| path.starts_with(&queues)).count() as u64
}

/// The paths in an answer, with the sessions in whose paragraphs they stand.
fn by_session(text: &str) -> Vec<(&str, &str)> {
    let mut session = "";
    let mut found = Vec::new();
    for line in text.lines() {
        match line.strip_prefix('\t') {
            Some(path) if path.starts_with('/') => found.push((session, path)),
            Some(_) => {}
            None => session = line.trim_end_matches(':'),
        }
    }
    found
}
