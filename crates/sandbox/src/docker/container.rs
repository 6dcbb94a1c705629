//! What the daemon is asked for.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
};

use super::{DockerSettings, seccomp};
use crate::{
    process::bound::Bound,
    spec::{RoomLimits, RoomSpec, WorkspaceMode},
};

/// Where the worker is in a container.
pub(super) const WORKER: &str = "/toolgate-worker";
/// The private directory of a container.
pub(super) const PRIVATE: &str = "/home";

/// What tells of the machine and not of processes: what daemons cover anyway, and what process rooms cover.
const MASKED: [&str; 15] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/irq",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sys",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// The labels of a container.
pub(super) const DEPLOYMENT: &str = "toolgate.deployment";
pub(super) const INSTANCE: &str = "toolgate.instance";
const OWNER: &str = "toolgate.owner";
const SPEC: &str = "toolgate.spec";
pub(super) const ROLE: &str = "toolgate.role";
/// As a label calls a container that shares the network of another.
pub(super) const SIDECAR: &str = "sidecar";

/// Everything a container is made of.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) settings: &'a DockerSettings,
    pub(super) spec: &'a RoomSpec,
    /// The image's id.
    pub(super) image: String,
    pub(super) ids: (u32, u32),
    pub(super) deployment: &'a str,
    pub(super) instance: &'a str,
    pub(super) owner: &'a str,
    /// What says in it whose it is.
    pub(super) variables: Vec<String>,
    pub(super) spec_hash: String,
    pub(super) covers: Vec<Cover>,
}

/// Something of the machine that a container sees.
struct Bind {
    source: PathBuf,
    read_only: bool,
}

/// Something of the machine that hides a path of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) path: PathBuf,
    pub(super) with: PathBuf,
}

/// The limits of a room that is a container: whichever is lower, the room's own or what the settings allow.
pub(super) fn limits(settings: &DockerSettings, spec: &RoomLimits) -> RoomLimits {
    let memory = spec.memory.min(settings.memory_limit);
    RoomLimits {
        memory,
        pids: spec.pids.min(settings.pids_limit),
        // What lies in a private directory or is shared is memory of the container that no job's end gives back. There are
        // four places for it; half of the memory is left to run something.
        scratch: spec.scratch.min(settings.tmpfs_size).min(memory / 8),
        ..*spec
    }
}

/// What a container is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Jobs run in it.
    Room,
    /// It shares the network of one in which they do.
    Sidecar,
}

