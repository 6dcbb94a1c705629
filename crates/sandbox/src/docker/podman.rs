//! Podman, which answers as Docker does.
//!
//! It is asked for containers in its own words. Docker's it takes for those of its command line: a runtime it is told to
//! use is left out without a word, a path with a comma is several options, and a path that is not there is made, with all
//! its rights, wherever the name leads by then. Whatever else it is asked, it does as Docker does.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use bollard::{
    errors::Error,
    models::{ContainerCreateBody, HostConfig, Mount, MountType, ResourcesUlimits},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// Its own calls, in the version that every later Podman knows.
const CONTAINERS: &str = "/v4.0.0/libpod/containers";
/// The most bytes of an answer that are read. A container in a list takes about two thousand.
const MOST: u64 = 1 << 24;
/// Billionths of a processor, in one part of the hundred thousand that the kernel counts in.
const NANOS_PER_PART: i64 = 10_000;
/// What containers know of names by themselves. Podman would show them what the machine knows.
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

/// What Podman reads from files, and where they are.
#[derive(Debug)]
pub(super) struct Files {
    /// The filter of system calls, until the container is made.
    filter: PathBuf,
    /// What the container finds as `/etc/hosts`.
    hosts: PathBuf,
}

impl Files {
    /// In a directory of ours, for the container of this name.
    pub(super) fn write(dir: &Path, name: &str, filter: &str) -> io::Result<Self> {
        let files = Self { filter: dir.join(format!("{name}.calls.json")), hosts: dir.join("hosts") };
        fs::write(&files.filter, filter)?;
        // The same for all, and never another.
        fs::write(&files.hosts, HOSTS)?;
        fs::set_permissions(&files.hosts, fs::Permissions::from_mode(0o444))?;
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // It goes with the directory otherwise.
        let _ = fs::remove_file(&self.filter);
    }
}

/// The text of the filter a container is to start with.
pub(super) fn filter(body: &ContainerCreateBody) -> Option<&str> {
    let options = body.host_config.as_ref()?.security_opt.as_ref()?;
    options.iter().find_map(|option| option.strip_prefix("seccomp="))
}

/// Has a container made, and gives its id.
pub(super) async fn create(socket: &Path, spec: &Value) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Made {
        #[serde(rename = "Id")]
        id: String,
    }
    let answer = ask(socket, "POST", &format!("{CONTAINERS}/create"), &serde_json::to_vec(spec)?).await?;
    Ok(serde_json::from_slice::<Made>(&answer)?.id)
}

/// The runtime of a container.
pub(super) async fn runtime_of(socket: &Path, container: &str) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Found {
        #[serde(rename = "OCIRuntime")]
        runtime: String,
    }
    let answer = ask(socket, "GET", &format!("{CONTAINERS}/{container}/json"), &[]).await?;
    Ok(serde_json::from_slice::<Found>(&answer)?.runtime)
}

/// The containers that have a label, running or not, each with all its labels. They are in states that Docker does not know.
pub(super) async fn containers_with(
    socket: &Path,
    label: &str,
) -> Result<Vec<(String, HashMap<String, String>)>, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Found {
        id: String,
        labels: Option<HashMap<String, String>>,
    }
    let wanted: String = json!({ "label": [label] }).to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = ask(socket, "GET", &format!("{CONTAINERS}/json?all=true&filters={wanted}"), &[]).await?;
    let found: Vec<Found> = serde_json::from_slice(&answer)?;
    Ok(found.into_iter().map(|found| (found.id, found.labels.unwrap_or_default())).collect())
}

/// Whoever is to end a container that ends by itself in that moment is told that it is not as it was.
pub(super) fn has_just_ended(error: &Error) -> bool {
    let Error::DockerResponseServerError { status_code: 500, message } = error else { return false };
    message.contains("container state improper")
}

/// Asks in the plainest way there is: one question, one answer, and the end.
async fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut stream = UnixStream::connect(socket).await?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    let (status_code, body) = read(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    match status_code {
        200..300 => Ok(body.to_vec()),
        _ => {
            let told = serde_json::from_slice::<Value>(body).ok();
            let message = told.and_then(|told| Some(told.get("message")?.as_str()?.to_owned()));
            Err(Error::DockerResponseServerError { status_code, message: message.unwrap_or_default() })
        }
    }
}

/// The status of an answer, and what comes behind its head.
fn read(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let status = std::str::from_utf8(answer.get(..end)?).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}

