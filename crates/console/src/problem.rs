//! What goes wrong on the way to an answer: a status, a stable code, one sentence, one remedy.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{Fault, Scope};
use toolgate_runtime::store::StoreError;

/// A problem, as programs get it. Pages show the same three sentences.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
    retry_after: Option<Duration>,
    challenge: Option<Challenge>,
}

/// What a program is told that would have to prove itself with another token (RFC 6750).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Challenge {
    /// It has sent none.
    NoToken,
    /// What it has sent is none, or no longer one.
    InvalidToken,
    /// It is known who is asking, and their token is not good for this.
    InsufficientScope(Scope),
}

impl Challenge {
    fn header(self) -> Option<HeaderValue> {
        match self {
            Self::NoToken => Some(HeaderValue::from_static("Bearer")),
            Self::InvalidToken => Some(HeaderValue::from_static("Bearer error=\"invalid_token\"")),
            // The name of a scope is a header, and so there always is one.
            Self::InsufficientScope(scope) => {
                HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")).ok()
            }
        }
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { status, code: code.to_owned(), message, remedy, retry_after: None, challenge: None }
    }

    /// Nobody knows who is asking.
    pub(crate) fn unknown_caller() -> Self {
        let problem = Self::new(
            StatusCode::UNAUTHORIZED,
            "not_logged_in",
            "it is not known who is asking",
            "Send a token as `Authorization: Bearer TOKEN`, or log in with a browser.",
        );
        Self { challenge: Some(Challenge::NoToken), ..problem }
    }

    /// Nor does the token say so that was sent.
    pub(crate) fn unknown_token() -> Self {
        Self { challenge: Some(Challenge::InvalidToken), ..Self::unknown_caller() }
    }

    /// It is known who is asking, and they may not.
    pub(crate) fn not_allowed(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "not_allowed", message, remedy)
    }

    /// The same, because what they prove themselves with is not good for this.
    pub(crate) fn lacks(self, scope: Scope) -> Self {
        Self { challenge: Some(Challenge::InsufficientScope(scope)), ..self }
    }

    /// The request cannot be read.
    pub(crate) fn bad_request(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message, remedy)
    }

    /// There is no such thing.
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what, "Check the name; the lists show those there are.")
    }

    /// Too often.
    pub(crate) fn too_often(wait: Duration) -> Self {
        let message = format!("too many requests; the next one may come in {} s", wait.as_secs() + 1);
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_often", message, "Wait, then try again.");
        Self { retry_after: Some(wait), ..problem }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "code": self.code, "message": self.message, "remedy": self.remedy })
    }

    /// Puts what is only said in headers onto an answer that shows this problem.
    pub(crate) fn dress(&self, response: &mut Response) {
        *response.status_mut() = self.status;
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        if let Some(challenge) = self.challenge.and_then(Challenge::header) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_answer(&self.json());
        self.dress(&mut response);
        // Those who make a page of it find it here.
        response.extensions_mut().insert(self);
        response
    }
}

/// A JSON answer. Fields come in the order their type has them.
pub(crate) fn json_answer(value: &impl Serialize) -> Response {
    let text = match serde_json::to_vec(value) {
        Ok(text) => text,
        // Only a map with keys that are no text, and nothing here has one.
        Err(error) => return Problem::broken(format!("the answer is not JSON: {error}")).into_response(),
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl From<Fault> for Problem {
    /// A fault's code tells programs what it is; the status is only for those who do not look.
    fn from(fault: Fault) -> Self {
        let status = match &*fault.code {
            code if code.starts_with("unknown_") || code.starts_with("no_such_") => StatusCode::NOT_FOUND,
            "self_approval" | "wrong_person" => StatusCode::FORBIDDEN,
            "reason_missing" | "reason_too_long" => StatusCode::BAD_REQUEST,
            _ if fault.retryable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, &fault.code, fault.message, fault.remedy)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), error.to_string(), error.remedy())
    }
}

impl From<getrandom::Error> for Problem {
    fn from(error: getrandom::Error) -> Self {
        Self::broken(format!("the kernel gave no random bytes: {error}"))
    }
}

impl Problem {
    /// Something that should not happen did.
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "console_failed",
            what,
            "Look into the log, and report it as a bug.",
        )
    }
}
