//! Real servers for tests.

mod control;
pub(crate) mod own;

use std::sync::{Arc, Weak};

use lock_conformance::{Case, unique};
use lock_core::{Backend, Keeper};
use postgres_backend::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::Config;

use self::own::OwnServer;

/// The labels of the cases that end, stop or lock a server, and so get a server of their own.
const DISTURBING: &[&str] = &["L06", "T09", "T10", "T21", "T24", "PR35"];

/// The server that all other running cases share. The last case stops it.
static SHARED: Mutex<Weak<OwnServer>> = Mutex::const_new(Weak::new());

/// A schema for one case, on a shared server or one of its own.
#[derive(Debug)]
pub(crate) struct TestSchema {
    server: Arc<OwnServer>,
    schema: String,
}

impl TestSchema {
    /// Starts a server if there is none yet for this case.
    ///
    /// # Panics
    /// If there is no server to start: a case must not pass without one.
    pub(crate) async fn for_one_case(case: &Case) -> Self {
        let schema = format!("case_{}", unique());
        if case.shows(DISTURBING) {
            return Self { server: Arc::new(OwnServer::start().await), schema };
        }
        let mut shared = SHARED.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(OwnServer::start().await),
        };
        *shared = Arc::downgrade(&server);
        Self { server, schema }
    }

    /// The URL for clients. Their application name is that of the schema.
    pub(crate) fn url(&self) -> String {
        let (port, schema) = (self.server.port(), &self.schema);
        format!("postgres://clients@127.0.0.1:{port}/postgres?application_name={schema}")
    }
}

/// A client of the schema that its configuration names.
pub(crate) fn client(config: Config, keeper: &Keeper) -> Postgres {
    let schema = schema(&config).to_owned();
    Postgres::new(config, &schema, keeper).expect("a thread can be started")
}

pub(crate) fn schema(config: &Config) -> &str {
    config.get_application_name().expect("it is in the URL")
}

/// Creates the schema by connecting.
async fn create_schema(schema: &TestSchema) {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let config = schema.url().parse().expect("the URL of a test server is good");
    client(config, &keeper).operator().diagnose().await.expect("the server answers");
}
