//! `toolgate tools pins`, `diff`, `pin` and `unpin`: which definitions of others a person has agreed to.

use std::process::ExitCode;

use clap::Subcommand;
use toolgate_contract::Digest;
use toolgate_runtime::definitions::{Definitions, Listed, Shown};

use crate::{problem::Problem, setup::Place, show};

#[derive(Debug, Subcommand)]
pub(crate) enum Pins {
    /// List the imported tools that are pinned or held back
    #[command(name = "pins")]
    All {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Show what is held back of an imported tool, against what is pinned
    ///
    /// Characters that nobody would see are spelt out.
    Diff {
        /// The tool, as agents call it
        #[arg(value_name = "ORIGIN__TOOL")]
        tool: String,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Agree to what is held back of an imported tool
    ///
    /// Only what has the hash that `diff` showed is pinned: if it has changed since, nothing is.
    Pin {
        /// The tool, as agents call it
        #[arg(value_name = "ORIGIN__TOOL")]
        tool: String,
        /// The hash that was shown
        #[arg(long, value_parser = hash)]
        hash: Digest,
    },
    /// Hold an imported tool back from now on
    Unpin {
        /// The tool, as agents call it
        #[arg(value_name = "ORIGIN__TOOL")]
        tool: String,
    },
}

impl Pins {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let definitions = Definitions::open(place.data_dir()?);
        match self {
            Self::All { json } => {
                let rows = definitions.list()?;
                if show::wants_json(json) {
                    show::json(&rows)?;
                } else {
                    show::table(["TOOL", "STANDING", "PINNED BY", "AT", "HASH"], rows.into_iter().map(row))?;
                }
            }
            Self::Diff { tool, json } => {
                let shown = definitions.show(&tool)?;
                if json {
                    show::json(&shown)?;
                } else {
                    show::line(&page(&shown))?;
                }
            }
            Self::Pin { tool, hash } => {
                definitions.pin(&tool, hash, &whoever())?;
                show::line(&format!("{tool} is pinned: agents may be shown it and call it"))?;
            }
            Self::Unpin { tool } => {
                definitions.unpin(&tool)?;
                show::line(&format!("{tool} is held back from now on"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Who agrees, as it stands in the list. The system's word, not the environment's.
pub(super) fn whoever() -> String {
    format!("uid {}", rustix::process::getuid().as_raw())
}

pub(super) fn hash(text: &str) -> Result<Digest, String> {
    Digest::parse(text)
        .ok_or_else(|| "write `sha256:` and 64 hex digits, as `toolgate tools diff` shows them".to_owned())
}

fn row(listed: Listed) -> [String; 5] {
    let Listed { tool, standing, pinned, by, at, held, .. } = listed;
    let hash = held.or(pinned).map(|hash| hash.to_string()).unwrap_or_default();
    [tool, standing, by.unwrap_or_default(), at.unwrap_or_default(), hash]
}

pub(super) fn page(shown: &Shown) -> String {
    let Shown { tool, standing, hash, barred, told, diff } = shown;
    let mut page = format!("{tool} is held back ({standing})\n");
    for line in told {
        page += &format!("! {line}\n");
    }
    for line in diff {
        page += &format!("{line}\n");
    }
    page + &match barred {
        Some(why) => format!("\nNobody can pin it: {why}"),
        None => format!("\nIf this is right: toolgate tools pin {tool} --hash {hash}"),
    }
}
