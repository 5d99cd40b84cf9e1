//! [`Etcd`]: three members, which reach each other through proxies.

use std::{net::SocketAddr, time::Duration};

use async_trait::async_trait;
use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, ConnectOptions};
use lock_conformance::{Links, Proxy, ServerProcess};
use lock_test_servers::{EtcdServer, http_get};

use super::{
    insist::insist,
    interface::{Cluster, joined, local, not_here},
};
use crate::{error::Result, fault::ServerFault, store_kind::StoreKind};

const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Etcd(Vec<Member>);

#[derive(Debug)]
struct Member {
    server: EtcdServer,
    /// What the other members reach it through.
    back: Proxy,
}

impl Etcd {
    pub(super) async fn start() -> Result<Self> {
        let mut members: Vec<Member> = (0..StoreKind::Etcd.members()).map(|_| Member::new()).collect();
        let names = members.iter().map(|member| format!("{}={}", member.server.name(), member.url()));
        let all = names.collect::<Vec<_>>().join(",");
        for member in &mut members {
            let url = member.url();
            let urls = [format!("--initial-advertise-peer-urls={url}"), format!("--initial-cluster={all}")];
            member.server.with(urls);
            member.server.launch();
        }
        let cluster = Self(members);
        cluster.serves(&cluster.all()).await?;
        Ok(cluster)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.0.len()).collect()
    }

    /// Returns when these members serve.
    async fn serves(&self, members: &[usize]) -> Result<()> {
        for i in members {
            let member = &self.0[*i];
            let address = member.server.address();
            if !member.server.answers(|| is_healthy(&address)).await {
                return Err(format!("somebody else has a port of {}", member.server.name()).into());
            }
        }
        Ok(())
    }

    async fn the_one_that_leads(&self) -> Result<usize> {
        for (i, member) in self.0.iter().enumerate() {
            // One that is not there does not lead.
            if member.status().await.is_ok_and(|(id, leader)| id == leader) {
                return Ok(i);
            }
        }
        Err("no member says that it leads".into())
    }

    async fn depose(&self) -> Result<()> {
        let leader = self.the_one_that_leads().await?;
        let (next, _) = self.0[(leader + 1) % self.0.len()].status().await?;
        Box::pin(async {
            self.0[leader].client().await?.move_leader(next).await?;
            Ok(())
        })
        .await
    }
}

impl Member {
    fn new() -> Self {
        let mut server = EtcdServer::new("http");
        server.with([
            // What was written outlives a kill of the process, and the operating system is not killed.
            "--unsafe-no-fsync",
            // The shortest lease is then 1 s, and a new leader is there soon.
            "--heartbeat-interval=50",
            "--election-timeout=500",
            "--log-level=warn",
            "--logger=zap",
        ]);
        let back = Proxy::start(local(server.peer_port()), |_| false);
        Self { server, back }
    }

    /// Where the other members find it.
    fn url(&self) -> String {
        format!("http://{}", self.back.address())
    }

    /// A connection past all proxies.
    async fn client(&self) -> Result<Client> {
        let options = ConnectOptions::new().with_connect_timeout(PATIENCE).with_timeout(PATIENCE);
        // Boxed, as are all futures that hold it: they are large.
        Ok(Box::pin(Client::connect([self.server.address()], Some(options))).await?)
    }

    /// Its id, and that of the one that leads, as far as it knows.
    async fn status(&self) -> Result<(u64, u64)> {
        Box::pin(async {
            let status = self.client().await?.status().await?;
            let id = status.header().ok_or("an answer without a header")?.member_id();
            Ok((id, status.leader()))
        })
        .await
    }

    /// Raises the alarm of a server without space, or takes it back.
    async fn alarm(&self, action: AlarmAction) -> Result<()> {
        let (id, _) = self.status().await?;
        let mut options = AlarmOptions::new();
        options.with_member(id);
        Box::pin(async {
            self.client().await?.alarm(action, AlarmType::Nospace, Some(options)).await?;
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl Cluster for Etcd {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|member| local(member.server.client_port())).collect()
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        format!("etcd://{}", joined(addresses))
    }

    async fn leader(&self) -> Result<usize> {
        insist("to find the leader", || self.the_one_that_leads()).await
    }

    async fn all_serve(&self) -> Result<()> {
        self.serves(&self.all()).await
    }

    async fn inflict(&self, fault: ServerFault, members: &[usize]) -> Result<()> {
        if fault == ServerFault::Depose {
            return insist("to move the leader", || self.depose()).await;
        }
        for i in members {
            let member = &self.0[*i];
            match fault {
                ServerFault::Kill => member.server.process().kill(),
                ServerFault::Pause => member.server.process().running(ServerProcess::pause),
                ServerFault::Isolate => member.back.silence(Links::All),
                ServerFault::Fill => {
                    insist("to fill the cluster", || member.alarm(AlarmAction::Activate)).await?;
                }
                ServerFault::Depose | ServerFault::FillDisk | ServerFault::SetClock(_) => {
                    return Err(not_here(fault));
                }
            }
        }
        Ok(())
    }

    async fn undo(&self, fault: ServerFault, members: &[usize]) -> Result<()> {
        for i in members {
            let member = &self.0[*i];
            match fault {
                ServerFault::Kill => member.server.launch(),
                ServerFault::Pause => member.server.process().running(ServerProcess::resume),
                ServerFault::Isolate => {
                    member.back.heal();
                    member.back.reset(Links::All);
                }
                ServerFault::Fill => {
                    insist("to make room", || member.alarm(AlarmAction::Deactivate)).await?;
                }
                ServerFault::Depose | ServerFault::FillDisk | ServerFault::SetClock(_) => {}
            }
        }
        self.serves(members).await
    }
}

/// Whether it has a leader and carries out requests, as it says itself.
async fn is_healthy(address: &str) -> bool {
    http_get(address, "/health").await.is_ok_and(|said| said.contains(r#""health":"true""#))
}
