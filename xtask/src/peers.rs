//! What the tests are held against: the official MCP clients, a browser, and what finds barriers in pages. Installed under
//! `target/peers` from the registries of their languages, or as packages of the system.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::suite::{root, run, target};

/// A virtual environment with the official Python client.
pub(crate) fn python() -> Result<(&'static str, PathBuf), String> {
    let place = target().join("peers/python");
    let interpreter = place.join("bin/python");
    let wants = root().join("tests/peers/python/requirements.txt");
    if !fresh(&place, &wants) {
        have("python3", &["python3", "python3-venv"])?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&place)).or_else(|_| {
            apt(&["python3-venv"]).and_then(|()| run(Command::new("python3").args(["-m", "venv"]).arg(&place)))
        })?;
        run(Command::new(&interpreter).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&wants))?;
        stamp(&place, &wants)?;
    }
    Ok(("TOOLGATE_PEER_PYTHON", interpreter))
}

/// A directory with the official TypeScript client.
pub(crate) fn typescript() -> Result<(&'static str, PathBuf), String> {
    Ok(("TOOLGATE_PEER_NODE_DIR", npm("typescript")?))
}

/// Chromium's driver, and the script of axe.
pub(crate) fn browser() -> Result<(PathBuf, PathBuf), String> {
    have("chromedriver", &["chromium", "chromium-driver"])?;
    Ok((PathBuf::from("chromedriver"), npm("axe")?.join("node_modules/axe-core/axe.min.js")))
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
