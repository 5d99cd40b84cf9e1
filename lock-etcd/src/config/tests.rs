use std::time::Duration;

use super::*;

fn refused(url: &str) -> ConfigError {
    EtcdConfig::from_url(url).unwrap_err()
}

fn endpoints(config: &EtcdConfig) -> Vec<String> {
    (0..config.endpoints.len()).map(|i| config.address(i)).collect()
}

#[test]
fn every_part_of_a_url_is_read() {
    let config = EtcdConfig::from_url(
        "etcds://u%40x:p%3Aw%23@[::1]:7000,host,10.0.0.1:80/a%20b/c?command_timeout=1500ms&connect_timeout=250ms\
         &heartbeat=5s&ca=a.pem&cert=c.pem&key=k.pem",
    )
    .unwrap();
    assert_eq!(endpoints(&config), ["[::1]:7000", "host:2379", "10.0.0.1:80"]);
    let server = &config.server;
    assert_eq!((server.user.as_deref(), server.password.clone()), (Some("u@x"), Some("p:w#".into())));
    assert_eq!(config.prefix, "a b/c/");
    assert_eq!(server.command_timeout, Duration::from_millis(1500));
    assert_eq!(server.connect_timeout, Duration::from_millis(250));
    assert_eq!(config.heartbeat, Duration::from_secs(5));
    let files = [server.ca.clone(), server.cert.clone(), server.key.clone()];
    assert_eq!(files, ["a.pem", "c.pem", "k.pem"].map(|file| Some(file.into())));
    assert_eq!(config.to_string(), "etcds://u@x@[::1]:7000,host:2379,10.0.0.1:80/a b/c/");
}

#[test]
fn what_is_left_out_has_its_default() {
    for url in ["etcd://localhost", "ETCD://localhost/", "etcd://localhost/distlock"] {
        assert_eq!(EtcdConfig::from_url(url).unwrap(), EtcdConfig::default(), "{url}");
    }
}

#[test]
fn every_wrong_url_says_what_is_wrong() {
    use ConfigError as E;
    for no_url in ["", "localhost:2379"] {
        assert!(matches!(refused(no_url), E::Url { .. }), "{no_url}");
    }
    assert!(matches!(refused("http://host"), E::Scheme { .. }));
    for no_host in ["etcd://", "etcd:///a", "etcd://a,,b", "etcd://a,", "etcd://:2379"] {
        assert_eq!(refused(no_host), E::Host, "{no_host}");
    }
    assert_eq!(refused("etcd://host:0"), E::Port);
    assert_eq!(refused("etcd://host:99999"), E::Port);
    assert_eq!(refused("etcd://ho st"), E::Endpoint);
    assert_eq!(refused("etcd://user:%ff@host"), E::Encoding { part: "password" });
    assert_eq!(refused("etcd://user@host"), E::OnlyTogether { given: "user", missing: "password" });
    assert_eq!(refused("etcd://:secret@host"), E::OnlyTogether { given: "password", missing: "user" });
    for half_a_password in
        ["etcd://user:1/hunter2@host", "etcd://user:1?hunter2@host", "etcd://user:a#b@host"]
    {
        assert_eq!(refused(half_a_password), E::StrayAt);
    }
    assert_eq!(refused("etcd://host#x"), E::Fragment);
    assert!(matches!(refused("etcd://host?db=3"), E::UnknownParameter { .. }));
    assert!(matches!(refused("etcd://host?heartbeat=1s&heartbeat=1s"), E::RepeatedParameter { .. }));
    let unreadable = refused("etcd://host?command_timeout=soon");
    assert!(matches!(unreadable, E::Setting { option: "command_timeout", .. }), "{unreadable}");
    for option in ["command_timeout", "connect_timeout", "heartbeat"] {
        for given in ["9ms", "0s", "2h"] {
            let error = refused(&format!("etcd://host?{option}={given}"));
            assert!(matches!(error, E::Duration { option: named, .. } if named == option), "{error}");
        }
    }
    let long = refused(&format!("etcd://host/{}", "x".repeat(1024)));
    assert!(matches!(long, E::Setting { option: "prefix", .. }), "{long}");
    assert_eq!(refused("etcd://host?ca=x"), E::OnlyWithTls { option: "ca" });
    assert_eq!(refused("etcds://host?cert=x"), E::OnlyTogether { given: "cert", missing: "key" });
    assert_eq!(refused("etcds://host?key=x"), E::OnlyTogether { given: "key", missing: "cert" });
}

#[test]
fn the_password_is_shown_by_nothing() {
    let config = EtcdConfig::from_url("etcd://user:SECRET@host/x").unwrap();
    for shown in [format!("{config:?}"), format!("{config:#?}"), config.to_string()] {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
    for wrong in [
        "etcd://user:SECRET@host:x",
        "etcd://user:SECRET@",
        "etcd://user:SECRET@host?nope=1",
        "etcd://user:SECRET#more@host",
        "http://user:SECRET@host",
        "user:SECRET@host",
        "etcd://user:SECRET%ff@host",
    ] {
        let error = refused(wrong);
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{wrong}: {error}");
    }
}
