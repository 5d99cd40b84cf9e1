//! Reading an ensemble from a URL and from a file.

use lock_core::settings::Password;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn everything_can_stand_in_a_url() {
    let url =
        "zk://app:se%3Acret@a,[::1]:7/x/y/?tick=200ms&command_timeout=1s&connect_timeout=3s&interop=curator";
    let config = ZkConfig::from_url(url).unwrap();
    assert_eq!(config.servers(), "a:2181,[::1]:7");
    assert_eq!(config.chroot, "/x/y");
    let server = &config.server;
    assert_eq!(server.password.as_ref().map(Password::expose), Some("se:cret"));
    assert_eq!(
        (config.tick, server.command_timeout, server.connect_timeout),
        (ms(200), ms(1_000), ms(3_000))
    );
    assert_eq!(config.interop, Some(Interop::Curator));
    assert_eq!(config.to_string(), "zk://app@a:2181,[::1]:7/x/y");
    assert!(!format!("{config:?}").contains("cret"));
}

#[test]
fn rights_can_stand_in_a_url_and_a_certificate_makes_a_creator() {
    let of = |rest: &str| ZkConfig::from_url(&format!("zk://{rest}")).unwrap();
    let schemes = |config: &ZkConfig| -> Vec<String> {
        config.rights().unwrap().iter().map(|acl| acl.scheme().to_owned()).collect()
    };
    assert_eq!(schemes(&of("a")), ["world"]);
    assert_eq!(schemes(&of("u:p@a")), ["auth"]);
    assert_eq!(schemes(&of("u:p@a?acl=world")), ["world"]);
    assert_eq!(schemes(&of("a?acl=digest:app:qO%3D:cdrwa;world:anyone:r")), ["digest", "world"]);
    let mut shows_itself = ZkConfig::default();
    shows_itself.server.cert = Some("/x".into());
    assert_eq!(schemes(&shows_itself), ["auth"]);
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = ZkConfig::from_url("zk://a").unwrap();
    assert_eq!((&*config.chroot, config.tick), ("/distlock", ms(2_000)));
    assert_eq!(ZkConfig { endpoints: config.endpoints.clone(), ..ZkConfig::default() }, config);
}

#[test]
fn what_cannot_be_meant_is_an_error_that_says_so() {
    for (url, said) in [
        ("zk://a/x//y", "chroot"),
        ("zk://a/../y", "chroot"),
        ("zk://a?interop=kazoo", "curator"),
        ("zk://a?tick=1ms", "tick"),
        ("zk://us%3Aer:secret@a", "colon"),
        ("zk://user@a", "password"),
        ("zk://a?acl=creator", "a certificate"),
        ("zk://a?acl=", "acl"),
        ("zk://u:secret@a?acl=world:anyone", "acl"),
        ("zk://a?ca=/x", "tls"),
        ("etcd://a", "zk"),
    ] {
        let error = ZkConfig::from_url(url).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("secret"), "{url}: {error}");
    }
    let file = r#"{ "acl": ["world:anyone"] }"#;
    let config: ZkConfig = serde_json::from_str(file).unwrap();
    assert!(config.validate().unwrap_err().to_string().contains("acl"));
    assert!(serde_json::from_str::<ZkConfig>(r#"{ "ticks": "1s" }"#).is_err());
}

#[test]
fn a_chroot_has_at_most_1024_bytes() {
    let chroot = |len: usize| ZkConfig { chroot: format!("/{}", "x".repeat(len - 1)), ..ZkConfig::default() };
    assert_eq!(chroot(1024).validate(), Ok(()));
    assert!(matches!(chroot(1025).validate(), Err(ConfigError::Setting { option: "chroot", .. })));
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_the_feature_is_an_error_that_names_it() {
    let error = ZkConfig::from_url("zks://a").unwrap_err();
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}
