//! The project files a person has read and trusts, by path and by the hash of every byte.
//!
//! The list is a file of the data directory, which no tool and no room can write. A path alone would trust whatever
//! is written there next; a hash alone would trust the same text where `.` means another directory.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toolgate_contract::Digest;

use super::error::ConfigError;

const LIST: &str = "trusted.json";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trusted {
    files: Vec<TrustedFile>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedFile {
    path: String,
    sha256: String,
}

/// Is this file, with this content, on the list?
pub(super) fn is_listed(data_dir: &Path, path: &Path, sha256: Digest) -> Result<bool, ConfigError> {
    let list = read(data_dir)?;
    Ok(entry(path, sha256).is_ok_and(|entry| list.files.contains(&entry)))
}

/// Puts a file with this content on the list; an older content of the same file goes off it.
pub(super) fn add(data_dir: &Path, path: &Path, sha256: Digest) -> Result<(), ConfigError> {
    let mut list = read(data_dir)?;
    let place = data_dir.join(LIST);
    let failed = |error: io::Error| {
        let message = format!("the file cannot be put on the list of trusted ones: {error}");
        ConfigError::whole(place.display().to_string(), message, "Make the data directory writable for you.")
    };
    let new = entry(path, sha256).map_err(failed)?;
    list.files.retain(|known| known.path != new.path);
    list.files.push(new);
    let json = serde_json::to_vec_pretty(&list).map_err(|error| failed(error.into()))?;
    write(data_dir, &place, &json).map_err(failed)
}

fn entry(path: &Path, sha256: Digest) -> io::Result<TrustedFile> {
    let real = path.canonicalize()?;
    let path = real.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?.to_owned();
    Ok(TrustedFile { path, sha256: sha256.to_string() })
}

fn read(data_dir: &Path) -> Result<Trusted, ConfigError> {
    let place = data_dir.join(LIST);
    let mut file = match File::open(&place) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Trusted::default()),
        Err(error) => return Err(unusable(&place, &error)),
    };
    let about = file.metadata().map_err(|error| unusable(&place, &error))?;
    if let Some(why) = exposed(&about) {
        return Err(distrusted(&place, format!("the list of trusted files may be somebody else's: {why}")));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| unusable(&place, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| unusable(&place, &error.into()))
}

/// Says how somebody else could have written the list, if they could.
fn exposed(about: &Metadata) -> Option<String> {
    let (owner, us) = (about.uid(), rustix::process::geteuid().as_raw());
    if owner != us {
        return Some(format!("user {owner} owns it, and this is user {us}"));
    }
    (about.mode() & 0o022 != 0).then(|| format!("its mode is {:03o}, so others can write to it", about.mode() & 0o777))
}

fn unusable(place: &Path, error: &io::Error) -> ConfigError {
    distrusted(place, format!("the list of trusted files cannot be read: {error}"))
}

fn distrusted(place: &Path, message: String) -> ConfigError {
    ConfigError::whole(place.display().to_string(), message, "Remove it, and trust your project files again.")
}

/// Written beside, then moved over: a reader sees the old list or the new one, also after a crash.
fn write(data_dir: &Path, place: &Path, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
    let beside: PathBuf = data_dir.join(format!("{LIST}.{}", std::process::id()));
    // What is there under this name is a leftover, or a trap: it goes, and nothing is ever written through it.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, place)?;
    File::open(data_dir)?.sync_all()
}
