//! A process that takes a lock and ends without `Locks::close`. Tests start it; it is not an example.

use std::{env, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Guard, Locks};

/// Longer than any release takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name, linger, main, ending] = &arguments[..] else {
        panic!("URL NAME default|long tokio|plain dropped|alive|panic")
    };
    match main.as_str() {
        "tokio" => in_tokio(url, name, linger, ending),
        _ => on_a_plain_thread(url, name, linger, ending),
    }
}

#[tokio::main]
async fn in_tokio(url: &str, name: &str, linger: &str, ending: &str) {
    let (_locks, guard) = take(url, name, linger).await;
    end(guard, ending);
}

fn on_a_plain_thread(url: &str, name: &str, linger: &str, ending: &str) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let (_locks, guard) = runtime.block_on(take(url, name, linger));
    end(guard, ending);
}

async fn take(url: &str, name: &str, linger: &str) -> (Locks, Guard) {
    let mut locks = distlock::connect(url).await.expect("the store is there");
    if linger == "long" {
        locks = locks.with_linger(LONG);
    }
    let options = AcquireOptions::new().ttl(Duration::from_secs(60));
    let lock = locks.mutex(name).expect("the name is good").with_options(options);
    let guard = lock.acquire().await.expect("the lock is free");
    (locks, guard)
}

/// How the program ends.
fn end(guard: Guard, ending: &str) {
    match ending {
        "dropped" => drop(guard),
        "alive" => {
            let _guard = guard;
        }
        _ => {
            let _guard = guard;
            panic!("as programs do");
        }
    }
}
