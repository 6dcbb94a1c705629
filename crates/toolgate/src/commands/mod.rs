//! One file per command.

mod approvals;
mod audit;
mod autonomy;
mod call;
mod check;
mod completions;
mod connections;
mod demo;
mod doctor;
mod effects;
mod explain;
mod findings;
mod flow;
mod images;
mod mcp;
mod mcp_import;
mod pins;
mod policy;
mod sandbox;
mod scan;
mod secrets;
mod serve;
mod shell;
mod tokens;
mod tools;
mod trust;
mod turn;
mod url;

use std::process::ExitCode;

use clap::Subcommand;

use crate::{problem::Problem, setup::Place};

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Call(call::Call),
    Turn(turn::Turn),
    Tools(tools::Tools),
    Check(check::Check),
    Explain(explain::Explain),
    Policy(policy::Policy),
    Approvals(approvals::Approvals),
    Effects(effects::Effects),
    Autonomy(autonomy::Autonomy),
    Audit(audit::Audit),
    Trust(trust::Trust),
    Sandbox(sandbox::Sandbox),
    Images(images::Images),
    Shell(shell::Shell),
    Url(url::Url),
    Scan(scan::Scan),
    Flow(flow::Flow),
    Connections(connections::Connections),
    Mcp(mcp::Mcp),
    Secrets(secrets::Secrets),
    Tokens(tokens::Tokens),
    Doctor(doctor::Doctor),
    Demo(demo::Demo),
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self {
            Self::Serve(command) => command.run(place),
            Self::Call(command) => command.run(place),
            Self::Turn(command) => command.run(place),
            Self::Tools(command) => command.run(place),
            Self::Check(command) => command.run(place),
            Self::Explain(command) => command.run(place),
            Self::Policy(command) => command.run(place),
            Self::Approvals(command) => command.run(place),
            Self::Effects(command) => command.run(place),
            Self::Autonomy(command) => command.run(place),
            Self::Audit(command) => command.run(place),
            Self::Trust(command) => command.run(place),
            Self::Sandbox(command) => command.run(place),
            Self::Images(command) => command.run(place),
            Self::Shell(command) => command.run(),
            Self::Url(command) => command.run(place),
            Self::Scan(command) => command.run(),
            Self::Flow(command) => command.run(),
            Self::Connections(command) => command.run(place),
            Self::Mcp(command) => command.run(place),
            Self::Secrets(command) => command.run(place),
            Self::Tokens(command) => command.run(place),
            Self::Demo(command) => command.run(),
            Self::Doctor(command) => command.run(place),
            Self::Completions(command) => command.run(),
        }
    }
}
