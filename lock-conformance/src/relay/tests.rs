//! Tests with a server whose answers the test chooses. Frames are lines, whose first letter is their kind.

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream, Lines},
    net::TcpStream,
};

use super::*;
use crate::audit::{SLACK, eventually, soon, within};

/// Long enough for frames that must not arrive to have arrived, and longer than any time limit of the relay.
const QUIET: Duration = Duration::from_millis(400);

struct Letters;

impl Frames for Letters {
    fn request(&mut self, sent: &[u8]) -> std::io::Result<Option<Frame<Request>>> {
        let Some((len, line)) = line(sent) else { return Ok(None) };
        let what = match line.strip_prefix('?') {
            Some(name) => Request::Ask(name.to_owned()),
            None => Request::Aside,
        };
        Ok(Some(Frame { len, what }))
    }

    fn answer(&mut self, sent: &[u8]) -> std::io::Result<Option<Frame<Answer>>> {
        let Some((len, line)) = line(sent) else { return Ok(None) };
        let what = match line.chars().next() {
            Some('.') => Answer::Part,
            Some('=') => Answer::End,
            Some('+') => Answer::Turn,
            Some('!') => Answer::Hint,
            Some('-') => Answer::Aside,
            _ => return Err(std::io::Error::other(format!("`{line}` is nothing"))),
        };
        Ok(Some(Frame { len, what }))
    }
}

fn line(sent: &[u8]) -> Option<(usize, &str)> {
    let end = sent.iter().position(|byte| *byte == b'\n')?;
    Some((end + 1, std::str::from_utf8(&sent[..end]).unwrap()))
}

/// One side of a connection.
struct Side(Lines<BufStream<TcpStream>>);

impl Side {
    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self(BufStream::new(stream).lines())
    }

    async fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
        self.0.get_mut().flush().await.unwrap();
    }

    async fn hears(&mut self, expected: &[&str]) {
        for expected in expected {
            let line = soon("a line", self.0.next_line()).await.unwrap();
            assert_eq!(line.as_deref(), Some(*expected));
        }
    }

    async fn hears_nothing(&mut self) {
        let heard = tokio::time::timeout(QUIET, self.0.next_line()).await;
        assert!(heard.is_err(), "{heard:?}");
    }
}