/// What Docker would be asked for, in Podman's words. An option that nobody has translated is an error with its name:
/// nothing that was asked for is left out.
pub(super) fn translate(name: &str, mut body: ContainerCreateBody, files: &Files) -> Result<Value, String> {
    let mut host = body.host_config.take().unwrap_or_default();
    let mut spec = json!({
        "name": name,
        "image": body.image.take(),
        "entrypoint": body.entrypoint.take(),
        "command": body.cmd.take(),
        "user": body.user.take(),
        "hostname": body.hostname.take(),
        "work_dir": body.working_dir.take(),
        "stdin": body.open_stdin.take().unwrap_or_default(),
        "terminal": body.tty.take().unwrap_or_default(),
        "env": variables(body.env.take().unwrap_or_default())?,
        "labels": body.labels.take(),
        "healthconfig": body.healthcheck.take().map(|check| json!({ "Test": check.test })),
        "log_configuration": host.log_config.take().map(|log| json!({ "driver": log.typ })),
        "remove": host.auto_remove.take(),
        "init": host.init.take(),
        "oci_runtime": host.runtime.take(),
        "privileged": host.privileged.take(),
        "read_only_filesystem": host.readonly_rootfs.take(),
        "cap_add": host.cap_add.take(),
        "cap_drop": host.cap_drop.take(),
        "mask": host.masked_paths.take(),
        "sysctl": host.sysctls.take(),
        "shm_size": host.shm_size.take(),
        "r_limits": limits(&host.ulimits.take().unwrap_or_default()),
        "resource_limits": resources(&mut host),
        "mounts": mounts(&mut host, &files.hosts)?,
        "netns": network(&host.network_mode.take().unwrap_or_default())?,
        "ipcns": { "nsmode": host.ipc_mode.take() },
        "cgroupns": { "nsmode": host.cgroupns_mode.take() },
        // What a container gets from Podman unless it is told otherwise, and from Docker never.
        "image_volume_mode": "ignore",
        "manage_password": false,
        "read_write_tmpfs": false,
        "sdnotifyMode": "ignore",
        "stop_timeout": 0,
        "systemd": "false",
        "unsetenvall": true,
        "use_image_hosts": true,
        "use_image_resolve_conf": true,
    });
    for option in host.security_opt.take().unwrap_or_default() {
        match option.split_once('=').unwrap_or((&option, "")) {
            ("no-new-privileges", "") => spec["no_new_privileges"] = true.into(),
            ("seccomp", _) => spec["seccomp_profile_path"] = files.filter.to_string_lossy().into(),
            (other, _) => return Err(other.to_owned()),
        }
    }
    // The stream is attached as it is everywhere, and its end is the end of what the program reads.
    (body.stdin_once, body.attach_stdin, body.attach_stdout, body.attach_stderr) = (None, None, None, None);
    // It is said once more as the mode of the network.
    body.network_disabled = None;
    let left = [json!(body), json!(host)];
    let left = left.iter().filter_map(Value::as_object).find_map(|options| options.keys().next());
    left.map_or(Ok(spec), |option| Err(option.clone()))
}

fn variables(list: Vec<String>) -> Result<BTreeMap<String, String>, String> {
    let pair = |word: String| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(word),
    };
    list.into_iter().map(pair).collect()
}

/// With as many processes of one user as there can be on the machine: Podman asks for more unless it is told, and may
/// not have them to give. How many there are in a container its control group says.
fn limits(wanted: &[ResourcesUlimits]) -> Vec<Value> {
    let most = fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|most| most.trim().parse().ok());
    let most = ResourcesUlimits { name: Some("nproc".into()), soft: most, hard: most };
    let most = [most].into_iter().filter(|most| most.hard.is_some());
    let limit = |limit: ResourcesUlimits| json!({ "type": limit.name, "soft": limit.soft, "hard": limit.hard });
    wanted.iter().cloned().chain(most).map(limit).collect()
}

fn resources(host: &mut HostConfig) -> Value {
    let quota = host.nano_cpus.take().map(|nanos| nanos / NANOS_PER_PART);
    json!({
        "memory": { "limit": host.memory.take(), "swap": host.memory_swap.take() },
        "cpu": { "quota": quota, "period": 100_000 },
        "pids": { "limit": host.pids_limit.take() },
    })
}

fn network(mode: &str) -> Result<Value, String> {
    match mode.split_once(':') {
        None if mode == "none" => Ok(json!({ "nsmode": "none" })),
        Some(("container", id)) => Ok(json!({ "nsmode": "container", "value": id })),
        _ => Err(format!("NetworkMode {mode}")),
    }
}

