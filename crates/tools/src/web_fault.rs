//! The ways the fenced client fails, each said once: the code a program matches on, and when it happens for the
//! declaration. The client makes these faults; a tool that sends requests declares them.

use toolgate_contract::FailureMode;

use crate::files::fault::{Known, said};

const URL_REFUSED: Known =
    Known::new("url_refused", "The address is no plain `https` or `http` URL. Write it the ordinary way.");
const HOST_REFUSED: Known =
    Known::new("host_refused", "The host is not one the agent may talk to. Ask the operator to allow it.");
const ADDRESS_REFUSED: Known =
    Known::new("address_refused", "The host's address is private or belongs to this machine. Use a public host.");
const RESOLVE_FAILED: Known = Known::new("resolve_failed", "The host's name has no address. Check the spelling.");
const CONNECT_FAILED: Known = Known::new("connect_failed", "Nobody answers at the host and port. Try again later.");
const TLS_FAILED: Known =
    Known::new("tls_failed", "The host's certificate is not valid for it. Ask the operator of the host.");
const TOO_LARGE: Known = Known::new("response_too_large", "The answer is longer than the limit. Ask for less.");
const HEADERS_TOO_LARGE: Known = Known::new("headers_too_large", "The headers of the answer are too long to be read.");
const TIMED_OUT: Known = Known::new("timed_out", "The answer did not come in time. Try again later or ask for less.");
const CANCELLED: Known = Known::new("cancelled", "The caller cancelled the call.");
const BAD_RESPONSE: Known = Known::new("bad_response", "What the host sent is not HTTP. Try again later.");
const BAD_HEADER: Known = Known::new("bad_header", "A header cannot be sent. The message names it and says why.");
pub(crate) const RATE_LIMITED: Known =
    Known::new("rate_limited", "Too many requests were made. Wait as long as the message says.");
const REDIRECT_REFUSED: Known = Known::new(
    "redirect_refused",
    "The server sends on to an address that is refused. The message names it and says why. Use another address.",
);
const TOO_MANY_REDIRECTS: Known =
    Known::new("too_many_redirects", "The server sends on again and again. Use the address it leads to.");
pub(crate) const ROBOTS_REFUSED: Known =
    Known::new("robots_refused", "The server's `robots.txt` asks programs not to fetch this. Use another source.");
const UNKNOWN_CONNECTION: Known =
    Known::new("unknown_connection", "No connection of that name is set up for the agent. Ask the operator.");
const CONNECTION_MISMATCH: Known =
    Known::new("connection_mismatch", "The request would leave the connection's address. Give a path below it.");
const SECRET_MISSING: Known = Known::new(
    "secret_missing",
    "A secret the connection proves itself with is not there. Ask the operator to set it.",
);
const VAULT_LOCKED: Known = Known::new("vault_locked", "The vault of secrets is locked. Ask the operator to open it.");
const TOKEN_REFUSED: Known =
    Known::new("token_refused", "The connection was given no access token. Ask the operator about its settings.");

/// What a connection can run into before anything is sent.
const CONNECTION: [&Known; 5] =
    [&UNKNOWN_CONNECTION, &CONNECTION_MISMATCH, &SECRET_MISSING, &VAULT_LOCKED, &TOKEN_REFUSED];

/// What one request can run into, wherever it goes.
const REQUEST: [&Known; 13] = [
    &URL_REFUSED,
    &HOST_REFUSED,
    &ADDRESS_REFUSED,
    &RESOLVE_FAILED,
    &CONNECT_FAILED,
    &TLS_FAILED,
    &TOO_LARGE,
    &HEADERS_TOO_LARGE,
    &TIMED_OUT,
    &CANCELLED,
    &BAD_RESPONSE,
    &BAD_HEADER,
    &RATE_LIMITED,
];

/// The part of a declaration that says how a tool fails that sends requests through a connection: what is its own, then
/// what every such request can run into.
pub(crate) fn connection_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&CONNECTION).chain(&REQUEST).copied())
}

/// The same for a tool that goes where its arguments say: servers may send it on.
pub(crate) fn web_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&[&REDIRECT_REFUSED, &TOO_MANY_REDIRECTS]).chain(&REQUEST).copied())
}

/// The same for a tool that asks the operator's search engine, which may be behind a connection.
pub(crate) fn search_modes(own: &[&Known]) -> Vec<FailureMode> {
    said(own.iter().chain(&CONNECTION).chain(&[&REDIRECT_REFUSED, &TOO_MANY_REDIRECTS]).chain(&REQUEST).copied())
}
