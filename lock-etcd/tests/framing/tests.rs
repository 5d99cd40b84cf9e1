//! These tests use an HTTP/2 server that answers as each test says.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use h2::{RecvStream, client::SendRequest, server::SendResponse};
use http::{HeaderMap, Request, Response};
use lock_conformance::{Gate, Relay, audit::soon};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{
    Grpc,
    calls::Kind,
    messages::{has_events, take_message},
};

const TXN: &str = "/etcdserverpb.KV/Txn";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Long enough for an event that must not come to have come.
const QUIET: Duration = Duration::from_millis(300);

type Asked = (Request<RecvStream>, SendResponse<Bytes>);

fn message(body: &[u8]) -> Bytes {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0], &len[..], body].concat().into()
}

/// A server. The receiver gets the calls of all its connections.
async fn server() -> (SocketAddr, UnboundedReceiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, (sender, asked)) = (listener.local_addr().unwrap(), unbounded_channel());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(take_calls(stream, sender.clone()));
        }
    });
    (address, asked)
}

async fn take_calls(stream: TcpStream, sender: UnboundedSender<Asked>) {
    let mut calls = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok(call)) = calls.accept().await {
        // A test that is over does not receive further calls.
        let _ = sender.send(call);
    }
}

async fn client(relay: &Relay) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(relay.address()).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    requests
}

fn request(path: &str) -> Request<()> {
    Request::post(format!("http://server{path}")).header("content-type", "application/grpc").body(()).unwrap()
}

fn trailers(status: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.parse().unwrap());
    trailers
}

/// Makes a unary call. Returns the body and the status of the answer.
async fn ask(client: &SendRequest<Bytes>, body: &[u8]) -> (Bytes, String) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut sending) = client.send_request(request(TXN), false).unwrap();
    sending.send_data(message(body), true).unwrap();
    read(response.await.unwrap().into_body()).await
}

async fn read(mut body: RecvStream) -> (Bytes, String) {
    let mut all = BytesMut::new();
    while let Some(data) = body.data().await {
        all.extend_from_slice(&data.unwrap());
    }
    let status = body.trailers().await.unwrap().unwrap()["grpc-status"].to_str().unwrap().to_owned();
    (all.freeze(), status)
}

#[tokio::test]
async fn a_unary_call_is_answered_when_the_second_one_has_its_trailers() {
    let (address, mut asked) = server().await;
    let relay = Relay::doubling(address, Arc::new(Grpc));
    let client = client(&relay).await;
    let caller = tokio::spawn(async move { ask(&client, b"create").await });

    let (first, mut respond) = soon("the first", asked.recv()).await.unwrap();
    assert_eq!(first.uri().path(), TXN);
    assert_eq!(first.headers()["content-type"], "application/grpc");
    let mut answer = respond.send_response(Response::new(()), false).unwrap();
    answer.send_data(message(b"created"), false).unwrap();
    answer.send_trailers(trailers("0")).unwrap();

    let (second, mut respond) = soon("the second", asked.recv()).await.unwrap();
    assert_eq!(second.uri().path(), TXN);
    let mut body = second.into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), message(b"create"));
    let mut answer = respond.send_response(Response::new(()), false).unwrap();
    answer.send_data(message(b"is there"), false).unwrap();
    // Everything except the end of the answer has come.
    tokio::time::sleep(QUIET).await;
    assert!(!caller.is_finished(), "answered before the second call was");
    assert_eq!(relay.doubled(), BTreeMap::new());
    answer.send_trailers(trailers("0")).unwrap();

    let (body, status) = soon("the answer", caller).await.unwrap();
    assert_eq!((body, &*status), (message(b"created"), "0"), "the first answer is the one that counts");
    assert_eq!(relay.doubled(), BTreeMap::from([(TXN.to_owned(), 1)]));
}

#[tokio::test]
async fn an_answer_without_a_body_keeps_its_head_and_its_status() {
    let (address, mut asked) = server().await;
    let relay = Relay::doubling(address, Arc::new(Grpc));
    let mut client = client(&relay).await.ready().await.unwrap();
    let (response, mut sending) = client.send_request(request(TXN), false).unwrap();
    sending.send_data(message(b"create"), true).unwrap();
    for status in ["5", "6"] {
        let (_call, mut respond) = soon("a call", asked.recv()).await.unwrap();
        let refused = Response::builder().header("grpc-status", status).body(()).unwrap();
        respond.send_response(refused, true).unwrap();
    }
    let response = soon("the answer", response).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "5");
    assert!(response.body().is_end_stream());
}

