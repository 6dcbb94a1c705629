//! `toolgate images`: recipes, what they are made into, and what is left when something goes wrong.
//!
//! Builds need `mmdebstrap` and a Debian mirror, and loading needs a daemon, whose socket `TOOLGATE_TEST_DOCKER` names.
//! Without them those tests say that they are skipped.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_tests::{Bench, Ran, skipped};

/// One static program, unpacked: a build takes seconds.
const SMALL: &str = "\
name: small
about: One program
tag: TAG
suite: trixie
date: 2026-01-01
install: unpacked
packages: [busybox-static]
remove: [usr/share]
max_size: 8m
";

fn recipe(bench: &Bench, tag: &str) -> PathBuf {
    bench.put("small.yaml", SMALL.replace("TAG", tag))
}

/// Can images be built here at all?
fn can_build() -> bool {
    let found = |program: &str, args: &[&str]| Command::new(program).args(args).output();
    if found("mmdebstrap", &["--version"]).is_err() {
        skipped("install mmdebstrap to run this test");
        return false;
    }
    let sites = found("apt-get", &["indextargets", "--format", "$(ORIGIN)"]).map(|ran| ran.stdout).unwrap_or_default();
    let has_debian = String::from_utf8_lossy(&sites).lines().any(|origin| origin == "Debian");
    if !has_debian {
        skipped("run apt-get update on a machine with a Debian mirror to run this test");
    }
    has_debian
}

