//! The sidecar: a second container that shares the network of the first, and furnishes it.
//!
//! It has the one right that takes, until it has done it. The runtime listens for it in a directory that is mounted
//! nowhere else, and knows it by its process. When either of the two ends, the other does what is left: the runtime
//! shuts the door, the sidecar goes.

use std::{
    collections::HashMap,
    fmt, fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
        socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use serde_json::json;

use super::{
    DockerSettings, House,
    container::{WORKER, mount, no_check, signed},
    egress::{self, PATIENCE, Shared},
    log::Log,
};
use crate::{
    process::{net::Fence, sys, wire},
    room::RoomError,
    worker,
};

/// Where the control directory is in a sidecar, and what the socket in it is called.
const CONTROL: &str = "/control";
const SOCKET: &str = "socket";

/// Whose network a sidecar is to share, and what it is to be.
#[derive(Debug)]
pub(super) struct Beside {
    /// The id of the container.
    pub(super) container: String,
    /// What the sidecar is called.
    pub(super) name: String,
    pub(super) image: String,
    pub(super) labels: HashMap<String, String>,
    /// What says in it whose it is.
    pub(super) variables: Vec<String>,
    /// A directory of this machine that is the room's own, and that nobody but the runtime's user may enter.
    pub(super) dir: PathBuf,
}

/// A container that exists. Dropping it removes it.
pub(super) struct Sidecar {
    house: Arc<House>,
    container: String,
    removed: AtomicBool,
    /// None until it has called.
    control: Option<Arc<OwnedFd>>,
    log: Option<Arc<Log>>,
}

impl Sidecar {
    /// Starts a sidecar and has it furnish the network. Gives the sockets of the door.
    pub(super) fn start(house: &Arc<House>, beside: Beside, fence: Fence) -> Result<(Self, Vec<OwnedFd>), RoomError> {
        let (listener, dir) = listen_in(&beside.dir).map_err(RoomError::step("listen for the sidecar"))?;
        let name = beside.name.clone();
        let container = house.daemon.create(&name, body(&house.settings, beside, &dir), house.registry.dir())?;
        let mut sidecar =
            Self { house: house.clone(), container, removed: AtomicBool::new(false), control: None, log: None };
        let (log, ear) = house.settings.log_shipping.map(Log::new).unzip();
        house.daemon.run(&sidecar.container, ear)?;
        sidecar.log = log;
        let control = sidecar.answer_the_call(&listener)?;
        // Nobody else is to call.
        fs::remove_file(dir.join(SOCKET)).map_err(RoomError::step("listen for the sidecar"))?;
        let sockets = egress::order(&control, fence)?;
        sidecar.control = Some(Arc::new(control));
        Ok((sidecar, sockets))
    }

    /// From here on the door is shut as soon as the sidecar ends, or says anything at all.
    pub(super) fn ends_with_it(&mut self, door: Shared) -> Result<(), RoomError> {
        const STEP: &str = "watch the sidecar";
        let control = self.control.clone().ok_or_else(|| RoomError::Lost("its sidecar has not called".into()))?;
        set_socket_timeout(&*control, Timeout::Recv, None).map_err(|error| RoomError::step(STEP)(error.into()))?;
        let watch = move || {
            let _ = wire::receive::<()>(&*control);
            egress::shut(&door);
        };
        std::thread::Builder::new().name("sidecar".into()).spawn(watch).map_err(RoomError::step(STEP))?;
        Ok(())
    }

    pub(super) fn container(&self) -> &str {
        &self.container
    }

    /// What it says about itself.
    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_deref()
    }

    /// Removes the container, once its log has ended or it is that late. `false`: the daemon would not.
    pub(super) fn remove(&self, until: Instant) -> bool {
        if self.removed.load(Ordering::Acquire) {
            return true;
        }
        if let Some(control) = &self.control {
            // It reads the end and goes, also where the daemon does not answer.
            let _ = shutdown(&**control, Shutdown::Both);
        }
        if let Some(log) = self.log.as_ref().filter(|_| self.control.is_some()) {
            log.await_end(until);
        }
        let removed = match self.house.daemon.remove(&self.container) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, self.container, "a sidecar was not removed; reconciling will find it");
                false
            }
        };
        self.removed.store(removed, Ordering::Release);
        removed
    }

    /// Waits for the sidecar, and for nobody else: whoever calls has to be its first process.
    fn answer_the_call(&self, listener: &OwnedFd) -> Result<OwnedFd, RoomError> {
        const STEP: &str = "hear from the sidecar";
        const LOOK_AGAIN: Duration = Duration::from_secs(1);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            // One that has ended does not call any more.
            let process = self.house.daemon.process_of(&self.container)?;
            if let Some(caller) = caller(listener, LOOK_AGAIN).map_err(RoomError::step(STEP))?
                && sys::peer(caller.as_fd()).map_err(RoomError::step(STEP))? == process
            {
                return Ok(caller);
            }
        }
        Err(RoomError::step(STEP)(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.remove(Instant::now());
    }
}

