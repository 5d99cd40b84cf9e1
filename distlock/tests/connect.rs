//! Connecting by URL, and the errors of wrong URLs.

use std::{error::Error, fmt::Write};

use distlock::{ConnectError, DistributedLock, connect};

#[tokio::test]
async fn one_memory_url_is_one_store_and_another_name_is_another() {
    let (one, same) = (connect("memory:shop").await.unwrap(), connect("memory:shop").await.unwrap());
    let (unnamed, other) = (connect("memory:").await.unwrap(), connect("memory:Shop").await.unwrap());

    let guard = one.mutex("job").unwrap().acquire().await.unwrap();
    assert!(same.mutex("job").unwrap().try_acquire().await.unwrap().is_none());
    for locks in [unnamed, other] {
        assert!(locks.mutex("job").unwrap().try_acquire().await.unwrap().is_some());
    }
    drop(guard);
}

#[tokio::test]
async fn a_ping_takes_no_lock_and_fails_once_its_locks_are_closed() {
    let (locks, others) = (connect("memory:ping").await.unwrap(), connect("memory:ping").await.unwrap());
    // The name that `ping` reads may be in use as a lock of any kind.
    let read = others.rwlock("ping").unwrap().read();
    let guard = read.acquire().await.unwrap();
    locks.ping().await.unwrap();
    assert_eq!(read.queue().await.unwrap().len(), 1);
    drop(guard);
    locks.close(std::time::Duration::from_secs(30)).await.unwrap();
    assert!(matches!(locks.ping().await, Err(distlock::Error::Closed { .. })));
    others.ping().await.unwrap();
}

#[tokio::test]
async fn the_scheme_is_read_without_regard_to_case() {
    assert!(connect("MEMORY:").await.is_ok());
}

