//! [`Admin`]: what an operator does to a server, over separate connections.

use std::{fmt::Write, net::SocketAddr, sync::OnceLock, time::Duration};

use lock_conformance::Footprint;
use lock_core::LockName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::{Builder, Runtime},
};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

use super::footprint::{self, Seen};

const PATIENCE: Duration = Duration::from_secs(10);

/// The superuser, by the settings of our servers.
const SUPER: &[u8] = b"super:open";

/// The user of the clients, and how the server stores it.
const USER: &str = "clients:open";
const USER_DIGEST: &str = "clients:0jW3BO8DkiRMrJBmIHOh4CU4S/A=";

/// An operator with `zkCli.sh`.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    address: String,
    chroot: String,
}

impl Admin {
    /// An operator of the server at `host:port`, for the locks below `/<chroot>`.
    pub(crate) fn new(address: &str, chroot: &str) -> Self {
        Self { address: address.to_owned(), chroot: format!("/{chroot}") }
    }

    /// The node below which the locks are.
    pub(crate) fn chroot(&self) -> &str {
        &self.chroot
    }

    /// The same for another chroot on this server.
    pub(crate) fn at(&self, chroot: &str) -> Self {
        Self::new(&self.address, chroot)
    }

    /// A session, which ends when this is dropped.
    ///
    /// # Panics
    /// If the server does not answer.
    pub(crate) async fn client(&self) -> Client {
        self.try_client().await.unwrap_or_else(|why| panic!("the server does not let us in: {why}"))
    }

    async fn try_client(&self) -> Result<Client, String> {
        let connector = Client::connector().with_auth("digest", SUPER).with_session_timeout(PATIENCE);
        let address = self.address.clone();
        // A task closes the session, and the tasks of a test end with the test.
        let connected =
            office().spawn(async move { tokio::time::timeout(PATIENCE, connector.connect(&address)).await });
        let connected = connected.await.expect("nothing panics in the client");
        let connected = connected.map_err(|_| "it does not answer".to_owned())?;
        connected.map_err(|error| error.to_string())
    }

    /// The answer of a server that runs, however busy it is.
    async fn tells(&self, word: &str) -> String {
        self.answer_and_own_address(word).await.1
    }

    /// The same, behind the address from which this client asked.
    async fn answer_and_own_address(&self, word: &str) -> (SocketAddr, String) {
        let told = self.ask_within(PATIENCE, word).await;
        told.unwrap_or_else(|| panic!("the server at {} does not answer `{word}`", self.address))
    }

    /// The answer to a word of four letters, if it comes in time: the server may not run, or not serve yet.
    pub(super) async fn says_within(&self, limit: Duration, word: &str) -> Option<String> {
        self.ask_within(limit, word).await.map(|(_, answer)| answer)
    }

    async fn ask_within(&self, limit: Duration, word: &str) -> Option<(SocketAddr, String)> {
        let asked = async {
            let mut stream = TcpStream::connect(&self.address).await.ok()?;
            stream.write_all(word.as_bytes()).await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            Some((stream.local_addr().ok()?, answer))
        };
        tokio::time::timeout(limit, asked).await.ok().flatten()
    }

    /// Where the server keeps its data.
    ///
    /// # Panics
    /// If it does not say.
    pub(crate) async fn data(&self) -> String {
        let conf = self.tells("conf").await;
        let data = conf.lines().find_map(|line| line.strip_prefix("dataDir="));
        data.unwrap_or_else(|| panic!("the server does not say where its data is:\n{conf}")).to_owned()
    }

    /// `standalone`, `leader` or `follower`, if the server serves.
    pub(crate) async fn mode(&self) -> Option<String> {
        self.mode_within(Duration::from_secs(1)).await
    }

    /// The same within this time.
    pub(super) async fn mode_within(&self, limit: Duration) -> Option<String> {
        let answer = self.says_within(limit, "srvr").await?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// A number that the server counts, by its name in the answer to `mntr`.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn counts(&self, what: &str) -> u64 {
        let answer = self.tells("mntr").await;
        let number = answer.lines().find_map(|line| line.strip_prefix(what)?.trim().parse().ok());
        number.unwrap_or_else(|| panic!("the server does not count {what}:\n{answer}"))
    }

