//! A tool of your own, on the same road as those that ship: checked, decided, recorded.
//!
//! Run it with `cargo run --package toolgate-runtime --example own_tool`.

#![expect(clippy::print_stdout, reason = "an example talks to a terminal")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_runtime::{
    Runtime, Setup, Watch,
    config::Config,
    contract::{ActionType, AgentName, Category, SafetyClass, ToolDef},
    store::SqliteStore,
    tools::{Answer, Tool},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shout {
    /// What to shout.
    text: String,
}

fn shout() -> Tool {
    let def = ToolDef {
        name: "shout".into(),
        summary: "Say it louder.".into(),
        description: "Returns `text` in capitals.".into(),
        category: Category::Analytics,
        action: ActionType::CodeRead,
        safety: SafetyClass::Read,
        ..ToolDef::default()
    };
    Tool::pure(def, |_cx, input: Shout| Ok(Answer::new(input.text.to_uppercase())))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = std::env::current_dir()?;
    let data = std::env::temp_dir().join(format!("toolgate-example-{}", std::process::id()));
    let store = Arc::new(SqliteStore::open(&data)?);
    let config = Config::built_in(&workspace);
    let setup = Setup {
        config,
        store,
        state: None,
        tools: vec![shout()],
        hidden: vec![data.clone()],
        rooms: None,
        secrets: None,
    };
    let runtime = Runtime::open(setup)?;

    let agent = AgentName::from("default");
    let heard = runtime.invoke(runtime.call(&agent, "shout", json!({ "text": "hello" })), Watch::default()).await;
    println!("{}", heard.text);
    let taught = runtime.invoke(runtime.call(&agent, "shout", json!({ "txet": "hello" })), Watch::default()).await;
    println!("{}", taught.text);

    std::fs::remove_dir_all(&data)?;
    Ok(())
}