/// What a build leaves in its directory for temporary files.
fn left_in(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A command whose temporary files are its own.
fn build(bench: &Bench, args: &[&str]) -> (Command, PathBuf) {
    let scratch = bench.outside().join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let mut command = bench.command(&[&["images", "build"], args].concat());
    command.env("TMPDIR", &scratch);
    (command, scratch)
}

// ---- recipes ----

#[test]
fn the_recipes_are_listed() {
    let listed = Bench::new().run(&["images", "list"]).exits(0).json();
    let recipes = listed["recipes"].as_array().unwrap();
    assert_eq!(recipes.len(), 1);
    let base = &recipes[0];
    assert_eq!(
        (&base["name"], &base["tag"], &base["built"]),
        (&json!("base"), &json!("toolgate-base:latest"), &json!(null))
    );
    assert!(base["max_bytes"].as_u64().unwrap() < 500_000_000, "{base}");
    for package in ["python3", "nodejs", "git", "ca-certificates", "curl", "jq", "ripgrep"] {
        assert!(base["packages"].as_array().unwrap().contains(&json!(package)), "{package}");
    }
}

#[test]
fn an_unknown_recipe_is_refused_with_those_there_are() {
    let ran = Bench::new().run(&["images", "build", "bsae"]).exits(1);
    assert!(ran.stderr.contains("error[unknown_recipe]") && ran.stderr.contains("`base`"), "{ran}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn every_mistake_in_a_recipe_is_shown_with_its_line() {
    let bench = Bench::new();
    let file = bench.put(
        "bad.yaml",
        "name: Small\nabout: ''\ntag: small\nsuite: Tri xie\ndate: today\ninstall: somehow\n\
         packages: [--simulate, a b]\nremove: [/etc]\nmax_size: much\n",
    );
    let ran = bench.run(&["images", "build", file.to_str().unwrap()]).exits(2);
    for (line, word) in [
        (1, "`Small`"),
        (2, "`about`"),
        (3, "`small`"),
        (4, "`Tri xie`"),
        (5, "`today`"),
        (6, "`somehow`"),
        (7, "`--simulate`"),
        (7, "`a b`"),
        (8, "`/etc`"),
        (9, "`much`"),
    ] {
        assert!(ran.stderr.contains(word) && ran.stderr.contains(&format!("bad.yaml:{line}:")), "{line} {word}: {ran}");
    }
    let file = bench.put("unknown.yaml", "nmae: x\n");
    let ran = bench.run(&["images", "build", file.to_str().unwrap()]).exits(2);
    assert!(ran.stderr.contains("unknown key `nmae`") && ran.stderr.contains("Write `name`."), "{ran}");
    bench.run(&["images", "build", "./nowhere.yaml"]).exits(2);
}

// ---- refusals ----

#[test]
fn without_mmdebstrap_the_package_is_named() {
    let bench = Bench::new();
    let (mut command, scratch) = build(&bench, &["base", "--output", "base.tar"]);
    let ran = Ran::of(command.env("PATH", bench.home())).exits(3);
    assert!(ran.stderr.contains("error[no_mmdebstrap]") && ran.stderr.contains("apt-get install mmdebstrap"), "{ran}");
    assert_eq!((left_in(&scratch), left_in(&bench.workspace())), (vec![], vec![]));
}

/// A directory of programs that are found before all others.
fn programs(bench: &Bench, scripts: &[(&str, &str)]) -> OsString {
    let dir = bench.outside().join("programs");
    fs::create_dir_all(&dir).unwrap();
    for (name, script) in scripts {
        fs::write(dir.join(name), format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let usual = env::var_os("PATH").unwrap_or_default();
    env::join_paths([dir].into_iter().chain(env::split_paths(&usual))).unwrap()
}

#[test]
fn a_user_without_ids_to_give_away_builds_nothing() {
    let bench = Bench::new();
    let (command, scratch) = build(&bench, &["base", "--output", "base.tar"]);
    let path = programs(&bench, &[("mmdebstrap", "echo 1.5"), ("unshare", "exit 1")]);
    let mut command = as_ordinary_user(&bench, command);
    let ran = Ran::of(command.env("PATH", path)).exits(3);
    assert!(ran.stderr.contains("error[image_needs_root]") && ran.stderr.contains("/etc/subuid"), "{ran}");
    assert_eq!((left_in(&scratch), left_in(&bench.workspace())), (vec![], vec![]));
}

/// The same command, by somebody who is not root.
fn as_ordinary_user(bench: &Bench, command: Command) -> Command {
    if !rustix::process::geteuid().is_root() {
        return command;
    }
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(bench.outside()).status();
    assert!(owned.unwrap().success());
    // It may lie where only root gets to.
    let copy = bench.outside().join("toolgate");
    fs::copy(command.get_program(), &copy).unwrap();
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).args(command.get_args());
    other.current_dir(bench.workspace()).env_clear().stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        other.env(name, value.unwrap_or_default());
    }
    other
}

/// A proxy may have a password, and arguments of a program are seen by everybody on the machine.
#[test]
fn what_leads_to_the_mirrors_is_not_among_the_arguments() {
    const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    if !Path::new(KEYS).is_file() {
        return skipped("install debian-archive-keyring to run this test");
    }
    let bench = Bench::new();
    recipe(&bench, "small:1");
    let (mut command, _) = build(&bench, &["./small.yaml", "--output", "small.tar"]);
    let seen = bench.outside().join("seen");
    fs::create_dir_all(seen.join("root/etc/apt/apt.conf.d")).unwrap();
    // Does with its hook what the real one would do, and then fails.
    let made = format!(
        "cd {} || exit 1\n[ \"$1\" = --version ] && exit 0\nprintf '%s\\n' \"$@\" > arguments\nenv > variables\n\
         for word; do case $word in --setup-hook=*) sh -c \"${{word#--setup-hook=}}\" exec root;; esac; done\nexit 1\n",
        seen.display()
    );
    let setting = r#"Acquire::http::Proxy "http://somebody:open-sesame@proxy:3142";"#;
    let path = programs(
        &bench,
        &[
            ("mmdebstrap", &made),
            ("unshare", "exit 0"),
            ("apt-config", &format!("cat <<'END'\n{setting}\nEND\n")),
            ("apt-get", "printf 'http://m/debian\\ttrixie\\tDebian\\n'"),
        ],
    );
    let ran = Ran::of(command.env("PATH", path)).exits(1);
    assert!(ran.stderr.contains("error[image_build_failed]") && !ran.stderr.contains("open-sesame"), "{ran}");
    let told = |file: &str| fs::read_to_string(seen.join(file)).unwrap();
    assert!(told("arguments").contains("http://m/debian trixie main"), "{}", told("arguments"));
    assert!(!told("arguments").contains("open-sesame") && !told("variables").contains("open-sesame"));
    let kept = seen.join("root/etc/apt/apt.conf.d/98toolgate");
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{setting}\n"));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_daemon_on_another_machine_is_refused() {
    for host in ["tcp://10.0.0.1:2375", "ssh://somebody@there", "unix://relative.sock"] {
        let ran = Bench::new().run(&["images", "build", "base", "--host", host]).exits(3);
        assert!(ran.stderr.contains("error[daemon_elsewhere]"), "{ran}");
    }
}

#[test]
fn an_image_above_its_limit_is_not_written() {
    if !can_build() {
        return;
    }
    let bench = Bench::new();
    bench.put("large.yaml", SMALL.replace("TAG", "small:1").replace("8m", "100k"));
    let (mut command, scratch) = build(&bench, &["./large.yaml", "--output", "large.tar"]);
    let ran = Ran::of(&mut command).exits(3);
    assert!(ran.stderr.contains("error[image_too_large]") && ran.stderr.contains("allows 102400"), "{ran}");
    let names: Vec<PathBuf> = left_in(&bench.workspace());
    assert_eq!((left_in(&scratch), names), (vec![], vec![bench.workspace().join("large.yaml")]));
    assert!(!bench.data().join("images").exists());
}

#[test]
fn a_package_nobody_has_fails_the_build_with_what_apt_says() {
    if !can_build() {
        return;
    }
    let bench = Bench::new();
    bench.put("odd.yaml", SMALL.replace("TAG", "small:1").replace("busybox-static", "no-such-package-at-all"));
    let (mut command, scratch) = build(&bench, &["./odd.yaml", "--output", "odd.tar"]);
    let ran = Ran::of(&mut command).exits(1);
    assert!(ran.stderr.contains("error[image_build_failed]") && ran.stderr.contains("no-such-package-at-all"), "{ran}");
    assert_eq!((left_in(&scratch), bench.workspace().join("odd.tar").exists()), (vec![], false));
}

#[test]
fn a_build_that_is_stopped_leaves_nothing() {
    if !can_build() {
        return;
    }
    for when in ["reading what the mirrors have", "unpacking packages"] {
        let bench = Bench::new();
        recipe(&bench, "small:1");
        let (mut command, scratch) = build(&bench, &["./small.yaml", "--output", "small.tar"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line.ends_with(when)), "`{when}` is not told");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest: Vec<String> = said.collect();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
        assert!(rest.iter().any(|line| line.contains("error[image_stopped]")), "{rest:?}");
        let names = left_in(&bench.workspace());
        assert_eq!((left_in(&scratch), names), (vec![], vec![bench.workspace().join("small.yaml")]));
    }
}

// ---- images ----

#[test]
fn two_builds_give_the_same_bytes_and_are_recorded() {
    if !can_build() {
        return;
    }
    let bench = Bench::new();
    recipe(&bench, "small:1");
    let made = |file: &str| {
        let (mut command, scratch) = build(&bench, &["./small.yaml", "--output", file, "--json"]);
        let ran = Ran::of(&mut command).exits(0);
        assert!(ran.stderr.contains(" s  downloading packages\n"), "{ran}");
        assert_eq!(left_in(&scratch), Vec::<PathBuf>::new());
        (ran.json(), fs::read(bench.workspace().join(file)).unwrap())
    };
    let (first, archive) = made("first.tar");
    let (second, again) = made("second.tar");
    assert_eq!(first, second);
    assert!(archive == again, "the archives differ");
    let recorded: Value = serde_json::from_slice(&fs::read(bench.data().join("images/small.json")).unwrap()).unwrap();
    assert_eq!(recorded, first);

    assert_eq!(
        (&first["name"], &first["tag"], &first["suite"]),
        (&json!("small"), &json!("small:1"), &json!("trixie"))
    );
    let package = &first["packages"][0];
    assert_eq!(first["packages"].as_array().unwrap().len(), 1);
    assert_eq!(package["name"], "busybox-static");
    assert!(package["version"].as_str().unwrap().contains('.') && package["architecture"].is_string(), "{package}");
    check_archive(&bench.workspace().join("first.tar"), &first);
}

/// Reads an archive with the system's own tar, and looks whether it is what was told.
fn check_archive(archive: &Path, built: &Value) {
    let tar = |args: &[&str]| {
        let ran = Command::new("tar").arg("-f").arg(archive).args(args).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        ran.stdout
    };
    let list: Value = serde_json::from_slice(&tar(&["-xO", "manifest.json"])).unwrap();
    let hash = |bytes: &[u8]| {
        let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    };
    let config = tar(&["-xO", list[0]["Config"].as_str().unwrap()]);
    let layer = tar(&["-xO", list[0]["Layers"][0].as_str().unwrap()]);
    assert_eq!((built["id"].as_str(), built["layer"].as_str()), (Some(&*hash(&config)), Some(&*hash(&layer))));
    assert_eq!(built["bytes"].as_u64(), Some(layer.len() as u64));
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["created"], "2026-01-01T00:00:00Z");
    let version = built["packages"][0]["version"].as_str().unwrap();
    assert_eq!(config["config"]["Labels"]["toolgate.image.packages"], format!("busybox-static={version}"));

    let inner = archive.with_extension("layer");
    fs::write(&inner, layer).unwrap();
    let ran = Command::new("tar").arg("-tf").arg(&inner).output().unwrap();
    let names = String::from_utf8(ran.stdout).unwrap();
    assert!(names.lines().any(|name| name.ends_with("bin/busybox")), "{names}");
    for gone in ["dev/null", "etc/apt", "etc/hostname", "etc/resolv.conf", "usr/share", "var/cache/apt", "var/lib/apt"]
    {
        assert!(!names.lines().any(|name| name.starts_with(gone)), "{gone} is in the image:\n{names}");
    }
}

#[test]
fn a_daemon_has_the_image_that_was_made_and_runs_it() {
    let Some(socket) = env::var("TOOLGATE_TEST_DOCKER").ok().filter(|_| can_build()) else {
        return skipped("set TOOLGATE_TEST_DOCKER to the socket of a Docker daemon to run this test");
    };
    let bench = Bench::new();
    let tag = format!("toolgate-test-small:{}", std::process::id());
    recipe(&bench, &tag);
    let host = format!("unix://{socket}");
    let docker = |args: &[&str]| {
        let ran = Ran::of(Command::new("docker").args(["-H", &host]).args(args)).exits(0);
        ran.stdout.trim().to_owned()
    };
    let built = Ran::of(&mut build(&bench, &["./small.yaml", "--host", &host]).0).exits(0).json();
    let id = docker(&["image", "inspect", "--format", "{{.Id}}", &tag]);
    let flags = ["run", "--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--user=1000:1000"];
    let said = |image: &str| docker(&[&flags[..], &[image, "/usr/bin/busybox", "echo", "it runs"]].concat());
    let (by_tag, by_id) = (said(&tag), said(built["id"].as_str().unwrap()));
    docker(&["image", "rm", &tag]);
    assert!([&built["id"], &built["digest"]].contains(&&json!(id)), "{id}: {built}");
    assert_eq!((by_tag, by_id), ("it runs".to_owned(), "it runs".to_owned()));
    let listed: Value = serde_json::from_slice(&fs::read(bench.data().join("images/small.json")).unwrap()).unwrap();
    assert_eq!(listed, built);
}

#[test]
fn without_a_daemon_nothing_is_built() {
    let bench = Bench::new();
    recipe(&bench, "small:1");
    let (mut command, scratch) = build(&bench, &["./small.yaml"]);
    let ran =
        Ran::of(command.env("DOCKER_HOST", format!("unix://{}", bench.home().join("no.sock").display()))).exits(1);
    assert!(ran.stderr.contains("error[image_not_loaded]") && ran.stderr.contains("--output"), "{ran}");
    assert!(!ran.stderr.contains(" s  "), "a stage was begun: {ran}");
    assert_eq!((ran.stdout.as_str(), left_in(&scratch)), ("", vec![]));
    assert!(!bench.data().join("images").exists());
}
