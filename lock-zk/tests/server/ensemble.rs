//! [`Ensemble`]: three members on the loopback interface, with networks between them that can be cut.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Flow, Links, Newcomers, Port, Proxy, ServerProcess, Way, unique};
use lock_core::sync::{Mutex, MutexGuard};
use lock_test_servers::proxy;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Admin, Containers, TICK, ZkServer, zk_server::PATIENCE};

/// The longest session that the first member of an uneven ensemble gives. The others give any.
pub(crate) const SHORTER: Duration = Duration::from_millis(1600);

/// How many ensembles are used at the same time: three programs that start together are much for a small machine.
const AT_ONCE: usize = 4;

/// Permits to use an ensemble.
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// The permit to start one. Twelve Java programs that start at once take longer than members wait for each other.
static START: Semaphore = Semaphore::const_new(1);

/// The ensembles that are not in use, as they were left. They end with this process, and their files go with them.
static IDLE: Mutex<Vec<(Kind, bool, Vec<Node>)>> = Mutex::new(Vec::new());

/// A store of three servers, of which a test may lose any. Clients reach each through a proxy, and each server reaches the others
/// through proxies of its own, but for elections.
///
/// An ensemble that a test has left with members down or cut off is repaired for the next test, which uses another node.
#[derive(Debug)]
pub(crate) struct Ensemble {
    kind: Kind,
    chroot: String,
    members: Vec<Node>,
    /// Whether traffic between members was cut.
    cut: AtomicBool,
    _turn: SemaphorePermit<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    containers: Containers,
    /// After how many ticks members miss each other.
    ticks: u32,
    /// Whether the first one gives no longer sessions than [`SHORTER`].
    uneven: bool,
}

#[derive(Debug)]
struct Node {
    member: ZkServer,
    /// Where it listens for followers and for elections.
    _ports: (Port, Port),
    /// For clients.
    front: Proxy,
    /// What this member reaches the others through when they lead, by their indices. None to itself.
    to: Vec<Option<Proxy>>,
}

impl Ensemble {
    /// Three members, each of which answers. They miss each other after a second.
    pub(crate) async fn start() -> Self {
        Self::of(Kind { containers: Containers::Removed, ticks: 5, uneven: false }).await
    }

    /// Three members, of which the first gives no longer sessions than [`SHORTER`].
    pub(crate) async fn start_uneven() -> Self {
        Self::of(Kind { containers: Containers::Removed, ticks: 5, uneven: true }).await
    }

    /// Three members that miss each other only after eight seconds: a follower that is cut off serves its clients for
    /// longer than many a session lives (F3). They keep empty containers: a create whose answer is lost needs no second one.
    pub(crate) async fn start_patient() -> Self {
        Self::of(Kind { containers: Containers::Kept, ticks: 40, uneven: false }).await
    }

    async fn of(kind: Kind) -> Self {
        let turn = TURNS.acquire().await.expect("nobody closes it");
        let chroot = format!("case-{}", unique());
        let mut ensemble =
            Self { kind, chroot, members: Vec::new(), cut: AtomicBool::new(false), _turn: turn };
        while let Some((cut, members)) = idle(kind) {
            ensemble.members = members;
            ensemble.cut = AtomicBool::new(cut);
            if ensemble.recovers().await {
                return ensemble;
            }
        }
        let _start = START.acquire().await.expect("nobody closes it");
        loop {
            ensemble.members = nodes(kind);
            if ensemble.recovers().await {
                return ensemble;
            }
        }
    }

    /// Starts what does not run, and lets everything pass. Returns when all of them carry out writes, or, with `false`, when another process
    /// has taken a port.
    async fn recovers(&self) -> bool {
        for Node { member, .. } in &self.members {
            if member.process().is_alive() {
                member.process().running(ServerProcess::resume);
            } else {
                member.launch();
            }
        }
        self.heal();
        let mut up = true;
        for node in &self.members {
            up &= node.member.answers().await;
        }
        if up {
            self.serves().await;
        }
        up
    }