impl Wanted<'_> {
    pub(super) fn labels(&self, role: Role) -> HashMap<String, String> {
        let role = match role {
            Role::Room => "room",
            Role::Sidecar => SIDECAR,
        };
        let labels = [
            (DEPLOYMENT, self.deployment),
            (INSTANCE, self.instance),
            (OWNER, self.owner),
            (SPEC, self.spec_hash.as_str()),
            (ROLE, role),
        ];
        labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(super) fn body(&self) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec![WORKER.into()]),
            cmd: Some(Vec::new()),
            user: Some(format!("{}:{}", self.ids.0, self.ids.1)),
            hostname: Some("room".into()),
            working_dir: Some("/".into()),
            // The first stream is the only one, and the program reads its end when it is gone.
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(self.settings.log_shipping.is_some()),
            tty: Some(false),
            network_disabled: Some(true),
            env: Some(self.variables.clone()),
            labels: Some(self.labels(Role::Room)),
            healthcheck: Some(no_check()),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
        }
    }

    fn host(&self) -> HostConfig {
        let limits = limits(self.settings, &self.spec.limits);
        let memory = signed(limits.memory);
        let ulimit = |name: &str, most: u64| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(signed(most)),
            hard: Some(signed(most)),
        };
        HostConfig {
            network_mode: Some("none".into()),
            ipc_mode: Some("private".into()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            cap_drop: Some(vec!["ALL".into()]),
            security_opt: Some(vec!["no-new-privileges".into(), format!("seccomp={}", seccomp::profile())]),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            init: Some(true),
            memory: Some(memory),
            // The same: no swap.
            memory_swap: Some(memory),
            nano_cpus: Some(signed(self.settings.cpu_limit)),
            pids_limit: Some(i64::from(limits.pids)),
            shm_size: Some(signed(limits.scratch)),
            ulimits: Some(vec![ulimit("nofile", limits.open_files), ulimit("core", 0), ulimit("fsize", limits.disk)]),
            tmpfs: Some(Self::tmpfs(limits.scratch)),
            sysctls: self.settings.runtime.is_none().then(|| shared(limits.scratch)),
            masked_paths: Some(MASKED.map(str::to_owned).to_vec()),
            mounts: Some(self.mounts()),
            // What the worker says is what jobs say, and none of it belongs into a file of the daemon's.
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            auto_remove: Some(self.settings.auto_remove),
            runtime: self.settings.runtime.clone(),
            ..HostConfig::default()
        }
    }

    fn tmpfs(bytes: u64) -> HashMap<String, String> {
        // Nobody else is in the container, and Podman gives them to no user.
        let options = format!("rw,exec,nosuid,nodev,size={bytes},mode=1777");
        HashMap::from(["/tmp", PRIVATE].map(|path| (path.to_owned(), options.clone())))
    }

    /// What the worker has to find mounted: what is here now, before the daemon looks for it.
    pub(super) fn bound(&self) -> io::Result<Vec<Bound>> {
        let bound = |(path, bind): (PathBuf, Bind)| Bound::new(&bind.source, bind.source != path, &path);
        Ok(self.binds().into_iter().map(bound).collect::<Result<_, _>>()?)
    }

    fn mounts(&self) -> Vec<Mount> {
        self.binds().iter().map(|(path, bind)| mount(&bind.source, path, bind.read_only)).collect()
    }

    /// By path, so that what lies deeper covers what lies above. What is mounted on itself programs may have written to;
    /// everything else is ours.
    fn binds(&self) -> BTreeMap<PathBuf, Bind> {
        let mut binds = BTreeMap::new();
        let mut put = |target: &Path, source: &Path, read_only: bool| {
            binds.insert(target.to_owned(), Bind { source: source.to_owned(), read_only });
        };
        put(Path::new(WORKER), &self.settings.worker, true);
        self.spec.visible.iter().for_each(|path| put(path, path, true));
        if let Some(workspace) = &self.spec.workspace {
            let writes = workspace.mode == WorkspaceMode::ReadWrite;
            put(&workspace.path, &workspace.path, !writes);
            let protected: Vec<PathBuf> = workspace.protected.iter().map(|name| workspace.path.join(name)).collect();
            if writes {
                // What is mounted on cannot be renamed away, with what is below it.
                let covered = self.covers.iter().map(|cover| &cover.path);
                let above = covered.chain(&protected).flat_map(|path| path.ancestors().skip(1));
                let inside = |path: &&Path| path.starts_with(&workspace.path) && *path != workspace.path;
                let above: BTreeSet<&Path> = above.filter(inside).collect();
                above.into_iter().for_each(|path| put(path, path, false));
                protected.iter().for_each(|path| put(path, path, true));
            }
        }
        self.covers.iter().for_each(|cover| put(&cover.path, &cover.with, true));
        binds
    }
}

/// An image may name a program that the daemon is to run in its containers now and then, beside ours.
pub(super) fn no_check() -> HealthConfig {
    HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }
}

pub(super) fn mount(source: &Path, target: &Path, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_string_lossy().into_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// What the kernel keeps for processes to share outlives them: it is little, and segments go with the last who has them.
/// Another runtime may have another kernel, which counts for itself.
fn shared(bytes: u64) -> HashMap<String, String> {
    let page = rustix::param::page_size() as u64;
    let all = [
        ("kernel.shm_rmid_forced", "1".to_owned()),
        ("kernel.shmall", (bytes / page).to_string()),
        ("kernel.msgmni", "64".to_owned()),
        ("kernel.sem", "250 4000 32 64".to_owned()),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
