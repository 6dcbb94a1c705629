//! A suite, how it ended, and the page that says so.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

/// Something that passes or fails as a whole.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Ended,
}

pub(crate) enum Ended {
    Passed,
    /// What could be tried passed. What could not, and why, never counted as passed; and what passed only the second time.
    PassedBut(Vec<String>),
    Failed(String),
    /// It could not run here. Never counted as passed.
    Skipped(String),
}

impl Suite {
    pub(crate) fn run(&self) -> (&'static str, Ended) {
        eprintln!("\n=== {} ===", self.name);
        let started = Instant::now();
        let ended = (self.run)();
        eprintln!("--- {}: {} s", self.name, started.elapsed().as_secs());
        (self.name, ended)
    }
}

/// Prints how the suites ended; fails if one failed.
pub(crate) fn report(ended: &[(&str, Ended)]) -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!();
    for (name, ended) in ended {
        match ended {
            Ended::Passed => {
                passed += 1;
                println!("passed   {name}");
            }
            Ended::PassedBut(remarks) => {
                passed += 1;
                println!("passed   {name}, but:");
                remarks.iter().for_each(|remark| println!("{remark}"));
            }
            Ended::Failed(why) => {
                failed += 1;
                println!("FAILED   {name}: {why}");
            }
            Ended::Skipped(why) => {
                skipped += 1;
                println!("SKIPPED  {name}: {why}");
            }
        }
    }
    println!("\nsuites: {passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a command, its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} did not start: {error}")),
    }
}

/// A suite that is one command.
pub(crate) fn passes(command: &mut Command) -> Ended {
    run(command).map_or_else(Ended::Failed, |()| Ended::Passed)
}

/// Cargo, in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where builds go.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
