//! The daemon: the few things it is asked for, each as a call that blocks.

use std::{
    collections::HashMap,
    future::Future,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, OnceLock, mpsc},
    time::{Duration, SystemTime},
};

use bollard::{
    ClientVersion, Docker,
    container::{AttachContainerResults, LogOutput},
    errors::Error,
    models::{ContainerCreateBody, ContainerSummary, SystemVersion},
    query_parameters::{
        AttachContainerOptions, CreateContainerOptions, EventsOptions, ListContainersOptions, RemoveContainerOptions,
    },
};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};

use toolgate_contract::Fault;

use super::{
    container::{DEPLOYMENT, INSTANCE, ROLE, SIDECAR},
    log::Ear,
    podman,
};
use crate::room::RoomError;

/// How long the daemon may take for one answer, in seconds.
const PATIENCE: u64 = 60;
/// Between two questions whether something is gone.
const MOMENT: Duration = Duration::from_millis(20);
/// The version whose calls are used; a newer daemon is asked for a newer one.
const VERSION: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

pub(super) struct Daemon {
    socket: PathBuf,
    /// None while it is dropped.
    runtime: Option<Runtime>,
    /// It is Podman; none before it was asked.
    is_podman: OnceLock<bool>,
    /// The version it is asked in, which it is asked for once: Podman takes half a second to say it.
    version: Arc<OnceLock<ClientVersion>>,
}

/// A container that runs, and the stream to and from its program.
pub(super) struct Started {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
}

