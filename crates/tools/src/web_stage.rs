//! A web for tests: it notes what it is asked for and answers as it was told.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use serde_json::Value;
use toolgate_contract::{ConnectionInfo, Fault, SearchEngine, ServiceKind, WebRequest, WebResponse};

use crate::{Clock, Cx, Hands, Output, Reconciled, StopFlag, Tool, Web};

/// A client that reaches nobody.
pub(crate) struct WebStage {
    web: Arc<Noting>,
    pub(crate) stop: StopFlag,
}

#[derive(Default)]
struct Noting {
    sent: Mutex<Vec<WebRequest>>,
    answers: Mutex<VecDeque<Result<WebResponse, Fault>>>,
    connections: Vec<ConnectionInfo>,
    engine: Option<SearchEngine>,
}

impl WebStage {
    /// A client that gives these answers to what it sends, in order, and none after that.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Result<WebResponse, Fault>>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { web: Arc::new(Noting { answers, ..Noting::default() }), stop: StopFlag::default() }
    }

    /// The same with a connection of the operator's.
    pub(crate) fn connected(mut self, name: &str, base_url: &str, kind: ServiceKind) -> Self {
        let (name, base_url) = (name.to_owned(), base_url.to_owned());
        let web = Arc::get_mut(&mut self.web).unwrap();
        web.connections.push(ConnectionInfo { name, base_url, kind });
        self
    }

    /// The same with a search engine of the operator's.
    pub(crate) fn searching(mut self, engine: SearchEngine) -> Self {
        Arc::get_mut(&mut self.web).unwrap().engine = Some(engine);
        self
    }

    /// Calls a tool the way the runtime does. Whatever goes wrong must be declared.
    pub(crate) fn call(&self, tool: fn() -> Tool, arguments: Value) -> Result<Output, Fault> {
        self.call_as(&tool(), arguments, None)
    }

    /// The same under a key.
    pub(crate) fn call_as(&self, tool: &Tool, arguments: Value, key: Option<&str>) -> Result<Output, Fault> {
        let result = tool.work.here().unwrap()(&self.cx(tool, key), arguments);
        if let Err(fault) = &result {
            let declared = tool.def.failures.iter().any(|mode| mode.code == fault.code);
            assert!(
                declared || fault.code == "invalid_arguments",
                "`{}` does not declare `{}`: {fault}",
                tool.def.name,
                fault.code
            );
        }
        result
    }

    /// Lets a tool find out what became of a call.
    pub(crate) fn look(&self, tool: fn() -> Tool, arguments: Value) -> Result<Reconciled<Output>, Fault> {
        let tool = tool();
        tool.reconcile.as_ref().unwrap()(&self.cx(&tool, Some("k")), arguments)
    }

    fn cx(&self, tool: &Tool, key: Option<&str>) -> Cx {
        Cx::new(Hands {
            finder: None,
            own_calls: None,
            programs: None,
            web: Some(self.web.clone()),
            workspace: None,
            clock: Arc::new(NoClock),
            progress: None,
            remarks: None,
            stop: self.stop.clone(),
            timeout: tool.def.timeout,
            caps: tool.def.caps,
            inquiries: crate::Inquiries::default(),
            key: key.map(str::to_owned),
        })
    }

    /// What was sent so far.
    pub(crate) fn sent(&self) -> Vec<WebRequest> {
        self.web.sent.lock().unwrap().clone()
    }
}

/// An answer with a JSON body.
pub(crate) fn json_answer(status: u16, body: Value) -> Result<WebResponse, Fault> {
    answer(status, &[("content-type", "application/json")], body.to_string())
}

/// An answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Result<WebResponse, Fault> {
    Ok(WebResponse {
        url: "https://example.com/".into(),
        redirects: Vec::new(),
        status,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: body.into(),
    })
}

impl Web for Noting {
    fn send(&self, request: &WebRequest, stop: &StopFlag) -> Result<WebResponse, Fault> {
        self.sent.lock().unwrap().push(request.clone());
        if stop.is_raised() {
            return Err(Fault::failed("cancelled", "the caller cancelled the call", "Call again."));
        }
        match self.answers.lock().unwrap().pop_front() {
            Some(answer) => answer,
            None => panic!("nobody expected {} {}", request.method, request.url),
        }
    }

    fn connection(&self, name: &str) -> Result<ConnectionInfo, Fault> {
        self.connections.iter().find(|connection| connection.name == name).cloned().ok_or_else(|| {
            let message = format!("there is no connection `{name}`");
            Fault::refused("unknown_connection", message, "Ask the operator.")
        })
    }

    fn search_engine(&self) -> Result<SearchEngine, Fault> {
        let none = Fault::failed("no_search_engine", "no search engine is set up", "Ask the operator.");
        self.engine.clone().ok_or(none)
    }
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}
