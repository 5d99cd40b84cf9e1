//! [`Cluster`]: three members on the loopback interface, with networks between them that can be cut.

use std::time::{Duration, Instant};

use etcd_client::MemberAddOptions;
use lock_conformance::{Flow, Links, Newcomers, Proxy, ServerProcess, Way};
use lock_core::sync::Mutex;
use lock_test_servers::{EtcdServer, proxy};

use super::{
    Admin, Witness,
    member::{answers, member},
};

/// How long a cluster may take for what it does by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store of three servers. Clients reach each through a proxy, and so do the members each other.
#[derive(Debug)]
pub(crate) struct Cluster {
    prefix: String,
    members: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    member: EtcdServer,
    /// For clients.
    front: Proxy,
    /// For the other members.
    back: Proxy,
}

/// A member of a cluster that has no say.
#[derive(Debug)]
pub(crate) struct Learner(EtcdServer);

impl Learner {
    /// Where clients find it: `host:port`.
    pub(crate) fn address(&self) -> String {
        self.0.address()
    }
}

impl Cluster {
    /// Starts three members, and returns when each of them answers.
    pub(crate) async fn start(prefix: &str) -> Self {
        loop {
            let cluster = Self { prefix: prefix.to_owned(), members: nodes() };
            for node in &cluster.members {
                node.member.launch();
            }
            let mut up = true;
            for i in 0..3 {
                up &= answers(&cluster.members[i].member, &cluster.admin(i)).await;
            }
            if up {
                return cluster;
            }
        }
    }

    /// Adds a member that only learns. It knows the leader when this returns.
    ///
    /// # Panics
    /// If the cluster does not take it, or it does not start.
    pub(crate) async fn add_learner(&self) -> Learner {
        let mut member = member("http");
        let url = format!("http://127.0.0.1:{}", member.peer_port());
        let (mut client, end) = (self.admin(0).client().await, Instant::now() + PATIENCE);
        // It takes nobody before its members have been connected for some seconds.
        while let Err(error) =
            client.member_add([&url], Some(MemberAddOptions::new().with_is_learner())).await
        {
            assert!(Instant::now() < end, "the cluster takes no learner: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut all = names_and_urls(&self.members);
        all.push(format!("{}={url}", member.name()));
        member.with([
            format!("--initial-advertise-peer-urls={url}"),
            format!("--initial-cluster={}", all.join(",")),
            "--initial-cluster-state=existing".to_owned(),
        ]);
        member.launch();
        let learner = Learner(member);
        let admin = Admin::new(&learner.address(), &self.prefix);
        while !admin.status().await.is_ok_and(|status| status.is_learner() && status.leader() != 0) {
            assert!(Instant::now() < end, "the learner did not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        learner
    }

    /// Where clients find the members, each behind its proxy: `host:port,…`. They talk to the first of them, this one.
    pub(crate) fn addresses(&self, first: usize) -> String {
        let addresses = (0..3).map(|i| self.members[(first + i) % 3].front.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// An operator of one member, past the proxy.
    pub(crate) fn admin(&self, i: usize) -> Admin {
        Admin::new(&self.members[i].member.address(), &self.prefix)
    }

    /// Which member leads, as it says itself and another member confirms.
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
                let status = tokio::time::timeout(Duration::from_secs(1), self.admin(i).status()).await;
                let Ok(Ok(status)) = status else { continue };
                // Another member has to follow it, because a former leader may not know yet that another one leads.
                let leads = status.header().is_some_and(|header| header.member_id() == status.leader());
                if leads && self.follows(i, status.leader()).await {
                    return i;
                }
            }
            assert!(Instant::now() < end, "the cluster has no leader");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether another member than `i` follows this leader.
    async fn follows(&self, i: usize, leader: u64) -> bool {
        for other in (0..3).filter(|other| *other != i) {
            let status = tokio::time::timeout(Duration::from_secs(1), self.admin(other).status()).await;
            if matches!(status, Ok(Ok(status)) if status.leader() == leader) {
                return true;
            }
        }
        false
    }

    /// Some member that does not lead.
    pub(crate) async fn follower(&self) -> usize {
        (self.leader().await + 1) % 3
    }

    /// A witness that measures, from now on, how long the cluster carries out no writes.
    pub(crate) async fn witness(&self) -> Witness {
        Witness::start((0..3).map(|i| self.admin(i))).await
    }

    /// How many connections clients have to a member.
    pub(crate) fn talked_to(&self, i: usize) -> usize {
        self.members[i].front.open()
    }

    /// Kills a member.
    pub(crate) fn kill(&self, i: usize) {
        self.members[i].member.process().kill();
    }

    /// Starts a member that is down, and returns when it answers.
    pub(crate) async fn restart(&self, i: usize) {
        self.members[i].member.launch();
        assert!(answers(&self.members[i].member, &self.admin(i)).await, "the port of a member was taken");
    }

    /// Stops a member without ending it.
    pub(crate) fn pause(&self, i: usize) {
        self.members[i].member.process().running(ServerProcess::pause);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self, i: usize) {
        self.members[i].member.process().running(ServerProcess::resume);
    }

    /// The network between clients and a member.
    pub(crate) fn front(&self, i: usize) -> &Proxy {
        &self.members[i].front
    }

    /// Cuts a member off from the others, both ways. Clients still reach it.
    pub(crate) async fn isolate(&self, i: usize) {
        let status = self.admin(i).status().await.expect("the member answers before it is cut off");
        let id = format!("{:x}", status.header().expect("an answer has a header").member_id());
        isolated(|ids| ids.push(id));
        for (other, node) in self.members.iter().enumerate() {
            if other == i {
                node.back.newcomers(Newcomers::Refuse);
            } else {
                node.back.order(Links::Hints, Way::Requests, &Flow::Cut(0));
            }
            node.back.reset(Links::All);
        }
    }

    /// Lets everything pass again, everywhere.
    pub(crate) fn heal(&self) {
        for node in &self.members {
            node.front.heal();
            node.front.reset(Links::All);
            node.back.heal();
        }
    }
}

fn nodes() -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let member = member("http");
        let front = proxy(member.address());
        let back = Proxy::start(([127, 0, 0, 1], member.peer_port()).into(), comes_from_isolated);
        nodes.push(Node { member, front, back });
    }
    let all = names_and_urls(&nodes);
    for node in &mut nodes {
        let url = url(node);
        node.member.with([
            format!("--initial-advertise-peer-urls={url}"),
            format!("--initial-cluster={}", all.join(",")),
        ]);
    }
    nodes
}

/// Where the other members find one.
fn url(node: &Node) -> String {
    format!("http://{}", node.back.address())
}

fn names_and_urls(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| format!("{}={}", node.member.name(), url(node))).collect()
}

/// Whether a connection comes from a member that is cut off: members tell each other who they are in the head of each
/// request.
fn comes_from_isolated(sent: &[u8]) -> bool {
    let sent = String::from_utf8_lossy(sent);
    isolated(|ids| ids.iter().any(|id| sent.contains(&format!("X-Server-From: {id}\r\n"))))
}

/// The members that are cut off from others, of all clusters of this process.
fn isolated<T>(change: impl FnOnce(&mut Vec<String>) -> T) -> T {
    static IDS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    change(&mut IDS.lock())
}