impl Daemon {
    pub(super) fn new(socket: &Path) -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("docker").enable_all().build()?;
        let (is_podman, version) = (OnceLock::new(), Arc::default());
        Ok(Self { socket: socket.to_owned(), runtime: Some(runtime), is_podman, version })
    }

    /// Who answers, and where.
    pub(super) fn version(&self) -> Result<String, RoomError> {
        let found = self.ask_who()?;
        let name = match is_podman(&found) {
            // As its platform it names the system it runs on.
            true => Some("Podman".to_owned()),
            false => found.platform.map(|platform| platform.name).filter(|name| !name.is_empty()),
        };
        let (name, version) = (name.unwrap_or_else(|| "Docker".into()), found.version.unwrap_or_default());
        let api = found.api_version.unwrap_or_default();
        Ok(format!("{name} {version}, API {api}, on {}", self.socket.display()))
    }

    fn ask_who(&self) -> Result<SystemVersion, RoomError> {
        let found = self.ask(|docker| async move { docker.version().await })?;
        found.map_err(|error| failed("ask the daemon who it is", error))
    }

    fn is_podman(&self) -> Result<bool, RoomError> {
        if let Some(known) = self.is_podman.get() {
            return Ok(*known);
        }
        let found = is_podman(&self.ask_who()?);
        Ok(*self.is_podman.get_or_init(|| found))
    }

    /// The id of an image: its digest, which no tag can move.
    ///
    /// A daemon remembers digests of what it pulled. An image that was made here and is named `name@sha256:..` is looked
    /// for by what stands behind the name, which is its id.
    pub(super) fn image(&self, name: &str) -> Result<String, RoomError> {
        if let Some(id) = self.inspect(name)? {
            return Ok(id);
        }
        if let Some((_, digest)) = name.split_once('@')
            && let Some(id) = self.inspect(digest)?
        {
            return Ok(id);
        }
        let message = format!("the daemon has no image `{name}`");
        let remedy = format!("Build it with `toolgate images build`, or get it with `docker pull {name}`.");
        Err(RoomError::NotReady(Fault::refused("image_missing", message, remedy)))
    }

    /// The id of an image, if the daemon knows it by this name.
    fn inspect(&self, name: &str) -> Result<Option<String>, RoomError> {
        let asked = name.to_owned();
        match self.ask(move |docker| async move { docker.inspect_image(&asked).await })? {
            Ok(image) => image.id.map(Some).ok_or_else(|| failed("find the image", "it has no id")),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(error) => Err(failed("find the image", error)),
        }
    }

    /// Has a container made. What the daemon has to read from a file is written into `dir`.
    pub(super) fn create(&self, name: &str, body: ContainerCreateBody, dir: &Path) -> Result<String, RoomError> {
        if self.is_podman()? {
            return self.create_in_podman(name, body, dir);
        }
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        let made = self.ask(move |docker| async move { docker.create_container(Some(options), body).await })?;
        made.map(|made| made.id).map_err(|error| failed("create the container", error))
    }

    fn create_in_podman(&self, name: &str, body: ContainerCreateBody, dir: &Path) -> Result<String, RoomError> {
        let filter = podman::filter(&body).ok_or_else(|| failed("create the container", "it has no filter"))?;
        let files = podman::Files::write(dir, name, filter).map_err(RoomError::step("write down what Podman reads"))?;
        let spec = podman::translate(name, body, &files).map_err(|option| {
            failed("create the container", format!("nobody has told Podman what `{option}` means"))
        })?;
        let runtime = spec["oci_runtime"].as_str().map(str::to_owned);
        let socket = self.socket.clone();
        let made = self.ask(move |_| async move { podman::create(&socket, &spec).await })?;
        let container = made.map_err(|error| failed("create the container", error))?;
        if let Some(wanted) = runtime {
            self.uses_runtime(&container, &wanted).inspect_err(|_| {
                if let Err(error) = self.remove(&container) {
                    tracing::error!(%error, container, "a container was not removed; reconciling will find it");
                }
            })?;
        }
        Ok(container)
    }

    /// Has Podman taken the runtime it was told to? Before 5.0 it takes its own without a word.
    fn uses_runtime(&self, container: &str, wanted: &str) -> Result<(), RoomError> {
        let (socket, container) = (self.socket.clone(), container.to_owned());
        let found = self.ask(move |_| async move { podman::runtime_of(&socket, &container).await })?;
        let found = found.map_err(|error| failed("look at a container", error))?;
        match found == wanted {
            true => Ok(()),
            false => Err(failed("create the container", format!("Podman uses the runtime `{found}` for `{wanted}`"))),
        }
    }

    /// Attaches to a container, then starts it: not a byte of it is missed, and it never runs without us.
    pub(super) fn start(&self, container: &str, ear: Option<Ear>) -> Result<Started, RoomError> {
        let pair = || -> io::Result<(UnixStream, UnixStream)> {
            let (near, far) = UnixStream::pair()?;
            far.set_nonblocking(true)?;
            Ok((near, far))
        };
        let (near, far) = pair().map_err(RoomError::step("make a socket"))?;
        let container = container.to_owned();
        let started = self.ask(move |docker| async move {
            let options = AttachContainerOptions {
                stream: true,
                stdin: true,
                stdout: true,
                stderr: ear.is_some(),
                ..AttachContainerOptions::default()
            };
            let attached = docker.attach_container(&container, Some(options)).await?;
            let far = tokio::net::UnixStream::from_std(far)?;
            tokio::spawn(pass_on(attached, far, ear));
            docker.start_container(&container, None).await
        })?;
        started.map_err(|error| failed("start the container", error))?;
        let input = near.try_clone().map_err(RoomError::step("make a socket"))?;
        Ok(Started { input: input.into(), output: near.into() })
    }

    /// Starts a container that has nothing to say here, but about itself.
    pub(super) fn run(&self, container: &str, ear: Option<Ear>) -> Result<(), RoomError> {
        let container = container.to_owned();
        let started = self.ask(move |docker| async move {
            if let Some(ear) = ear {
                let options =
                    AttachContainerOptions { stream: true, stderr: true, ..AttachContainerOptions::default() };
                let attached = docker.attach_container(&container, Some(options)).await?;
                tokio::spawn(listen(attached, ear));
            }
            docker.start_container(&container, None).await
        })?;
        started.map_err(|error| failed("start the container", error))
    }

    /// The first process of a container, as the daemon numbers it. An error where it does not run.
    pub(super) fn process_of(&self, container: &str) -> Result<i32, RoomError> {
        let container = container.to_owned();
        let found = self.ask(move |docker| async move { docker.inspect_container(&container, None).await })?;
        let state = found.map_err(|error| failed("look at a container", error))?.state.unwrap_or_default();
        let pid = state.pid.filter(|_| state.running == Some(true)).and_then(|pid| i32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0).ok_or_else(|| failed("look at a container", "it does not run"))
    }

    /// Did this container run out of memory since then? The daemon hears of it a moment after it happened; Podman tells
    /// nobody.
    pub(super) fn ran_out_of_memory(&self, container: &str, since: SystemTime) -> bool {
        if self.is_podman().unwrap_or_default() {
            return false;
        }
        let seconds = |time: SystemTime| {
            let passed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Some(format!("{}.{:09}", passed.as_secs(), passed.subsec_nanos()))
        };
        let wanted = [("container", container), ("event", "oom")];
        let options = EventsOptions {
            since: seconds(since),
            until: seconds(SystemTime::now() + Duration::from_secs(1)),
            filters: Some(wanted.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])).into()),
        };
        let heard = self.ask(move |docker| async move { docker.events(Some(options)).next().await.transpose() });
        matches!(heard, Ok(Ok(Some(_))))
    }

    /// Ends a container and removes it. One that is gone is what was wanted, and one the daemon is removing by itself is
    /// waited for: whoever asked counts on it that nothing is left.
    pub(super) fn remove(&self, container: &str) -> Result<(), RoomError> {
        let container = container.to_owned();
        let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
        let removed = self.ask(move |docker| async move {
            loop {
                match docker.remove_container(&container, Some(options.clone())).await {
                    Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(()),
                    Err(Error::DockerResponseServerError { status_code: 409, .. }) => tokio::time::sleep(MOMENT).await,
                    Err(error) if podman::has_just_ended(&error) => tokio::time::sleep(MOMENT).await,
                    answer => return answer,
                }
            }
        })?;
        removed.map_err(|error| failed("remove a container", error))
    }

    /// The containers of a deployment, each with its instance. Whoever shares the network of another comes first: Podman
    /// removes none that another depends on.
    pub(super) fn containers_of(&self, deployment: &str) -> Result<Vec<(String, String)>, RoomError> {
        let found = match self.is_podman()? {
            true => {
                let (socket, label) = (self.socket.clone(), format!("{DEPLOYMENT}={deployment}"));
                self.ask(move |_| async move { podman::containers_with(&socket, &label).await })?
            }
            false => {
                let filters = HashMap::from([("label".to_owned(), vec![format!("{DEPLOYMENT}={deployment}")])]);
                let options =
                    ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
                let found = self.ask(move |docker| async move { docker.list_containers(Some(options)).await })?;
                let labelled = |found: ContainerSummary| Some((found.id?, found.labels.unwrap_or_default()));
                found.map(|found| found.into_iter().filter_map(labelled).collect())
            }
        };
        let mut found = found.map_err(|error| failed("list containers", error))?;
        found.sort_by_key(|(_, labels)| labels.get(ROLE).is_none_or(|role| role != SIDECAR));
        let named = |(id, mut labels): (String, HashMap<String, String>)| Some((id, labels.remove(INSTANCE)?));
        Ok(found.into_iter().filter_map(named).collect())
    }

    /// Asks the daemon and waits for the answer, on whatever thread this is.
    pub(super) fn ask<T, F>(
        &self,
        question: impl FnOnce(Docker) -> F + Send + 'static,
    ) -> Result<Result<T, Error>, RoomError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        self.ask_within(Duration::from_secs(PATIENCE), question)
    }

    /// The same, where the answer takes its time. A daemon that stalls in the middle of one is not waited for any longer.
    pub(super) fn ask_within<T, F>(
        &self,
        patience: Duration,
        question: impl FnOnce(Docker) -> F + Send + 'static,
    ) -> Result<Result<T, Error>, RoomError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let lost = || RoomError::Lost("the daemon's runtime has ended".into());
        let (tell, told) = mpsc::channel();
        let (socket, version) = (self.socket.clone(), self.version.clone());
        let asked = async move { Ok(question(connect(&socket, &version).await?).await) };
        self.runtime.as_ref().ok_or_else(lost)?.spawn(async move {
            let answer = tokio::time::timeout(patience, asked).await;
            // Whoever asked waits below.
            let _ = tell.send(answer.unwrap_or(Err(Error::RequestTimeoutError)));
        });
        told.recv().map_err(|_| lost())?.map_err(|error| self.absent(&error))
    }

    fn absent(&self, error: &Error) -> RoomError {
        let message = format!("the Docker daemon does not answer on `{}`: {error}", self.socket.display());
        let remedy = "Start the daemon, let this user use its socket, or use another backend in the config.";
        RoomError::NotReady(Fault::refused("docker_unavailable", message, remedy))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Also from a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}

