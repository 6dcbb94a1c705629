//! What the official conformance suite of MCP is run against: [`Fixture`], a server with everything the suite calls, asks
//! for and reads (`tools.rs`, `prompts.rs`, `resources.rs`), and the rounds in which its tools ask back (`rounds.rs`).
//!
//! Results are written as JSON, the way they are on the wire, and read into the SDK's types.

#![expect(deprecated, reason = "the suite asks for what the next revision will remove")]

mod prompts;
mod resources;
mod rounds;
mod tools;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
        GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
        ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext, SubscriptionSink},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A PNG of one red pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A WAV of no samples.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// A server with everything the suite needs. Clones share who listens.
#[derive(Debug, Clone, Default)]
pub struct Fixture {
    listeners: Arc<Mutex<Vec<SubscriptionSink>>>,
    /// What comes and goes is gone from the list of tools, and from that of prompts.
    fewer_tools: Arc<AtomicBool>,
    fewer_prompts: Arc<AtomicBool>,
}

/// What comes and goes, so that lists change.
const COMES_AND_GOES: &str = "test_comes_and_goes";

/// The list as it is now.
fn now(mut list: Vec<Value>, fewer: &AtomicBool) -> Vec<Value> {
    list.retain(|entry| entry["name"] != COMES_AND_GOES || !fewer.load(Ordering::Relaxed));
    list
}

impl Fixture {
    fn listeners(&self) -> Vec<SubscriptionSink> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A result that ends its request, which results of the stateless era say. The SDK leaves it out in the others.
fn ended<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    result["resultType"] = "complete".into();
    wire(result)
}

/// A value of the SDK from what it is on the wire.
fn wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("toolgate-fixture", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        ended(json!({ "tools": now(tools::all(), &self.fewer_tools) }))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tool = tools::all().into_iter().find(|tool| tool["name"] == name)?;
        serde_json::from_value(tool).ok()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(asked) = rounds::of_tool(&request, &context) {
            return asked;
        }
        tools::call(self, &request, &context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        ended(json!({ "prompts": now(prompts::all(), &self.fewer_prompts) }))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        ended(resources::all())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        ended(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri)
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["paper", "paris", "park", "party"];
        let values: Vec<_> = known.into_iter().filter(|word| word.starts_with(&request.argument.value)).collect();
        ended(json!({ "completion": { "total": values.len(), "values": values, "hasMore": false } }))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let id = context.sink().id().clone();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(context.sink().clone());
        context.cancelled().await;
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).retain(|listener| *listener.id() != id);
        Ok(())
    }
}
