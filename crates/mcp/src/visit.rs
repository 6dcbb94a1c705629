//! A request of a client, as far as a call has to do with it: of which era it is, what its client can do, who hears of it.
//!
//! Most calls want nothing but their answer: nobody is told how far they are, and nobody is asked anything. For those the
//! SDK is a long way round, so whoever reads messages takes them itself ([`PlainCall`]) and gives the SDK the others.

use std::sync::{Arc, LazyLock};

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, JsonRpcRequest,
        ProgressToken, ProtocolVersion, RequestId, RequestMetaObject,
    },
    service::{Peer, RequestContext},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_runtime::tools::Weight;

/// Where a request of the stateless era names its revision, and says what its client can do.
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Where it says from which weight on it wants remarks.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Where a request of any revision says that it wants to hear how far it is.
const PROGRESS: &str = "progressToken";

/// One request.
pub(crate) struct Visit {
    pub(crate) era: Era,
    pub(crate) can: Arc<Can>,
    pub(crate) meta: RequestMetaObject,
    /// Nobody wants the answer any more.
    pub(crate) cancel: CancellationToken,
}

/// Of which era a request is, and whoever is behind it.
#[derive(Debug, Clone)]
pub(crate) enum Era {
    /// Of the revisions with sessions: the client can be asked while its call waits.
    Sessions(Peer<RoleServer>),
    /// Of 2026-07-28 or later: it can be told something before its answer, if it wants to hear it.
    Stateless(Option<Peer<RoleServer>>),
}

/// What a client can do.
#[derive(Debug, Default)]
pub(crate) struct Can {
    /// It takes a task for an answer.
    pub(crate) tasks: bool,
    /// It can show a form to the person at it.
    pub(crate) forms: bool,
    /// In its own words.
    pub(crate) all: Value,
}

impl Can {
    pub(crate) fn of(client: &ClientCapabilities) -> Self {
        // A client that names no kind has forms: the first revision knew nothing else.
        let forms = client.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none());
        Self { tasks: client.supports_tasks(), forms, all: serde_json::to_value(client).unwrap_or_default() }
    }

    /// Of one that names nothing.
    fn nothing() -> Arc<Self> {
        static NOTHING: LazyLock<Arc<Can>> = LazyLock::new(|| Arc::new(Can::of(&ClientCapabilities::default())));
        NOTHING.clone()
    }
}

/// A call of a tool that needs nothing of the SDK.
pub(crate) struct PlainCall {
    pub(crate) id: RequestId,
    pub(crate) params: CallToolRequestParams,
    pub(crate) visit: Visit,
}

impl PlainCall {
    /// Takes it, or gives back what is something else.
    #[expect(clippy::result_large_err, reason = "what is given back is passed on as it came")]
    pub(crate) fn of(
        message: ClientJsonRpcMessage,
        session: Option<&Session>,
        cancel: impl FnOnce() -> CancellationToken,
    ) -> Result<Self, ClientJsonRpcMessage> {
        let (id, mut call) = match message {
            JsonRpcMessage::Request(JsonRpcRequest { id, request: ClientRequest::CallToolRequest(call), .. }) => {
                (id, call)
            }
            other => return Err(other),
        };
        match Visit::plain(call.extensions.remove().unwrap_or_default(), session, cancel) {
            Ok(visit) => Ok(Self { id, params: call.params, visit }),
            Err(meta) => {
                call.extensions.insert(meta);
                Err(ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(call), id))
            }
        }
    }
}

impl Visit {
    /// A request that needs nothing of the SDK: one of the stateless era that says all it has to say and wants to hear
    /// nothing but its answer, or one of a session, whose client is known. Whatever else it is, the SDK knows what to make
    /// of it.
    fn plain(
        meta: RequestMetaObject,
        session: Option<&Session>,
        cancel: impl FnOnce() -> CancellationToken,
    ) -> Result<Self, RequestMetaObject> {
        let (era, can) = match (meta.get(VERSION), session) {
            (Some(Value::String(version)), _) if version == ProtocolVersion::V_2026_07_28.as_str() => {
                let hears = meta.contains_key(PROGRESS) || meta.contains_key(LOG_LEVEL);
                let can = match meta.get(CAPABILITIES) {
                    Some(Value::Object(names)) if names.is_empty() => Some(Can::nothing()),
                    _ => meta.client_capabilities().map(|client| Arc::new(Can::of(&client))),
                };
                match can {
                    Some(can) if !hears => (Era::Stateless(None), can),
                    _ => return Err(meta),
                }
            }
            (None, Some(session)) => (Era::Sessions(session.peer.clone()), session.can.clone()),
            _ => return Err(meta),
        };
        Ok(Self { era, can, meta, cancel: cancel() })
    }

    pub(crate) fn is_stateless(&self) -> bool {
        matches!(self.era, Era::Stateless(_))
    }

    /// Whoever can be told something before the answer.
    pub(crate) fn peer(&self) -> Option<&Peer<RoleServer>> {
        match &self.era {
            Era::Sessions(peer) | Era::Stateless(Some(peer)) => Some(peer),
            Era::Stateless(None) => None,
        }
    }

    /// Does its client know of links to resources among the content of a result?
    pub(crate) fn takes_links(&self) -> bool {
        match &self.era {
            Era::Sessions(peer) => {
                peer.peer_info().is_some_and(|client| client.protocol_version >= ProtocolVersion::V_2025_06_18)
            }
            Era::Stateless(_) => true,
        }
    }

    pub(crate) fn progress_token(&self) -> Option<ProgressToken> {
        self.meta.get_progress_token()
    }

    /// From which weight on it wants remarks, where a request says so.
    pub(crate) fn hears_from(&self) -> Option<Weight> {
        self.meta.get(LOG_LEVEL).and_then(Value::as_str).and_then(Weight::parse)
    }
}

impl From<RequestContext<RoleServer>> for Visit {
    fn from(context: RequestContext<RoleServer>) -> Self {
        let is_stateless = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let can = context.client_capabilities().map(|client| Can::of(&client)).unwrap_or_default();
        let RequestContext { peer, meta, ct, .. } = context;
        let era = if is_stateless { Era::Stateless(Some(peer)) } else { Era::Sessions(peer) };
        Self { era, can: Arc::new(can), meta, cancel: ct }
    }
}

/// A client that has greeted, and what it said of itself.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer<RoleServer>,
    can: Arc<Can>,
}

impl Session {
    /// None where it is of the era without sessions, whose requests speak for themselves.
    pub(crate) fn of(peer: Peer<RoleServer>) -> Option<Self> {
        let client = peer.peer_info().filter(|client| client.protocol_version < ProtocolVersion::V_2026_07_28)?;
        let can = Arc::new(Can::of(&client.capabilities));
        Some(Self { peer, can })
    }
}