#[tokio::test]
async fn an_unknown_scheme_is_named_and_the_known_ones_are_listed() {
    let error = connect("etcetera://localhost").await.unwrap_err();
    assert!(matches!(&error, ConnectError::UnknownScheme { scheme: Some(scheme) } if scheme == "etcetera"));
    assert_eq!(
        error.to_string(),
        "`etcetera:` is not the scheme of a store; use one of `memory:`, `etcd:`, `etcds:`, `redis:`, `rediss:`, `sqlite:`, `zk:`, `zks:`"
    );
    for url in ["", "localhost", "/tmp/x", ":memory:"] {
        let error = connect(url).await.unwrap_err();
        assert!(matches!(error, ConnectError::UnknownScheme { scheme: None }), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_redis_cluster_or_sentinel_is_refused_with_what_to_use_instead() {
    for scheme in ["redis+cluster", "rediss+cluster", "redis+sentinel", "REDIS+SENTINEL"] {
        let error = connect(&format!("{scheme}://localhost")).await.unwrap_err();
        assert!(matches!(error, ConnectError::NotYet { .. }) && !error.is_transient(), "{error}");
        assert!(error.to_string().contains("not supported yet; use `redis:`"), "{error}");
    }
}

#[tokio::test]
async fn a_memory_url_with_a_host_is_refused() {
    let error = connect("memory://localhost").await.unwrap_err();
    assert!(matches!(error, ConnectError::BadUrl { scheme: "memory", .. }));
    assert_eq!(
        error.to_string(),
        "the `memory` URL is not right: it has no host; use `memory:` or `memory:NAME`"
    );
}

/// Tests the text of the error itself, because all features may be on. The command in it works for a release, a repository and a folder.
#[test]
fn the_command_for_a_missing_feature_is_right_before_a_release_too() {
    let error = ConnectError::MissingFeature { scheme: "zks", feature: "zk-tls" };
    assert_eq!(
        error.to_string(),
        "`zks:` URLs need the feature `zk-tls` of the crate `distlock`; enable it: cargo add distlock --features zk-tls"
    );
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_store_that_was_not_compiled_in_names_its_feature() {
    for url in ["redis://localhost", "rediss://localhost"] {
        let error = connect(url).await.unwrap_err();
        assert!(matches!(error, ConnectError::MissingFeature { feature: "redis", .. }), "{url}: {error}");
        assert!(error.to_string().ends_with("cargo add distlock --features redis"), "{error}");
        assert!(!error.is_transient());
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_store_that_is_away_is_told_with_its_address_the_cause_and_advice() {
    let error = connect("redis://user:hunter2@127.0.0.1:1").await.unwrap_err();
    let said = error.to_string();
    let trouble = "cannot connect: the store cannot be reached (redis: connecting to 127.0.0.1:1: ";
    assert!(said.starts_with(trouble) && said.ends_with("); check its address, and that it runs"), "{said}");
    assert_eq!(said.matches("127.0.0.1:1").count(), 1, "{said}");
    // Programs can get the cause, too.
    assert!(said.contains(&error.source().unwrap().to_string()) && error.is_transient(), "{said}");
}

#[cfg(not(feature = "etcd"))]
#[tokio::test]
async fn etcd_that_was_not_compiled_in_names_its_feature() {
    for url in ["etcd://localhost", "etcds://localhost"] {
        let error = connect(url).await.unwrap_err();
        assert!(matches!(error, ConnectError::MissingFeature { feature: "etcd", .. }), "{url}: {error}");
        assert!(error.to_string().ends_with("cargo add distlock --features etcd"), "{error}");
    }
}

#[cfg(not(feature = "zk"))]
#[tokio::test]
async fn zookeeper_that_was_not_compiled_in_names_its_feature() {
    let error = connect("zk://localhost").await.unwrap_err();
    assert!(matches!(error, ConnectError::MissingFeature { feature: "zk", .. }), "{error}");
    assert!(error.to_string().ends_with("cargo add distlock --features zk"), "{error}");
}

#[cfg(not(feature = "zk-tls"))]
#[tokio::test]
async fn zookeeper_over_tls_that_was_not_compiled_in_names_its_feature() {
    let error = connect("zks://localhost").await.unwrap_err();
    assert!(matches!(error, ConnectError::MissingFeature { feature: "zk-tls", .. }), "{error}");
    assert!(error.to_string().ends_with("cargo add distlock --features zk-tls"), "{error}");
}

/// The program has several providers of cryptography, and has chosen none.
#[cfg(feature = "zk-tls")]
#[tokio::test]
async fn zookeeper_over_tls_is_only_away_where_no_server_is() {
    let error = connect("zks://127.0.0.1:1").await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
}

#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[tokio::test]
async fn one_file_is_one_store_and_what_is_wrong_with_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let (here, there) =
        (connect(&url).await.unwrap(), connect(&format!("{url}?command_timeout=1s")).await.unwrap());
    let guard = here.mutex("job").unwrap().acquire().await.unwrap();
    assert!(there.mutex("job").unwrap().try_acquire().await.unwrap().is_none());
    drop(guard);
    let error = connect(&format!("sqlite:{}/none/locks.db", folder.path().display())).await.unwrap_err();
    assert!(matches!(error, ConnectError::Backend { .. }), "{error}");
    assert!(error.to_string().contains("/none; make it, or name a file elsewhere)"), "{error}");
    for wrong in ["sqlite://host/locks.db", "sqlite::memory:", "sqlite:locks.db?mode=ro"] {
        let error = connect(wrong).await.unwrap_err();
        assert!(matches!(error, ConnectError::BadUrl { scheme: "sqlite", .. }), "{wrong}: {error}");
    }
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn a_file_for_which_nothing_was_compiled_in_names_its_feature() {
    let error = connect("sqlite:").await.unwrap_err();
    assert!(matches!(error, ConnectError::MissingFeature { feature: "sqlite", .. }), "{error}");
}

/// Whatever is wrong with a URL, and whatever the store says, no error shows the password.
#[tokio::test]
async fn no_error_ever_prints_a_password() {
    let shapes = [
        "redis://:PW@127.0.0.1:1/0",
        "redis://user:PW@127.0.0.1:1/0",
        "rediss://user:PW@127.0.0.1:1",
        "redis://user:PW@127.0.0.1:port",
        "redis://user:PW@127.0.0.1:70000",
        "redis://user:PW@",
        "redis://user:PW@[::1",
        "redis://user:PW@127.0.0.1:1/not-a-number",
        "redis://user:PW@127.0.0.1:1/0?no_such_parameter=1",
        "redis://user:PW@127.0.0.1:1/0?command_timeout=soon",
        "redis:user:PW@127.0.0.1:1",
        "redis://us er:PW@127.0.0.1:1",
        "redis://user:P@W:PW@127.0.0.1:1",
        "redis://user:%zzPW@127.0.0.1:1",
        "etcd://user:PW@127.0.0.1:1",
        "etcds://user:PW@127.0.0.1:1,127.0.0.1:1/prefix",
        "etcd://user:PW@127.0.0.1:port",
        "etcd://user:PW@,127.0.0.1:1",
        "etcd://user:PW@127.0.0.1:1/prefix?command_timeout=soon",
        "etcd:user:PW@127.0.0.1:1",
        "etcd://us er:PW@127.0.0.1:1",
        "zk://user:PW@127.0.0.1:1",
        "zk://user:PW@127.0.0.1:1,127.0.0.1:1/chroot",
        "zks://user:PW@127.0.0.1:1",
        "zk://user:PW@127.0.0.1:port",
        "zk://user:PW@127.0.0.1:1/a//b?tick=soon",
        "zk:user:PW@127.0.0.1:1",
        "redus://user:PW@127.0.0.1:1",
        "PW@127.0.0.1:1",
        "PW:x@127.0.0.1:1",
        "user:PW@127.0.0.1:1",
        ":PW@127.0.0.1",
        "memory://user:PW@here",
    ];
    for shape in shapes {
        for password in [
            "hunter2",
            "hunter2#x",
            "hunter2/x",
            "hunter2?x",
            "1/hunter2",
            "1?hunter2",
            "1#hunter2",
            "%00hunter2",
        ] {
            let error = connect(&shape.replace("PW", password)).await.unwrap_err();
            assert!(!everything_about(&error).contains("hunter2"), "{shape}: {error:?}");
        }
    }
}

/// The error and its causes, by `Display` and `Debug`.
fn everything_about(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        write!(text, "{error} {error:?} {error:#?} ").expect("a string takes all text");
        next = error.source();
    }
    text
}

#[test]
fn connecting_can_be_sent_to_another_thread_and_so_can_its_error() {
    fn is_send<T: Send>(_: &T) {}
    fn is_an_error<T: Error + Send + Sync + 'static>() {}
    is_send(&connect("memory:"));
    is_an_error::<ConnectError>();
}
