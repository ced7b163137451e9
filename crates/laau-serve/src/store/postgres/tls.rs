//! TLS to PostgreSQL, asked for in the URL as libpq does: `sslmode` and `sslrootcert`.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Takes the settings of TLS out of a URL; gives the rest, and how to encrypt if the URL says so.
///
/// A certificate is always verified, with the name of the host: encryption that anybody may end protects nothing. That is
/// `verify-full` to libpq; `require` is taken as the same.
pub(super) fn split(url: &str) -> Result<(String, Option<MakeRustlsConnect>), String> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut encrypts, mut roots) = (Vec::new(), false, None);
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        match (name, value) {
            ("sslmode", "disable" | "prefer") => {}
            ("sslmode", "require" | "verify-full") => encrypts = true,
            ("sslmode", other) => {
                return Err(format!(
                    "expected sslmode=disable, require or verify-full, found {other}"
                ));
            }
            ("sslrootcert", path) => {
                let path = percent_decode_str(path).decode_utf8();
                roots = Some(path.map_err(|_| "sslrootcert is not UTF-8")?.into_owned());
            }
            _ => kept.push(setting),
        }
    }
    if roots.is_some() && !encrypts {
        return Err("sslrootcert needs sslmode=verify-full".to_owned());
    }
    let kept = if kept.is_empty() {
        place.to_owned()
    } else {
        format!("{place}?{}", kept.join("&"))
    };
    let connect = encrypts.then(|| connect(roots.as_deref())).transpose()?;
    Ok((kept, connect))
}

/// Trusts the certificates of a file, or those that the system trusts.
fn connect(roots: Option<&str>) -> Result<MakeRustlsConnect, String> {
    let mut trusted = RootCertStore::empty();
    let certificates = match roots {
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| format!("{path}: {error}"))?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    trusted.add_parsable_certificates(certificates);
    if trusted.is_empty() {
        let place = roots.unwrap_or("the system's certificates");
        return Err(format!("{place}: no certificate in PEM format to trust"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn settings_of_tls_are_taken_out_of_the_url_and_the_rest_is_left() {
        for (url, left) in [
            ("postgres://laau@db/laau", "postgres://laau@db/laau"),
            (
                "postgres://laau@db/laau?sslmode=disable",
                "postgres://laau@db/laau",
            ),
            (
                "postgres://db/x?connect_timeout=3&sslmode=prefer&options=a",
                "postgres://db/x?connect_timeout=3&options=a",
            ),
        ] {
            let (kept, connect) = split(url).expect("a good URL");
            assert_eq!((kept.as_str(), connect.is_none()), (left, true), "{url}");
        }
        for (url, words) in [
            ("postgres://db/x?sslmode=verify-ca", "found verify-ca"),
            ("postgres://db/x?sslrootcert=a.pem", "needs sslmode=verify-full"),
            (
                "postgres://db/x?sslmode=require&sslrootcert=/no%20such.pem",
                "/no such.pem",
            ),
        ] {
            let refused = split(url).err().expect("a bad URL");
            assert!(refused.contains(words), "{url}: {refused}");
        }
    }
}