    /// The children of the node of a lock, by the number that the server gave them.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn nodes(&self, name: &LockName) -> Vec<String> {
        let mut nodes = children(&self.client().await, &self.folder(name)).await;
        nodes.sort_by_key(|node| node.rsplit_once('-').map(|(_, number)| number.to_owned()));
        nodes
    }

    /// The node at one place in the queue of a lock.
    pub(crate) async fn node(&self, name: &LockName, place: usize) -> String {
        let nodes = self.nodes(name).await;
        format!("{}/{}", self.folder(name), nodes[place])
    }

    /// Writes something into a node.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn write(&self, node: &str) {
        self.client().await.set_data(node, b"something", None).await.expect("the server writes nodes");
    }

    /// Whether the server carries out a write. It leaves no node behind, and the numbers of sequential nodes as they are.
    pub(crate) async fn writes(&self) -> bool {
        let Ok(client) = self.try_client().await else { return false };
        client.set_data("/", b"", None).await.is_ok()
    }

    /// The number of nodes of sessions of clients.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn nodes_of_sessions(&self) -> usize {
        children(&self.client().await, &format!("{}/s1", self.chroot)).await.len()
    }

    /// Deletes the nodes of a lock.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn delete(&self, name: &LockName) {
        delete_all(&self.client().await, &self.folder(name)).await;
    }

    /// Deletes nodes in one transaction, in this order.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn delete_together(&self, nodes: &[String]) {
        let client = self.client().await;
        let mut write = client.new_multi_writer();
        for node in nodes {
            write.add_delete(node, None).expect("it is a path");
        }
        write.commit().await.expect("the server deletes nodes");
    }

    /// Deletes everything that the clients of this case have stored.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn flush(&self) {
        delete_all(&self.client().await, &self.chroot).await;
    }

    /// Deletes the nodes of all locks without entries, as the server does with containers now and then. Returns how many there were.
    ///
    /// # Panics
    /// If the server does not say which locks there are.
    pub(crate) async fn reap(&self) -> usize {
        let client = self.client().await;
        let queues = format!("{}/q1", self.chroot);
        let mut reaped = 0;
        for child in children(&client, &queues).await {
            // A container with entries stays.
            reaped += usize::from(client.delete(&format!("{queues}/{child}"), None).await.is_ok());
        }
        reaped
    }

    /// Creates a node that is no entry below the node of a lock.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn put_foreign(&self, name: &LockName) {
        let client = self.client().await;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        client.mkdir(&self.folder(name), &container).await.expect("the server makes nodes");
        let node = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create(&self.foreign(name), b"not a lock", &node).await.expect("the server makes nodes");
    }

    /// Whether that node is still there, unchanged.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn has_foreign(&self, name: &LockName) -> bool {
        match self.client().await.get_data(&self.foreign(name)).await {
            Ok((data, stat)) => data == b"not a lock" && stat.version == 0,
            Err(Error::NoNode) => false,
            Err(error) => panic!("the server does not say: {error}"),
        }
    }

    /// Closes a session, as its client would. The passwords of all sessions follow from the secret of the server, which is public.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn close_session(&self, session: i64) {
        super::close_session::close_session(&self.address, session)
            .await
            .expect("the server closes sessions");
    }

    /// The session that a node ends with.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) async fn session_of(&self, node: &str) -> i64 {
        let stat = self.client().await.check_stat(node).await.expect("the server answers");
        stat.expect("the node is there").ephemeral_owner
    }

    /// What the clients of this case use at a server with other clients.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn footprint(&self) -> Footprint {
        self.see().await.below(&self.chroot)
    }

    /// What all clients use at a server without other clients.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn whole_footprint(&self) -> Footprint {
        let seen = self.see().await;
        Footprint {
            queues: footprint::queues(&seen.dump, &self.chroot),
            sessions: self.counts("zk_global_sessions").await,
            connections: seen.connections.len() as u64,
            subscriptions: self.counts("zk_watch_count").await,
            memory: Some(self.counts("zk_approximate_data_size").await),
            ..Footprint::default()
        }
    }

    /// How many queues have a holder or a waiter.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn queues(&self) -> u64 {
        footprint::queues(&self.tells("dump").await, &self.chroot)
    }

    async fn see(&self) -> Seen {
        let (dump, watches) = (self.tells("dump").await, self.tells("wchc").await);
        let (this, connections) = self.answer_and_own_address("cons").await;
        let others =
            connections.lines().filter(|line| line.starts_with(" /") && !line.contains(&format!("/{this}[")));
        Seen { dump, watches, connections: others.map(str::to_owned).collect() }
    }

    /// Sets the quota to the nodes that exist: the clients keep these, and cannot create more.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn limit_to_what_there_is(&self) {
        let client = self.client().await;
        let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let quota = self.quota();
        client.mkdir(&quota, &mode).await.expect("the server makes nodes");
        let nodes = count(&client, &self.chroot).await;
        let limits = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1".to_owned();
        for (node, data) in [("limits", limits), ("stats", format!("count={nodes},bytes=0"))] {
            let node = format!("{quota}/zookeeper_{node}");
            client.create(&node, data.as_bytes(), &mode).await.expect("the server takes quotas");
        }
    }

    /// Removes the quota.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn lift_limit(&self) {
        delete_all(&self.client().await, &self.quota()).await;
    }

    fn quota(&self) -> String {
        format!("/zookeeper/quota{}", self.chroot)
    }

    /// The user of the clients, as it stands in their URL. Only this user may use their nodes.
    pub(crate) fn user() -> String {
        format!("{USER}@")
    }

    /// Takes its rights to all nodes from the user of the clients, or gives them back.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn allow_user(&self, allowed: bool) {
        let user = if allowed { AuthId::new("digest", USER_DIGEST) } else { AuthId::new("ip", "192.0.2.1") };
        let acls = [Acl::new(Permission::ALL, user)];
        let client = self.client().await;
        let mut paths = vec![self.chroot.clone()];
        while let Some(path) = paths.pop() {
            match client.set_acl(&path, &acls, None).await {
                // It has ended in the meantime.
                Err(Error::NoNode) => {}
                answer => drop(answer.expect("the server changes rights")),
            }
            paths.extend(children(&client, &path).await.iter().map(|child| format!("{path}/{child}")));
        }
    }

    /// The node of a lock: see `docs/adr` for the stored format. Not for names that are so long that they are hashed.
    pub(crate) fn folder(&self, name: &LockName) -> String {
        let mut folder = format!("{}/q1/", self.chroot);
        for byte in name.as_str().bytes() {
            if byte.is_ascii_alphanumeric() || b"-_:,=@+ ".contains(&byte) {
                folder.push(byte.into());
            } else {
                write!(folder, "%{byte:02X}").expect("a text can be written to");
            }
        }
        folder
    }

    fn foreign(&self, name: &LockName) -> String {
        format!("{}/somebody-elses", self.folder(name))
    }
}

/// The runtime of operators. It ends with the process.
fn office() -> &'static Runtime {
    static OFFICE: OnceLock<Runtime> = OnceLock::new();
    OFFICE.get_or_init(|| {
        let office = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        office.expect("a runtime can be started")
    })
}

/// The children of a node; none if there is no such node.
async fn children(client: &Client, path: &str) -> Vec<String> {
    match client.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("the server does not say what is in {path}: {error}"),
    }
}

/// Deletes a node and everything below it, even while others create and delete nodes there.
async fn delete_all(client: &Client, path: &str) {
    loop {
        for child in children(client, path).await {
            Box::pin(delete_all(client, &format!("{path}/{child}"))).await;
        }
        match client.delete(path, None).await {
            Ok(()) | Err(Error::NoNode) => return,
            // Another node was created there.
            Err(Error::NotEmpty) => {}
            Err(error) => panic!("the server does not delete {path}: {error}"),
        }
    }
}

/// A node and everything below it.
async fn count(client: &Client, path: &str) -> usize {
    client.count_descendants_number(path).await.expect("the server counts nodes") + 1
}
