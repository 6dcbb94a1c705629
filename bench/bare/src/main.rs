//! The bare things: an MCP server with one tool that checks nothing and records nothing, and a proxy before such a server.
//!
//!     bare echo  (stdio|http)
//!     bare proxy (stdio|http) PROGRAM [WORD...]
//!
//! Over HTTP the first line that is written says where it is.

use std::{env, net::Ipv4Addr, sync::Arc};

use anyhow::bail;
use rmcp::{
    ErrorData, Peer, RoleClient, RoleServer, ServerHandler, ServiceError, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, TokioChildProcess, io::stdio_pipes,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, process::Command};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo", transport] => serve(Echo, transport).await,
        ["proxy", transport, program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args);
            let server = ().serve(TokioChildProcess::new(command)?).await?;
            serve(Proxy(server.peer().clone()), transport).await
        }
        _ => bail!("want (echo|proxy) (stdio|http) [PROGRAM [WORD...]]"),
    }
}

async fn serve<S: ServerHandler + Clone>(server: S, transport: &str) -> anyhow::Result<()> {
    if transport == "stdio" {
        server.serve(stdio_pipes()).await?.waiting().await?;
        return Ok(());
    }
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?)
}

fn info() -> ServerConfig {
    ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
}

#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        info()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let schema: Map<String, Value> = serde_json::from_value(schema).unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("repeat", "Gives the text back.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")).and_then(Value::as_str);
        match text {
            Some(text) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            None => Err(ErrorData::invalid_params("`text` is missing", None)),
        }
    }
}

#[derive(Clone)]
struct Proxy(Peer<RoleClient>);

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        info()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(told)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool_once(request).await.map_err(told)
    }
}

fn told(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        error => ErrorData::internal_error(error.to_string(), None),
    }
}