/// A client, its connection as the server sees it, and the second connection.
struct Doubled {
    relay: Relay,
    client: Side,
    first: Side,
    second: Side,
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn letters() -> Arc<dyn Framing> {
    Arc::new(Framed(|| Box::new(Letters)))
}

async fn accept(listener: &TcpListener) -> Side {
    Side::of(soon("a connection", listener.accept()).await.unwrap().0)
}

async fn connect(relay: &Relay) -> Side {
    Side::of(TcpStream::connect(relay.address()).await.unwrap())
}

async fn doubled() -> Doubled {
    let (listener, address) = listen().await;
    let relay = Relay::doubling(address, letters());
    let client = connect(&relay).await;
    let (first, second) = (accept(&listener).await, accept(&listener).await);
    Doubled { relay, client, first, second }
}

fn counts<const N: usize>(names: [(&str, u64); N]) -> BTreeMap<String, u64> {
    names.map(|(name, count)| (name.to_owned(), count)).into()
}

#[tokio::test]
async fn an_answer_is_passed_on_when_the_second_one_is_there_in_full() {
    let Doubled { relay, mut client, mut first, mut second } = doubled().await;
    client.say("?enter\n").await;
    first.hears(&["?enter"]).await;
    first.say(".first\n=first\n").await;
    second.hears(&["?enter"]).await;
    // None of these frames ends an answer, however long no other frame comes.
    second.say("!hint\n-aside\n.second\n").await;
    client.hears_nothing().await;
    assert_eq!((relay.asked(), relay.doubled()), (counts([("enter", 1)]), counts([])));
    second.say("=seco").await;
    client.hears_nothing().await;
    second.say("nd\n").await;
    client.hears(&[".first", "=first"]).await;
    assert_eq!(relay.doubled(), counts([("enter", 1)]));
}

#[tokio::test]
async fn requests_in_one_piece_come_twice_each_and_in_their_order() {
    let Doubled { relay, mut client, mut first, mut second } = doubled().await;
    client.say("?a\n?b\nbye\n?a\n").await;
    first.hears(&["?a", "?b", "bye", "?a"]).await;
    first.say("=1\n=2\n=3\n").await;
    for (name, answer) in [("?a", "=1"), ("?b", "=2"), ("?a", "=3")] {
        second.hears(&[name]).await;
        second.say("=again\n").await;
        client.hears(&[answer]).await;
    }
    assert_eq!(relay.doubled(), counts([("a", 2), ("b", 1)]));
}

#[tokio::test]
async fn a_step_of_several_requests_comes_twice_as_a_whole() {
    let Doubled { relay, mut client, mut first, mut second } = doubled().await;
    for (name, answer) in [("begin", "+begun"), ("write", "+written")] {
        client.say(&format!("?{name}\n")).await;
        first.hears(&[&format!("?{name}")]).await;
        first.say(&format!("{answer}\n")).await;
        client.hears(&[answer]).await;
    }
    client.say("?commit\n").await;
    first.hears(&["?commit"]).await;
    first.say("=committed\n").await;
    second.hears(&["?begin", "?write", "?commit"]).await;
    second.say("+begun\n+written\n").await;
    client.hears_nothing().await;
    second.say("=committed\n").await;
    client.hears(&["=committed"]).await;
    assert_eq!(relay.doubled(), counts([("begin", 1), ("commit", 1), ("write", 1)]));
}

#[tokio::test]
async fn a_request_that_has_not_come_twice_is_told_by_its_number() {
    let Doubled { relay, mut client, mut first, mut second } = doubled().await;
    client.say("?enter\n?enter\n").await;
    first.hears(&["?enter", "?enter"]).await;
    first.say("=1\n=2\n").await;
    second.hears(&["?enter"]).await;
    second.say("=again\n").await;
    client.hears(&["=1"]).await;
    second.hears(&["?enter"]).await;
    let relay = Arc::new(relay);
    let waiting = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.all_doubled(QUIET).await }
    });
    let missing = soon("what is missing", waiting).await.unwrap_err().into_panic();
    let missing = missing.downcast_ref::<String>().unwrap();
    assert!(missing.contains(r#"sent {"enter": 2}, twice {"enter": 1}"#), "{missing}");
    second.say("=again\n").await;
    relay.all_doubled(SLACK).await;
}

#[tokio::test]
async fn an_answer_waits_at_the_gate_with_what_comes_behind_it() {
    let (listener, address) = listen().await;
    let relay = Relay::start(address, letters());
    let mut client = connect(&relay).await;
    let mut server = accept(&listener).await;
    let gate = Gate::new();
    relay.hold(&gate);
    server.say("!before\n").await;
    client.hears(&["!before"]).await;
    client.say("?look\n").await;
    server.hears(&["?look"]).await;
    server.say("=seen\n!behind\n").await;
    soon("an answer at the gate", gate.reached()).await;
    client.hears_nothing().await;
    // On another connection, no answer is in its way.
    let mut other = connect(&relay).await;
    accept(&listener).await.say("!beside\n").await;
    other.hears(&["!beside"]).await;
    // Requests arrive meanwhile, and their answers wait behind the first.
    client.say("?leave\n").await;
    server.hears(&["?leave"]).await;
    server.say("=left\n").await;
    eventually("a second answer that is held", SLACK, || async { relay.held().len() == 2 }).await;
    assert_eq!((relay.held(), relay.hints()), (counts([("leave", 1), ("look", 1)]), 3));
    gate.open();
    client.hears(&["=seen", "!behind", "=left"]).await;
}

#[tokio::test]
async fn answers_to_requests_of_other_names_pass_the_gate() {
    let (listener, address) = listen().await;
    let relay = Relay::start(address, letters());
    let mut client = connect(&relay).await;
    let mut server = accept(&listener).await;
    let gate = Gate::new();
    relay.hold_only("look", &gate);
    client.say("?enter\n").await;
    server.hears(&["?enter"]).await;
    server.say("=entered\n").await;
    client.hears(&["=entered"]).await;
    client.say("?look\n").await;
    server.hears(&["?look"]).await;
    server.say("=seen\n").await;
    soon("an answer at the gate", gate.reached()).await;
    client.hears_nothing().await;
    assert_eq!(relay.held(), counts([("look", 1)]));
    gate.open();
    client.hears(&["=seen"]).await;
}

#[tokio::test]
async fn the_end_of_a_connection_is_passed_on_with_all_before_it() {
    let (listener, address) = listen().await;
    let relay = Relay::start(address, letters());
    let mut client = connect(&relay).await;
    let mut server = accept(&listener).await;
    server.say(".half").await;
    drop(server);
    client.hears(&[".half"]).await;
    assert_eq!(soon("the end", client.0.next_line()).await.unwrap(), None);
}

/// The failure that the relay reports.
async fn failure(relay: Relay) -> String {
    let watching = tokio::spawn(async move { relay.watch(std::future::pending::<()>()).await });
    let failed = within("a failure of the relay", SLACK, watching).await.unwrap_err().into_panic();
    failed.downcast_ref::<String>().unwrap().clone()
}

#[tokio::test]
async fn a_second_answer_that_never_comes_is_a_failure_of_the_relay() {
    let (listener, address) = listen().await;
    let relay = Relay::of(address, letters(), Traffic::impatient(QUIET));
    let mut client = connect(&relay).await;
    let (mut first, mut second) = (accept(&listener).await, accept(&listener).await);
    client.say("?enter\n").await;
    first.hears(&["?enter"]).await;
    first.say("=done\n").await;
    second.hears(&["?enter"]).await;
    second.say(".half\n").await;
    let failure = failure(relay).await;
    assert!(failure.contains("the second `enter` was not answered in full within"), "{failure}");
}

#[tokio::test]
async fn a_second_connection_that_hangs_up_is_a_failure_of_the_relay() {
    let Doubled { relay, mut client, mut first, second } = doubled().await;
    drop(second);
    client.say("?enter\n").await;
    first.hears(&["?enter"]).await;
    first.say("=done\n").await;
    let failure = failure(relay).await;
    assert!(failure.contains("`enter` could not be sent twice"), "{failure}");
}

#[tokio::test]
async fn a_second_connection_that_is_refused_is_a_failure_of_the_relay() {
    let (listener, address) = listen().await;
    let traffic = Traffic::new(true);
    drop(listener);
    let error = traffic.second_connection(address).await.unwrap_err();
    assert!(traffic.failure().await.contains("there is no second connection"), "{error}");
}

#[tokio::test]
async fn what_is_no_frame_is_a_failure_of_the_relay() {
    let Doubled { relay, mut first, .. } = doubled().await;
    first.say("what\n").await;
    let failure = failure(relay).await;
    assert!(failure.contains("`what` is nothing"), "{failure}");
}
