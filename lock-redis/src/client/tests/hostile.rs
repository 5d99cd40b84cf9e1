use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use lock_core::EntryId;

use super::*;
use crate::{fuzzing, notify::Notifications};

/// A server that accepts every login, and then always gives the same answer.
struct Parrot {
    port: u16,
    says: Arc<Mutex<Vec<u8>>>,
}

impl Parrot {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let says = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&says);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let said = said.lock().unwrap().clone();
                std::thread::spawn(move || repeat(client, &said));
            }
        });
        Self { port, says }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}?command_timeout=50ms&connect_timeout=500ms&heartbeat=20ms", self.port)
    }
}

fn repeat(mut client: TcpStream, said: &[u8]) {
    let mut asked = [0; 4096];
    let mut answer: &[u8] = b"+OK\r\n";
    // Ends when the client closes the connection.
    while client.read(&mut asked).is_ok_and(|len| len > 0) && client.write_all(answer).is_ok() {
        answer = said;
    }
}

/// The bytes go through the driver, as from a server: there is an answer or an error in time, and no panic.
#[test]
fn whatever_a_server_answers_a_command_ends_in_time() {
    let parrot = Parrot::start();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/redis_replies");
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 40);
    for file in files {
        println!("{}", file.display());
        *parrot.says.lock().unwrap() = fs::read(&file).unwrap();
        let client = client(&parrot.url());
        for _ in 0..2 {
            let started = Instant::now();
            match ask(&client, "PING") {
                Ok(answer) => fuzzing::answer(&answer),
                Err(error) => assert_ne!(*error.kind(), Kind::Panicked, "{error}"),
            }
            assert!(started.elapsed() < LATE, "{:?}", started.elapsed());
        }
        let endpoint = crate::testing::endpoint(&parrot.url());
        let notifications = Notifications::new(endpoint, crate::testing::runtime_selector());
        let started = Instant::now();
        let _hints = block_on(notifications.listen(EntryId::new(1)));
        assert!(started.elapsed() < LATE, "{:?}", started.elapsed());
    }
}
