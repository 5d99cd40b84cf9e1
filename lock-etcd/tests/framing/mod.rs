//! [`Grpc`]: requests, answers and streams on a connection to etcd. The relay is an HTTP/2 server for the client, and a client of etcd.

mod calls;
mod messages;

use std::{io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use h2::client::SendRequest;
use lock_conformance::{Framing, Traffic};
use tokio::{net::TcpStream, task::JoinSet};

use self::calls::Call;

/// The framing of etcd's protocol: see [`Call`].
#[derive(Debug)]
pub(crate) struct Grpc;

#[async_trait]
impl Framing for Grpc {
    async fn serve(&self, client: TcpStream, server: SocketAddr, traffic: Arc<Traffic>) -> io::Result<()> {
        let mut driven = JoinSet::new();
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let first = open(stream, &mut driven).await?;
        let second = if traffic.doubles() {
            Some(open(traffic.second_connection(server).await?, &mut driven).await?)
        } else {
            None
        };
        let mut incoming = h2::server::handshake(client).await.map_err(io::Error::other)?;
        let mut calls = JoinSet::new();
        loop {
            tokio::select! {
                accepted = incoming.accept() => {
                    let Some(accepted) = accepted else { return Ok(()) };
                    let (request, respond) = accepted.map_err(io::Error::other)?;
                    let call = Call {
                        first: first.clone(),
                        second: second.clone(),
                        traffic: Arc::clone(&traffic),
                    };
                    // When a failed call is dropped, it is reset on both sides, so its caller learns of the failure.
                    calls.spawn(async move { drop(call.relay(request, respond).await) });
                }
                // When one of these ends, there is nothing left to forward.
                _ = driven.join_next() => return Ok(()),
                Some(_) = calls.join_next() => {}
            }
        }
    }
}

/// A connection of the relay, which is driven as long as the set exists.
async fn open(server: TcpStream, driven: &mut JoinSet<()>) -> io::Result<SendRequest<Bytes>> {
    let (requests, connection) = h2::client::handshake(server).await.map_err(io::Error::other)?;
    driven.spawn(async move { drop(connection.await) });
    Ok(requests)
}

mod tests;
