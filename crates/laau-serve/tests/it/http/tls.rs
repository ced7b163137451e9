//! TLS with a certificate of one's own making.

use std::path::PathBuf;

use laau_serve::client::{Client, Patience};
use laau_serve::http::{Tls, TlsError};

use super::node::{Node, SPEC};

/// A certificate for localhost and its key, as files.
fn certificate(folder: &std::path::Path) -> (PathBuf, PathBuf) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

#[test]
fn a_client_that_trusts_the_certificate_is_served_and_no_other() {
    let folder = tempfile::TempDir::new().unwrap();
    let (certificate, key) = certificate(folder.path());
    let node = Node::start(|options| options.tls = Some(Tls::read(&certificate, &key).unwrap()));
    let url = format!("https://localhost:{}", node.address.port());
    let trusted = std::fs::read(&certificate).unwrap();
    let client = Client::with(&url, node.key.as_deref(), Patience::default(), Some(&trusted)).unwrap();
    client.create(&serde_json::from_str(SPEC).unwrap()).unwrap();
    let decision = client.decide("shop", &[0.5]).unwrap();
    assert_eq!(decision.step, 0);
    let hasty = Patience {
        patience: std::time::Duration::ZERO,
        ..Patience::default()
    };
    let stranger = Client::with(&url, node.key.as_deref(), hasty, None).unwrap();
    assert!(stranger.accounts().is_err());
    let plain = Client::with(&url.replace("https", "http"), node.key.as_deref(), hasty, None).unwrap();
    assert!(plain.accounts().is_err());
    assert_eq!(client.account("shop").unwrap().period.unwrap().step, 1);
}

#[test]
fn a_certificate_that_is_none_is_refused_with_its_file() {
    let folder = tempfile::TempDir::new().unwrap();
    let (certificate, key) = self::certificate(folder.path());
    let other = tempfile::TempDir::new().unwrap();
    let (_, stranger) = self::certificate(other.path());
    let missing = folder.path().join("none.pem");
    assert!(matches!(Tls::read(&missing, &key), Err(TlsError::File { path, .. }) if path == missing));
    assert!(matches!(Tls::read(&certificate, &missing), Err(TlsError::File { path, .. }) if path == missing));
    assert!(matches!(Tls::read(&key, &key), Err(TlsError::Content { path, .. }) if path == key));
    assert!(
        matches!(Tls::read(&certificate, &certificate), Err(TlsError::Content { path, .. }) if path == certificate)
    );
    assert!(matches!(
        Tls::read(&certificate, &stranger),
        Err(TlsError::Refused { .. })
    ));
}
