//! What is remembered of images that were made: one file each, in the data directory.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use super::Built;
use crate::problem::Problem;

/// Remembers an image, in the place of the one that was made of this recipe before.
pub(crate) fn keep(data_dir: &Path, built: &Built) -> Result<(), Problem> {
    let path = place(data_dir, &built.name);
    let dir = path.parent().unwrap_or(data_dir);
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut file = NamedTempFile::new_in(dir)?;
    serde_json::to_writer_pretty(&mut file, built).map_err(io::Error::other)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The image that was made of this recipe last; none where none was, or where what is there is no such file.
pub(crate) fn kept(data_dir: &Path, recipe: &str) -> Option<Built> {
    let text = fs::read(place(data_dir, recipe)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn place(data_dir: &Path, recipe: &str) -> PathBuf {
    data_dir.join("images").join(format!("{recipe}.json"))
}
