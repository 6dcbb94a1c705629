//! From flags and environment to an opened runtime. The only file that reads the environment.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args;
use futures_util::future::BoxFuture;
use toolgate_contract::{AgentName, End, Fault, Intent, Note, Person};
use toolgate_runtime::{
    Runtime, Setup, built_in_tools,
    config::{Config, ContainerSettings, PROJECT_FILE, Sources, parse_duration},
    sandbox::registry,
    secrets::SecretPlaces,
    store::{
        SqliteStore, Store, StoreError,
        state::{SqliteState, State},
    },
};

use crate::problem::Problem;

/// The administrator's config. No flag and no variable names another: whoever could would be the administrator.
const ADMIN: &str = "/etc/toolgate/toolgate.yaml";

/// Where MCP clients keep for the whole user how a server is started: beneath the home directory, and beneath the one for
/// configs.
const CLIENTS: [&str; 4] = [".claude.json", ".claude/settings.json", ".codex/config.toml", ".cursor/mcp.json"];
const CLIENT_CONFIGS: [&str; 3] = ["Code/User/mcp.json", "goose/config.yaml", "zed/settings.json"];

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Use this config, and no other
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// An opened runtime and the store behind it.
pub(crate) struct Opened {
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) state: Arc<dyn State>,
}

impl Place {
    /// Where the record lives.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, Problem> {
        let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        from("TOOLGATE_DATA_DIR")
            .or_else(|| from("XDG_DATA_HOME").map(|dir| dir.join("toolgate")))
            .or_else(|| env::home_dir().map(|home| home.join(".local/share/toolgate")))
            .map(|dir| std::path::absolute(&dir).unwrap_or(dir))
            .ok_or_else(|| Problem::usage("there is no home directory for the record; set TOOLGATE_DATA_DIR"))
    }

    /// The variables by which this program finds what it finds, as it was started now, each with a whole path.
    pub(crate) fn in_force(&self) -> Result<BTreeMap<&'static str, PathBuf>, Problem> {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let mut found = BTreeMap::new();
        if is_set("TOOLGATE_DATA_DIR") || is_set("XDG_DATA_HOME") {
            found.insert("TOOLGATE_DATA_DIR", self.data_dir()?);
        }
        if self.config.is_none()
            && let Some(dir) = env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty())
        {
            found.insert("XDG_CONFIG_HOME", PathBuf::from(dir));
        }
        Ok(found)
    }

    /// The files config is read from. The project is where the agent works.
    pub(crate) fn sources(&self, agent: &str, workspace: Option<&Path>) -> Result<Sources, Problem> {
        let cwd = env::current_dir()
            .map_err(|error| Problem::usage(format!("the current directory cannot be read: {error}")))?;
        let workspace = workspace.map(|dir| cwd.join(dir));
        let home = env::home_dir();
        let config_home = env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        let config_home = config_home.or_else(|| home.as_ref().map(|home| home.join(".config")));
        let of_home = home.iter().flat_map(|dir| CLIENTS.map(|name| dir.join(name)));
        let of_configs = config_home.iter().flat_map(|dir| CLIENT_CONFIGS.map(|name| dir.join(name)));
        let clients = of_home.chain(of_configs).collect();
        Ok(Sources {
            admin: Some(PathBuf::from(ADMIN)),
            explicit: self.config.as_ref().map(|file| cwd.join(file)),
            user: config_home.map(|dir| dir.join("toolgate/toolgate.yaml")),
            clients,
            project: Some(workspace.as_deref().unwrap_or(&cwd).join(PROJECT_FILE)),
            data_dir: self.data_dir()?,
            cwd,
            workspace: workspace.map(|dir| (AgentName::from(agent), dir)),
        })
    }

    /// The socket of the Docker daemon: the one that is named as `unix:///path`, else that of containers.
    pub(crate) fn docker_socket(&self, named: Option<&str>) -> Result<PathBuf, Problem> {
        let Some(url) = named else {
            return Ok(self.config()?.containers.host.unwrap_or_else(|| usual_socket(|name| env::var_os(name))));
        };
        match url.strip_prefix("unix://").filter(|path| path.starts_with('/')) {
            Some(path) => Ok(path.into()),
            None => {
                let message = format!("`{url}` is no daemon on this machine");
                let remedy = "Name a socket of this machine, as `unix:///path`.";
                Err(Fault::refused("daemon_elsewhere", message, remedy).into())
            }
        }
    }

    /// The config there is. Nothing is opened.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        load(&self.sources("default", None)?)
    }

    /// Opens everything. `workspace` takes the place of the agent's own.
    pub(crate) fn open(&self, agent: &str, workspace: Option<&Path>) -> Result<Opened, Problem> {
        let sources = self.sources(agent, workspace)?;
        sweep(&sources.data_dir);
        let config = load(&sources)?;
        let store = Arc::new(SqliteStore::open(&sources.data_dir)?);
        let state: Arc<dyn State> = Arc::new(SqliteState::open(&sources.data_dir)?);
        Ok(Opened { runtime: runtime(config, sources, store.clone(), Some(state.clone()))?, store, state })
    }

    /// Opens everything, does some work with it, and closes it however that went.
    pub(crate) fn with_house(
        &self,
        work: impl AsyncFnOnce(&Opened) -> Result<(), Problem>,
    ) -> Result<ExitCode, Problem> {
        let opened = self.open("default", None)?;
        let executor = executor()?;
        let done = executor.block_on(work(&opened));
        executor.block_on(opened.store.close())?;
        executor.shutdown_timeout(PATIENCE);
        done.map(|()| ExitCode::SUCCESS)
    }

    /// Opens a runtime whose policy is only tried: nothing is written, nothing is remembered, and what its rules say about
    /// their examples is left to the caller. A file that is named is the only one below the administrator's.
    pub(crate) fn try_out(&self, file: Option<&Path>) -> Result<Runtime, Problem> {
        let mut sources = self.sources("default", None)?;
        if let Some(file) = file {
            sources.explicit = Some(sources.cwd.join(file));
        }
        let config = load(&sources)?;
        let (store, tools, hidden) = (Arc::new(NoRecord), built_in_tools(), Vec::new());
        Ok(Runtime::open_untried(Setup { config, store, state: None, tools, hidden, rooms: None, secrets: None })?)
    }

    /// Opens a runtime that only answers questions: nothing is written, not even a data directory.
    pub(crate) fn look(&self, agent: &str) -> Result<Runtime, Problem> {
        let sources = self.sources(agent, None)?;
        let config = load(&sources)?;
        // What agents have earned is part of the answer.
        let earns = config.policy.trust.moves() && sources.data_dir.join("state.db").exists();
        let state = earns.then(|| SqliteState::open(&sources.data_dir)).transpose()?;
        let runtime =
            runtime(config, sources, Arc::new(NoRecord), state.map(|state| Arc::new(state) as Arc<dyn State>))?;
        executor()?.block_on(runtime.trust().look(&AgentName::from(agent)))?;
        Ok(runtime)
    }
}