#[tokio::test]
async fn a_stream_goes_on_while_answers_are_held() {
    let (address, mut asked) = server().await;
    let relay = Relay::start(address, Arc::new(Grpc));
    let client = client(&relay).await;
    let (response, mut sending) =
        client.clone().ready().await.unwrap().send_request(request(WATCH), false).unwrap();
    sending.send_data(message(b"watch"), false).unwrap();
    let (_watch, mut respond) = soon("a stream", asked.recv()).await.unwrap();
    let mut events = respond.send_response(Response::new(()), false).unwrap();
    let mut heard = soon("its head", response).await.unwrap().into_body();

    let gate = Gate::new();
    relay.hold(&gate);
    let caller = tokio::spawn(async move { ask(&client, b"look").await });
    let (_call, mut respond) = soon("a call", asked.recv()).await.unwrap();
    let mut answer = respond.send_response(Response::new(()), false).unwrap();
    answer.send_data(message(b"seen"), false).unwrap();
    answer.send_trailers(trailers("0")).unwrap();
    soon("an answer at the gate", gate.reached()).await;
    assert_eq!(relay.held(), BTreeMap::from([(TXN.to_owned(), 1)]));

    // The message comes in two pieces: a header, and an event.
    let event = message(&[10, 2, 8, 1, 90, 1, 0]);
    events.send_data(event.slice(..8), false).unwrap();
    events.send_data(event.slice(8..), false).unwrap();
    assert_eq!(soon("the event", heard.data()).await.unwrap().unwrap(), event);
    assert_eq!(relay.hints(), 1);
    assert!(!caller.is_finished(), "answered through a closed gate");
    gate.open();
    assert_eq!(soon("the answer", caller).await.unwrap().0, message(b"seen"));
}

#[tokio::test]
async fn each_message_that_has_an_answer_of_its_own_comes_twice() {
    let (address, mut asked) = server().await;
    let relay = Relay::doubling(address, Arc::new(Grpc));
    let (response, mut sending) =
        client(&relay).await.ready().await.unwrap().send_request(request(KEEP_ALIVE), false).unwrap();
    let (mut stream, mut respond) = {
        sending.send_data(message(b"one"), false).unwrap();
        soon("a stream", asked.recv()).await.unwrap()
    };
    let mut alive = respond.send_response(Response::new(()), false).unwrap();
    assert_eq!(stream.body_mut().data().await.unwrap().unwrap(), message(b"one"));
    alive.send_data(message(b"alive"), false).unwrap();
    let (second, mut respond) = soon("the second", asked.recv()).await.unwrap();
    assert_eq!(read_first(second.into_body()).await, message(b"one"));
    let mut heard = soon("its head", response).await.unwrap().into_body();
    assert_eq!(relay.doubled(), BTreeMap::new());
    let mut answer = respond.send_response(Response::new(()), false).unwrap();
    answer.send_data(message(b"alive, too"), false).unwrap();
    answer.send_trailers(trailers("0")).unwrap();
    assert_eq!(soon("the answer", heard.data()).await.unwrap().unwrap(), message(b"alive"));
    assert_eq!(relay.doubled(), BTreeMap::from([(KEEP_ALIVE.to_owned(), 1)]));
}

async fn read_first(mut body: RecvStream) -> Bytes {
    body.data().await.unwrap().unwrap()
}

#[test]
fn a_message_ends_where_its_length_says() {
    let all = [message(b"one"), message(b""), message(&[7; 300])].concat();
    let (mut read, mut found) = (BytesMut::new(), Vec::new());
    for byte in &all {
        read.extend_from_slice(&[*byte]);
        found.extend(take_message(&mut read));
    }
    assert_eq!(found, [message(b"one"), message(b""), message(&[7; 300])]);
    let mut at_once = BytesMut::from(&*all);
    assert_eq!(std::iter::from_fn(|| take_message(&mut at_once)).collect::<Vec<_>>(), found);
}

#[test]
fn only_what_happened_is_a_hint() {
    // A header, a number, a flag and a text, followed by an event.
    let calm = [10, 2, 8, 1, 16, 172, 2, 24, 1, 50, 2, b'n', b'o'];
    assert!(!has_events(&message(&calm)));
    assert!(has_events(&message(&[&calm[..], &[90, 0]].concat())));
    assert!(!has_events(&message(b"")));
}

#[test]
fn what_a_call_is_stands_in_its_path() {
    assert_eq!([TXN, KEEP_ALIVE, WATCH].map(Kind::of), [Kind::Unary, Kind::Paired, Kind::Stream]);
}
