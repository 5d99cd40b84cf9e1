//! [`Admin`]: what an operator does to a server, over connections of its own.

use std::{future::ready, time::Duration};

use etcd_client::{
    AlarmAction, AlarmType, Client, ConnectOptions, DeleteOptions, Error, GetOptions, Permission, PutOptions,
    StatusResponse, TlsOptions,
};
use futures_util::{StreamExt, stream};
use lock_conformance::Footprint;
use lock_core::LockName;

const PATIENCE: Duration = Duration::from_secs(5);

/// The superuser, by the name that the server gives it.
const ROOT: &str = "root";
/// Who the clients are, where it matters.
const USER: &str = "clients";
const PASSWORD: &str = "open";

/// An operator with `etcdctl`.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    endpoint: String,
    prefix: String,
    options: ConnectOptions,
}

impl Admin {
    /// An operator of the server at this endpoint, for the locks under a prefix.
    pub(crate) fn new(endpoint: &str, prefix: &str) -> Self {
        let options = ConnectOptions::new().with_connect_timeout(PATIENCE).with_timeout(PATIENCE);
        Self { endpoint: endpoint.to_owned(), prefix: prefix.to_owned(), options }
    }

    /// The same, who connects over TLS.
    pub(super) fn over_tls(mut self, tls: TlsOptions) -> Self {
        self.options = self.options.with_tls(tls);
        self
    }

    /// A connection.
    ///
    /// # Errors
    /// If the server does not let us in. That it is down shows only later.
    pub(crate) async fn try_client(&self) -> Result<Client, Error> {
        // Boxed, as are all futures below that hold it: they are large.
        Box::pin(async {
            let mut client = Client::connect([&self.endpoint], Some(self.options.clone())).await?;
            // Until it asks for passwords, none is taken, so they are sent only when they have to be.
            match client.get("ping", None).await {
                Err(Error::GRpcStatus(status)) if status.message().contains("user name is empty") => {
                    let options = self.options.clone().with_user(ROOT, PASSWORD);
                    Client::connect([&self.endpoint], Some(options)).await
                }
                _ => Ok(client),
            }
        })
        .await
    }

    /// A connection.
    ///
    /// # Panics
    /// If the server does not let us in.
    pub(crate) async fn client(&self) -> Client {
        self.try_client().await.unwrap_or_else(|error| panic!("the server does not let us in: {error}"))
    }

    /// The name that the server at the endpoint was started with, if it answers and can answer.
    pub(super) async fn name_of_server(&self) -> Option<String> {
        let mut client = self.try_client().await.ok()?;
        let status = client.status().await.ok()?;
        let id = status.header()?.member_id();
        let members = client.member_list().await.ok()?;
        let member = members.members().iter().find(|member| member.id() == id)?;
        Some(member.name().to_owned())
    }

    /// What the server says about itself.
    pub(crate) async fn status(&self) -> Result<StatusResponse, Error> {
        self.try_client().await?.status().await
    }

