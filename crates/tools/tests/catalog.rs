//! What holds for every tool that ships.

#![expect(clippy::disallowed_methods, reason = "the tests lay out the files that the examples speak of")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use jiff::Timestamp;
use jsonschema::{Draft, Validator};
use serde_json::Value;
use tempfile::TempDir;
use toolgate_contract::{
    CALL_TOOL, ConnectionInfo, EffectKind, Ending, Fault, Files, Job, Network, Ran, Reach, Receipt, SafetyClass,
    SearchEngine, SearchProvider, ServiceKind, Stream, TerminalSize, ToolDef, Usage, WebRequest, WebResponse,
};
use toolgate_guard::names::{admit_name, collide};
use toolgate_tools::{
    Clock, Cx, Finder, Hands, InFull, LoadedTool, Output, OwnCalls, PastCall, PastCalls, Programs, Protected, Seen,
    StopFlag, TOOLS, Tool, ToolLine, ToolLines, ToolQuery, ToolResource, Web, Workspace,
};

/// Name, action, class, files and seconds of every tool, as somebody has looked at them. A new tool gets a row here.
const REVIEWED: &[(&str, &str, SafetyClass, Files, u64)] = &[
    ("bash", "code:write", SafetyClass::Write, Files::Write, 630),
    ("calculator", "code:read", SafetyClass::Read, Files::None, 5),
    ("call_tool", "memory:read", SafetyClass::Read, Files::None, 5),
    ("convert_temperature", "code:read", SafetyClass::Read, Files::None, 1),
    ("delete", "code:delete", SafetyClass::Write, Files::Write, 30),
    ("echo", "code:read", SafetyClass::Read, Files::None, 2),
    ("edit", "code:write", SafetyClass::Write, Files::Write, 30),
    ("external_data", "external_data:request", SafetyClass::Network, Files::None, 130),
    ("fetch_url", "external_data:request", SafetyClass::Network, Files::None, 45),
    ("find", "code:read", SafetyClass::Read, Files::Read, 30),
    ("generate_password", "code:read", SafetyClass::Read, Files::None, 1),
    ("generate_uuid", "code:read", SafetyClass::Read, Files::None, 1),
    ("get_time", "code:read", SafetyClass::Read, Files::None, 2),
    ("git_blame", "vcs:read", SafetyClass::Read, Files::Read, 180),
    ("git_branch", "vcs:branch", SafetyClass::Write, Files::Write, 180),
    ("git_clone", "vcs:read", SafetyClass::Network, Files::Write, 720),
    ("git_commit", "vcs:commit", SafetyClass::Write, Files::Write, 180),
    ("git_diff", "vcs:read", SafetyClass::Read, Files::Read, 180),
    ("git_fetch", "vcs:read", SafetyClass::Network, Files::Write, 720),
    ("git_log", "vcs:read", SafetyClass::Read, Files::Read, 180),
    ("git_merge", "vcs:commit", SafetyClass::Write, Files::Write, 180),
    ("git_pull", "vcs:commit", SafetyClass::Network, Files::Write, 720),
    ("git_push", "vcs:push", SafetyClass::Network, Files::Write, 720),
    ("git_show", "vcs:read", SafetyClass::Read, Files::Read, 180),
    ("git_stash", "vcs:branch", SafetyClass::Write, Files::Write, 180),
    ("git_status", "vcs:read", SafetyClass::Read, Files::Read, 180),
    ("git_tag", "vcs:branch", SafetyClass::Write, Files::Write, 180),
    ("grep", "code:read", SafetyClass::Read, Files::Read, 30),
    ("hash_text", "code:read", SafetyClass::Read, Files::None, 2),
    ("html_parse", "code:read", SafetyClass::Read, Files::None, 10),
    ("http_request", "comms:external", SafetyClass::Network, Files::None, 310),
    ("json_format", "code:read", SafetyClass::Read, Files::None, 2),
    ("list_tools", "memory:read", SafetyClass::Read, Files::None, 5),
    ("load_tool", "memory:read", SafetyClass::Read, Files::None, 5),
    ("load_tool_resource", "memory:read", SafetyClass::Read, Files::None, 5),
    ("ls", "code:read", SafetyClass::Read, Files::Read, 10),
    ("pr_comment", "comms:external", SafetyClass::Network, Files::None, 120),
    ("pr_create", "vcs:push", SafetyClass::Network, Files::None, 120),
    ("pr_list", "vcs:read", SafetyClass::Network, Files::None, 120),
    ("pr_merge", "vcs:push", SafetyClass::Network, Files::None, 120),
    ("pr_view", "vcs:read", SafetyClass::Network, Files::None, 120),
    ("read", "code:read", SafetyClass::Read, Files::Read, 30),
    ("read_webpage", "external_data:request", SafetyClass::Network, Files::None, 45),
    ("recent_calls", "memory:read", SafetyClass::Read, Files::None, 10),
    ("run_code", "code:write", SafetyClass::Write, Files::Write, 630),
    ("shell", "code:write", SafetyClass::Write, Files::Write, 630),
    ("string_stats", "code:read", SafetyClass::Read, Files::None, 1),
    ("terminal_close", "code:write", SafetyClass::Write, Files::Write, 30),
    ("terminal_open", "code:write", SafetyClass::Write, Files::Write, 30),
    ("terminal_read", "code:read", SafetyClass::Write, Files::Write, 60),
    ("terminal_send", "code:write", SafetyClass::Write, Files::Write, 30),
    ("url_encode", "code:read", SafetyClass::Read, Files::None, 1),
    ("web_search", "external_data:request", SafetyClass::Network, Files::None, 45),
    ("write", "code:write", SafetyClass::Write, Files::Write, 30),
];

