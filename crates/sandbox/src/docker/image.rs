//! Images that were made on this machine: given to the daemon, and found again.

use std::{
    io::{self, Read},
    path::Path,
    time::Duration,
};

use bollard::query_parameters::ImportImageOptions;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use super::daemon::{Daemon, failed};
use crate::room::RoomError;

/// How many bytes of an archive are sent at once.
const CHUNK: u64 = 1 << 20;
/// How long the daemon may take for a whole image.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Does a daemon answer behind `socket`?
pub fn find_daemon(socket: &Path) -> Result<(), RoomError> {
    let daemon = Daemon::new(socket).map_err(RoomError::step("start a runtime for the daemon"))?;
    let answered = daemon.ask(|docker| async move { docker.ping().await })?;
    answered.map(drop).map_err(|error| failed("find the daemon", error))
}

/// Gives an archive of one image to the daemon behind `socket`, and says which id the image called `tag` has now. An
/// archive that cannot be read to its end is not loaded.
pub fn load_image(socket: &Path, archive: impl Read + Send + 'static, tag: &str) -> Result<String, RoomError> {
    let daemon = Daemon::new(socket).map_err(RoomError::step("start a runtime for the daemon"))?;
    let loaded = daemon.ask(move |docker| async move {
        let docker = docker.with_timeout(PATIENCE);
        let mut told = Box::pin(docker.import_image_stream(ImportImageOptions::default(), chunks(archive), None));
        while let Some(line) = told.next().await {
            line?;
        }
        Ok(())
    })?;
    loaded.map_err(|error| failed("load the image", error))?;
    daemon.image(tag)
}

/// What is read blocks the daemon's own thread, which has nothing else to do meanwhile.
fn chunks(mut archive: impl Read + Send + 'static) -> impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::iter(std::iter::from_fn(move || {
        let mut chunk = Vec::new();
        match archive.by_ref().take(CHUNK).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(chunk.into())),
            Err(error) => Some(Err(error)),
        }
    }))
}
