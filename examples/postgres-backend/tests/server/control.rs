//! How cases control the server.

use async_trait::async_trait;
use lock_conformance::{Control, Data, Footprint, ServerControl, ServerProcess, Unsupported};
use lock_core::{FencingToken, LockName};

use super::{TestSchema, create_schema};

const NEITHER: &str = "nothing limits it but the disk, and there is no place for anything but locks";

#[async_trait]
impl ServerControl for TestSchema {
    fn refusal(&self) -> Unsupported {
        Unsupported(NEITHER)
    }

    async fn kill(&self) -> Control {
        self.server.end("QUIT");
        Ok(())
    }

    async fn stop(&self) -> Control {
        self.server.end("INT");
        Ok(())
    }

    async fn start(&self, data: Data) -> Control {
        if data == Data::Lost {
            self.server.lose_data();
        }
        self.server.start_again().await;
        if data == Data::Lost {
            self.server.make_role().await;
        }
        Ok(())
    }

    async fn pause(&self) -> Control {
        self.server.running(ServerProcess::pause);
        Ok(())
    }

    async fn resume(&self) -> Control {
        self.server.running(ServerProcess::resume);
        Ok(())
    }

    async fn delete(&self, name: &LockName) -> Control {
        // The names in these cases contain no quotes.
        let (schema, name) = (&self.schema, name.as_str());
        let delete = format!("DELETE FROM {schema}.entries WHERE name = convert_to('{name}', 'UTF8')");
        self.server.admin(&delete).await;
        Ok(())
    }

    async fn flush(&self) -> Control {
        self.server.admin(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema)).await;
        Ok(())
    }

    /// Drops the plans of all statements.
    async fn forget(&self) -> Control {
        self.server.admin(&format!("ANALYZE {}.entries", self.schema)).await;
        Ok(())
    }

    /// Deletes the rows, like an operator who believes that the table is not needed.
    async fn evict(&self) -> Control {
        self.server.admin(&format!("TRUNCATE {}.entries", self.schema)).await;
        Ok(())
    }

    async fn lock_out(&self) -> Control {
        self.server.admin("ALTER ROLE clients NOLOGIN").await;
        self.cut_notifications().await
    }

    async fn let_in(&self) -> Control {
        self.server.admin("ALTER ROLE clients LOGIN").await;
        Ok(())
    }

    async fn raise_tokens(&self, _name: &LockName, last: FencingToken) -> Control {
        create_schema(self).await;
        // PostgreSQL has only signed numbers.
        let last = last.get().min(i64::MAX.unsigned_abs());
        self.server.admin(&format!("SELECT setval('{}.tokens', {last})", self.schema)).await;
        Ok(())
    }

    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        let count = async |from: &str| {
            let rows = self.server.admin(&format!("SELECT count(*) FROM {from}")).await;
            rows[0].parse::<u64>().expect("a count is a number")
        };
        let schema = &self.schema;
        let connections = count(&format!("pg_stat_activity WHERE application_name = '{schema}'")).await;
        let mut footprint = Footprint {
            connections,
            // Each client listens on its connection.
            subscriptions: connections,
            ..Footprint::default()
        };
        if self.server.admin(&format!("SELECT to_regclass('{schema}.tombstones')")).await != [""; 0] {
            footprint.queues = count(&format!("(SELECT DISTINCT name FROM {schema}.entries) AS names")).await;
            footprint.kept = count(&format!("{schema}.tombstones")).await;
        }
        Ok(footprint)
    }

    async fn cut_notifications(&self) -> Control {
        // Waits until each connection has ended, so that it answers no more.
        let cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = ";
        self.server.admin(&format!("{cut}'{}'", self.schema)).await;
        Ok(())
    }
}
