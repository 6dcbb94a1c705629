//! What went wrong on the way to a server, as a fault a caller can act on.

use std::{error::Error, io};

use rustls::{CertificateError, Error as TlsError};
use toolgate_contract::Fault;
use toolgate_guard::url::{BadUrl, WebUrl};

use crate::judge::Refusal;

/// Why a name did not lead to addresses that may be dialled. It travels through the client as the cause of an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDialled {
    #[error(transparent)]
    Refused(Refusal),
    #[error("the name could not be looked up")]
    NotFound(io::Error),
}

impl NotDialled {
    pub(crate) fn fault(&self, host: &str) -> Fault {
        match self {
            Self::Refused(refusal) => refusal.fault(host),
            Self::NotFound(error) => Fault::failed(
                "resolve_failed",
                format!("`{host}` could not be looked up: {error}"),
                "Check the spelling of the host's name, or try again later.",
            )
            .retryable(),
        }
    }
}

/// A text that is no URL.
pub(crate) fn bad_url(text: &str, bad: BadUrl) -> Fault {
    Fault::refused(
        "url_refused",
        format!("`{}` is not fetched: {bad}", shown(text)),
        "Write a plain `https` or `http` URL with the name of a host in it.",
    )
}

/// As much of a text as a message needs.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(200).flat_map(char::escape_debug).collect()
}

/// What a request that got no answer, or no whole one, ran into.
pub(crate) fn fault_of(error: &reqwest::Error, url: &WebUrl) -> Fault {
    let at = format!("{}:{}", url.host(), url.port());
    for cause in causes(error) {
        if let Some(not_dialled) = cause.downcast_ref::<NotDialled>() {
            return not_dialled.fault(&url.host().to_string());
        }
        if let Some(tls) = cause.downcast_ref::<TlsError>() {
            return tls_failed(tls, &at);
        }
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse_too_large) {
            return headers_too_large(&at);
        }
    }
    let why = causes(error).last().map_or_else(String::new, |last| format!(": {last}"));
    if error.is_connect() {
        let message = match error.is_timeout() {
            true => format!("no connection to `{at}` came about in time"),
            false => format!("no connection to `{at}` came about{why}"),
        };
        return Fault::failed("connect_failed", message, "Check the host and the port, or try again later.")
            .retryable();
    }
    bad_response(&at, &format!("its answer cannot be read{why}"))
}

/// The error and what caused it, the innermost last. What an input or output error wraps is a cause too.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    fn next<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), |error| next(*error))
}

fn tls_failed(error: &TlsError, at: &str) -> Fault {
    let why = match error {
        TlsError::InvalidCertificate(certificate) => wrong_certificate(certificate),
        TlsError::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        other => format!("{other}"),
    };
    Fault::failed(
        "tls_failed",
        format!("`{at}` cannot prove who it is: {why}"),
        "Use a host whose certificate is in order, or ask the operator to add its authority with `egress.ca_file`.",
    )
}

fn wrong_certificate(error: &CertificateError) -> String {
    let why = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet"
        }
        // An authority that only has the name of one that is trusted is found by its signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody this machine trusts has issued its certificate"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::Revoked => "its certificate was revoked",
        other => return format!("its certificate is not in order ({other})"),
    };
    why.to_owned()
}

pub(crate) fn headers_too_large(at: &str) -> Fault {
    Fault::failed(
        "headers_too_large",
        format!("the headers of `{at}` are more than 100 or longer than 64 KiB"),
        "Ask for another page of this server, or another server.",
    )
}

pub(crate) fn response_too_large(at: &str, most: u64) -> Fault {
    Fault::failed(
        "response_too_large",
        format!("the answer of `{at}` is longer than {most} bytes"),
        "Ask for a part of it, or for less.",
    )
}

pub(crate) fn bad_response(at: &str, why: &str) -> Fault {
    Fault::failed("bad_response", format!("`{at}` did not answer as it should: {why}"), "Try again later.")
}
