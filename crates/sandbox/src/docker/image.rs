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
    let loaded = daemon.ask_within(PATIENCE, move |docker| async move {
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

#[cfg(test)]
mod tests {
    use std::{env, fs, io, io::Read, path::PathBuf, process::Command};

    use bollard::query_parameters::RemoveImageOptions;
    use toolgate_contract::{Digest, Fault};

    use super::{Daemon, find_daemon, load_image};

    /// An archive of an image with nothing in it, and the image's id.
    fn archive(tag: &str) -> (Vec<u8>, String) {
        let (dir, layer) = (tempfile::tempdir().unwrap(), vec![0; 1024]);
        let config = format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{"Labels":{{"for":"{tag}"}}}},"rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
            Digest::of(&layer)
        );
        let list = format!(r#"[{{"Config":"config.json","RepoTags":["{tag}"],"Layers":["layer.tar"]}}]"#);
        fs::write(dir.path().join("manifest.json"), list).unwrap();
        fs::write(dir.path().join("config.json"), &config).unwrap();
        fs::write(dir.path().join("layer.tar"), layer).unwrap();
        let files = ["manifest.json", "config.json", "layer.tar"];
        let made = Command::new("tar").arg("-C").arg(dir.path()).arg("-c").args(files).output().unwrap();
        (made.stdout, Digest::of(config.as_bytes()).to_string())
    }

    /// Docker's and Podman's, as far as they are there.
    fn daemons() -> Vec<PathBuf> {
        let find = |variable: &str| {
            let socket = env::var_os(variable).map(PathBuf::from);
            if socket.is_none() {
                eprintln!("SKIPPED: set {variable} to the socket of a daemon to run this test with it");
            }
            socket
        };
        ["TOOLGATE_TEST_DOCKER", "TOOLGATE_TEST_PODMAN"].into_iter().filter_map(find).collect()
    }

    fn remove(daemon: &Daemon, id: &str) {
        let id = id.to_owned();
        daemon
            .ask(move |docker| async move { docker.remove_image(&id, None::<RemoveImageOptions>, None).await })
            .unwrap()
            .unwrap();
    }

    #[test]
    fn an_image_that_was_made_here_is_found_by_each_of_its_names() {
        for socket in daemons() {
            let tag = format!("toolgate-test-empty:{}", std::process::id());
            let (archive, id) = archive(&tag);
            find_daemon(&socket).unwrap();
            assert_eq!(load_image(&socket, io::Cursor::new(archive), &tag).unwrap(), id);
            let daemon = Daemon::new(&socket).unwrap();
            let found = [&id, &tag, &format!("toolgate-test-empty@{id}")].map(|name| daemon.image(name).unwrap());
            let other = daemon.image(&format!("toolgate-test-empty@{}", Digest::of(b"another")));
            remove(&daemon, &id);
            assert_eq!(found, [id.clone(), id.clone(), id]);
            assert_eq!(Fault::from(other.unwrap_err()).code, "image_missing");
        }
    }

    #[test]
    fn an_archive_that_cannot_be_read_to_its_end_is_not_loaded() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("a person wants to stop"))
            }
        }

        for socket in daemons() {
            let tag = format!("toolgate-test-broken:{}", std::process::id());
            let (archive, _) = archive(&tag);
            let first = io::Cursor::new(archive[..archive.len() / 2].to_vec());
            load_image(&socket, first.chain(Broken), &tag).unwrap_err();
            let found = Daemon::new(&socket).unwrap().image(&tag);
            assert_eq!(Fault::from(found.unwrap_err()).code, "image_missing");
        }
    }
}
