//! One git in the call's room.
//!
//! A command line is put together from fixed words and from names that were read (`name.rs`): a name stands behind
//! `--end-of-options` or `--`, or is the rest of an option's own word, so that none is taken for an option.
//!
//! Git sees the repository through a directory of its own in the room. That one has links to the repository's objects
//! and refs, and a config that was written here; the repository's config, hooks and whatever else lies beside them are
//! not there. So nothing a repository brings along is run: not because each way is known and shut, but because git is
//! not told about any. Submodules are repositories with a config of their own, and git looks into those for changes when
//! nobody expects it. It does so by starting another git, and one that is started that way in another repository is told
//! that nothing changed.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use toolgate_contract::{Ending, Fault, Job, JobLimits, Ran, Reach, Stream};

use super::{
    fault::{self, TIMED_OUT},
    name::{Named, Plain},
    remote::Remote,
    repository::Repository,
};
use crate::{
    Cx,
    programs::fault::{
        CANCELLED, CPU_LIMIT, DISK_LIMIT, NO_PROGRAM, OOM_KILLED, OUTPUT_LIMIT, PIDS_EXHAUSTED, ROOM_LOST,
    },
};

/// Seconds a git gets that works on files of this machine.
pub(super) const LOCAL_SECONDS: u64 = 120;
/// Seconds a git gets that talks to a remote.
pub(super) const REMOTE_SECONDS: u64 = 600;

/// Half of what is kept of a stream: its head. Lists are read from there.
const HEAD: usize = 1 << 20;

/// A git that is to run.
#[derive(Debug)]
pub(super) struct Git {
    words: Vec<String>,
    stdin: Vec<u8>,
}

impl Git {
    /// The command of this name. Paths are taken as they are, without patterns.
    pub(super) fn new(verb: &'static str) -> Self {
        let words = ["--no-pager", "--no-optional-locks", "--literal-pathspecs", verb].map(str::to_owned).to_vec();
        Self { words, stdin: Vec::new() }
    }

    /// `git stash`, which uses patterns of its own: paths must say that they are none.
    pub(super) fn stash(action: &'static str) -> Self {
        let words = ["--no-pager", "--no-optional-locks", "stash", action].map(str::to_owned).to_vec();
        Self { words, stdin: Vec::new() }
    }