impl fmt::Debug for Sidecar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sidecar").field("container", &self.container).finish_non_exhaustive()
    }
}

/// A socket in a directory of its own. The sidecar is root without any right over files, so to it the two are open; to
/// everybody else on the machine they are behind a directory that is not.
fn listen_in(room: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let dir = room.join("control");
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // By way of the open directory: the path of a socket is short, and that of a data directory may be long.
    let held = fs::File::open(&dir)?;
    bind(&listener, &SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()))?)?;
    fs::set_permissions(dir.join(SOCKET), fs::Permissions::from_mode(0o666))?;
    listen(&listener, 8)?;
    Ok((listener, dir))
}

/// Whoever calls next; none where nobody does for so long.
fn caller(listener: &OwnedFd, patience: Duration) -> io::Result<Option<OwnedFd>> {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&patience))? {
        0 => Ok(None),
        _ => Ok(Some(accept_with(listener, SocketFlags::CLOEXEC)?)),
    }
}

fn body(settings: &DockerSettings, beside: Beside, control: &Path) -> ContainerCreateBody {
    let memory = signed(settings.sidecar_memory);
    let ulimit =
        |name: &str, most: i64| ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) };
    let host = HostConfig {
        network_mode: Some(format!("container:{}", beside.container)),
        ipc_mode: Some("private".into()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        cap_drop: Some(vec!["ALL".into()]),
        cap_add: Some(vec!["NET_ADMIN".into()]),
        security_opt: Some(vec!["no-new-privileges".into(), format!("seccomp={}", profile())]),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        // The worker itself is the first process, so that whoever calls can be known by its number.
        init: Some(false),
        memory: Some(memory),
        // The same: no swap.
        memory_swap: Some(memory),
        nano_cpus: Some(signed(settings.sidecar_cpu)),
        pids_limit: Some(i64::from(settings.sidecar_pids)),
        shm_size: Some(signed(settings.sidecar_tmpfs)),
        ulimits: Some(vec![ulimit("nofile", 64), ulimit("core", 0)]),
        tmpfs: Some(HashMap::from([(
            "/tmp".to_owned(),
            format!("rw,noexec,nosuid,nodev,size={},mode=0700", settings.sidecar_tmpfs),
        )])),
        mounts: Some(vec![mount(&settings.worker, Path::new(WORKER), true), mount(control, Path::new(CONTROL), true)]),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        auto_remove: Some(settings.auto_remove),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(beside.image),
        entrypoint: Some(vec![WORKER.into()]),
        cmd: Some(vec![worker::BESIDE.into(), format!("{CONTROL}/{SOCKET}")]),
        user: Some("0:0".into()),
        working_dir: Some("/".into()),
        env: Some(beside.variables),
        labels: Some(beside.labels),
        healthcheck: Some(no_check()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// What it takes to start a program, to furnish a network and to wait.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    "access", "arch_prctl", "bind", "brk", "capget", "capset", "chdir", "clock_gettime", "clock_nanosleep", "close",
    "close_range", "connect", "dup", "dup2", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait", "execve", "exit",
    "exit_group", "faccessat2", "fchdir", "fcntl", "fstat", "fstatfs", "futex", "getcwd", "getdents64", "getegid",
    "geteuid", "getgid", "getpid", "getppid", "getrandom", "getrlimit", "getsockname", "getsockopt", "gettid", "getuid",
    "ioctl", "listen", "lseek", "lstat", "madvise", "mmap", "mprotect", "mremap", "munmap", "nanosleep", "newfstatat",
    "openat", "openat2", "pipe2", "poll", "ppoll", "prctl", "pread64", "prlimit64", "read", "readlink", "readlinkat",
    "recvfrom", "recvmsg", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "sched_getaffinity", "sched_yield", "seccomp", "sendmsg", "sendto", "set_robust_list", "set_tid_address", "setgid",
    "setgroups", "setsockopt", "setuid", "sigaltstack", "stat", "statx", "tgkill", "uname", "write", "writev",
];

/// The profile of a sidecar, in the daemon's own format: sockets of this machine, of its network and of the kernel.
fn profile() -> String {
    let socket = |family: i32| {
        json!({
            "names": ["socket"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{ "index": 0, "value": family, "valueTwo": 0, "op": "SCMP_CMP_EQ" }],
        })
    };
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            { "architecture": "SCMP_ARCH_X86_64", "subArchitectures": [] },
            { "architecture": "SCMP_ARCH_AARCH64", "subArchitectures": [] },
        ],
        "syscalls": [
            { "names": ALLOWED, "action": "SCMP_ACT_ALLOW" },
            socket(libc::AF_UNIX),
            socket(libc::AF_INET),
            socket(libc::AF_NETLINK),
        ],
    })
    .to_string()
}
