//! [`pump`]: one direction of one connection.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{ReadHalf, WriteHalf},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::Instant,
};

use super::{
    connection_table::{ConnectionTable, Fate},
    orders::{Flow, Way},
};

#[derive(Clone, Copy)]
pub(super) struct Pump<'a> {
    pub(super) table: &'a ConnectionTable,
    pub(super) id: u64,
    pub(super) way: Way,
}

/// Bytes on their way. No bytes mean the end of the stream.
struct Parcel {
    bytes: Vec<u8>,
    read: Instant,
    flow: Flow,
    /// Whether the connection is reset after them.
    cut: bool,
}

/// Forwards bytes, as ordered, until the end of the stream.
pub(super) async fn pump(pump: Pump<'_>, from: ReadHalf<'_>, to: WriteHalf<'_>) {
    let (sender, parcels) = unbounded_channel();
    tokio::join!(pump.read(from, sender), pump.deliver(parcels, to));
}

impl Pump<'_> {
    async fn read(self, mut from: ReadHalf<'_>, parcels: UnboundedSender<Parcel>) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            // A connection that is broken has ended.
            let len = from.read(&mut buffer).await.unwrap_or(0);
            let (mut bytes, read) = (buffer[..len].to_vec(), Instant::now());
            let parcel = match self.table.judge(self.id, self.way, &bytes) {
                Fate::Lost => None,
                Fate::Flows(flow) => Some(Parcel { bytes, read, flow, cut: false }),
                Fate::Cut(left) => {
                    bytes.truncate(left);
                    Some(Parcel { bytes, read, flow: Flow::Pass, cut: true })
                }
            };
            // The other half of this pump takes them for as long as this one runs.
            let _ = parcel.map(|parcel| parcels.send(parcel));
            if len == 0 {
                return;
            }
        }
    }

    async fn deliver(self, mut parcels: UnboundedReceiver<Parcel>, mut to: WriteHalf<'_>) {
        while let Some(Parcel { bytes, read, flow, cut }) = parcels.recv().await {
            match flow {
                Flow::Delay(delay) => tokio::time::sleep_until(read + delay).await,
                Flow::Hold(gate) => gate.pass().await,
                Flow::Pass | Flow::Lose | Flow::Cut(_) => {}
            }
            // A receiver that is gone gets nothing; the other direction goes on.
            let _ = to.write_all(&bytes).await;
            if cut && let Some(connection) = self.table.lock().links.get(&self.id) {
                connection.reset.notify_one();
            } else if bytes.is_empty() {
                let _ = to.shutdown().await;
            }
        }
    }
}
