//! A program that has installed its own provider of cryptography for rustls. A process has only one provider, so this test is a program of
//! its own.
#![cfg(feature = "tls")]

use std::sync::Arc;

use lock_core::Keeper;
use lock_zk::{ZkConfig, ZooKeeper};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};

#[test]
fn a_provider_that_the_program_has_chosen_is_kept() {
    aws_lc_rs::default_provider().install_default().unwrap();
    let chosen = Arc::clone(CryptoProvider::get_default().unwrap());
    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.cert.pem()).unwrap();
    let config = ZkConfig::from_url(&format!("zks://localhost?ca={}", ca.display())).unwrap();
    let zookeeper = ZooKeeper::new(config, &Keeper::shared()).unwrap();
    assert!(Arc::ptr_eq(&chosen, CryptoProvider::get_default().unwrap()));
    drop(zookeeper);
}
