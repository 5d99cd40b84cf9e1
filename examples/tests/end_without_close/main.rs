//! A process that takes a lock and ends without `Locks::close`. Tests start it; it is not an example.

use std::{env, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Guard, Locks};

/// Longer than a busy machine takes: with the default of 200 ms, the result would depend on the speed of the machine.
const LINGER: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name, main, ending] = &arguments[..] else {
        panic!("URL NAME tokio|plain dropped|alive|panic")
    };
    match main.as_str() {
        "tokio" => in_tokio(url, name, ending),
        _ => on_a_plain_thread(url, name, ending),
    }
}

#[tokio::main]
async fn in_tokio(url: &str, name: &str, ending: &str) {
    let (_locks, guard) = take(url, name).await;
    end(guard, ending);
}

fn on_a_plain_thread(url: &str, name: &str, ending: &str) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let (_locks, guard) = runtime.block_on(take(url, name));
    end(guard, ending);
}

async fn take(url: &str, name: &str) -> (Locks, Guard) {
    let locks = distlock::connect(url).await.expect("the store is there").with_linger(LINGER);
    let options = AcquireOptions::new().ttl(Duration::from_secs(60));
    let lock = locks.mutex(name).expect("the name is good").with_options(options);
    let guard = lock.acquire().await.expect("the lock is free");
    (locks, guard)
}

/// The last thing that the program does.
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