/// The person at this command line: the user of the operating system.
pub(crate) fn person() -> Person {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    // The system's own list, not the environment: a variable says whatever it was told to.
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then_some(name)
    });
    Person::from(&*format!("user:{}", name.unwrap_or(&uid)))
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time span as it is written, such as `90s` or `2h`.
pub(crate) fn span(text: &str) -> Result<Duration, Problem> {
    parse_duration(text)
        .ok_or_else(|| Problem::usage(format!("`{text}` is not a time; write it as `90s`, `15m`, `2h` or `7d`")))
}

/// A variable that is text.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The token of somebody who is not the user of this process.
pub(crate) fn token() -> Option<OsString> {
    env::var_os("TOOLGATE_TOKEN").filter(|secret| !secret.is_empty())
}

/// What other programs are told of the environment: where programs are, and how to reach other machines.
pub(crate) fn for_programs() -> Vec<(&'static str, OsString)> {
    // Where programs of administrators are, which an ordinary user may not have on the path.
    let mut path = OsString::from("/usr/sbin:/usr/bin:/sbin:/bin");
    if let Some(own) = env::var_os("PATH").filter(|own| !own.is_empty()) {
        path = [own, path].join(OsStr::new(":"));
    }
    let proxies = ["http_proxy", "https_proxy", "ftp_proxy", "no_proxy"];
    let proxies = proxies.into_iter().filter_map(|name| Some((name, env::var_os(name)?)));
    proxies.chain([("PATH", path)]).collect()
}

