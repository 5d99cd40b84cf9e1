//! The settings of a service.

use std::time::Duration;

use distlock::{AcquireOptions, ConnectError, DistributedLock, InputError, Settings};

#[tokio::test]
async fn settings_are_read_from_a_file_and_their_options_are_those_of_all_locks() {
    let file = r#"{ "url": "memory:settings", "options": { "ttl": "12s", "wait": "0s" } }"#;
    let settings: Settings = serde_json::from_str(file).unwrap();
    assert_eq!(
        serde_json::from_str::<Settings>(&serde_json::to_string(&settings).unwrap()).unwrap(),
        settings
    );
    let locks = settings.connect().await.unwrap();
    assert_eq!(locks.mutex("job").unwrap().options().ttl, Duration::from_secs(12));
    assert_eq!(locks.semaphore("slots", 3).unwrap().permits(1).unwrap().options().wait, Some(Duration::ZERO));
}

#[tokio::test]
async fn options_have_defaults_and_wrong_ones_fail_before_connecting() {
    let settings: Settings = serde_json::from_str(r#"{ "url": "memory:" }"#).unwrap();
    assert_eq!(settings.options, AcquireOptions::default());
    let wrong =
        Settings { url: "unknown:".to_owned(), options: AcquireOptions::new().ttl(Duration::from_millis(1)) };
    let error = wrong.connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::Options(InputError::Duration { option: "ttl", .. })), "{error}");
    for unknown in
        [r#"{ "url": "memory:", "tll": "1s" }"#, r#"{ "url": "memory:", "options": { "tll": "1s" } }"#]
    {
        let error = serde_json::from_str::<Settings>(unknown).unwrap_err();
        assert!(error.to_string().contains("`tll`"), "{error}");
    }
}

#[test]
fn settings_without_a_url_are_refused_when_they_are_read() {
    for (file, says) in [
        (r#"{ "url": "" }"#, "`url` is empty; name a store"),
        (r#"{ "options": { "ttl": "10s" } }"#, "missing field `url`"),
    ] {
        let error = serde_json::from_str::<Settings>(file).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_url_in_the_place_of_the_settings_is_an_error_that_does_not_repeat_it() {
    let error = serde_json::from_str::<Settings>(r#""redis://app:hunter2@host""#).unwrap_err();
    assert!(error.to_string().contains("a text stands where settings should be"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn a_password_is_not_shown() {
    for url in ["redis://app:secret@host", "secret"] {
        let settings = Settings { url: url.to_owned(), options: AcquireOptions::new() };
        assert!(!format!("{settings:?}").contains("secret"), "{settings:?}");
    }
}
