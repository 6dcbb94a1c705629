//! Paths as text: where a word leads from a directory, without looking at any disk.

use super::ir::UNKNOWN;

/// Where a script would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory it starts in, absolute.
    pub cwd: String,
    /// The directory it should stay in, absolute.
    pub workspace: String,
    /// The home directory, absolute.
    pub home: String,
}

impl Place {
    /// A script that starts at the root of its workspace.
    pub fn at(workspace: &str, home: &str) -> Self {
        Self { cwd: workspace.to_owned(), workspace: workspace.to_owned(), home: home.to_owned() }
    }

    /// The same for something that starts in this directory, given as an absolute path or from the workspace.
    #[must_use]
    pub fn starting_in(&self, dir: &str) -> Self {
        let cwd = resolve(Some(&self.workspace), dir).unwrap_or_else(|| self.workspace.clone());
        Self { cwd, ..self.clone() }
    }

    /// A path as a call would name it: from the workspace, where it lies in it.
    pub fn shown<'p>(&self, path: &'p str) -> &'p str {
        match path.strip_prefix(self.workspace.trim_end_matches('/')) {
            Some("" | "/") => ".",
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => path,
        }
    }

    /// Is the path outside the workspace? The usual devices are nowhere.
    pub fn is_outside(&self, path: &str) -> bool {
        !is_under(path, &self.workspace) && !is_plain_device(path)
    }
}

/// The absolute path `text` names from `cwd`; none when that is not certain.
pub(super) fn resolve(cwd: Option<&str>, text: &str) -> Option<String> {
    if text.contains(UNKNOWN) {
        return None;
    }
    let whole = if text.starts_with('/') { text.to_owned() } else { format!("{}/{text}", cwd?) };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// Is `path` this directory, or below it?
pub(super) fn is_under(path: &str, dir: &str) -> bool {
    let dir = dir.trim_end_matches('/');
    path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Devices that hold nothing.
pub(super) fn is_plain_device(path: &str) -> bool {
    matches!(path, "/dev/null" | "/dev/zero" | "/dev/full" | "/dev/random" | "/dev/urandom" | "/dev/tty")
        || matches!(path, "/dev/stdin" | "/dev/stdout" | "/dev/stderr")
        || path.starts_with("/dev/fd/")
}

/// Devices that hold disks or memory.
pub(super) fn is_raw_device(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    let kinds = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "loop", "dm-", "md", "sr", "nbd", "zd", "ram", "pmem"];
    kinds.iter().any(|kind| name.starts_with(kind))
        || ["disk/", "mapper/", "block/"].iter().any(|dir| name.starts_with(dir))
        || matches!(name, "mem" | "kmem" | "port" | "root")
}

/// Directories a machine does not survive without.
const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
    "opt",
    "srv",
    "home",
    "mnt",
    "media",
    "nix",
    "snap",
    "Users",
    "System",
    "Library",
    "Applications",
    "Volumes",
    "private",
];

/// Would losing everything at this path break the machine, or lose a home?
pub(super) fn is_vital(path: &str, place: &Place) -> bool {
    // `/*` and `~/.*` are as bad as the directory they stand in.
    let path = match path.rsplit_once('/') {
        Some((dir, last)) if !last.is_empty() && last.contains('*') && last.len() <= 4 => {
            if dir.is_empty() {
                "/"
            } else {
                dir
            }
        }
        _ => path,
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_home = path == place.home || is_under(&place.home, path);
    match *parts {
        [] => true,
        [first] => is_home || SYSTEM.contains(&first),
        ["home" | "Users", _] => true,
        ["etc" | "boot" | "bin" | "sbin" | "lib" | "lib64" | "proc" | "sys" | "dev", ..] => true,
        ["usr", second] => second != "tmp",
        ["usr", "bin" | "lib" | "sbin" | "lib64", ..] => true,
        ["var", second] => !matches!(second, "tmp"),
        _ => is_home,
    }
}

/// Directories that anybody on the machine may write into.
pub(super) fn is_shared(path: &str) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|dir| is_under(path, dir))
}

