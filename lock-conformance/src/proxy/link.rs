//! [`Link`]: one connection of a client, and the one to the server that it is passed on to.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpStream, sync::Notify};

use super::{
    Way,
    book::Book,
    pump::{Pump, pump},
    shadow::Shadow,
};

pub(super) struct Link {
    book: Arc<Book>,
    id: u64,
    reset: Arc<Notify>,
    duplicate: bool,
}

impl Link {
    pub(super) fn new(book: Arc<Book>, duplicate: bool) -> Self {
        let (id, reset) = book.open();
        Self { book, id, reset, duplicate }
    }

    /// Passes on what comes, until both sides have ended or the connection is reset.
    pub(super) async fn run(self, mut client: TcpStream, address: SocketAddr) {
        let Ok(mut server) = TcpStream::connect(address).await else {
            // What a server that is down would do.
            return abort(&client);
        };
        let shadow =
            if self.duplicate { TcpStream::connect(address).await.ok().map(Shadow::new) } else { None };
        for stream in [&client, &server] {
            // Only about speed.
            let _ = stream.set_nodelay(true);
        }
        let over = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let link = |way| Pump { book: &self.book, id: self.id, way, shadow: shadow.as_ref() };
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
}

impl Drop for Link {
    fn drop(&mut self) {
        self.book.close(self.id);
    }
}

/// Makes the end of a connection a reset.
pub(super) fn abort(stream: &TcpStream) {
    // If it is gone already, there is nobody to tell.
    let _ = stream.set_zero_linger();
}