/// The files that the examples speak of.
const EXAMPLE_FILES: &[(&str, &str)] = &[
    (".git/HEAD", "ref: refs/heads/main\n"),
    (".git/config", "[remote \"origin\"]\n\turl = https://example.org/team/project.git\n"),
    (".git/objects/info/packs", ""),
    (".git/refs/heads/main", "0123456789012345678901234567890123456789\n"),
    ("old.txt", "stray\n"),
    ("project/.git/HEAD", "ref: refs/heads/main\n"),
    ("project/.git/objects/info/packs", ""),
    ("project/.git/refs/heads/main", "0123456789012345678901234567890123456789\n"),
    ("src/main.rs", "fn main() {\n    let x = 1;\n    // TODO: say more\n    println!(\"old\");\n}\n"),
    ("src/lib.rs", "pub fn add(count: u32) -> u32 {\n    count + 1\n}\n"),
    ("tests/road.rs", "#[test]\nfn passes() {}\n"),
];

const EXAMPLE_FOUND: &str =
    r#"{"results": [{"url": "https://example.com/found", "title": "Found", "content": "What it says."}]}"#;

/// What the servers say that the examples speak of: to what, of which type, and with which words.
const EXAMPLE_ANSWERS: &[(&str, &str, &str)] = &[
    ("GET https://example.com/", "text/html", "<title>Example</title><h1>Example</h1><p>A page.</p>"),
    ("GET https://example.com/article", "text/html", "<title>Article</title><p>Words and <a href=/more>more</a>.</p>"),
    (
        "GET https://search.example/search?q=landlock%20kernel%20documentation&format=json",
        "application/json",
        EXAMPLE_FOUND,
    ),
    (
        "GET https://search.example/search?q=site%3Aexample.com%20changelog&format=json",
        "application/json",
        EXAMPLE_FOUND,
    ),
    ("GET /v1/customers?name=Ada", "application/json", r#"[{"id": 7, "name": "Ada"}]"#),
    ("POST /api/v1/repos/ada/engine/pulls", "application/json", EXAMPLE_PULL),
    ("GET /api/v1/repos/ada/engine/pulls?state=open&limit=30&page=1", "application/json", "[]"),
    ("GET /api/v1/repos/ada/engine/pulls?state=closed&limit=30&page=1", "application/json", "[]"),
    ("GET /api/v1/repos/ada/engine/pulls/7", "application/json", EXAMPLE_PULL),
    ("GET /api/v1/repos/ada/engine/pulls/7/files?limit=50&page=1", "application/json", "[]"),
    ("GET /api/v1/repos/ada/engine/issues/7/comments?limit=50&page=1", "application/json", "[]"),
    (
        "POST /api/v1/repos/ada/engine/issues/7/comments",
        "application/json",
        r#"{"id": 5, "user": null, "body": "Tested, it turns.", "created_at": "2026-01-02T03:04:05Z"}"#,
    ),
];

/// A pull request, as Forgejo writes it.
const EXAMPLE_PULL: &str = r#"{
    "number": 7, "title": "Turn faster", "body": "", "state": "open", "user": null,
    "head": {
        "ref": "fix/7", "sha": "1b9f4a3c5d7e9f1b3d5f7a9c1e3b5d7f9a1c3e5b", "repo": { "full_name": "ada/engine" }
    },
    "base": { "ref": "main", "repo": { "full_name": "ada/engine" } },
    "html_url": "https://forge.example/ada/engine/pulls/7",
    "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"
}"#;