/// Files that usually hold a secret.
pub fn is_secret(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    let sample = ["example", "sample", "template", "dist", "default", "defaults", "schema", "test", "pub", "md"];
    if name.rsplit_once('.').is_some_and(|(_, ending)| sample.contains(&ending)) {
        return false;
    }
    let dirs = ["/.ssh/", "/.gnupg/", "/.aws/", "/.azure/", "/.config/gcloud/", "/.docker/config", "/.kube/"];
    let dirs = dirs.iter().any(|dir| format!("/{lower}/").contains(dir));
    let harmless = matches!(name, "known_hosts" | "known_hosts.old" | "allowed_signers");
    let endings = [".pem", ".p12", ".pfx", ".key", ".keystore", ".jks", ".kdbx", ".ppk", ".agekey"];
    (dirs && !harmless)
        || name == ".env"
        || name.starts_with(".env.")
        || name == ".envrc"
        || name.starts_with(".dev.vars")
        || ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"].contains(&name)
        || endings.iter().any(|ending| name.ends_with(ending))
        || matches!(name, ".netrc" | "_netrc" | ".pgpass" | ".my.cnf" | ".npmrc" | ".pypirc" | ".git-credentials")
        || matches!(name, ".htpasswd" | ".vault-token" | ".boto" | ".s3cfg" | "kubeconfig" | ".terraformrc")
        || matches!(name, "credentials" | "credentials.json" | "secrets.yaml" | "secrets.yml" | "secrets.json")
        || matches!(name, "application_default_credentials.json" | "service-account.json" | "secrets.toml")
        || [".bash_history", ".zsh_history", ".psql_history", ".mysql_history"].contains(&name)
        || matches!(&*lower, "/etc/shadow" | "/etc/gshadow" | "/etc/sudoers" | "/etc/krb5.keytab")
        || is_under(&lower, "/etc/sudoers.d")
        || is_under(&lower, "/run/secrets")
        || (lower.starts_with("/proc/") && ["environ", "mem", "maps"].contains(&name))
}

/// Could this pattern of file names find a secret? Only patterns that aim are counted: `*` finds no hidden file.
pub(super) fn is_secret_pattern(pattern: &str) -> bool {
    let name = pattern.rsplit('/').next().unwrap_or_default();
    let hidden = [".env", ".netrc", ".pgpass", ".npmrc", ".git-credentials", ".envrc", ".ssh", ".aws"];
    let dir = pattern.strip_suffix(name).unwrap_or_default();
    is_secret(&format!("{dir}x"))
        || dir.split('/').any(|part| part.starts_with(['.', '?', '[']) && hidden.iter().any(|h| fits(part, h)))
        || (name.starts_with(['.', '[', '?']) && hidden.iter().any(|secret| fits(name, secret)))
        || ["id_rsa", "id_ed25519", "shadow", "credentials", "environ"]
            .iter()
            .any(|secret| name.trim_matches('*').len() > 1 && fits(name, secret))
        || [".pem", ".key", ".p12", ".pfx"].iter().any(|ending| name.ends_with(ending))
}

/// Does a file name fit a pattern? A class in brackets counts as any one character.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let class_end = (pattern[at] == '[').then(|| pattern[at..].iter().position(|c| *c == ']')).flatten();
        let mut next = vec![false; name.len() + 1];
        if pattern[at] == '*' {
            let mut any = false;
            for (i, slot) in next.iter_mut().enumerate() {
                any |= reach[i];
                *slot = any;
            }
        } else {
            let any = pattern[at] == '?' || class_end.is_some() || pattern[at] == UNKNOWN;
            for i in 0..name.len() {
                next[i + 1] = reach[i] && (any || pattern[at] == name[i]);
            }
        }
        reach = next;
        at += 1 + class_end.unwrap_or(0);
    }
    reach[name.len()]
}