/// Somebody who answers, and is asked in a version both know.
async fn connect(socket: &Path, version: &OnceLock<ClientVersion>) -> Result<Docker, Error> {
    let path = socket.to_string_lossy();
    if let Some(version) = version.get() {
        // Whether anybody answers is found out first: the library would ask before it knows.
        tokio::net::UnixStream::connect(socket).await?;
        return Docker::connect_with_unix(&path, PATIENCE, version);
    }
    let docker = Docker::connect_with_unix(&path, PATIENCE, &VERSION)?.negotiate_version().await?;
    version.get_or_init(|| docker.client_version());
    Ok(docker)
}

fn is_podman(version: &SystemVersion) -> bool {
    version.components.iter().flatten().any(|part| part.name.contains("Podman"))
}

pub(super) fn failed(step: &str, error: impl ToString) -> RoomError {
    RoomError::step(step)(io::Error::other(error.to_string()))
}

/// Hears what a container says about itself, to the end.
async fn listen(attached: AttachContainerResults, ear: Ear) {
    // Its other half stays open: a daemon may take its end for that of the whole.
    let AttachContainerResults { mut output, input: _input } = attached;
    while let Some(Ok(said)) = output.next().await {
        if let LogOutput::StdErr { message } = said {
            ear.hear(&message);
        }
    }
}