#[test]
fn what_is_compiled_has_a_longest() {
    // A path has one too, where it is admitted: one that is too long is refused like any other that leads nowhere.
    let longest: BTreeSet<_> = tools()
        .filter(|tool| tool.def.needs.files != Files::None)
        .flat_map(|Tool { def, .. }| {
            ["pattern", "glob"].map(|field| {
                let field_schema = def.input_schema["properties"].get(field);
                (def.name.to_string(), field, field_schema.map(|schema| schema["maxLength"].as_u64()))
            })
        })
        .filter_map(|(tool, field, longest)| Some(format!("{tool} {field} {:?}", longest?)))
        .collect();
    let expected =
        ["find pattern Some(1024)", "grep glob Some(1024)", "grep pattern Some(4096)", "ls pattern Some(1024)"];
    assert_eq!(longest, expected.map(str::to_owned).into());
}

#[test]
fn every_tool_was_reviewed() {
    let mut found: Vec<_> = tools()
        .map(|Tool { def, .. }| {
            (def.name.to_string(), def.action.to_string(), def.safety, def.needs.files, def.timeout.as_secs())
        })
        .collect();
    found.sort();
    let reviewed: Vec<_> = REVIEWED
        .iter()
        .map(|(name, action, class, files, seconds)| {
            ((*name).to_owned(), (*action).to_owned(), *class, *files, *seconds)
        })
        .collect();
    assert_eq!(found, reviewed);
}

#[test]
fn names_are_admitted_and_not_mistaken_for_one_another() {
    let names: Vec<_> = tools().map(|tool| tool.def.name).collect();
    for (i, a) in names.iter().enumerate() {
        assert_eq!(admit_name(a), Ok(()));
        for b in &names[i + 1..] {
            assert_eq!(collide(a, b), None, "{a} and {b}");
        }
    }
}

#[test]
fn words_for_the_model_are_there_and_short() {
    for Tool { def, .. } in tools() {
        let ToolDef { name, summary, description, .. } = &def;
        assert!(!summary.contains('\n') && summary.len() <= 120 && summary.ends_with('.'), "{name}: {summary}");
        assert!(!description.is_empty() && description.len() <= 1200, "{name}: {} bytes", description.len());
        assert!(description.ends_with('.') && !description.contains("  "), "{name}: {description}");
        let titles: BTreeSet<_> = def.examples.iter().map(|example| &example.title).collect();
        assert!(!titles.is_empty() && titles.len() == def.examples.len(), "{name}: {titles:?}");
        let codes: BTreeSet<_> = def.failures.iter().map(|mode| &mode.code).collect();
        assert_eq!(codes.len(), def.failures.len(), "{name}: {codes:?}");
        let guides: BTreeSet<_> = def.guides.iter().map(|guide| &*guide.id).collect();
        assert_eq!(guides.len(), def.guides.len(), "{name}: {guides:?}");
        assert!(!guides.contains("output_schema"), "{name}: every tool has that");
        for guide in &def.guides {
            assert_eq!(admit_name(&guide.id), Ok(()), "{name}");
            assert!(!guide.content.is_empty() && guide.content.len() <= 8 * 1024, "{name}: {}", guide.id);
        }
        for mode in &def.failures {
            assert_eq!(admit_name(&mode.code), Ok(()), "{name}");
            assert!(mode.when.ends_with('.'), "{name}: {}", mode.when);
        }
    }
}

