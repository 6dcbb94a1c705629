//! The host's side: who is there, who called, what is left.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    net::{IpAddr, TcpListener, UdpSocket},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Processes of the machine whose environment or command line holds this.
pub(crate) fn processes_with(word: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && *pid != own)
        .filter(|pid| holds(pid, "environ", word) || holds(pid, "cmdline", word))
        .collect()
}

fn holds(pid: &str, file: &str, word: &str) -> bool {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

/// The number a process has where it is.
pub(crate) fn innermost(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("its numbers");
    numbers.split_whitespace().next_back().expect("a number").to_owned()
}

/// Waits until something holds, and says whether it did in time.
pub(crate) fn eventually(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The machine's own address on its network, if it has one. Nothing is sent to find out.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Listens on the host, over TCP and UDP on one port, and knows whether anyone called.
pub(crate) struct Listener {
    tcp: TcpListener,
    udp: UdpSocket,
    pub(crate) port: u16,
}

impl Listener {
    pub(crate) fn new() -> Self {
        // The same port for both is a matter of luck, so it is tried a few times.
        for _ in 0..50 {
            let tcp = TcpListener::bind("0.0.0.0:0").expect("a listener");
            let port = tcp.local_addr().expect("its address").port();
            if let Ok(udp) = UdpSocket::bind(("0.0.0.0", port)) {
                tcp.set_nonblocking(true).expect("no waiting");
                udp.set_nonblocking(true).expect("no waiting");
                return Self { tcp, udp, port };
            }
        }
        panic!("no port is free for both");
    }

    /// Everything that was said to it.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Ok((mut caller, from)) = self.tcp.accept() {
            let mut word = String::new();
            caller.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            // What cannot be read was still a call.
            let _ = caller.set_nonblocking(false).and_then(|()| caller.read_to_string(&mut word));
            heard.push(format!("{from} {word}"));
        }
        let mut word = [0; 64];
        while let Ok((length, from)) = self.udp.recv_from(&mut word) {
            heard.push(format!("{from} {}", String::from_utf8_lossy(&word[..length])));
        }
        heard
    }
}

/// A process on the host that a room must not reach. It runs as the room's own user where the suite may choose, so
/// that ownership is no wall.
pub(crate) struct Victim(Child);

/// What its environment holds.
pub(crate) const VICTIMS_SECRET: &str = "victims-secret-52c1";

impl Victim {
    /// `user` is what the room's own processes are on the machine.
    pub(crate) fn new(probe: &str, user: u32) -> Self {
        let mut command = Command::new(probe);
        command.args(["sleep", "120"]).env_clear().env("SECRET", VICTIMS_SECRET).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        let victim = Self(command.stdout(Stdio::null()).spawn().expect("a victim"));
        let started = || holds(&victim.id(), "environ", VICTIMS_SECRET);
        assert!(eventually(Duration::from_secs(5), started), "the victim does not start");
        victim
    }

    /// Its number, as the probe takes it.
    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Is it unharmed?
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have been killed by the attack; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that can leak, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) fds: usize,
    pub(crate) mounts: usize,
    pub(crate) namespaces: usize,
    pub(crate) cgroups: usize,
    pub(crate) children: usize,
}

impl Counted {
    /// Of this process and everything beneath it, and of the groups in these directories.
    pub(crate) fn now(groups: &BTreeSet<PathBuf>) -> Self {
        Self {
            fds: fs::read_dir("/proc/self/fd").expect("own descriptors").count(),
            mounts: mounts(),
            namespaces: namespaces().len(),
            cgroups: groups.iter().map(|dir| fs::read_dir(dir).into_iter().flatten().count()).sum(),
            children: family().len(),
        }
    }
}

/// Namespaces that this process or one of its descendants is in or holds.
fn namespaces() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for pid in family() {
        for dir in ["ns", "fd"] {
            for entry in fs::read_dir(format!("/proc/{pid}/{dir}")).into_iter().flatten().flatten() {
                let target = fs::read_link(entry.path()).unwrap_or_default().to_string_lossy().into_owned();
                if target.contains(":[") && !target.starts_with("socket") && !target.starts_with("pipe") {
                    all.insert(target);
                }
            }
        }
    }
    all
}

/// Mounts that the host sees. Those that a daemon makes for containers come and go with everybody's.
pub(crate) fn mounts() -> usize {
    let of_a_daemon = |line: &&str| {
        ["/overlay2/", "/mounts/shm", "/netns/", "/overlay/", "/overlay ", "/userdata/shm"]
            .iter()
            .any(|part| line.contains(part))
    };
    fs::read_to_string("/proc/self/mountinfo").expect("own mounts").lines().filter(|line| !of_a_daemon(line)).count()
}

/// This process and everything beneath it.
pub(crate) fn family() -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut family = BTreeSet::from([std::process::id()]);
    loop {
        let before = family.len();
        family.extend(
            parents.iter().filter(|(_, parent)| family.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if family.len() == before {
            return family;
        }
    }
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Kilobytes of memory this process holds.
pub(crate) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The groups of Toolgate that these processes are in.
pub(crate) fn cgroups_of(pids: &[String]) -> BTreeSet<PathBuf> {
    let lines = pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    let lines: Vec<String> = lines.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.iter().filter(|line| line.contains("toolgate-")).filter_map(|line| directory_of(line)).collect()
}

/// The directory behind a line of `/proc/PID/cgroup`, such as `4:memory:/a/b`.
fn directory_of(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let first = controllers.trim_start_matches("name=");
    let homes = [first, "unified", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    homes.into_iter().map(|home| home.join(path.trim_start_matches('/'))).find(|dir| dir.is_dir())
}

/// Nobody is in this group, or there is no such group.
pub(crate) fn is_empty_group(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().trim().is_empty()
}

/// Namespaces that these processes are in and this one is not.
pub(crate) fn namespaces_of(pids: &[String]) -> BTreeSet<String> {
    let links = |pid: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).map(|to| to.display().to_string()).collect()
    };
    let all: BTreeSet<String> = pids.iter().flat_map(|pid| links(pid)).collect();
    all.difference(&links("self")).cloned().collect()
}

/// Processes that are in one of these namespaces.
pub(crate) fn anyone_in(namespaces: &BTreeSet<String>) -> Vec<String> {
    let pids = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| !namespaces_of(std::slice::from_ref(pid)).is_disjoint(namespaces))
        .collect()
}