fn mounts(host: &mut HostConfig, hosts: &Path) -> Result<Vec<Value>, String> {
    let mut mounts = Vec::new();
    for (path, options) in host.tmpfs.take().unwrap_or_default() {
        // What the image has there stays there.
        let options: Vec<&str> = options.split(',').chain(["notmpcopyup"]).collect();
        mounts.push(json!({ "destination": path, "type": "tmpfs", "source": "tmpfs", "options": options }));
    }
    let of_machine = Mount {
        typ: Some(MountType::BIND),
        source: Some(hosts.to_string_lossy().into_owned()),
        target: Some("/etc/hosts".into()),
        read_only: Some(true),
        ..Mount::default()
    };
    for mut mount in host.mounts.take().unwrap_or_default().into_iter().chain([of_machine]) {
        if mount.typ.take() != Some(MountType::BIND) {
            return Err("Mounts".into());
        }
        let access = if mount.read_only.take() == Some(true) { "ro" } else { "rw" };
        mounts.push(json!({
            "destination": mount.target.take(),
            "type": "bind",
            "source": mount.source.take(),
            "options": ["rbind", "rprivate", access],
        }));
        mount.bind_options = None;
        if mount != Mount::default() {
            return Err("Mounts".into());
        }
    }
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use bollard::models::{HostConfigCgroupnsModeEnum, MountBindOptions, MountBindOptionsPropagationEnum};

    use super::*;

    fn files() -> Files {
        Files { filter: "/ours/name.calls.json".into(), hosts: "/ours/hosts".into() }
    }

    fn bind(path: &str) -> Mount {
        let propagation = Some(MountBindOptionsPropagationEnum::RPRIVATE);
        Mount {
            typ: Some(MountType::BIND),
            source: Some(path.into()),
            target: Some(path.into()),
            read_only: Some(false),
            bind_options: Some(MountBindOptions { propagation, ..MountBindOptions::default() }),
            ..Mount::default()
        }
    }

    fn body(host: HostConfig) -> ContainerCreateBody {
        ContainerCreateBody { host_config: Some(host), ..ContainerCreateBody::default() }
    }

    #[test]
    fn what_docker_is_asked_for_podman_is_asked_for() {
        let host = HostConfig {
            network_mode: Some("container:abc".into()),
            ipc_mode: Some("private".into()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            security_opt: Some(vec!["no-new-privileges".into(), "seccomp={}".into()]),
            memory: Some(1 << 20),
            memory_swap: Some(1 << 20),
            nano_cpus: Some(500_000_000),
            pids_limit: Some(7),
            tmpfs: Some([("/tmp".to_owned(), "rw,size=9".to_owned())].into()),
            mounts: Some(vec![bind("/a,source=/etc:b")]),
            runtime: Some("runsc".into()),
            ..HostConfig::default()
        };
        let mut spec = translate("name", body(host), &files()).unwrap();
        let taken = [
            "mounts",
            "netns",
            "ipcns",
            "cgroupns",
            "resource_limits",
            "oci_runtime",
            "no_new_privileges",
            "seccomp_profile_path",
        ];
        let taken: BTreeMap<&str, Value> = taken.into_iter().map(|key| (key, spec[key].take())).collect();
        let expected = json!({
            "mounts": [
                { "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["rw", "size=9", "notmpcopyup"] },
                {
                    "destination": "/a,source=/etc:b", "type": "bind", "source": "/a,source=/etc:b",
                    "options": ["rbind", "rprivate", "rw"],
                },
                {
                    "destination": "/etc/hosts", "type": "bind", "source": "/ours/hosts",
                    "options": ["rbind", "rprivate", "ro"],
                },
            ],
            "netns": { "nsmode": "container", "value": "abc" },
            "ipcns": { "nsmode": "private" },
            "cgroupns": { "nsmode": "private" },
            "resource_limits": {
                "memory": { "limit": 1 << 20, "swap": 1 << 20 },
                "cpu": { "quota": 50_000, "period": 100_000 },
                "pids": { "limit": 7 },
            },
            "oci_runtime": "runsc",
            "no_new_privileges": true,
            "seccomp_profile_path": "/ours/name.calls.json",
        });
        assert_eq!(json!(taken), expected);
    }

    #[test]
    fn what_nobody_has_translated_is_named_and_not_left_out() {
        let check = |host: HostConfig, expected: &str| {
            let host = HostConfig { network_mode: host.network_mode.or(Some("none".into())), ..host };
            assert_eq!(translate("name", body(host), &files()).unwrap_err(), expected);
        };
        check(HostConfig { cpu_shares: Some(1), ..HostConfig::default() }, "CpuShares");
        check(HostConfig { userns_mode: Some("host".into()), ..HostConfig::default() }, "UsernsMode");
        check(HostConfig { security_opt: Some(vec!["apparmor=x".into()]), ..HostConfig::default() }, "apparmor");
        check(HostConfig { network_mode: Some("bridge".into()), ..HostConfig::default() }, "NetworkMode bridge");
        let volume = Mount { typ: Some(MountType::VOLUME), ..bind("/a") };
        check(HostConfig { mounts: Some(vec![volume]), ..HostConfig::default() }, "Mounts");
        let host = HostConfig { network_mode: Some("none".into()), ..HostConfig::default() };
        let named = ContainerCreateBody { domainname: Some("d".into()), ..body(host) };
        assert_eq!(translate("name", named, &files()).unwrap_err(), "Domainname");
    }

    #[test]
    fn an_answer_is_its_status_and_what_follows_its_head() {
        let check = |answer: &str, expected: Option<(u16, &str)>| {
            assert_eq!(read(answer.as_bytes()), expected.map(|(status, body)| (status, body.as_bytes())));
        };
        check("HTTP/1.0 201 Created\r\nA: b\r\n\r\n{}", Some((201, "{}")));
        check("HTTP/1.1 500 Internal Server Error\r\n\r\n", Some((500, "")));
        check("HTTP/1.0 201 Created\r\nA: b\r\n", None);
        check("HTTP/1.0\r\n\r\n", None);
        check("", None);
    }
}
