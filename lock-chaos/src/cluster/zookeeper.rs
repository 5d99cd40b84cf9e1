//! [`ZooKeeper`]: three members, which reach each other through proxies, but for elections.

use std::{fs, net::SocketAddr, time::Duration};

use async_trait::async_trait;
use lock_conformance::{Links, Newcomers, Port, Proxy, ServerProcess};
use lock_core::sync::Mutex;
use lock_test_servers::{ServerClock, ServerDisk, ZooKeeperServer, ask};
use tokio::time::timeout;

use super::{
    insist::insist,
    interface::{Cluster, joined, local, not_here},
};
use crate::{error::Result, fault::ServerFault, store_kind::StoreKind};

/// The shortest session is six of them.
const TICK: Duration = Duration::from_millis(200);

/// How long a member may take to say what it is.
const ANSWER: Duration = Duration::from_secs(1);

/// Little memory for each, and no more compiling than pays off soon.
const ARGUMENTS: [&str; 6] = [
    "-Xms128m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    // What was written outlives a kill of the process, and the operating system is not killed.
    "-Dzookeeper.forceSync=no",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// So many disks are full before it is an error that no member has noticed it. The next write notices it, and members write all the time; but
/// there may be none for a moment.
const FILLS: usize = 3;

#[derive(Debug)]
pub(super) struct ZooKeeper {
    members: Vec<Member>,
    /// For each time that a disk was full, whether its member has noticed it.
    noticed: Mutex<Vec<bool>>,
}

#[derive(Debug)]
struct Member {
    server: ZooKeeperServer,
    clock: ServerClock,
    disk: ServerDisk,
    /// What this member reaches the others through when they lead, by their numbers. None to itself.
    to: Vec<Option<Proxy>>,
    /// Where it listens for followers and for elections.
    _ports: (Port, Port),
}

impl ZooKeeper {
    pub(super) async fn start() -> Result<Self> {
        let ports: Vec<_> =
            (0..StoreKind::Zookeeper.members()).map(|_| (Port::reserve(), Port::reserve())).collect();
        let numbers: Vec<_> = ports.iter().map(|(own, election)| (own.number(), election.number())).collect();
        let mut members = Vec::new();
        for (i, ports) in ports.into_iter().enumerate() {
            members.push(Member::new(i, &numbers, ports)?);
        }
        for member in &members {
            member.server.launch();
        }
        let cluster = Self { members, noticed: Mutex::default() };
        cluster.serves(&cluster.all()).await?;
        Ok(cluster)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    /// Returns when these members serve.
    async fn serves(&self, members: &[usize]) -> Result<()> {
        for i in members {
            let member = &self.members[*i];
            let address = member.server.address();
            let serves = |limit| says(&address, limit, "Mode: ");
            if !member.server.answers(serves).await {
                return Err(format!("somebody else has the port of {address}").into());
            }
        }
        Ok(())
    }

    async fn the_one_that_leads(&self) -> Result<usize> {
        for (i, member) in self.members.iter().enumerate() {
            if says(&member.server.address(), ANSWER, "Mode: leader").await {
                return Ok(i);
            }
        }
        Err("no member says that it leads".into())
    }

    /// The proxies between a member and the others, in both directions.
    fn around(&self, member: usize) -> impl Iterator<Item = &Proxy> {
        let others = self.members.iter().filter_map(move |other| other.to[member].as_ref());
        self.members[member].to.iter().flatten().chain(others)
    }
}

impl Member {
    /// A member, by the ports on which each listens for followers and for elections, and its own.
    fn new(i: usize, numbers: &[(u16, u16)], ports: (Port, Port)) -> Result<Self> {
        let mut server = ZooKeeperServer::new(TICK);
        let folder = server.process().directory();
        let (clock, disk) = (ServerClock::new(folder), ServerDisk::new(folder, &server.data()));
        server.with_clock(&clock);
        server.with_disk(&disk);
        let reach = |j: usize| (j != i).then(|| Proxy::start(local(numbers[j].0), |_| false));
        let to: Vec<_> = (0..numbers.len()).map(reach).collect();
        // A leader is connected to as soon as it is elected; if it does not listen yet, there is another election.
        to.iter().flatten().for_each(|proxy| proxy.newcomers(Newcomers::Await));
        server.with_arguments(ARGUMENTS);
        // Members miss each other after two seconds, and no lease is too long for a session.
        server.with(["initLimit=50", "syncLimit=10", "standaloneEnabled=false"]);
        server.with(["maxSessionTimeout=100000", "maxClientCnxns=0"]);
        server.with(to.iter().zip(numbers).enumerate().map(|(j, (proxy, (own, election)))| {
            let port = proxy.as_ref().map_or(*own, |proxy| proxy.address().port());
            format!("server.{}=127.0.0.1:{port}:{election}", j + 1)
        }));
        fs::write(server.data().join("myid"), format!("{}\n", i + 1))?;
        Ok(Self { server, clock, disk, to, _ports: ports })
    }

    /// Makes room, and starts it again. It may have ended for want of room, and does not start over a log that it could write nothing to
    /// (ZOOKEEPER-2332): an operator has to do the same. Returns whether it had noticed that its disk was full.
    fn start_over(&self) -> Result<bool> {
        self.disk.set_full(false);
        let noticed = self.server.process().log().contains("No space left on device");
        self.server.process().kill();
        for file in fs::read_dir(self.server.data().join("version-2"))? {
            let file = file?;
            if file.metadata()?.len() == 0 {
                fs::remove_file(file.path())?;
            }
        }
        self.server.launch();
        Ok(noticed)
    }
}

#[async_trait]
impl Cluster for ZooKeeper {
    fn addresses(&self) -> Vec<SocketAddr> {
        // It listens on the loopback interface, as all test servers do.
        let addresses = self.members.iter().map(|member| member.server.address());
        addresses.filter_map(|address| address.parse().ok()).collect()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        format!("zk://{}/chaos?tick={}ms", joined(addresses), TICK.as_millis())
    }

    async fn leader(&self) -> Result<usize> {
        insist("to find the leader", || self.the_one_that_leads()).await
    }

    async fn all_serve(&self) -> Result<()> {
        self.serves(&self.all()).await?;
        let noticed = self.noticed.lock();
        if noticed.len() < FILLS || noticed.contains(&true) {
            Ok(())
        } else {
            Err("no member has noticed that its disk was full".into())
        }
    }

    async fn inflict(&self, fault: ServerFault, members: &[usize]) -> Result<()> {
        for member in members {
            let Member { server, clock, disk, .. } = &self.members[*member];
            let process = server.process();
            match fault {
                ServerFault::Kill => process.kill(),
                ServerFault::Pause => process.running(ServerProcess::pause),
                ServerFault::Isolate => self.around(*member).for_each(|proxy| proxy.silence(Links::All)),
                ServerFault::FillDisk => disk.set_full(true),
                ServerFault::SetClock(by) => clock.advance(by),
                ServerFault::Depose | ServerFault::Fill => return Err(not_here(fault)),
            }
        }
        Ok(())
    }

    async fn undo(&self, fault: ServerFault, members: &[usize]) -> Result<()> {
        for member in members {
            let server = &self.members[*member].server;
            match fault {
                ServerFault::Kill => server.launch(),
                ServerFault::Pause => server.process().running(ServerProcess::resume),
                ServerFault::Isolate => self.around(*member).for_each(|proxy| {
                    proxy.heal();
                    proxy.newcomers(Newcomers::Await);
                    proxy.reset(Links::All);
                }),
                ServerFault::FillDisk => {
                    let noticed = self.members[*member].start_over()?;
                    self.noticed.lock().push(noticed);
                }
                ServerFault::SetClock(_) => {}
                ServerFault::Depose | ServerFault::Fill => return Err(not_here(fault)),
            }
        }
        self.serves(members).await
    }
}

/// Whether a server says this about itself in time. One that starts may never answer a question that came too early.
async fn says(address: &str, limit: Duration, what: &str) -> bool {
    matches!(timeout(limit, ask(address, "srvr")).await, Ok(Ok(said)) if said.contains(what))
}
