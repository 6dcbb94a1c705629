//! Why something could not be remembered or recalled.

use std::path::{Path, PathBuf};

use toolgate_contract::Fault;

/// Why something could not be remembered or recalled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written, so nothing may take effect.
    #[error("the record cannot be written: {why}")]
    Unwritable {
        /// What stands in the way.
        why: String,
    },
    /// The log cannot be read.
    #[error("the record cannot be read: {why}")]
    Unreadable {
        /// What stands in the way.
        why: String,
    },
    /// A file of the data directory cannot be used.
    #[error("cannot use `{}`: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What stands in the way.
        why: String,
    },
    /// There are records, but not the key they were made with. A new one would hide that.
    #[error("`{}` is missing, but the records made with it are there", .0.display())]
    KeyMissing(PathBuf),
    /// Others can read or replace a key.
    #[error("`{}` is not private: {why}", path.display())]
    KeyExposed {
        /// Which key.
        path: PathBuf,
        /// In which way.
        why: String,
    },
    /// Others can replace the files of the data directory.
    #[error("the data directory `{}` is not safe from others: {why}", path.display())]
    DirExposed {
        /// The data directory.
        path: PathBuf,
        /// In which way.
        why: String,
    },
    /// A key file holds something else.
    #[error("`{}` is not the key these records were made with", .0.display())]
    KeyWrong(PathBuf),
    /// A later version of the program wrote the log.
    #[error("`{}` has format {found}, this program knows formats up to {known}", path.display())]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The state cannot be read or changed. Nothing was changed.
    #[error("cannot use `{}`: {why}", path.display())]
    State {
        /// The database.
        path: PathBuf,
        /// What stands in the way.
        why: String,
    },
    /// The state is not there, though it was.
    #[error("`{}` is missing, but programs have used it", .0.display())]
    StateMissing(PathBuf),
    /// It was closed before.
    #[error("the state is closed")]
    StateClosed,
    /// Others can read or replace the state.
    #[error("`{}` is not private: {why}", path.display())]
    StateExposed {
        /// The database.
        path: PathBuf,
        /// In which way.
        why: String,
    },
    /// The log is not as it was left.
    #[error("the log in `{}` is not as it was left: {what}", dir.display())]
    Tampered {
        /// The data directory.
        dir: PathBuf,
        /// What does not fit.
        what: String,
    },
}

impl StoreError {
    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn unwritable(why: impl ToString) -> Self {
        Self::Unwritable { why: why.to_string() }
    }

    pub(crate) fn unreadable(why: impl ToString) -> Self {
        Self::Unreadable { why: why.to_string() }
    }

    /// Stable: programs match on it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unwritable { .. } => "record_unwritable",
            Self::Unreadable { .. } => "record_unreadable",
            Self::File { .. } => "record_file_unusable",
            Self::KeyMissing(_) => "record_key_missing",
            Self::KeyExposed { .. } => "record_key_exposed",
            Self::DirExposed { .. } => "record_dir_exposed",
            Self::KeyWrong(_) => "record_key_wrong",
            Self::TooNew { .. } => "record_format_too_new",
            Self::State { .. } => "state_unusable",
            Self::StateMissing(_) => "state_missing",
            Self::StateClosed => "state_closed",
            Self::StateExposed { .. } => "state_exposed",
            Self::Tampered { .. } => "record_tampered",
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unwritable { .. } => {
                "Free disk space or mend the data directory; calls with effects stay refused until a record can be written."
                    .to_owned()
            }
            Self::Unreadable { .. } => "Run `toolgate audit verify`.".to_owned(),
            Self::File { path, .. } => {
                format!("Check that `{}` exists and that this user owns it.", path.display())
            }
            Self::KeyMissing(path) => format!(
                "Restore `{}` from a backup, or move the whole data directory away to begin a new log.",
                path.display()
            ),
            Self::State { .. } => {
                "Free disk space or mend the data directory, or restore the file from a backup; what needs it stays refused until then."
                    .to_owned()
            }
            Self::StateMissing(path) => format!(
                "Restore `{}` from a backup, or remove `{}` to begin with no approvals, effects or tokens.",
                path.display(),
                path.with_file_name("instances").display()
            ),
            Self::StateClosed => "Start toolgate again.".to_owned(),
            Self::KeyExposed { path, .. } | Self::StateExposed { path, .. } => {
                format!("Run `chown $(id -u) {0} && chmod 600 {0}`.", path.display())
            }
            Self::DirExposed { path, .. } => {
                format!("Run `chown $(id -u) {0} && chmod go-w {0}`.", path.display())
            }
            Self::KeyWrong(path) => format!("Restore the right `{}` from a backup.", path.display()),
            Self::TooNew { .. } => "Upgrade toolgate, or point it at another data directory.".to_owned(),
            Self::Tampered { .. } => {
                "Run `toolgate audit verify`, keep the directory as evidence, and begin a new log in another one.".to_owned()
            }
        }
    }
}

impl From<StoreError> for Fault {
    /// No record, no effect: to the agent every one of them is a refusal, and one that may pass.
    fn from(error: StoreError) -> Self {
        Fault::refused(error.code(), error.to_string(), error.remedy()).retryable()
    }
}
