//! What other servers offer beside tools, and our own: prompts, resources, completions, and word of what changes.
//!
//! Asking a server for one of these is a call like that of a tool: decided, recorded, cleaned, and answered with questions
//! where the server has some. The result leaves as the JSON it is (`relay.rs`).

use std::collections::{BTreeMap, HashSet};

use rmcp::{
    ErrorData,
    model::{
        ArgumentInfo, CompleteRequestParams, CompleteResult, CompletionInfo, ErrorCode, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, InputRequiredResult, MetaObject, Prompt, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceTemplate,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contract::{Call, Fault, Outcome, Verdict};
use toolgate_runtime::{
    Explanation, Listed, Watch, Watching,
    definitions::{Library, Method, prompt_arguments},
};

use crate::{
    message::told,
    present, prompts, relay,
    resources::{self, Meant, Possible},
    server::{Answered, Brought, Server, TASK, fault, names, no_task, said},
    visit::Visit,
};

/// Entries on one page of a list.
const PAGE: usize = 200;
/// The longest address that an error repeats.
const LONGEST: usize = 2_048;

/// Some entries of a list, and where the next ones begin.
#[derive(Debug, PartialEq)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) next: Option<String>,
}

/// The page after `cursor`: what the last entry the client has seen is known by, so that an entry that comes in between
/// moves no other off the list. What is known by the same name is listed once, or the list would have no end.
pub(crate) fn page<T>(
    mut entries: Vec<T>,
    known_by: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    size: usize,
) -> Result<Page<T>, ErrorData> {
    let mut known = HashSet::new();
    entries.retain(|entry| known.insert(known_by(entry).to_owned()));
    if let Some(cursor) = cursor {
        let seen = present::read_cursor(cursor)
            .and_then(|name| entries.iter().position(|entry| known_by(entry) == name))
            .ok_or_else(|| {
                let fault = Fault::failed(
                    "bad_cursor",
                    "the cursor is not one this server gave out",
                    "Start again without a cursor.",
                );
                told(ErrorCode::INVALID_PARAMS, fault)
            })?;
        entries.drain(..=seen);
    }
    let more = entries.len() > size;
    entries.truncate(size);
    let next = entries.last().filter(|_| more).map(|entry| present::cursor(known_by(entry)));
    Ok(Page { entries, next })
}

impl Server {
    fn library(&self) -> Result<Library, ErrorData> {
        self.runtime.library(&self.agent).map_err(|fault| told(ErrorCode::INTERNAL_ERROR, fault))
    }

    /// Waits for servers that are on their way, and looks how far the agent is trusted.
    async fn arrived(&self) -> Result<Library, ErrorData> {
        self.runtime.servers_arrived().await;
        self.runtime.trust().look(&self.agent).await.map_err(|fault| told(ErrorCode::INTERNAL_ERROR, fault))?;
        self.library()
    }

    pub(crate) async fn prompts(&self, cursor: Option<&str>) -> Result<Page<Prompt>, ErrorData> {
        let library = self.arrived().await?;
        let tools = self.definitions()?;
        let theirs = library.prompts().filter_map(|prompt| shown(&prompt.entry));
        let all = prompts::list(&names(&tools)).into_iter().chain(theirs).collect();
        page(all, |prompt| &prompt.name, cursor, PAGE)
    }

    pub(crate) async fn resources(&self, cursor: Option<&str>) -> Result<Page<Resource>, ErrorData> {
        let library = self.arrived().await?;
        let own = resources::list(&self.definitions()?, |tool| self.runtime.knows(&self.agent, tool));
        let all = own.into_iter().chain(library.resources().filter_map(shown)).collect();
        page(all, |resource| &resource.uri, cursor, PAGE)
    }

    pub(crate) async fn templates(&self, cursor: Option<&str>) -> Result<Page<ResourceTemplate>, ErrorData> {
        let library = self.arrived().await?;
        let own = resources::templates(|tool| self.runtime.knows(&self.agent, tool));
        let all = own.into_iter().chain(library.templates().filter_map(shown)).collect();
        page(all, |template| &template.uri_template, cursor, PAGE)
    }

    pub(crate) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        visit: &Visit,
    ) -> Result<GetPromptResponse, ErrorData> {
        let library = self.library()?;
        let Some((server, prompt)) = library.prompt(&request.name) else {
            let tools = self.definitions()?;
            let said = prompts::get(&names(&tools), &request.name, request.arguments.as_ref());
            let mut said = said.map_err(|fault| told(ErrorCode::INVALID_PARAMS, fault))?;
            said.meta = self.some_meta(visit);
            return Ok(said.into());
        };
        let arguments = prompt_arguments(&prompt.own, request.arguments.clone());
        let (state, answers) = (request.request_state.as_deref(), request.input_responses.as_ref());
        let brought = Brought { method: Method::GetPrompt.as_str(), state, answers };
        Ok(match self.question(Method::GetPrompt.of(server), arguments, brought, visit).await? {
            Told::Whole(meta) => {
                let mut packed = GetPromptResult::new(Vec::new());
                packed.meta = Some(meta);
                packed.into()
            }
            Told::Asks(asks) => asks.into(),
            Told::Failed(outcome) => return Err(told(ErrorCode::INVALID_PARAMS, fault(*outcome))),
        })
    }

    pub(crate) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        visit: &Visit,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        let unknown = |fault| with_address(told(ErrorCode::RESOURCE_NOT_FOUND, fault), uri);
        let failed = |outcome: Outcome| {
            let code = match outcome.code.as_deref() {
                Some("not_found" | "unknown_resource" | "unknown_tool") => ErrorCode::RESOURCE_NOT_FOUND,
                _ => ErrorCode::INVALID_PARAMS,
            };
            with_address(told(code, fault(outcome)), uri)
        };
        let (state, answers) = (request.request_state.as_deref(), request.input_responses.as_ref());
        let brought = Brought { method: Method::ReadResource.as_str(), state, answers };
        let library = self.library()?;
        let mut meta = self.meta(visit);
        let contents = match (resources::read(uri), library.reader(uri)) {
            (Ok(Meant::Text(contents)), _) => contents,
            (Ok(Meant::Call { tool, arguments }), _) => {
                match self.ask(tool.to_owned(), arguments, brought, visit).await? {
                    Answered::Outcome(outcome) if outcome.is_error => return Err(failed(self.with_link(*outcome))),
                    Answered::Outcome(outcome) => {
                        meta.0.insert(present::OUTCOME.to_owned(), present::about(&outcome));
                        resources::contents(uri, &outcome)
                    }
                    Answered::Asks { requests, state } => return Ok(present::asks(requests, state, meta).into()),
                    Answered::Task(_) => return Err(no_task()),
                }
            }
            (Err(fault), Ok(None)) => return Err(unknown(fault)),
            (Err(_), Err(fault)) => return Err(with_address(told(ErrorCode::INVALID_PARAMS, fault), uri)),
            (Err(_), Ok(Some(server))) => {
                let name = Method::ReadResource.of(server);
                return Ok(match self.question(name, json!({ "uri": uri }), brought, visit).await? {
                    Told::Whole(meta) => {
                        let mut packed = ReadResourceResult::new(Vec::new());
                        packed.meta = Some(meta);
                        packed.into()
                    }
                    Told::Asks(asks) => asks.into(),
                    Told::Failed(outcome) => return Err(failed(*outcome)),
                });
            }
        };
        let mut result = ReadResourceResult::new(vec![contents]);
        result.meta = (!meta.0.is_empty()).then_some(meta);
        Ok(result.into())
    }

    pub(crate) async fn completion(
        &self,
        request: CompleteRequestParams,
        visit: &Visit,
    ) -> Result<CompleteResult, ErrorData> {
        let library = self.library()?;
        let CompleteRequestParams { r#ref, argument, context: known, .. } = request;
        let theirs = match &r#ref {
            Reference::Prompt(prompt) => library
                .prompt(&prompt.name)
                .map(|(server, it)| (server, json!({ "type": "ref/prompt", "name": it.own }))),
            Reference::Resource(template) => library
                .has_template(&template.uri)
                .map(|server| (server, json!({ "type": "ref/resource", "uri": template.uri }))),
            _ => None,
        };
        if let Some((server, reference)) = theirs.as_ref().filter(|(server, _)| library.completes(server)) {
            let mut arguments = json!({ "ref": reference, "argument": argument });
            if let Some(known) = known {
                arguments["context"] = json!(known);
            }
            let brought = Brought { method: Method::Complete.as_str(), state: None, answers: None };
            return match self.question(Method::Complete.of(server), arguments, brought, visit).await? {
                Told::Whole(meta) => {
                    let mut packed = CompleteResult::default();
                    packed.meta = Some(meta);
                    Ok(packed)
                }
                Told::Failed(outcome) => Err(told(ErrorCode::INVALID_PARAMS, fault(*outcome))),
                Told::Asks(_) => {
                    let fault = Fault::failed("bad_answer", "the server asks where it may not", "Do without it.");
                    Err(told(ErrorCode::INTERNAL_ERROR, fault))
                }
            };
        }
        let tools = self.definitions()?;
        let ArgumentInfo { name, value: begins, .. } = argument;
        let values = match &r#ref {
            // It is there, and its server has nothing to say about it.
            _ if theirs.is_some() => Vec::new(),
            Reference::Prompt(prompt) => prompts::complete(&names(&tools), &prompt.name, &name, &begins)
                .ok_or_else(|| told(ErrorCode::INVALID_PARAMS, prompts::unknown(&prompt.name)))?,
            Reference::Resource(template) => {
                let offered = resources::templates(|tool| self.runtime.knows(&self.agent, tool));
                if !offered.iter().any(|offered| offered.uri_template == template.uri) {
                    return Err(told(ErrorCode::INVALID_PARAMS, resources::unknown(&template.uri)));
                }
                let known = |part: &str| known.as_ref()?.arguments.as_ref()?.get(part).cloned();
                let possible = resources::possible(&template.uri, &name, &begins, known);
                self.complete(possible, &tools, &begins, visit).await
            }
            _ => Vec::new(),
        };
        let mut result = CompleteResult::default();
        result.completion.total = u32::try_from(values.len()).ok();
        result.completion.has_more = Some(values.len() > CompletionInfo::MAX_VALUES);
        result.completion.values = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
        result.meta = self.some_meta(visit);
        Ok(result)
    }

    /// How a part of an address could go on, as far as the agent may know. Nobody is asked for that.
    async fn complete(&self, possible: Possible, tools: &[Listed], begins: &str, visit: &Visit) -> Vec<String> {
        let beginning = |name: &&str| name.starts_with(begins);
        match possible {
            Possible::InDirectory(path) => {
                let call = self.runtime.call(&self.agent, "ls", json!({ "path": path }));
                let unasked = |it: Explanation| it.decided.verdict == Verdict::Allow;
                if !self.runtime.explain(&call).is_ok_and(unasked) {
                    return Vec::new();
                }
                let watch = Watch { cancel: visit.cancel.clone(), ..Watch::default() };
                resources::paths(&self.runtime.invoke(call, watch).await, begins)
            }
            Possible::Tool => names(tools).into_iter().filter(beginning).map(str::to_owned).collect(),
            Possible::About(tool) => {
                let about = tools.iter().filter(|listed| listed.def.name == tool).flat_map(|it| &it.def.guides);
                about.map(|guide| &*guide.id).filter(beginning).map(str::to_owned).collect()
            }
            Possible::Unsaid => Vec::new(),
        }
    }

    /// Has the server of this address tell when what is there changes. Whoever may read it may watch it. What is ours is not
    /// watched: a file of the workspace changes with nearly every call, as the list of calls does, and guides never do.
    pub(crate) fn watch(&self, uri: &str) -> Result<Watching, Fault> {
        let unwatched = |message: &str| Fault::failed("not_watched", message, "Read it again when it is needed.");
        let library = self.runtime.library(&self.agent)?;
        match library.reader(uri)?.filter(|_| resources::read(uri).is_err()) {
            Some(server) => self
                .runtime
                .watch_resource(server, uri)
                .ok_or_else(|| unwatched("so many addresses of its server are watched already that no more are taken")),
            None => Err(unwatched("there is nothing at this address that is watched")),
        }
    }

    /// A question to another server, down the road.
    async fn question(
        &self,
        name: String,
        arguments: Value,
        brought: Brought<'_>,
        visit: &Visit,
    ) -> Result<Told, ErrorData> {
        let mut meta = self.meta(visit);
        Ok(match self.ask(name, arguments, brought, visit).await? {
            Answered::Outcome(outcome) if outcome.is_error => Told::Failed(Box::new(self.with_link(*outcome))),
            Answered::Outcome(outcome) => {
                meta.0.insert(present::OUTCOME.to_owned(), present::about(&outcome));
                Told::Whole(relay::packed_whole(outcome.structured, meta))
            }
            Answered::Asks { requests, state } => Told::Asks(present::asks(requests, state, meta)),
            Answered::Task(_) => return Err(no_task()),
        })
    }

    async fn ask(
        &self,
        tool: String,
        arguments: Value,
        brought: Brought<'_>,
        visit: &Visit,
    ) -> Result<Answered, ErrorData> {
        let call = Call { task: said(visit, TASK)?, ..self.runtime.call(&self.agent, &tool, arguments) };
        self.answer(call, brought, visit).await
    }
}

