//! TLS with a certificate that was given.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why a certificate is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that holds something else.
    #[error("{}: expected {expected} in PEM format", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        expected: &'static str,
    },
    /// A certificate and a key that do not belong together, or that rustls does not take.
    #[error("{}: {source}", path.display())]
    Refused {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Tls {
    pub(super) acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate (with those between it and the root, if any) and its key, both in PEM format.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, "a certificate", error))?;
        if chain.is_empty() {
            return Err(TlsError::Content {
                path: certificate.to_owned(),
                expected: "a certificate",
            });
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, "a private key", error))?;
        let refused = |source| TlsError::Refused {
            path: certificate.to_owned(),
            source,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(refused)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

fn wrong(path: &Path, expected: &'static str, error: pem::Error) -> TlsError {
    let path = path.to_owned();
    match error {
        pem::Error::Io(source) => TlsError::File { path, source },
        _ => TlsError::Content { path, expected },
    }
}