    /// The revision that the store has reached.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn revision(&self) -> i64 {
        let answer = self.client().await.get("revision", None).await.expect("the server answers");
        answer.header().expect("an answer has a header").revision()
    }

    /// Forgets what happened up to now.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn compact(&self) {
        // Something has to have happened since the last time.
        self.client().await.put("compact", "", None).await.expect("the server writes");
        let revision = self.revision().await;
        self.client().await.compact(revision, None).await.expect("the server forgets");
    }

    /// The keys of a lock, in the order in which they were made.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn keys(&self, name: &LockName) -> Vec<etcd_client::KeyValue> {
        let answer = self.client().await.get(self.folder(name), Some(GetOptions::new().with_prefix())).await;
        let mut keys = answer.expect("the server answers").take_kvs();
        keys.sort_by_key(etcd_client::KeyValue::create_revision);
        keys
    }

    /// How many keys a lock has.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn count(&self, name: &LockName) -> u64 {
        let counted = GetOptions::new().with_prefix().with_count_only();
        let answer = self.client().await.get(self.folder(name), Some(counted)).await;
        answer.expect("the server answers").count().unsigned_abs()
    }

    /// Deletes the keys of a lock.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn delete(&self, name: &LockName) {
        let prefix = Some(DeleteOptions::new().with_prefix());
        self.client().await.delete(self.folder(name), prefix).await.expect("the server deletes");
    }

    /// Deletes every key.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn flush(&self) {
        let all = Some(DeleteOptions::new().with_all_keys());
        self.client().await.delete("", all).await.expect("the server deletes");
    }

    /// Lets so many hold or wait for a lock, with a permit each: `claim` is as keys have it.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn put_entries(&self, name: &LockName, claim: &str, count: usize) {
        const AT_ONCE: usize = 200;
        let mut client = self.client().await;
        let lease = client.lease_grant(3600, None).await.expect("the server grants leases").id();
        let folder = format!("{}{claim}/1/{lease:x}/", self.folder(name));
        // Each in a revision of its own: that is its place.
        let put = |slot: usize| {
            let (mut kv, options) = (client.kv_client(), Some(PutOptions::new().with_lease(lease)));
            let (key, value) = (format!("{folder}{slot}"), format!("{slot:032x}"));
            async move { kv.put(key, value, options).await.expect("the server writes") }
        };
        stream::iter(0..count).map(put).buffer_unordered(AT_ONCE).for_each(|_| ready(())).await;
    }

    /// Puts a key among those of a lock that no lock has.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn put_foreign(&self, name: &LockName) {
        self.client().await.put(self.foreign(name), "not a lock", None).await.expect("the server writes");
    }

    /// Whether that key is still there, as it was put.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn has_foreign(&self, name: &LockName) -> bool {
        let answer = self.client().await.get(self.foreign(name), None).await.expect("the server answers");
        answer.kvs().iter().any(|kv| kv.value() == b"not a lock" && kv.version() == 1)
    }

    /// Revokes every lease that there is, with all keys that hang on them.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn revoke_all(&self) {
        let mut client = self.client().await;
        let leases = client.leases().await.expect("the server lists its leases");
        assert!(!leases.leases().is_empty(), "there is no lease to revoke");
        for lease in leases.leases() {
            // One that ends at this moment is over as well.
            let _ = client.lease_revoke(lease.id()).await;
        }
    }

    /// How many leases there are.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn leases(&self) -> usize {
        self.client().await.leases().await.expect("the server lists its leases").leases().len()
    }

    /// What clients have at the server, but for their connections. The sessions are all that it has, of all clients.
    ///
    /// # Panics
    /// If the server does not say.
    pub(crate) async fn footprint(&self) -> Footprint {
        let mut client = self.client().await;
        let counted = GetOptions::new().with_prefix().with_count_only();
        let entries = client.get(format!("{}/q1/", self.prefix), Some(counted)).await;
        let queues = entries.expect("the server answers").count().unsigned_abs();
        let leases = client.leases().await.expect("the server lists its leases");
        Footprint { queues, sessions: leases.leases().len() as u64, ..Footprint::default() }
    }

    /// Raises the alarm of a server without space, or takes it back.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn no_space(&self, alarm: bool) {
        let action = if alarm { AlarmAction::Activate } else { AlarmAction::Deactivate };
        let mut client = self.client().await;
        let status = client.status().await.expect("the server answers");
        let mut options = etcd_client::AlarmOptions::new();
        options.with_member(status.header().expect("an answer has a header").member_id());
        client.alarm(action, AlarmType::Nospace, Some(options)).await.expect("the server takes alarms");
    }

    /// Adds a user for the clients, with all rights under the prefix and no others, and returns the part for it
    /// in their URL. From then on, a client without a user may do nothing.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn add_user(&self) -> &'static str {
        let mut client = self.client().await;
        let everything = Permission::read_write(format!("{}/", self.prefix)).with_prefix();
        client.role_add(USER).await.expect("the server takes roles");
        client.role_grant_permission(USER, everything).await.expect("the server takes permissions");
        for (user, role) in [(ROOT, ROOT), (USER, USER)] {
            client.user_add(user, PASSWORD, None).await.expect("the server takes users");
            client.user_grant_role(user, role).await.expect("the server gives roles");
        }
        client.auth_enable().await.expect("the server asks for passwords");
        "clients:open@"
    }

    /// Does what commands of `etcdctl` do that set up roles and users, each with the password of the clients. From then on, a client
    /// without a user may do nothing.
    ///
    /// # Panics
    /// If there is another command among them, or the server does not do it.
    pub(crate) async fn set_up(&self, commands: &str) {
        let mut client = self.client().await;
        for command in commands.lines() {
            match command.split_whitespace().collect::<Vec<_>>()[..] {
                ["etcdctl", "role", "add", role] => drop(client.role_add(role).await.expect("a role")),
                ["etcdctl", "role", "grant-permission", role, "--prefix=true", "readwrite", prefix] => {
                    let permission = Permission::read_write(prefix).with_prefix();
                    client.role_grant_permission(role, permission).await.expect("a permission");
                }
                ["etcdctl", "user", "add", user] => {
                    client.user_add(user, PASSWORD, None).await.expect("a user");
                }
                ["etcdctl", "user", "grant-role", user, role] => {
                    client.user_grant_role(user, role).await.expect("a role for a user");
                }
                _ => panic!("a test does not know `{command}`"),
            }
        }
        client.user_add(ROOT, PASSWORD, None).await.expect("the server takes users");
        client.user_grant_role(ROOT, ROOT).await.expect("the server gives roles");
        client.auth_enable().await.expect("the server asks for passwords");
    }

    /// Takes its rights from the user of the clients, or gives them back.
    ///
    /// # Panics
    /// If the server does not.
    pub(crate) async fn allow_user(&self, allowed: bool) {
        let mut client = self.client().await;
        if allowed {
            client.user_grant_role(USER, USER).await.expect("the server gives roles");
        } else {
            client.user_revoke_role(USER, USER).await.expect("the server takes roles");
        }
    }

    /// What all keys of a lock begin with: see `docs/adr` for the stored format. Only for names without control
    /// characters.
    fn folder(&self, name: &LockName) -> String {
        format!("{}/q1/{}/", self.prefix, name.as_str().replace('%', "%25").replace('/', "%2F"))
    }

    fn foreign(&self, name: &LockName) -> String {
        format!("{}somebody-elses", self.folder(name))
    }
}
