//! Has `mmdebstrap` install packages into a tree of their own, and takes the tree as a stream.
//!
//! Everything it makes on disk is below one directory, in mount namespaces of its own, and gone when it has ended: it
//! removes its tree itself, also when it is told to stop.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread,
};

use rustix::process::Pid;
use toolgate_contract::Fault;
use toolgate_runtime::config::{Install, Recipe};

use crate::{problem::Problem, setup};

use super::{
    Package,
    archive::newest,
    layer::{self, Layer, Rules},
    mirrors::Mirrors,
    rewind,
    stop::{Stop, stopped},
};

const PROGRAM: &str = "mmdebstrap";

/// Says on standard error which packages were downloaded, before their files are gone.
const TELL_PACKAGES: &str = r#"for deb in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --show --showformat='toolgate-package ${Package} ${Version} ${Architecture}\n' "$deb" >&2
done"#;
const PACKAGE: &str = "toolgate-package ";

/// Writes down, for root alone, what comes on standard input: settings of apt that hold until the image is made. A proxy
/// may have a password in its address, and whoever looks at processes sees their arguments. Nothing below `etc/apt` becomes
/// part of an image.
const TAKE_SETTINGS: &str = r#"umask 077 && cat > "$1/etc/apt/apt.conf.d/98toolgate""#;

/// What the program says when a stage begins, and what we call the stage.
const STAGES: [(&str, &str); 5] = [
    ("I: running apt-get update", "reading what the mirrors have"),
    ("I: downloading packages", "downloading packages"),
    ("I: extracting archives", "unpacking packages"),
    ("I: installing essential packages", "setting packages up"),
    ("I: creating tarball", "writing the layer"),
];

/// How many of its last lines are worth repeating.
const LAST_WORDS: usize = 12;

/// Says no where images cannot be built.
pub(super) fn can_build() -> Result<(), Fault> {
    if let Err(error) = Command::new(PROGRAM).arg("--version").output() {
        let message = format!("`{PROGRAM}` cannot be started: {error}");
        return Err(Fault::refused("no_mmdebstrap", message, "Install it with `apt-get install mmdebstrap`."));
    }
    if is_root() {
        return Ok(());
    }
    let args = ["--user", "--map-auto", "--map-root-user", "true"];
    match Command::new("unshare").args(args).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Fault::refused(
            "image_needs_root",
            "this user has no range of ids of its own, and files of an image belong to several",
            "Build it as root, or install `uidmap` and give this user a range in `/etc/subuid` and `/etc/subgid`.",
        )),
    }
}

