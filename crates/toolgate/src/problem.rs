//! What goes wrong before there is a call to answer.

use std::{fmt, process::ExitCode};

use anstyle::{AnsiColor, Style};
use toolgate_contract::{Fault, FaultKind};
use toolgate_runtime::{OpenError, config::ConfigError, store::StoreError};

use crate::show::plain;

/// A problem for the person at the terminal.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The command line is wrong.
    Usage(String),
    /// The config is wrong, in as many places.
    Config(Vec<ConfigError>),
    /// It could not be done, or was refused.
    Fault(Fault),
}

impl Problem {
    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Config(_) => ExitCode::from(2),
            Self::Fault(fault) if fault.kind == FaultKind::Refused => ExitCode::from(3),
            Self::Fault(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        match self {
            Self::Usage(message) => write!(f, "{red}error:{red:#} {}", plain(message)),
            Self::Config(errors) => f.write_str(&errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
            Self::Fault(fault) => {
                write!(
                    f,
                    "{red}error[{}]:{red:#} {}\n  help: {}",
                    fault.code,
                    plain(&fault.message),
                    plain(&fault.remedy)
                )
            }
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<Vec<ConfigError>> for Problem {
    fn from(errors: Vec<ConfigError>) -> Self {
        Self::Config(errors)
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Config(errors) => errors.into(),
            other => Self::Usage(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Fault(Fault::failed("io", error.to_string(), "Check the disk, the pipe and the permissions."))
    }
}
