//! Servers that answer as no etcd does.

mod common;
mod server;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use common::{Client, kind, name, soon};
use futures_util::FutureExt;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use lock_core::{
    BackendErrorKind, Claim, Creates, Departure, DistributedLock, Entry, EntryId, Keeper, Step, WaitMode,
};
use lock_etcd::{ConnectError, Etcd, EtcdConfig};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const RANGE: &str = "/etcdserverpb.KV/Range";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
const PUT: &str = "/etcdserverpb.KV/Put";

/// The connection that a call came on, and how to answer it.
type Asked = (usize, Request<RecvStream>, SendResponse<Bytes>);

/// A message of gRPC: a flag, a length, and that many bytes.
fn message(body: &[u8]) -> Bytes {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0][..], &len[..], body].concat().into()
}

/// The status of a member that has a leader: its version is field 2, the leader field 4, and the errors field 8.
fn status(version: &str, error: &str) -> Bytes {
    message(&[text(2, version), vec![4 << 3, 1], text(8, error)].concat())
}

/// A short text, as a field of a message.
fn text(field: u8, text: &str) -> Vec<u8> {
    let head = [(field << 3) | 2, u8::try_from(text.len()).unwrap()];
    [&head[..], text.as_bytes()].concat()
}

/// A server with this status. The receiver gets all other calls.
async fn fake(says: Bytes) -> (SocketAddr, UnboundedReceiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, (sender, asked)) = (listener.local_addr().unwrap(), unbounded_channel());
    let connections = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, number, says.clone(), sender.clone()));
        }
    });
    (address, asked)
}

async fn serve(stream: TcpStream, number: usize, says: Bytes, sender: UnboundedSender<Asked>) {
    let mut calls = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = calls.accept().await {
        if request.uri().path() == STATUS {
            answer(&mut respond, says.clone());
        } else {
            // A test that is over does not receive further calls.
            let _ = sender.send((number, request, respond));
        }
    }
}

fn answer(respond: &mut SendResponse<Bytes>, message: Bytes) {
    let mut answer = begin(respond);
    answer.send_data(message, false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    answer.send_trailers(trailers).unwrap();
}

/// Refuses a call with a code of gRPC.
fn refuse(respond: &mut SendResponse<Bytes>, code: &str, why: &str) {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.parse().unwrap());
    trailers.insert("grpc-message", why.parse().unwrap());
    begin(respond).send_trailers(trailers).unwrap();
}

fn begin(respond: &mut SendResponse<Bytes>) -> h2::SendStream<Bytes> {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    respond.send_response(head, false).unwrap()
}

