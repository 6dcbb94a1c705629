//! `toolgate doctor`: what this machine can enforce.

use std::{os::unix::fs::symlink, path::Path, process::ExitCode, sync::Arc};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{AgentName, Outcome, Status};
use toolgate_runtime::{
    Runtime, Setup, Watch, built_in_tools,
    config::Config,
    store::{SqliteStore, Store as _},
};

use crate::{problem::Problem, setup, setup::Place, show};

/// Say what this machine can enforce, by trying it, and how to get the rest
///
/// Every wall is probed through the road itself: a call that must be refused is made, in a workspace of its own, and the
/// wall stands only if it was.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  toolgate doctor --json")]
pub(crate) struct Doctor {
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    seen: String,
    remedy: Option<String>,
}

impl Finding {
    fn new(what: &'static str, tried: Result<String, (String, String)>) -> Self {
        match tried {
            Ok(seen) => Self { what, ok: true, seen, remedy: None },
            Err((seen, remedy)) => Self { what, ok: false, seen, remedy: Some(remedy) },
        }
    }
}

impl Doctor {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let mut findings = vec![config(place), record(place)];
        findings.extend(walls()?);
        findings.push(Finding::new(
            "rooms for programs",
            Err((
                "this build has no room, so tools that start programs or use the network are refused".into(),
                "Nothing to do: file tools and utilities do not need one.".into(),
            )),
        ));
        // Only what is broken makes the doctor unhappy; a room that does not exist yet is a fact, not a fault.
        let healthy = findings.iter().all(|finding| finding.ok || finding.what == "rooms for programs");
        if show::wants_json(self.json) {
            show::json(&json!({ "healthy": healthy, "findings": findings }))?;
        } else {
            for finding in &findings {
                let mark = if finding.ok { "ok      " } else { "missing " };
                show::line(&format!("{mark} {:<24} {}", finding.what, finding.seen))?;
                if let Some(remedy) = &finding.remedy {
                    show::line(&format!("         {:<24} {remedy}", ""))?;
                }
            }
        }
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn config(place: &Place) -> Finding {
    let tried = place.sources("default", None).and_then(|sources| Ok(Config::load(&sources)?)).map_or_else(
        |problem| Err((problem.to_string(), "Correct the line; `toolgate check FILE` shows all of them.".into())),
        |config| match config.files.as_slice() {
            [] => Ok("built-in defaults".to_owned()),
            files => Ok(files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(", ")),
        },
    );
    Finding::new("config", tried)
}

fn record(place: &Place) -> Finding {
    let tried = place.data_dir().and_then(|dir| {
        SqliteStore::open(&dir)?;
        Ok(format!("writable in {}", dir.display()))
    });
    Finding::new(
        "record",
        tried.map_err(|problem| (problem.to_string(), "Give the directory to the user who runs Toolgate.".into())),
    )
}

/// Tries to leave a workspace of its own, through the road.
fn walls() -> Result<Vec<Finding>, Problem> {
    let base = std::env::temp_dir().join(format!("toolgate-doctor-{}", std::process::id()));
    let found = probe(&base);
    // The directory is this process's own; a leftover in the temporary directory is not worth failing for.
    let _ = std::fs::remove_dir_all(&base);
    found
}

fn probe(base: &Path) -> Result<Vec<Finding>, Problem> {
    let (workspace, data) = (base.join("workspace"), base.join("data"));
    std::fs::create_dir_all(workspace.join(".git"))?;
    std::fs::write(base.join("canary"), "canary")?;
    symlink(base, workspace.join("door"))?;
    let store = Arc::new(SqliteStore::open(&data)?);
    let config = Config::built_in(&workspace);
    let rooms = Some(data.clone());
    let runtime =
        Runtime::open(Setup { config, store: store.clone(), tools: built_in_tools(), hidden: vec![data], rooms })?;
    let executor = setup::executor()?;
    let call = |tool: &str, arguments: Value| {
        let call = runtime.call(&AgentName::from("default"), tool, arguments);
        executor.block_on(runtime.invoke(call, Watch::default()))
    };
    let mut findings: Vec<_> = [
        ("paths stay beneath", "read", json!({ "path": "../canary" }), "path_outside_workspace"),
        ("links stay beneath", "read", json!({ "path": "door/canary" }), "path_outside_workspace"),
        ("git's own files", "write", json!({ "path": ".git/config", "content": "" }), "protected_path"),
        ("unknown tools", "no_such_tool", json!({}), "unknown_tool"),
    ]
    .into_iter()
    .map(|(what, tool, arguments, code)| must_refuse(what, &call(tool, arguments), code))
    .collect();
    let works = call("calculator", json!({ "expression": "6 * 7" }));
    findings.push(Finding::new(
        "permitted calls",
        match works.status == Status::Done && works.structured.as_f64() == Some(42.0) {
            true => Ok("run and are recorded".into()),
            false => Err((works.text, "Report this as a bug.".into())),
        },
    ));
    executor.block_on(store.close())?;
    Ok(findings)
}

fn must_refuse(what: &'static str, outcome: &Outcome, code: &str) -> Finding {
    let tried = if outcome.status == Status::Refused && outcome.code.as_deref() == Some(code) {
        Ok(format!("a call that must be refused was refused ({code})"))
    } else {
        Err((
            format!("a call that must be refused ended with: {}", outcome.text),
            "Do not give this machine to an agent; a kernel of 5.6 or later has `openat2`.".into(),
        ))
    };
    Finding::new(what, tried)
}
