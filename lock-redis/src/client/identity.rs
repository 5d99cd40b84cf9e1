//! [`Identity`]: what a server calls a connection.

use futures_util::future::try_join;
use redis::{Cmd, Pipeline, RedisResult, Value, aio::MultiplexedConnection};

use crate::server_info::ServerInfo;

/// No client has this number: a server counts from 1.
const NOBODY: u64 = i64::MAX.cast_unsigned();

/// A connection as the server knows it, so that it can be ended from another one. The numbers begin again when the server starts, so the
/// number counts only together with the run of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Of the server process: another one after each start.
    run: String,
    client: u64,
}

impl Identity {
    /// Asks the server. `None` if it does not tell, if it would not end a connection for this user, or if it takes no transactions: then a
    /// create without a script could not be kept from arriving late.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn ask(mut connection: MultiplexedConnection) -> RedisResult<Option<Self>> {
        let mut others = Pipeline::with_capacity(4);
        others.cmd("INFO").arg("server").cmd("MULTI").cmd("EXEC").add_command(kill(NOBODY));
        let (mut first, mut id) = (connection.clone(), Cmd::new());
        id.arg("CLIENT").arg("ID");
        // The driver does not tell why the answer to a pipeline did not come.
        let (client, answers) = try_join(
            first.send_packed_command(&id),
            connection.send_packed_commands(&others, 0, others.len()),
        )
        .await?;
        let (Value::Int(client), [info, Value::Okay, Value::Array(_), Value::Int(0)]) =
            (client, answers.as_slice())
        else {
            return Ok(None);
        };
        let info = ServerInfo::from_info(info);
        let run = info.get("run_id").filter(|run| !run.is_empty());
        Ok(run.zip(u64::try_from(client).ok()).map(|(run, client)| Self { run: run.to_owned(), client }))
    }

    /// Whether both are connections to the same run of a server.
    pub(super) fn has_the_server_of(&self, other: &Self) -> bool {
        self.run == other.run
    }

    /// Ends this connection, sent on another one to the same run. Whatever the server answers, 0 or 1, it executes nothing that comes on
    /// this connection any more.
    pub(super) fn kill(&self) -> Cmd {
        kill(self.client)
    }
}

fn kill(client: u64) -> Cmd {
    let mut command = Cmd::new();
    command.arg("CLIENT").arg("KILL").arg("ID").arg(client);
    command
}