#[test]
fn every_field_is_described_and_no_other_is_taken() {
    for Tool { def, .. } in tools() {
        assert_eq!(def.input_schema["type"], "object", "{}", def.name);
        assert_eq!(def.input_schema["additionalProperties"], false, "{}", def.name);
        check_objects(&def.name, "input", &def.input_schema);
    }
}

/// The same for objects inside objects.
fn check_objects(tool: &str, at: &str, schema: &Value) {
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], false, "{tool}: {at}");
        for (name, property) in properties {
            let described = property["description"].as_str().is_some_and(|text| text.ends_with('.'));
            assert!(described, "{tool}: {at}.{name}: {property}");
        }
    }
    match schema {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| check_objects(tool, &format!("{at}.{key}"), member))
        }
        Value::Array(items) => items.iter().for_each(|item| check_objects(tool, at, item)),
        _ => {}
    }
}

#[test]
fn every_example_runs_and_gives_what_the_schema_says() {
    // One tool has no body of its own: it stands for another.
    for tool in tools().filter(|tool| tool.def.name != CALL_TOOL) {
        let (input, output) = (validator(&tool.def.input_schema), validator(&tool.def.output_schema));
        for example in &tool.def.examples {
            let what = format!("{} {}", tool.def.name, example.arguments);
            assert_eq!(input.validate(&example.arguments).map_err(|e| e.to_string()), Ok(()), "{what}");
            let answer = run(&tool, example.arguments.clone()).unwrap_or_else(|fault| panic!("{what}: {fault}"));
            assert_eq!(output.validate(&answer.structured).map_err(|e| e.to_string()), Ok(()), "{what}");
            assert!(answer.text.len() <= tool.def.caps.output_bytes, "{what}");
            assert!(answer.text.lines().count() <= tool.def.caps.output_lines, "{what}");
        }
    }
}

#[test]
fn a_field_that_does_not_exist_is_refused_by_schema_and_body() {
    for tool in tools() {
        let mut arguments = tool.def.examples[0].arguments.clone();
        arguments["no_such_field"] = true.into();
        assert!(!validator(&tool.def.input_schema).is_valid(&arguments), "{}", tool.def.name);
        let code = run(&tool, arguments.clone()).map_err(|fault| fault.code);
        assert_eq!(code, Err("invalid_arguments".into()), "{}", tool.def.name);
        let code = tool.reading.effects(&arguments).map_err(|fault| fault.code);
        assert_eq!(code, Err("invalid_arguments".into()), "{}", tool.def.name);
    }
}

#[test]
fn no_example_does_more_than_the_tool_declares() {
    for tool in tools() {
        for example in &tool.def.examples {
            for effect in tool.reading.effects(&example.arguments).unwrap() {
                let (name, needs) = (&tool.def.name, tool.def.needs);
                assert!(effect.kind.class() <= tool.def.safety, "{name}: {effect:?}");
                assert!(tool.def.safety > SafetyClass::Read || effect.kind.is_read_only(), "{name}: {effect:?}");
                let declared = match effect.kind {
                    EffectKind::FsRead => needs.files >= Files::Read,
                    EffectKind::FsWrite | EffectKind::FsDelete => needs.files == Files::Write,
                    EffectKind::Exec => needs.exec,
                    EffectKind::Network | EffectKind::ExternalMessage => needs.network == Network::Fenced,
                    EffectKind::Secret => needs.secrets,
                    EffectKind::RewriteHistory => needs.exec,
                    EffectKind::DeleteBranch => needs.exec || needs.network == Network::Fenced,
                    EffectKind::Financial | EffectKind::Privileged => true,
                };
                assert!(declared, "{name}: {effect:?} is not among {needs:?}");
            }
        }
    }
}