/// What came of a question to another server.
enum Told {
    /// Its result, packed for the way through the SDK.
    Whole(MetaObject),
    Asks(InputRequiredResult),
    Failed(Box<Outcome>),
}

/// An entry of another server's list, as the SDK has it. Pictures are left out: whoever shows one fetches it from where
/// that server says.
fn shown<T: DeserializeOwned>(entry: &Value) -> Option<T> {
    let mut entry = entry.clone();
    entry.as_object_mut()?.remove("icons");
    serde_json::from_value(entry).inspect_err(|error| tracing::debug!(%error, "an entry is left out")).ok()
}

/// The error with the address it is about.
fn with_address(mut error: ErrorData, uri: &str) -> ErrorData {
    if let Some(data) = error.data.as_mut().filter(|_| uri.len() <= LONGEST) {
        data["uri"] = json!(uri);
    }
    error
}

/// What the client of a connection watches, by address.
pub(crate) type Watchings = BTreeMap<String, Watching>;

#[cfg(test)]
mod tests {
    use super::*;

    fn names_on(names: &[&str], cursor: Option<&str>) -> Result<(Vec<String>, Option<String>), ErrorData> {
        let entries = names.iter().map(ToString::to_string).collect();
        page(entries, |name: &String| name, cursor, 2).map(|page| (page.entries, page.next))
    }