/// Moves bytes between a container's program and a socket, until either has had enough. What the container says about
/// itself is heard for a while longer.
async fn pass_on(attached: AttachContainerResults, far: tokio::net::UnixStream, ear: Option<Ear>) {
    let AttachContainerResults { mut output, mut input } = attached;
    let (mut from_runtime, mut to_runtime) = far.into_split();
    let there = async {
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(read) = from_runtime.read(&mut buffer).await {
            if read == 0 || input.write_all(&buffer[..read]).await.is_err() || input.flush().await.is_err() {
                break;
            }
        }
        // The program reads the end.
        let _ = input.shutdown().await;
    };
    let back = async {
        let mut is_heard = true;
        while let Some(Ok(said)) = output.next().await {
            match (said, &ear) {
                (LogOutput::StdOut { message }, _) if is_heard => {
                    is_heard = to_runtime.write_all(&message).await.is_ok();
                }
                (LogOutput::StdErr { message }, Some(ear)) => ear.hear(&message),
                _ => {}
            }
            if !is_heard && ear.is_none() {
                break;
            }
        }
    };
    let mut back = pin!(back);
    tokio::select! {
        () = there => {
            let patience = ear.as_ref().map(Ear::patience).unwrap_or_default();
            let _ = tokio::time::timeout(patience, back).await;
        }
        () = &mut back => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

    use super::*;

    /// A daemon that answers whoever asks for its version, as far as `answers` goes, and nobody else.
    fn stalls(socket: &Path, answers: bool) {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let asked = head.next().unwrap_or_default();
                let told = match answers {
                    true if asked.contains("/version") => {
                        let body = r#"{"Version":"27","ApiVersion":"1.41"}"#;
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    }
                    // A beginning, and never the rest.
                    true => "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[".into(),
                    false => String::new(),
                };
                let _ = stream.write_all(told.as_bytes());
                held.push(stream);
            }
        });
    }

    #[test]
    fn a_daemon_that_stalls_is_told_as_one_that_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        for (name, answers) in [("silent", false), ("stalls", true)] {
            let socket = dir.path().join(name);
            stalls(&socket, answers);
            let (tell, told) = mpsc::channel();
            let asked = socket.clone();
            thread::spawn(move || {
                let daemon = Daemon::new(&asked).unwrap();
                let list = |docker: Docker| async move { docker.list_containers(None).await };
                let _ = tell.send(daemon.ask_within(Duration::from_millis(300), list).map(|_| ()));
            });
            // The client's own patience is longer than that, and ends where the answer begins.
            let fault = Fault::from(told.recv_timeout(Duration::from_secs(PATIENCE / 2)).unwrap().unwrap_err());
            assert_eq!(fault.code, "docker_unavailable", "{name}");
            assert!(fault.message.contains(&*socket.to_string_lossy()), "{name}: {}", fault.message);
        }
    }
}