/// A tool that asks for files it never uses would get them all the same. What a program touches is not its tool's to
/// say: it gets the room's files.
#[test]
fn no_tool_declares_files_that_its_examples_do_not_touch() {
    for tool in tools().filter(|tool| !tool.def.needs.exec) {
        let effects: BTreeSet<_> = tool
            .def
            .examples
            .iter()
            .flat_map(|example| tool.reading.effects(&example.arguments).unwrap())
            .map(|effect| effect.kind)
            .collect();
        let touched = match () {
            () if effects.contains(&EffectKind::FsWrite) || effects.contains(&EffectKind::FsDelete) => Files::Write,
            () if effects.contains(&EffectKind::FsRead) => Files::Read,
            () => Files::None,
        };
        assert_eq!(tool.def.needs.files, touched, "{}", tool.def.name);
    }
}

#[test]
fn only_tools_that_need_programs_start_any() {
    for tool in tools() {
        for example in &tool.def.examples {
            let starts = tool.reading.command(&example.arguments).unwrap().is_some();
            assert!(!starts || tool.def.needs.exec, "{}", tool.def.name);
        }
    }
}

fn tools() -> impl Iterator<Item = Tool> {
    TOOLS.iter().map(|tool| tool())
}

fn validator(schema: &Value) -> Validator {
    jsonschema::options().with_draft(Draft::Draft202012).build(schema).unwrap()
}