    /// The names on each page.
    fn pages(names: &[&str]) -> Vec<Vec<String>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let (names, next) = names_on(names, cursor.as_deref()).unwrap();
            pages.push(names);
            match next {
                Some(next) => cursor = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn every_entry_is_on_one_page() {
        assert_eq!(pages(&["a", "b", "c", "d", "e"]), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        // A server behind the gate may say the same for ever.
        assert_eq!(pages(&["a", "b", "b", "b", "c", "b"]), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(pages(&["a", "b", "c", "d"]), [vec!["a", "b"], vec!["c", "d"]]);
        assert_eq!(pages(&["a"]), [vec!["a"]]);
        assert_eq!(pages(&[]), [Vec::<String>::new()]);
    }

    #[test]
    fn an_entry_that_comes_in_between_moves_no_other() {
        let (_, next) = names_on(&["b", "d", "f"], None).unwrap();
        assert_eq!(names_on(&["a", "b", "d", "e", "f"], next.as_deref()).unwrap().0, ["e", "f"]);
    }

    #[test]
    fn a_cursor_that_is_not_ours_is_refused() {
        for bad in ["", "nonsense", &present::cursor("nobody")] {
            let refused = names_on(&["a", "b"], Some(bad)).unwrap_err();
            assert_eq!(
                (refused.code, refused.data.unwrap()["code"].clone()),
                (ErrorCode::INVALID_PARAMS, "bad_cursor".into())
            );
        }
    }
}