    /// Adds options.
    pub(super) fn flags(mut self, flags: &[&'static str]) -> Self {
        self.words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Adds an option if it is wanted.
    pub(super) fn flag_if(self, wanted: bool, flag: &'static str) -> Self {
        if wanted { self.flags(&[flag]) } else { self }
    }

    /// Adds an option with a value, as one word.
    pub(super) fn option(mut self, name: &'static str, value: &impl Named) -> Self {
        self.words.push(format!("{name}={}", value.as_str()));
        self
    }

    /// Adds an option with a number, as one word.
    pub(super) fn number(mut self, name: &'static str, value: u32) -> Self {
        self.words.push(format!("{name}={value}"));
        self
    }

    /// Adds the lines from one to another, as `git blame` takes them.
    pub(super) fn lines(mut self, first: u32, last: u32) -> Self {
        self.words.push(format!("-L{first},{last}"));
        self
    }

    /// Adds names. No option comes after them.
    pub(super) fn names(mut self, names: &[&dyn Named]) -> Self {
        self.words.push("--end-of-options".to_owned());
        self.words.extend(names.iter().map(|name| name.as_str().to_owned()));
        self
    }

    /// Adds a name to a command that does not know where its options end. It never begins with `-`.
    pub(super) fn name(mut self, name: &impl Named) -> Self {
        self.words.push(name.as_str().to_owned());
        self
    }

    /// Adds paths. Nothing but paths comes after them.
    pub(super) fn paths<N: Named>(mut self, paths: &[N]) -> Self {
        self.words.push("--".to_owned());
        self.words.extend(paths.iter().map(|path| path.as_str().to_owned()));
        self
    }

    /// Gives it text to read.
    pub(super) fn stdin(self, text: &Plain) -> Self {
        Self { stdin: text.as_str().as_bytes().to_vec(), ..self }
    }

    /// Runs it in a repository. It ended by itself, with whatever status.
    pub(super) fn run(self, cx: &Cx, repository: &Repository) -> Result<Ran, Fault> {
        let job = self.job(cx, Some(repository), None, LOCAL_SECONDS)?;
        by_itself(cx.programs()?.run(&job, cx.stop_flag())?)
    }

    /// Runs it in a repository. It ended well.
    pub(super) fn done(self, cx: &Cx, repository: &Repository) -> Result<Ran, Fault> {
        let ran = self.run(cx, repository)?;
        if worked(&ran) { Ok(ran) } else { Err(fault::of_git(&ran)) }
    }

    /// Runs it in a repository or, without one, in the workspace, with a way to a remote. It ended by itself.
    pub(super) fn reach(self, cx: &Cx, repository: Option<&Repository>, remote: &Remote) -> Result<Ran, Fault> {
        let job = self.job(cx, repository, Some(remote), REMOTE_SECONDS)?;
        let reach = Reach { hosts: vec![remote.target()], credential: remote.credential() };
        by_itself(cx.programs()?.run_reaching(&job, &reach, cx.stop_flag())?)
    }

    fn job(
        self,
        cx: &Cx,
        repository: Option<&Repository>,
        remote: Option<&Remote>,
        seconds: u64,
    ) -> Result<Job, Fault> {
        let mut chance = [0; 16];
        cx.random(&mut chance)?;
        let scratch = format!("git-{:032x}", u128::from_ne_bytes(chance));
        let (paths, config) = match repository {
            Some(repository) => {
                (repository.paths(), repository.config(remote.map(Remote::settings).unwrap_or_default()))
            }
            None => (Default::default(), String::new()),
        };
        let way = if remote.is_some() { "remote" } else { "local" };
        let mut argv = ["sh", "-c", SCRIPT, "git", &scratch, way, &settings(remote)].map(str::to_owned).to_vec();
        argv.extend(paths);
        argv.push(config);
        argv.extend(remote.map(Remote::options).unwrap_or_default());
        argv.extend(self.words);
        Ok(Job {
            argv,
            cwd: repository.map(|repository| repository.place().to_owned()).unwrap_or_default(),
            env: BTreeMap::new(),
            stdin: self.stdin,
            limits: JobLimits {
                wall: Duration::from_secs(seconds),
                keep_bytes: 2 * HEAD,
                keep_lines: 2 * HEAD,
                ..JobLimits::default()
            },
        })
    }
}

/// What starts git. All it is given is quoted, and nothing of it is a command.
///
/// Where git does not need programs of its own to talk to others, those that git starts are looked up where there is only
/// one: a git that works on this repository and on no other.
///
/// A room keeps its own loopback from the door. A remote on the machine's loopback is for the door, like every other.
const SCRIPT: &str = r#"set -eu
scratch=$TMPDIR/$1 way=$2 settings=$3 own=$4 shared=$5 tree=$6 config=$7
shift 7
mkdir "$scratch"
trap 'rm -rf "$scratch"' EXIT
printf %s "$settings" >"$scratch/settings"
export HOME="$scratch" GIT_CONFIG_GLOBAL="$scratch/settings" GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
export GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1
if [ "${SSL_CERT_FILE-}" ]; then
    export GIT_SSL_CAINFO="$SSL_CERT_FILE" GIT_SSL_CAPATH="$SSL_CERT_DIR"
fi
if [ "$own" ]; then
    mkdir "$scratch/git" "$scratch/git/info"
    printf %s "$config" >"$scratch/git/config"
    [ -e "$shared/logs" ] || mkdir "$shared/logs" 2>/dev/null || :
    ln -s "$shared/HEAD" "$shared/objects" "$shared/refs" "$shared/packed-refs" "$shared/logs" "$shared/shallow" \
        "$shared/worktrees" "$scratch/git"
    ln -s "$shared/info/attributes" "$shared/info/exclude" "$scratch/git/info"
    export GIT_DIR="$own" GIT_COMMON_DIR="$scratch/git" GIT_WORK_TREE="$tree"
fi
if [ "$way" = local ]; then
    mkdir "$scratch/programs"
    printf '#!/bin/sh\n[ "${GIT_DIR-}" = "$REPOSITORY" ] || exit 0\nexec "$GIT" "$@"\n' >"$scratch/programs/git"
    chmod +x "$scratch/programs/git"
    GIT=$(command -v git) || exit 127
    export GIT REPOSITORY="$own" GIT_EXEC_PATH="$scratch/programs"
    "$GIT" "$@"
else
    unset no_proxy
    git "$@"
fi
"#;

/// What git is told whatever it works on.
///
/// Some of it is what git does by itself where no config says otherwise, and git finds no other config. It is said all the
/// same: these are the ways out of a repository that matter most, and each is shut twice.
const SETTINGS: &str = "\
[advice]
	detachedHead = false
[core]
	alternateRefsCommand = true
	attributesFile = /dev/null
	editor = false
	excludesFile = /dev/null
	fsmonitor = false
	hooksPath = /dev/null
	protectHFS = true
	protectNTFS = true
	quotePath = false
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gc]
	auto = 0
[maintenance]
	auto = false
[rerere]
	enabled = false
[init]
	defaultBranch = main
	templateDir =
[submodule]
	recurse = false
[fetch]
	recurseSubmodules = false
[push]
	recurseSubmodules = no
[transfer]
	credentialsInUrl = die
	fsckObjects = true
[http]
	followRedirects = false
	lowSpeedLimit = 100
	lowSpeedTime = 60
	sslVerify = true
[protocol]
	allow = never
";

/// How a secure shell is started. It reads no settings of anyone's, asks nobody, and trusts no host it does not know.
const SSH: &str = "\
[core]
	sshCommand = ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o ProxyCommand=none -o ProxyJump=none \
-o PermitLocalCommand=no -o ClearAllForwardings=yes -o ForwardAgent=no -o ControlPath=none -o EscapeChar=none
[ssh]
	variant = ssh
";

fn settings(remote: Option<&Remote>) -> String {
    let mut settings = SETTINGS.to_owned();
    if let Some(remote) = remote {
        // Writing to a string does not fail.
        let _ = write!(settings, "[protocol \"{}\"]\n\tallow = always\n{SSH}", remote.scheme());
    }
    settings
}

/// Did it say that all went well?
pub(super) fn worked(ran: &Ran) -> bool {
    ran.ending == Ending::Exited { code: 0 }
}

/// What a git that ended by itself said, or why it was ended.
fn by_itself(ran: Ran) -> Result<Ran, Fault> {
    match ran.ending {
        Ending::Exited { code: 127 } => {
            Err(NO_PROGRAM.failed("there is no `git` in the room", "Ask the operator to install git."))
        }
        Ending::Exited { .. } => Ok(ran),
        Ending::Signaled { signal } => {
            Err(fault::GIT_FAILED.failed(format!("git was ended by signal {signal}"), "Try again."))
        }
        Ending::TimedOut => {
            let seconds = ran.usage.wall_ms / 1000;
            Err(TIMED_OUT.failed(format!("git was ended after {seconds} s"), "Ask for less at once."))
        }
        Ending::CpuLimit => Err(CPU_LIMIT.failed("git used all of its processor time", "Ask for less at once.")),
        Ending::OomKilled => Err(OOM_KILLED.failed("git used more memory than the room has", "Ask for less at once.")),
        Ending::PidsExhausted => {
            Err(PIDS_EXHAUSTED.failed("git started more processes than the room holds", "Ask for less at once."))
        }
        Ending::DiskLimit => Err(DISK_LIMIT.failed("git wrote more than the room allows", "Ask for less at once.")),
        Ending::OutputLimit => {
            Err(OUTPUT_LIMIT.failed("git said more than anyone reads", "Ask for less, such as fewer `paths`."))
        }
        Ending::Cancelled => {
            Err(CANCELLED.failed("the caller cancelled the call", "Call again if it is still wanted."))
        }
        Ending::RoomLost => {
            Err(ROOM_LOST.failed("the room died around git", "Call again: a new room is made.").retryable())
        }
    }
}

/// The part of a stream that was kept from its beginning without a gap.
pub(super) fn head(stream: &Stream) -> &str {
    if stream.shown_bytes == stream.bytes {
        return &stream.text;
    }
    let missing = format!(", {} bytes not shown ...]\n", stream.bytes - stream.shown_bytes);
    let end = stream.text.find(&missing).and_then(|at| stream.text[..at].rfind("[... ")).unwrap_or(0);
    &stream.text[..end]
}

/// The parts of a stream that have a NUL behind them, and whether that is all of them.
pub(super) fn records(stream: &Stream) -> (Vec<&str>, bool) {
    let mut records: Vec<&str> = head(stream).split('\0').collect();
    // What is behind the last one is nothing, or was cut.
    records.pop();
    (records, stream.shown_bytes == stream.bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contract::Ending;

    use super::{
        super::{
            commit, diff, log,
            scene::{jobs, scene, words},
            status,
        },
        *,
    };
    use crate::programs::stage::ran;

    #[test]
    fn a_command_line_is_fixed_words_and_names_behind_them() {
        let stage = scene("", []);
        let arguments = json!({
            "ref": "a..b", "author": "--exec=x", "since": "-1", "paths": ["--output=x", "d/../:(top)", "*"], "max_count": 3,
        });
        stage.call(log::tool, arguments).unwrap();
        let expected = [
            "--no-pager",
            "--no-optional-locks",
            "--literal-pathspecs",
            "log",
            "-z",
            "--no-show-signature",
            log::FORMAT,
            "--max-count=4",
            "--fixed-strings",
            "--regexp-ignore-case",
            "--author=--exec=x",
            "--since=-1",
            "--end-of-options",
            "a..b",
            "--",
            "--output=x",
            ":(top)",
            "*",
        ];
        assert_eq!(words(&stage), [expected]);
    }

    #[test]
    fn git_is_told_where_everything_is_and_nothing_of_the_repository_s_config() {
        let stage = scene("[core]\n\tfsmonitor = evil\n[user]\n\tname = Ada\n", []);
        stage.call(status::tool, json!({})).unwrap();
        let (job, reach) = jobs(&stage).pop().unwrap();
        let root = stage.path();
        assert_eq!((job.argv[..4].to_vec(), reach), (["sh", "-c", SCRIPT, "git"].map(str::to_owned).to_vec(), None));
        let scratch = job.argv[4].strip_prefix("git-").unwrap();
        assert!(scratch.len() == 32 && scratch.bytes().all(|b| b.is_ascii_hexdigit()), "{scratch}");
        assert_eq!(job.argv[5..10], ["local", SETTINGS, &format!("{root}/.git"), &format!("{root}/.git"), &root]);
        assert!(job.argv[10].contains("\tname = \"Ada\"\n") && !job.argv.iter().any(|word| word.contains("evil")));
        assert_eq!((job.cwd.as_str(), job.env.len(), job.limits.wall), ("", 0, Duration::from_secs(LOCAL_SECONDS)));
        let other = scene("", []);
        other.call(status::tool, json!({})).unwrap();
        assert_ne!(jobs(&other)[0].0.argv[4], job.argv[4]);
    }

    #[test]
    fn one_way_out_is_open_and_only_for_a_remote() {
        assert!(SETTINGS.ends_with("[protocol]\n\tallow = never\n") && !SETTINGS.contains("always"));
        for (address, scheme) in
            [("https://x.example/a", "https"), ("http://x.example/a", "http"), ("git@x.example:a", "ssh")]
        {
            let settings = settings(Some(&Remote::at(address, None).unwrap()));
            let open: Vec<&str> = settings.matches("allow = always").collect();
            assert_eq!(open.len(), 1);
            assert!(settings.contains(&format!("[protocol \"{scheme}\"]\n\tallow = always\n")), "{settings}");
        }
    }

    #[test]
    fn a_message_is_given_on_standard_input() {
        let stage = scene("", []);
        stage.call(commit::tool, json!({ "message": "-m\nx", "author": "A <b>", "amend": true })).unwrap();
        let (job, _) = jobs(&stage).remove(1);
        assert_eq!(job.stdin, b"-m\nx");
        assert!(job.argv.contains(&"--author=A <b>".to_owned()) && !job.argv.contains(&"-m\nx".to_owned()));
    }

    #[test]
    fn a_git_that_was_ended_is_a_fault() {
        for (ending, code) in [
            (Ending::TimedOut, "timed_out"),
            (Ending::CpuLimit, "cpu_limit"),
            (Ending::OomKilled, "oom_killed"),
            (Ending::PidsExhausted, "pids_exhausted"),
            (Ending::DiskLimit, "disk_limit"),
            (Ending::OutputLimit, "output_limit"),
            (Ending::Cancelled, "cancelled"),
            (Ending::RoomLost, "room_lost"),
            (Ending::Signaled { signal: 9 }, "git_failed"),
            (Ending::Exited { code: 127 }, "program_not_found"),
            (Ending::Exited { code: 128 }, "git_failed"),
        ] {
            let stage = scene("", [Ok(Ran { ending, ..ran(0, "", "") })]);
            assert_eq!(stage.call(diff::tool, json!({})).unwrap_err().code, code);
        }
    }

    #[test]
    fn of_a_stream_that_was_cut_only_what_comes_before_the_gap_is_read() {
        let whole = ran(0, "a\0b\0", "").stdout;
        assert_eq!((head(&whole), records(&whole)), ("a\0b\0", (vec!["a", "b"], true)));
        let text =
            "a\0b\0c\n[... 3 lines, 90 bytes not shown ...]\nd\0[... 3 lines, 90 bytes not shown ...]\n\0".to_owned();
        let cut = Stream { text, bytes: 100, shown_bytes: 10, ..whole };
        assert_eq!((head(&cut), records(&cut)), ("a\0b\0c\n", (vec!["a", "b"], false)));
    }
}