/// Runs a call in a fresh workspace, with the hands the tool declares and no others.
fn run(tool: &Tool, arguments: Value) -> Result<Output, Fault> {
    let dir = TempDir::new().unwrap();
    for (path, text) in EXAMPLE_FILES {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let workspace = Workspace::open(dir.path(), Protected::default()).unwrap();
    let files = tool.def.needs.files;
    let cx = Cx::new(Hands {
        finder: tool.def.finds_tools().then(|| -> Arc<dyn Finder> { Arc::new(Few) }),
        own_calls: tool.def.needs.record.then(|| -> Arc<dyn OwnCalls> { Arc::new(Short) }),
        programs: tool.def.needs.exec.then(|| -> Arc<dyn Programs> { Arc::new(Quiet) }),
        web: (tool.def.needs.network == Network::Fenced).then(|| -> Arc<dyn Web> { Arc::new(Stored) }),
        workspace: (files != Files::None).then(|| workspace.with_access(files)),
        clock: Arc::new(Epoch),
        progress: None,
        remarks: None,
        stop: StopFlag::default(),
        timeout: tool.def.timeout,
        caps: tool.def.caps,
        inquiries: toolgate_tools::Inquiries::default(),
        key: None,
    });
    tool.work.here().unwrap()(&cx, arguments)
}

/// A web that has the answers the examples speak of, and an empty one for everything else.
struct Stored;

impl Web for Stored {
    fn send(&self, request: &WebRequest, _stop: &StopFlag) -> Result<WebResponse, Fault> {
        let asked = format!("{} {}", request.method, request.url);
        let stored = EXAMPLE_ANSWERS.iter().find(|(known, _, _)| *known == asked);
        let (content_type, body) = stored.map_or(("text/plain", ""), |(_, content_type, body)| (content_type, body));
        Ok(WebResponse {
            url: request.url.clone(),
            redirects: Vec::new(),
            status: 200,
            headers: vec![("content-type".into(), content_type.into())],
            body: body.into(),
        })
    }

    fn connection(&self, name: &str) -> Result<ConnectionInfo, Fault> {
        let kind = if name == "forge" { ServiceKind::Forgejo } else { ServiceKind::Generic };
        Ok(ConnectionInfo { name: name.to_owned(), base_url: format!("https://{name}.example"), kind })
    }

    fn search_engine(&self) -> Result<SearchEngine, Fault> {
        Ok(SearchEngine {
            provider: SearchProvider::Searxng,
            endpoint: "https://search.example/search".into(),
            connection: None,
        })
    }
}

/// An agent that has one tool.
struct Few;

impl Finder for Few {
    fn list(&self, _query: &ToolQuery) -> Result<ToolLines, Fault> {
        let line = ToolLine { name: "grep".into(), summary: "Search files.".into(), category: "web", cost: "cheap" };
        Ok(ToolLines { tools: vec![line], total: 2, next: Some("grep".into()) })
    }

    fn load(&self, tool: &str) -> Result<LoadedTool, Fault> {
        Ok(LoadedTool {
            name: tool.into(),
            description: "Searches files.".into(),
            input_schema: Value::Bool(true),
            examples: Vec::new(),
            failures: Vec::new(),
            resources: Vec::new(),
            unloaded: Vec::new(),
        })
    }

    fn resource(&self, _tool: &str, id: &str) -> Result<ToolResource, Fault> {
        Ok(ToolResource { id: id.into(), kind: "schema".into(), content: "true".into() })
    }
}

/// An agent that has called once.
struct Short;

impl Short {
    fn calls(in_full: Option<InFull>) -> PastCalls {
        let call = PastCall {
            at: "1970-01-01T00:00:00Z".into(),
            call: "019a8c1e-7b1f-7d2e-9c3a-5f6e7d8c9b0a".into(),
            tool: "echo".into(),
            status: "done".into(),
            code: None,
            elapsed_ms: Some(1),
            approval: None,
            effects: Vec::new(),
            labels: vec!["trusted".into(), "public".into()],
            findings: Vec::new(),
            in_full,
        };
        PastCalls { calls: vec![call], more: false }
    }
}

impl OwnCalls for Short {
    fn recent(&self, _count: usize) -> Result<PastCalls, Fault> {
        Ok(Self::calls(None))
    }

    fn one(&self, _call: &str, _most: usize) -> Result<PastCalls, Fault> {
        let arguments = serde_json::json!({ "text": "hi" });
        Ok(Self::calls(Some(InFull { arguments, text: "hi".into(), structured: "hi".into() })))
    }
}

/// A room in which everything works and says nothing.
struct Quiet;

impl Quiet {
    fn ran() -> Ran {
        Ran {
            ending: Ending::Exited { code: 0 },
            stdout: Stream::default(),
            stderr: Stream::default(),
            receipt: Receipt::default(),
            usage: Usage::default(),
            refused: Vec::new(),
        }
    }
}

impl Programs for Quiet {
    fn run(&self, _job: &Job, _stop: &StopFlag) -> Result<Ran, Fault> {
        Ok(Self::ran())
    }

    fn run_reaching(&self, _job: &Job, _reach: &Reach, _stop: &StopFlag) -> Result<Ran, Fault> {
        Ok(Self::ran())
    }

    fn open_terminal(&self, _job: &Job, _size: TerminalSize) -> Result<String, Fault> {
        Ok("t1".into())
    }

    fn type_into(&self, _terminal: &str, _bytes: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn look_at(&self, _terminal: &str, _wait: Duration, _stop: &StopFlag) -> Result<Seen, Fault> {
        Ok(Seen { screen: String::new(), scrolled: String::new(), cursor: (0, 0), running: true })
    }

    fn close_terminal(&self, _terminal: &str) -> Result<Ran, Fault> {
        Ok(Self::ran())
    }
}

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

#[test]
fn no_schema_has_a_format_that_only_rust_knows() {
    for tool in TOOLS.iter().map(|tool| tool()) {
        for schema in [&tool.def.input_schema, &tool.def.output_schema] {
            let text = schema.to_string();
            assert!(!text.contains(r#""format":"uint"#) && !text.contains(r#""format":"double"#), "{}", tool.def.name);
        }
    }
}