    /// Returns when each member carries out a write. By then, connections that were reset are open again.
    async fn serves(&self) {
        for i in 0..3 {
            self.writes(i).await;
        }
    }

    async fn writes(&self, i: usize) {
        let (admin, end) = (self.admin(i), Instant::now() + PATIENCE);
        while !admin.writes().await {
            assert!(Instant::now() < end, "a member carries out no writes");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How clients reach the members that are found there.
    pub(crate) fn url_of(&self, addresses: &str) -> String {
        format!("zk://{addresses}/{}?tick={}ms", self.chroot, TICK.as_millis())
    }

    /// Where clients find the members, each behind its proxy, in the order of the indices: `host:port,…`.
    pub(crate) fn addresses(&self) -> String {
        let addresses = self.members.iter().map(|node| node.front.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Where clients find one member.
    pub(crate) fn address(&self, i: usize) -> String {
        self.members[i].front.address().to_string()
    }

    /// An operator's access to one member, past the proxy.
    pub(crate) fn admin(&self, i: usize) -> Admin {
        Admin::new(&self.members[i].member.address(), &self.chroot)
    }

    /// Which member leads.
    ///
    /// # Panics
    /// If no member leads for long.
    pub(crate) async fn leader(&self) -> usize {
        self.leader_among(&[0, 1, 2]).await
    }

    /// Which member leads once this one does not any more.
    ///
    /// # Panics
    /// If no member leads for long.
    pub(crate) async fn next_leader(&self, overthrown: usize) -> usize {
        self.leader_among(&[(overthrown + 1) % 3, (overthrown + 2) % 3]).await
    }

    async fn leader_among(&self, members: &[usize]) -> usize {
        let end = Instant::now() + PATIENCE;
        loop {
            for i in members.iter().copied() {
                if self.admin(i).mode().await.as_deref() == Some("leader") {
                    return i;
                }
            }
            assert!(Instant::now() < end, "the ensemble has no leader");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The members that do not lead.
    pub(crate) async fn followers(&self) -> [usize; 2] {
        let leader = self.leader().await;
        [(leader + 1) % 3, (leader + 2) % 3]
    }

    /// Kills the leader, and returns when another member leads and has carried out a write. Returns the former leader, and how long that took.
    ///
    /// # Panics
    /// If no member leads for long.
    pub(crate) async fn overthrow(&self) -> (usize, Duration) {
        let leader = self.leader().await;
        let began = Instant::now();
        self.kill(leader);
        let next = self.next_leader(leader).await;
        self.writes(next).await;
        (leader, began.elapsed())
    }

    /// Kills a member.
    pub(crate) fn kill(&self, i: usize) {
        self.members[i].member.process().kill();
    }

    /// Starts a member that is down, and returns when it serves.
    pub(crate) async fn restart(&self, i: usize) {
        self.members[i].member.launch();
        assert!(self.members[i].member.answers().await, "the port of a member was taken");
    }

    /// Stops a member without ending it.
    pub(crate) fn pause(&self, i: usize) {
        self.members[i].member.process().running(ServerProcess::pause);
    }

    /// Resumes it.
    pub(crate) fn resume(&self, i: usize) {
        self.members[i].member.process().running(ServerProcess::resume);
    }

    /// The network between clients and a member.
    pub(crate) fn front(&self, i: usize) -> &Proxy {
        &self.members[i].front
    }

    /// Lets nothing pass between a follower and the leader, in either direction, without closing connections. Clients still reach it.
    pub(crate) fn isolate(&self, i: usize) {
        self.cut.store(true, Ordering::Relaxed);
        for proxy in self.members[i].to.iter().flatten() {
            proxy.silence(Links::All);
        }
    }

    /// Holds what the leader sends to a follower until the gate opens. What the follower sends arrives.
    pub(crate) fn hold_back(&self, i: usize, flow: &Flow) {
        self.cut.store(true, Ordering::Relaxed);
        for proxy in self.members[i].to.iter().flatten() {
            proxy.order(Links::All, Way::Replies, flow);
        }
    }

    /// Removes all cuts, and returns when all members serve.
    ///
    /// # Panics
    /// If one does not for long.
    pub(crate) async fn mend(&self) {
        self.heal();
        self.serves().await;
    }

    /// Removes all cuts. Members that were not cut off keep their connections to each other.
    pub(crate) fn heal(&self) {
        for node in &self.members {
            node.front.heal();
            node.front.reset(Links::All);
        }
        if self.cut.swap(false, Ordering::Relaxed) {
            for proxy in self.members.iter().flat_map(|node| node.to.iter().flatten()) {
                proxy.heal();
                proxy.newcomers(Newcomers::Await);
                proxy.reset(Links::All);
            }
        }
    }

    /// Makes the clients of a member use others: their connections break, and no new one is accepted.
    pub(crate) fn turn_away(&self, i: usize) {
        self.members[i].front.newcomers(Newcomers::Refuse);
        self.members[i].front.reset(Links::All);
    }
}

/// Returns it for the next test, unless this one has failed: then its state is unknown.
impl Drop for Ensemble {
    fn drop(&mut self) {
        let members = std::mem::take(&mut self.members);
        if !members.is_empty() && !thread::panicking() {
            // The files of one that is down would stay when this process ends.
            for Node { member, .. } in members.iter().filter(|node| !node.member.process().is_alive()) {
                member.launch();
            }
            lock_idle().push((self.kind, self.cut.load(Ordering::Relaxed), members));
        }
    }
}

/// One of this kind, and whether traffic between its members was cut.
fn idle(kind: Kind) -> Option<(bool, Vec<Node>)> {
    let mut idle = lock_idle();
    let found = idle.iter().position(|(other, ..)| *other == kind)?;
    let (_, cut, members) = idle.swap_remove(found);
    Some((cut, members))
}

fn lock_idle() -> MutexGuard<'static, Vec<(Kind, bool, Vec<Node>)>> {
    IDLE.lock()
}

fn nodes(kind: Kind) -> Vec<Node> {
    let ports = [(); 3].map(|()| (Port::reserve(), Port::reserve()));
    let numbers = ports.each_ref().map(|(own, election)| (own.number(), election.number()));
    let nodes = ports.into_iter().enumerate();
    nodes.map(|(i, ports)| node(i, &numbers, ports, kind)).collect()
}

/// A member, by the ports on which each listens for followers and for elections, and its own.
fn node(i: usize, numbers: &[(u16, u16); 3], ports: (Port, Port), kind: Kind) -> Node {
    let mut member = ZkServer::new();
    member.treats(kind.containers);
    let quorum = |j: usize| ([127, 0, 0, 1], numbers[j].0).into();
    let to: Vec<_> = (0..3).map(|j| (j != i).then(|| Proxy::start(quorum(j), |_| false))).collect();
    // A leader is connected to as soon as it is elected; if it does not listen yet, there is another election.
    to.iter().flatten().for_each(|proxy| proxy.newcomers(Newcomers::Await));
    member.with([
        "initLimit=50".to_owned(),
        format!("syncLimit={}", kind.ticks),
        "standaloneEnabled=false".to_owned(),
    ]);
    if kind.uneven && i == 0 {
        // Of two settings, the last one counts.
        member.with([format!("maxSessionTimeout={}", SHORTER.as_millis())]);
    }
    member.with(to.iter().zip(numbers).enumerate().map(|(j, (proxy, (own, election)))| {
        let port = proxy.as_ref().map_or(*own, |proxy| proxy.address().port());
        format!("server.{}=127.0.0.1:{port}:{election}", j + 1)
    }));
    fs::write(member.data().join("myid"), format!("{}\n", i + 1))
        .expect("a directory of our own can be written to");
    let front = proxy(member.address());
    Node { member, _ports: ports, front, to }
}