/// Installs the packages of a recipe, and says what was installed.
pub(super) fn run(
    recipe: &Recipe,
    mirrors: &Mirrors,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(Layer, Vec<Package>), Problem> {
    // Whoever is root in a namespace of an ordinary user is somebody else outside, and has to get through.
    let mode = std::fs::Permissions::from_mode(0o711);
    let dir = tempfile::Builder::new().prefix("toolgate-image-").permissions(mode).tempdir()?;
    let rules = Rules { remove: &recipe.remove, newest: newest(recipe), max_bytes: recipe.max_bytes };
    let mut child = command(recipe, mirrors, dir.path())?.spawn()?;
    stop.tell(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
    let (layer, heard, status) = attend(&mut child, rules, say);
    stop.tell(None);
    if let Err(error) = dir.close() {
        tracing::warn!("something of the build is left: {error}");
    }
    if stop.asked() {
        return Err(stopped().into());
    }
    match (layer, status?) {
        (Ok(layer), status) if status.success() => Ok((layer, heard.packages)),
        (Ok(_), _) => Err(failed(&heard.last_words()).into()),
        (Err(error), _) => Err(failed(&format!("{error}\n{}", heard.last_words())).into()),
    }
}

fn command(recipe: &Recipe, mirrors: &Mirrors, dir: &Path) -> io::Result<Command> {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .envs(setup::for_programs())
        .env("HOME", dir)
        .env("TMPDIR", dir)
        .env("LC_ALL", "C.UTF-8")
        // What is made during the build, and not only what is packed in the end, takes its time from here.
        .env("SOURCE_DATE_EPOCH", newest(recipe).to_string())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A key that asks us to stop is passed on by us, once.
        .process_group(0);
    let variant = match recipe.install {
        Install::Configured => "custom",
        Install::Unpacked => "extract",
    };
    let mode = if is_root() { "root" } else { "unshare" };
    command.args([&format!("--variant={variant}"), &format!("--mode={mode}"), "--format=tar"]);
    if !mirrors.settings.is_empty() {
        command.stdin(unnamed(&mirrors.settings.join("\n"))?).arg(format!("--setup-hook={TAKE_SETTINGS}"));
    }
    command.arg(format!("--extract-hook={TELL_PACKAGES}"));
    command.arg(format!("--include={}", recipe.packages.join(",")));
    command.args(["--", &recipe.suite, "-"]).args(&mirrors.sources);
    Ok(command)
}

/// A file that only whoever is given it can read.
fn unnamed(text: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    writeln!(file, "{text}")?;
    rewind(file)
}

/// Takes the tree and hears what is said meanwhile, until the program has ended.
fn attend(
    child: &mut Child,
    rules: Rules<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> (io::Result<Layer>, Heard, io::Result<ExitStatus>) {
    let (tree, words) = (child.stdout.take(), child.stderr.take());
    let (layer, heard) = thread::scope(|scope| {
        let listener = scope.spawn(|| words.map(|words| listen(words, say)).unwrap_or_default());
        let layer = match tree {
            Some(tree) => tempfile::tempfile().and_then(|file| layer::write(tree, rules, file)),
            None => Err(io::Error::other("there is no stream")),
        };
        (layer, listener.join().unwrap_or_default())
    });
    (layer, heard, child.wait())
}

/// What the program said.
#[derive(Debug, Default)]
struct Heard {
    packages: Vec<Package>,
    last: VecDeque<String>,
}

impl Heard {
    fn last_words(&self) -> String {
        Vec::from_iter(self.last.iter().map(String::as_str)).join("\n")
    }

    fn hear(&mut self, line: &str, say: &dyn Fn(&str)) {
        if let Some(package) = line.strip_prefix(PACKAGE) {
            self.packages.extend(read_package(package));
        } else if let Some((_, stage)) = STAGES.iter().find(|(begins, _)| line.starts_with(begins)) {
            say(stage);
        } else if !line.starts_with("I: ") {
            self.last.push_back(line.to_owned());
            if self.last.len() > LAST_WORDS {
                self.last.pop_front();
            }
        }
    }
}

fn listen(words: ChildStderr, say: &dyn Fn(&str)) -> Heard {
    let mut heard = Heard::default();
    for line in BufReader::new(words).split(b'\n').map_while(Result::ok) {
        heard.hear(String::from_utf8_lossy(&line).trim_end(), say);
    }
    heard.packages.sort();
    heard
}

fn read_package(line: &str) -> Option<Package> {
    let mut fields = line.split(' ').map(str::to_owned);
    Some(Package { name: fields.next()?, version: fields.next()?, architecture: fields.next()? })
}

fn failed(why: &str) -> Fault {
    let message = format!("the packages could not be installed: {}", why.trim());
    let remedy = "Look at the lines above: correct the recipe, the mirrors or the machine.";
    Fault::failed("image_build_failed", message, remedy)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Heard, Package};

    #[test]
    fn what_is_said_is_a_package_a_stage_or_a_last_word() {
        let stages = RefCell::new(Vec::new());
        let say = |stage: &str| stages.borrow_mut().push(stage.to_owned());
        let mut heard = Heard::default();
        for line in [
            "I: running apt-get update...",
            "I: running --extract-hook in shell: toolgate-package is a word in it",
            "toolgate-package git 1:2.47.3-0+deb13u1 amd64",
            "toolgate-package half",
            "W: something is odd",
            "I: creating tarball...",
            "E: setup failed",
        ] {
            heard.hear(line, &say);
        }
        let git = Package { name: "git".into(), version: "1:2.47.3-0+deb13u1".into(), architecture: "amd64".into() };
        assert_eq!(heard.packages, [git]);
        assert_eq!(heard.last_words(), "W: something is odd\nE: setup failed");
        assert_eq!(*stages.borrow(), ["reading what the mirrors have", "writing the layer"]);
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let mut heard = Heard::default();
        (0..100).for_each(|n| heard.hear(&n.to_string(), &|_| {}));
        assert_eq!(heard.last_words(), "88\n89\n90\n91\n92\n93\n94\n95\n96\n97\n98\n99");
    }
}
