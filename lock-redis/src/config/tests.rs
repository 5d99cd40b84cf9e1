use std::{fs, path::PathBuf};

use super::*;

fn refused(url: &str) -> ConfigError {
    RedisConfig::from_url(url).expect_err(url)
}

fn from_json(json: &str) -> Result<RedisConfig, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[test]
fn a_url_without_anything_has_the_documented_defaults() {
    let config = RedisConfig::from_url("redis://localhost").unwrap();
    assert_eq!(config, RedisConfig::default());
    assert_eq!((config.port, config.database, config.client_name.as_str()), (6379, 0, "distlock"));
    assert_eq!(config.prefix, "distlock:");
    assert_eq!(RedisConfig::from_url("redis://localhost?prefix=").unwrap().prefix, "");
    assert_eq!(config.server.command_timeout, Duration::from_secs(2));
    assert_eq!(config.server.connect_timeout, Duration::from_secs(2));
    assert_eq!(config.heartbeat, Duration::from_secs(1));
    assert_eq!(RedisConfig::from_url("redis://localhost/").unwrap(), config);
}

#[test]
fn what_is_neither_true_nor_false_is_refused() {
    assert!(refused("redis://h?confirm_hints=yes").to_string().contains("write true or false"));
}

#[test]
fn every_part_of_a_url_is_read() {
    let url = "rediss://u%40x:p%3Aw%23@[::1]:7000/15?prefix=a%7Bb%7D%2F+&client_name=web-1&command_timeout=1s%20500ms\
               &connect_timeout=250ms&confirm_hints=true&heartbeat=5s&ca=/etc/ca.pem&cert=c.pem&key=k.pem";
    let config = RedisConfig::from_url(url).unwrap();
    let mut server = ServerConfig::default();
    server.tls = true;
    server.ca = Some("/etc/ca.pem".into());
    server.cert = Some("c.pem".into());
    server.key = Some("k.pem".into());
    server.user = Some("u@x".into());
    server.password = Some("p:w#".into());
    server.command_timeout = Duration::from_millis(1500);
    server.connect_timeout = Duration::from_millis(250);
    let expected = RedisConfig {
        host: "::1".into(),
        port: 7000,
        server,
        database: 15,
        prefix: "a{b}/+".into(),
        client_name: "web-1".into(),
        confirm_hints: true,
        heartbeat: Duration::from_secs(5),
    };
    assert_eq!(config, expected);
    assert_eq!(config.to_string(), "rediss://u@x@[::1]:7000/15");
}

#[test]
fn a_password_alone_is_the_default_users() {
    let config = RedisConfig::from_url("redis://:secret@host").unwrap();
    assert_eq!((config.server.user, config.server.password), (None, Some("secret".into())));
}

#[test]
fn every_wrong_url_says_what_is_wrong() {
    use ConfigError as E;
    let wrong = |option: &str, url: &str| {
        let error = refused(url);
        assert!(matches!(error, E::Setting { option: named, .. } if named == option), "{url}: {error}");
    };
    for no_url in ["", "localhost", "localhost:6379", "redis:"] {
        assert!(matches!(refused(no_url), E::Url { .. }), "{no_url}");
    }
    assert!(matches!(refused("http://host"), E::Scheme { .. }));
    assert_eq!(refused("redis://one,two"), E::OneHost);
    assert_eq!(refused("redis:///0"), E::Host);
    assert_eq!(refused("redis://host:0"), E::Port);
    for path in ["x", "-1", "+1", "1/2", "99999999999"] {
        wrong("database", &format!("redis://host/{path}"));
    }
    assert_eq!(refused("redis://:%ff@host"), E::Encoding { part: "password" });
    assert_eq!(refused("redis://%ff:x@host"), E::Encoding { part: "user" });
    assert_eq!(refused("redis://host#x"), E::Fragment);
    assert_eq!(refused("redis://user@host"), E::OnlyTogether { given: "user", missing: "password" });
    for half_a_password in ["redis://user:1/hunter2@host", "redis://user:1?hunter2@host", "redis://:a#b@host"]
    {
        assert_eq!(refused(half_a_password), E::StrayAt);
    }
    assert!(matches!(refused("redis://host?db=3"), E::UnknownParameter { .. }));
    assert!(matches!(refused("redis://host?prefix=a&prefix=b"), E::RepeatedParameter { .. }));
    wrong("command_timeout", "redis://host?command_timeout=soon");
    wrong("connect_timeout", "redis://host?connect_timeout=2");
    for option in ["command_timeout", "connect_timeout", "heartbeat"] {
        for given in ["9ms", "0s", "2h"] {
            let error = refused(&format!("redis://host?{option}={given}"));
            assert!(matches!(error, E::Duration { option: named, .. } if named == option), "{error}");
        }
    }
    for prefix in ["a%7Bb", "%7B%7Da", "%7Ba%7D%7B"] {
        wrong("prefix", &format!("redis://host?prefix={prefix}"));
    }
    for name in ["", "a%20b", &"x".repeat(129)] {
        wrong("client_name", &format!("redis://host?client_name={name}"));
    }
    assert_eq!(refused("redis://host?ca=x"), E::OnlyWithTls { option: "ca" });
    assert_eq!(refused("rediss://host?cert=x"), E::OnlyTogether { given: "cert", missing: "key" });
    assert_eq!(refused("rediss://host?key=x"), E::OnlyTogether { given: "key", missing: "cert" });
}

