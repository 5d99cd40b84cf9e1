//! [`Link`]: a connection of a client, and its connection to the server.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::TcpStream,
    sync::Notify,
    time::{Instant, sleep},
};

use super::{
    connection_table::ConnectionTable,
    orders::{Newcomers, Way},
    pump::{Pump, pump},
};

/// How long to wait for a server that does not accept connections.
const AWAITED: Duration = Duration::from_secs(3);

pub(super) struct Link {
    table: Arc<ConnectionTable>,
    id: u64,
    reset: Arc<Notify>,
    newcomers: Newcomers,
}

impl Link {
    pub(super) fn new(table: Arc<ConnectionTable>, newcomers: Newcomers) -> Self {
        let (id, reset) = table.open();
        Self { table, id, reset, newcomers }
    }

    /// Forwards bytes until both sides have ended or the connection is reset.
    pub(super) async fn run(self, mut client: TcpStream, address: SocketAddr) {
        let Ok(mut server) = self.connect(address).await else {
            // As a server that is down would do.
            return abort(&client);
        };
        for stream in [&client, &server] {
            // Only about speed.
            let _ = stream.set_nodelay(true);
        }
        let over = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let link = |way| Pump { table: &self.table, id: self.id, way };
            tokio::select! {
                ((), ()) = async {
                    tokio::join!(
                        pump(link(Way::Requests), from_client, to_server),
                        pump(link(Way::Replies), from_server, to_client),
                    )
                } => true,
                () = self.reset.notified() => false,
            }
        };
        if !over {
            abort(&client);
            abort(&server);
        }
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let end = Instant::now() + AWAITED;
        loop {
            let connected = TcpStream::connect(address).await;
            if connected.is_ok() || self.newcomers != Newcomers::Await || Instant::now() > end {
                return connected;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.table.close(self.id);
    }
}

/// Makes closing the connection a reset.
pub(super) fn abort(stream: &TcpStream) {
    // It may be gone already.
    let _ = stream.set_zero_linger();
}