/// Cleans up after rooms of processes that were killed. It comes before the config is read: such a room may have left
/// something in the config's place.
pub(crate) fn sweep(data_dir: &Path) {
    match registry::sweep(data_dir) {
        Ok(swept) => swept.problems.iter().for_each(|problem| tracing::warn!("a room's leftover stays: {problem}")),
        Err(error) => tracing::warn!("leftovers of rooms stay: {error}"),
    }
}

/// Where the daemon and the worker are that make containers, where the config does not say.
pub(crate) fn locate(containers: &mut ContainerSettings) {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    containers.host.get_or_insert_with(|| usual_socket(variable));
    let beside = || Some(env::current_exe().ok()?.with_file_name("toolgate-worker"));
    containers.worker = containers.worker.take().or_else(beside);
}

/// The socket of `$DOCKER_HOST`, else Docker's own, else that of the user's Podman. A daemon elsewhere is kept as it is
/// written: nobody answers there, and whoever means it is not given another one.
fn usual_socket(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |url: OsString| url.to_str().and_then(|url| url.strip_prefix("unix://")).map(PathBuf::from);
    let named = variable("DOCKER_HOST").map(|url| path(url.clone()).unwrap_or_else(|| url.into()));
    let docker = Path::new("/var/run/docker.sock");
    let podman = variable("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("podman/podman.sock"));
    let there = podman.filter(|podman| !docker.exists() && podman.exists());
    named.or(there).unwrap_or_else(|| docker.to_owned())
}

fn load(sources: &Sources) -> Result<Config, Problem> {
    let mut config = Config::load(sources)?;
    locate(&mut config.containers);
    // Also the project Toolgate is started in, where that is not the one the agent works in.
    config.protected.extend(sources.cwd.join(PROJECT_FILE).to_str().map(str::to_owned));
    for note in &config.notes {
        tracing::warn!("{}:{}: {}", note.file, note.line, note.text);
    }
    Ok(config)
}

fn runtime(
    config: Config,
    sources: Sources,
    store: Arc<dyn Store>,
    state: Option<Arc<dyn State>>,
) -> Result<Runtime, Problem> {
    let rooms = Some(sources.data_dir.clone());
    let secrets = secret_places(&sources.data_dir);
    // Whoever may talk to the daemon has the machine.
    let daemon = config.containers.host.clone();
    let named = [Some(sources.data_dir), sources.user, sources.explicit, secrets.identity.clone(), daemon];
    let hidden = named.into_iter().flatten().chain(config.secret_files()).collect();
    Ok(Runtime::open(Setup { config, store, state, tools: built_in_tools(), hidden, rooms, secrets: Some(secrets) })?)
}

/// Where the credentials of connections come from: the data directory, and what this process was started with.
pub(crate) fn secret_places(data_dir: &Path) -> SecretPlaces {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    SecretPlaces {
        data_dir: Some(data_dir.to_owned()),
        identity: variable("TOOLGATE_VAULT_IDENTITY").map(PathBuf::from),
        session_bus: variable("DBUS_SESSION_BUS_ADDRESS").and_then(|address| address.into_string().ok()),
        environment: Arc::new(|name| env::var_os(name)),
    }
}

/// Takes no record. A runtime with it can be asked what it would do, and does nothing.
struct NoRecord;

impl Store for NoRecord {
    fn begin(&self, _: Intent) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Unwritable { why: "this command only looks".into() }) })
    }

    fn end(&self, _: End) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Unwritable { why: "this command only looks".into() }) })
    }

    fn note(&self, _: Note) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Unwritable { why: "this command only looks".into() }) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

/// How long a command waits for bodies that do not listen, once every answer is given and recorded.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// An executor for one command.
pub(crate) fn executor() -> Result<tokio::runtime::Runtime, Problem> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