/// The client does not read it, because it could be endless.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_is_refused_and_its_connection_given_up() {
    const ANNOUNCED: u32 = 65 << 20;
    let (address, mut asked) = fake(status("3.7.3", "")).await;
    let client = Client::new(&format!("etcd://{address}/case?heartbeat=1h"));
    let lock = client.mutex("job");
    let asking = tokio::spawn(async move { lock.queue().await.unwrap_err() });
    let lying = async {
        let mut answered = Vec::new();
        let mut open = Vec::new();
        while !asking.is_finished() {
            let next = tokio::time::timeout(Duration::from_millis(20), asked.recv());
            let Ok(Some((connection, call, mut respond))) = next.await else { continue };
            if call.uri().path() == RANGE {
                let mut answer = begin(&mut respond);
                answer.send_data([&[0][..], &ANNOUNCED.to_be_bytes()[..]].concat().into(), false).unwrap();
                answered.push(connection);
                open.push(answer);
            }
        }
        answered
    };
    let mut connections = soon("an error", lying).await;
    let error = asking.await.unwrap();
    assert_eq!(*kind(&error), BackendErrorKind::Protocol, "{error:?}");
    assert!(format!("{error:?}").contains("was not read"), "{error:?}");
    // The client asks for less, and then for even less.
    assert!(connections.len() > 1, "{connections:?}");
    let asked = connections.len();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), asked, "one was used again: {connections:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_of_itself_is_shown_as_text_and_not_at_length() {
    let hostile = format!("\u{1b}[2J\u{202e}{}", "long ".repeat(20));
    let old = format!("3.3.1-{hostile}");
    let (address, _asked) = fake(status(&old, "")).await;
    let config = EtcdConfig::from_url(&format!("etcd://{address}/case")).unwrap();
    let refused = soon("an answer", Etcd::connect(config, &Keeper::start().unwrap())).await;
    let Err(ConnectError::Store(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(*error.kind(), BackendErrorKind::Unsupported);
    // The message has the address and the advice once.
    let explained = error.explained().to_string();
    assert!(explained.contains(&format!("etcd://{address}/case/: version 3.3.1")), "{explained}");
    assert!(explained.ends_with("is too old: use 3.4.42 or later)"), "{explained}");
    let (address, _asked) = fake(status(&old, &hostile)).await;
    let client = Client::new(&format!("etcd://{address}/case?heartbeat=1h"));
    let diagnosis = soon("a diagnosis", client.locks.operator().diagnose()).await.unwrap();
    assert_eq!(diagnosis.problems.len(), 2, "{:?}", diagnosis.problems);
    let mut shown: Vec<_> = diagnosis.facts.into_iter().map(|(_, fact)| fact).collect();
    shown.extend(diagnosis.problems);
    shown.push(error.to_string());
    assert!(shown.iter().filter(|text| text.contains("\\u{1b}[2J\\u{202e}long")).count() >= 4, "{shown:#?}");
    for text in shown {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}

/// A server says that if the answer to the first grant was lost with its connection, and the grant was sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_exists_already_is_used_at_once() {
    let (address, mut asked) = fake(status("3.7.3", "")).await;
    let client = Client::new(&format!("etcd://{address}/case?heartbeat=1h"));
    let lock = client.mutex("job");
    let acquiring = tokio::spawn(async move { lock.acquire().await.map(drop) });
    let (mut grants, mut unanswered) = (0, Vec::new());
    let used = async {
        loop {
            let (_, call, mut respond) = asked.recv().await.unwrap();
            match call.uri().path() {
                GRANT => {
                    grants += 1;
                    refuse(&mut respond, "9", "etcdserver: lease already exists");
                }
                // Field 3 is the time that is left, and field 4 the time that was granted.
                TIME_TO_LIVE => answer(&mut respond, message(&[3 << 3, 30, 4 << 3, 30])),
                PUT => return,
                _ => unanswered.push((call, respond)),
            }
        }
    };
    soon("the key of a session with this lease", used).await;
    assert_eq!(grants, 1, "it was asked for again and again");
    acquiring.abort();
}

/// Without a time limit for the renewal, no waiter would get a stream any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_token_is_not_renewed_in_time_is_given_up() {
    let (address, mut asked) = fake(status("3.7.3", "")).await;
    let url = format!("etcd://app:secret@{address}/case?heartbeat=1h&command_timeout=500ms");
    let client = Client::new(&url);
    // With the stream that carries their hints.
    let _alarms = client.backend.alarms();
    let (mut known, mut unanswered, mut watched) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut open = Vec::new();
    // Cancels the watch with this number, with a reason.
    let canceled = [&[2 << 3, 1, 4 << 3, 1][..], &text(6, "etcdserver: invalid auth token")].concat();
    let streams = async {
        while watched.len() < 2 {
            let (connection, call, mut respond) = asked.recv().await.unwrap();
            match call.uri().path() {
                // Once, for the connection itself.
                AUTHENTICATE if known.insert(connection) => answer(&mut respond, message(&text(2, "token"))),
                WATCH => {
                    let mut stream = begin(&mut respond);
                    stream.send_data(message(&canceled), false).unwrap();
                    watched.push(connection);
                    open.push((call, stream));
                }
                _ => unanswered.push((call, respond)),
            }
        }
    };
    soon("another stream", streams).await;
    assert_ne!(watched[0], watched[1], "on the connection that does not renew its token");
    assert!(unanswered.iter().any(|(call, _)| call.uri().path() == AUTHENTICATE), "it was not asked for one");
}

/// A leave is repeated until it succeeds, however long the server is away: what fails for nothing would fill the memory.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_before_there_is_a_lease_is_left_for_without_a_server() {
    // Connections are accepted by the operating system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("etcd://{}/case", silent.local_addr().unwrap()));
    let entry = Entry::new(name("job"), EntryId::new(1), Claim::mutex(), Duration::from_secs(30));
    let entering = client.backend.enter(&entry, Step::Create, WaitMode::Queue);
    assert!(tokio::time::timeout(Duration::from_millis(100), entering).await.is_err(), "it was answered");
    let left = client.backend.leave(&entry, Creates::InDoubt).now_or_never();
    assert!(matches!(left, Some(Ok(Departure::Absent))), "{left:?}");
}
