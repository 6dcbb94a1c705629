//! A search of a large tree: the `grep` tool through an MCP call, beside ripgrep as a process.
//!
//! Both search the same files for the same lines, in a warm cache; each side's best time counts. Ripgrep's includes the
//! start of its process, the tool's includes the call: the record, the gate and the way through the pipe.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde_json::json;

use crate::{Options, Programs, server::Server};

const DIRECTORIES: usize = 300;
const FILES_EACH: usize = 100;
const LINES_EACH: usize = 60;
/// It is in every hundredth file, once.
const NEEDLE: &str = "needle_[0-9]+";

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pattern: String,
    files: u64,
    matching_lines: u64,
    toolgate_ms: f64,
    ripgrep_ms: f64,
    ripgrep_version: String,
    /// Time, Toolgate's by ripgrep's.
    ratio: f64,
}

pub(crate) fn measure(programs: &Programs, options: &Options) -> anyhow::Result<Report> {
    let ripgrep_version = version().context("`rg` is not installed")?;
    let generated = tempfile::tempdir()?;
    let tree = match &options.tree {
        Some(tree) => tree.clone(),
        None => plant(generated.path())?,
    };
    let pattern = options.pattern.as_deref().unwrap_or(NEEDLE);
    let data = tempfile::tempdir()?;
    let mut toolgate = Server::start(&programs.toolgate, &["serve", "--stdio"], &tree, data.path())?;

    // The first of each warms the cache; the others take turns.
    let (_, found) = by_tool(&mut toolgate, pattern)?;
    let (_, lines) = by_ripgrep(&tree, pattern)?;
    ensure!(found.total == lines, "the tool finds {} lines and ripgrep {lines}", found.total);
    let (mut tool, mut ripgrep) = (Duration::MAX, Duration::MAX);
    for _ in 0..options.rounds.max(1) {
        tool = tool.min(by_tool(&mut toolgate, pattern)?.0);
        ripgrep = ripgrep.min(by_ripgrep(&tree, pattern)?.0);
    }
    toolgate.stop()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Report {
        pattern: pattern.to_owned(),
        files: found.files,
        matching_lines: lines,
        toolgate_ms: ms(tool),
        ripgrep_ms: ms(ripgrep),
        ripgrep_version,
        ratio: ms(tool) / ms(ripgrep),
    })
}

struct Found {
    total: u64,
    files: u64,
}

fn by_tool(server: &mut Server, pattern: &str) -> anyhow::Result<(Duration, Found)> {
    let start = Instant::now();
    let result = server.request("tools/call", json!({ "name": "grep", "arguments": { "pattern": pattern } }))?;
    let time = start.elapsed();
    ensure!(result["isError"] == json!(false), "grep failed: {result}");
    let count = |field: &str| result["structuredContent"][field].as_u64().with_context(|| format!("no `{field}`"));
    Ok((time, Found { total: count("total")?, files: count("files_searched")? }))
}

fn by_ripgrep(tree: &Path, pattern: &str) -> anyhow::Result<(Duration, u64)> {
    let start = Instant::now();
    let done = Command::new("rg")
        .args(["--hidden", "--glob=!.git", "--line-number", "--no-heading", "--color=never", "--regexp", pattern, "."])
        .current_dir(tree)
        .output()?;
    let time = start.elapsed();
    ensure!(done.status.code().is_some_and(|code| code < 2), "rg failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok((time, done.stdout.iter().filter(|byte| **byte == b'\n').count() as u64))
}

fn version() -> anyhow::Result<String> {
    let said = String::from_utf8(Command::new("rg").arg("--version").output()?.stdout)?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Files of made-up code, the same ones every time.
fn plant(root: &Path) -> anyhow::Result<PathBuf> {
    const WORDS: [&str; 16] = [
        "let", "value", "return", "index", "buffer", "match", "struct", "offset", "length", "result", "writer",
        "reader", "cursor", "token", "state", "queue",
    ];
    let mut seed = 1u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(seed >> 60) as usize]
    };
    let tree = root.join("tree");
    for directory in 0..DIRECTORIES {
        let place = tree.join(format!("group_{}/module_{directory}", directory % 20));
        fs::create_dir_all(&place)?;
        for file in 0..FILES_EACH {
            let mut text = String::new();
            for _ in 0..LINES_EACH {
                let line = [word(), word(), word(), word(), word(), word(), word()].join(" ");
                text.push_str(&line);
                text.push('\n');
            }
            if file == 0 {
                text.push_str(&format!("here is needle_{directory} at last\n"));
            }
            fs::write(place.join(format!("part_{file}.rs")), text)?;
        }
    }
    Ok(tree)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, files, matching_lines, toolgate_ms, ripgrep_ms, ripgrep_version, ratio } = self;
        writeln!(f, "| `{pattern}` in {files} files, {matching_lines} lines match | ms | ratio |")?;
        writeln!(f, "|---|---|---|")?;
        writeln!(f, "| toolgate `grep`, recording | {toolgate_ms:.1} | {ratio:.2} |")?;
        writeln!(f, "| {ripgrep_version} | {ripgrep_ms:.1} | 1 |")
    }
}