#[test]
fn every_error_says_what_to_do() {
    assert_eq!(
        refused("redis://host?db=3").to_string(),
        "there is no parameter `db`; there are prefix, client_name, command_timeout, confirm_hints, connect_timeout, heartbeat, \
         password_file, ca, cert, key"
    );
    assert_eq!(
        refused("redis://host?heartbeat=1ms").to_string(),
        "`heartbeat` cannot be 1ms; use 10ms to 3600s"
    );
    assert_eq!(
        refused("http://host").to_string(),
        "`http://` is not for this store; use `redis://`, or `rediss://` for tls"
    );
}

#[test]
fn prefixes_whose_braces_are_closed_are_taken() {
    for prefix in ["", "app:", "{app}", "}", "}{x}", "{a}{}", "a{b}c}"] {
        let config = RedisConfig { prefix: prefix.into(), ..RedisConfig::default() };
        assert_eq!(config.validate(), Ok(()), "{prefix}");
    }
}

#[test]
fn a_file_is_read_like_a_url_and_unknown_or_wrong_fields_are_errors() {
    let config = from_json(r#"{ "host": "h", "tls": true, "heartbeat": "2s", "ca": "x.pem" }"#).unwrap();
    assert_eq!(config, RedisConfig::from_url("rediss://h?heartbeat=2s&ca=x.pem").unwrap());
    assert_eq!(from_json("{}").unwrap(), RedisConfig::default());
    assert!(from_json(r#"{ "hots": "h" }"#).unwrap_err().contains("unknown field `hots`"));
    for wrong in [r#"{ "port": 70000 }"#, r#"{ "command_timeout": 2 }"#, r#"{ "database": -1 }"#] {
        assert!(from_json(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_password_is_shown_by_nothing() {
    let url = "redis://user:SECRET@host?prefix=x";
    let config = RedisConfig::from_url(url).unwrap();
    for shown in [format!("{config:?}"), format!("{config:#?}"), config.to_string()] {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
    for wrong in [
        "redis://user:SECRET@host:x",
        "redis://user:SECRET@",
        "redis://user:SECRET@host/x",
        "redis://user:SECRET@host?nope=1",
        "redis://user:SECRET#more@host",
        "http://user:SECRET@host",
        "user:SECRET@host",
        "redis://user:SECRET%ff@host",
        "redis://user:SECRET@host?client_name=a%20b",
        // The parser of URLs does not see these line ends.
        "redis:\n//user:1/SECRET@host",
        "redis:/\t/user:1?SECRET@host",
    ] {
        let error = refused(wrong);
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{wrong}: {error}");
    }
}

/// The errors of serde itself repeat the value that they found.
#[test]
fn neither_a_non_text_password_nor_a_url_for_settings_is_repeated() {
    for password in ["7777777", "-7777777", "777777.7", "[\"7777777\"]", "{ \"7777777\": 1 }"] {
        let error = from_json(&format!("{{ \"host\": \"h\",\n \"password\": {password} }}")).unwrap_err();
        assert!(error.starts_with("the password is no text; put it in quotes at line 2"), "{error}");
    }
    let error = from_json("\"redis://user:SECRET@host\"").unwrap_err();
    assert!(error.starts_with("a text stands where settings should be"), "{error}");
    let error = from_json("[\"h\", \"SECRET\"]").unwrap_err();
    assert!(error.contains("expected settings by their names") && !error.contains("SECRET"), "{error}");
}

#[test]
fn certificates_that_cannot_be_used_name_their_option_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = file("cert.pem", &signed.cert.pem());
    let (empty, missing) = (file("empty.pem", "nothing"), dir.path().join("missing.pem"));
    let mut tls = RedisConfig::default();
    (tls.server.tls, tls.server.ca) = (true, Some(cert.clone()));
    assert!(tls::Tls::load(&tls).unwrap().is_some());
    let shows = |cert: &PathBuf, key: &PathBuf| {
        let mut config = tls.clone();
        (config.server.cert, config.server.key) = (Some(cert.clone()), Some(key.clone()));
        config
    };

    for bad in [&empty, &missing] {
        let mut config = tls.clone();
        config.server.ca = Some(bad.clone());
        let error = tls::Tls::load(&config).unwrap_err();
        assert!(matches!(&error, ConfigError::File { option: "ca", path, .. } if path == bad), "{error}");
        let error = tls::Tls::load(&shows(&cert, bad)).unwrap_err();
        assert!(matches!(&error, ConfigError::File { option: "key", path, .. } if path == bad), "{error}");
    }
    let other = file("other.pem", &rcgen::KeyPair::generate().unwrap().serialize_pem());
    let mismatch = tls::Tls::load(&shows(&cert, &other)).unwrap_err();
    assert!(matches!(mismatch, ConfigError::File { option: "cert", .. }));
    let config = RedisConfig { host: "a b".into(), ..tls };
    assert!(matches!(tls::Tls::load(&config).unwrap_err(), ConfigError::Setting { option: "host", .. }));
}
