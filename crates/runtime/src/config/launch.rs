//! What a server's command runs, as far as it fetches that: a package or an image, of one version.
//!
//! A program that fetches what it runs by name runs whatever bears that name today. Those that are known stand in [`PROGRAMS`]
//! with the shapes of their options, and so do those that only start another one. Where the words of one of them cannot be
//! read for sure, because an option is not known here or a script stands in between, the command is refused: to guess which
//! word is the package would let another one through. A program that is not in the table is what it is.

use Runs::{Fetched, Here, Hidden, Image, Script, Started};

/// A word of a command that leaves open what runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpinned {
    pub(super) word: usize,
    pub(super) why: String,
    pub(super) remedy: &'static str,
}

const NPM: &str = "Write the package with its exact version, such as `@scope/server@1.2.3`.";
const PYPI: &str = "Write the package with its exact version, such as `mcp-server-git==1.2.3`.";
const UV_RUN: &str = "Write a script that is a file, or `uv tool run` and the package with its exact version.";
const MODULE: &str = "Write a file, or the package with its exact version, such as `npm:server@1.2.3`.";
const GO: &str = "Write a directory, or the package with its exact version, such as `example.com/server@v1.2.3`.";
const IMAGE: &str = "Write the image with its digest, as `name@sha256:...`, or with the tag of one version.";
const SCRIPT: &str = "Write the program and its words themselves, or a script that is a file.";
const ITSELF: &str = "Write the program itself; variables go under `env`.";
const READABLE: &str = "Say it so that the version can be read: the program that fetches, then the package with its exact \
                        version, without options that can be left out.";

/// Does this command say what runs, to the version?
pub(super) fn pinned(words: &[&str]) -> Result<(), Unpinned> {
    words.first().map_or(Ok(()), |program| run(&stem(program), words, 0))
}

/// A program that fetches what it runs, or starts another one. Options are lists with spaces in between.
struct Program {
    /// What its file is called.
    names: &'static str,
    /// What becomes of the words after it, by the words that say so; none where it does one thing only.
    verbs: &'static [(&'static str, Runs)],
    /// What it fetches.
    takes: Takes,
    /// Options without a value.
    flags: &'static str,
    /// Options with one.
    valued: &'static str,
    /// Options whose value is what the program is fetched from, and those whose value is fetched beside it.
    from: &'static str,
    with: &'static str,
}

/// What is fetched: whether it is exact, and what to write instead.
struct Takes(fn(&str) -> bool, &'static str);

/// What becomes of words.
#[derive(Clone, Copy)]
enum Runs {
    /// The first is what is fetched.
    Fetched,
    /// The first is an image, and the others are run in it.
    Image,
    /// The first is a script, or a program that was fetched.
    Script,
    /// After so many of them comes another program.
    Started(usize),
    /// They name what is on this machine.
    Here,
    /// Nobody can read what they run.
    Hidden,
}

const USUAL: Program =
    Program { names: "", verbs: &[("", Started(0))], takes: FILES, flags: "", valued: "", from: "", with: "" };
const FILES: Takes = Takes(is_here, READABLE);
const PACKAGES: Takes = Takes(is_exact_npm, NPM);

const NODE: Program = Program {
    takes: PACKAGES,
    flags: "-y --yes -q --quiet -s --silent --no --no-install --offline --prefer-offline --bun",
    valued: "--registry --cache --userconfig --loglevel -C --prefix --dir --reporter",
    from: "-p --package",
    ..USUAL
};
const UV: Program = Program {
    takes: Takes(is_exact_pypi, PYPI),
    flags: "-q --quiet -v --verbose -n --no-cache --isolated --offline --no-config --refresh --native-tls --no-progress \
            --no-index --no-env-file --locked --frozen --no-sync --no-project --no-dev --all-extras --exact --active \
            --no-build --managed-python --no-managed-python --script",
    valued: "-p --python --index --default-index -i --index-url --extra-index-url -f --find-links --directory --project \
             --cache-dir --config-file --env-file --color --link-mode --index-strategy --keyring-provider --resolution \
             --prerelease --exclude-newer --extra --group --with-editable --with-requirements --python-preference \
             --allow-insecure-host --package",
    from: "--from",
    with: "-w --with",
    ..USUAL
};

/// Those that are known.
const PROGRAMS: &[Program] = &[
    Program { names: "npx npx-cli pnpx bunx", verbs: &[("", Fetched)], ..NODE },
    Program {
        names: "npm npm-cli",
        verbs: &[
            ("exec", Fetched),
            ("x", Fetched),
            ("run", Here),
            ("run-script", Here),
            ("start", Here),
            ("test", Here),
            ("init", Hidden),
            ("create", Hidden),
        ],
        ..NODE
    },
    Program {
        names: "pnpm yarn yarnpkg bun",
        verbs: &[
            ("dlx", Fetched),
            ("x", Fetched),
            ("exec", Started(0)),
            ("run", Here),
            ("start", Here),
            ("node", Here),
            ("create", Hidden),
        ],
        ..NODE
    },
    Program { names: "uvx", verbs: &[("", Fetched)], ..UV },
    Program { names: "uv", verbs: &[("tool run", Fetched), ("run", Script)], ..UV },
    Program {
        names: "pipx",
        verbs: &[("run", Fetched)],
        takes: Takes(is_exact_pypi, PYPI),
        flags: "-q --quiet -v --verbose --no-cache --pypackages --system-site-packages",
        valued: "--python -i --index-url --pip-args --suffix --backend",
        from: "--spec",
        with: "--with",
    },
    Program {
        names: "dnx",
        verbs: &[("", Fetched)],
        takes: PACKAGES,
        flags: "-y --yes --prerelease --allow-roll-forward --disable-parallel --no-http-cache",
        valued: "--source --add-source --configfile -v --verbosity",
        ..USUAL
    },
    Program {
        names: "docker podman nerdctl",
        verbs: &[
            ("run", Image),
            ("container run", Image),
            ("exec", Here),
            ("container exec", Here),
            ("start", Here),
            ("container start", Here),
            ("attach", Here),
        ],
        flags: "-i --interactive -t --tty -d --detach -P --publish-all -D --debug -q --quiet --rm --init --privileged \
                --read-only --no-healthcheck --oom-kill-disable --sig-proxy --tls --tlsverify --disable-content-trust \
                --replace --remote",
        valued: "-e --env --env-file -v --volume --volumes-from --volume-driver --mount --tmpfs --name --network --net \
                 --network-alias --ip --link -p --publish --expose -w --workdir -u --user --userns --group-add -h \
                 --hostname --domainname --add-host --dns --dns-search --dns-option -m --memory --memory-swap \
                 --memory-reservation --shm-size -c --cpu-shares --cpus --cpuset-cpus --gpus --device --pids-limit \
                 --ulimit --security-opt --cap-add --cap-drop --sysctl --ipc --pid --uts --cgroupns --cgroup-parent \
                 --restart --stop-signal --stop-timeout -l --label --label-file --annotation --log-driver --log-opt \
                 --log-level -a --attach --platform --pull --runtime --cidfile --isolation --storage-opt --context -H \
                 --host --config --tlscacert --tlscert --tlskey --namespace -n",
        ..USUAL
    },
    Program {
        names: "deno",
        verbs: &[("run", Fetched), ("serve", Fetched), ("x", Fetched), ("task", Here)],
        takes: Takes(is_exact_module, MODULE),
        flags: "-A --allow-all -N --allow-net -R --allow-read -W --allow-write -E --allow-env -S --allow-sys --allow-run \
                --allow-ffi -I --allow-import --deny-net --deny-read --deny-write --deny-env --deny-sys --deny-run \
                --deny-ffi -q --quiet --no-prompt --no-check --check --no-config --no-lock --no-npm --no-remote \
                --cached-only --node-modules-dir --frozen -r --reload --v8-flags --env-file --unstable-kv \
                --unstable-net --unstable-cron",
        valued: "-L --log-level --location --port --host",
        with: "-c --config --import-map --lock --cert --preload --import",
        ..USUAL
    },
    Program {
        names: "go",
        verbs: &[("run", Fetched), ("tool", Here)],
        takes: Takes(is_exact_go, GO),
        flags: "-race -v -x -n -a -work -trimpath -msan -asan",
        valued: "-C -p -tags -mod -modfile -ldflags -gcflags -asmflags -buildmode -overlay -pgo",
        ..USUAL
    },
    Program {
        names: "timeout gtimeout",
        verbs: &[("", Started(1))],
        flags: "-f --foreground -p --preserve-status -v --verbose",
        valued: "-k --kill-after -s --signal",
        ..USUAL
    },
    Program { names: "nice", valued: "-n --adjustment", ..USUAL },
    Program { names: "ionice", flags: "-t --ignore", valued: "-c --class -n --classdata", ..USUAL },
    Program { names: "setsid", flags: "-c --ctty -f --fork -w --wait", ..USUAL },
    Program { names: "stdbuf gstdbuf", valued: "-i --input -o --output -e --error", ..USUAL },
    Program { names: "taskset", verbs: &[("", Started(1))], flags: "-a -c --cpu-list", ..USUAL },
    Program { names: "time", flags: "-p -v -a", valued: "-f -o", ..USUAL },
    Program { names: "tini", flags: "-s -v -g -w", valued: "-p -e", ..USUAL },
    Program { names: "busybox toybox corepack dumb-init", ..USUAL },
    Program {
        names: "poetry pdm pipenv rye hatch pixi volta",
        verbs: &[("run", Started(0))],
        flags: "-q --quiet -v --verbose",
        valued: "-C --directory -P --project -p",
        ..USUAL
    },
    Program { names: "bundle pyenv rbenv asdf nodenv", verbs: &[("exec", Started(0))], ..USUAL },
    // What these start has names of its own for versions, or none.
    Program { names: "mise rtx fnm nix nix-shell devbox jbang gem", verbs: &[("", Hidden)], ..USUAL },
    Program {
        names: "env sudo doas su runuser nohup xargs parallel script watch chroot",
        verbs: &[("", Hidden)],
        takes: Takes(is_here, ITSELF),
        ..USUAL
    },
];

const SHELLS: &str = "sh bash dash ash zsh fish ksh mksh csh tcsh nu pwsh powershell cmd";

/// The program of this name, for which the word `at` stands, with the words after it.
fn run(name: &str, words: &[&str], at: usize) -> Result<(), Unpinned> {
    if lists(SHELLS, name) {
        return in_shell(name, words, at);
    }
    if name.starts_with("python") || name.starts_with("pypy") {
        return in_python(words, at);
    }
    if matches!(name, "node" | "nodejs") {
        return in_interpreter(words, at + 1);
    }
    let Some(program) = known(name) else { return Ok(()) };
    let mut reader = Reader { program, words, at: at + 1, is_from: false, is_with: false };
    let runs = reader.verbs()?;
    if matches!(runs, Here) {
        return Ok(());
    }
    if matches!(runs, Hidden) {
        return Err(Unpinned { word: at, why: format!("`{name}` hides what is started"), remedy: program.takes.1 });
    }
    reader.options()?;
    let Reader { at: first, is_from, is_with, .. } = reader;
    let Takes(is_exact, remedy) = program.takes;
    let Some(word) = words.get(first) else {
        return Err(Unpinned { word: at, why: "nothing is named that it could start".into(), remedy });
    };
    let next = |at: usize| words.get(at).map_or(Ok(()), |word| run(&package(&stem(word)), words, at));
    match runs {
        Started(before) => next(first + before),
        // Where it is fetched from is said, and this is the program; a package may itself be of one that fetches.
        Fetched if is_from || is_exact(word) => next(first),
        Script if is_from || is_with || is_here(word) || stem(word).starts_with("python") => next(first),
        Image if is_exact_image(word) => next(first + 1),
        Image => Err(open(words, first, IMAGE)),
        Script => Err(open(words, first, UV_RUN)),
        Fetched | Here | Hidden => Err(open(words, first, remedy)),
    }
}

/// A shell runs a file, and nothing that stands in the command.
fn in_shell(name: &str, words: &[&str], at: usize) -> Result<(), Unpinned> {
    let is_script = |word: &str| {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(['c', 'C']))
            || word == "--command"
            || (name == "cmd" && word.starts_with('/'))
    };
    match (at + 1..words.len()).find(|word| is_script(words[*word])) {
        Some(word) => {
            Err(Unpinned { word, why: format!("a script for `{name}` hides what is started"), remedy: SCRIPT })
        }
        None => Ok(()),
    }
}

/// Python runs a module, which may be one that fetches, or a script.
fn in_python(words: &[&str], at: usize) -> Result<(), Unpinned> {
    let mut at = at + 1;
    while let Some(letters) = words.get(at).and_then(|word| word.strip_prefix('-')) {
        at += 1;
        let Some(place) = letters.find(['m', 'X', 'W', 'c']).filter(|_| !letters.starts_with('-')) else { continue };
        let (letter, value) = letters[place..].split_at(1);
        match (letter, value) {
            ("m", "") => return words.get(at).map_or(Ok(()), |module| run(module, words, at)),
            ("m", module) => return run(module, words, at - 1),
            ("c", _) => return Ok(()),
            (_, "") => at += 1,
            _ => {}
        }
    }
    in_interpreter(words, at)
}

/// A script, which may be that of a program that fetches. What stands right after an option may be its value.
fn in_interpreter(words: &[&str], from: usize) -> Result<(), Unpinned> {
    let mut may_be_value = false;
    for (at, word) in words.iter().enumerate().skip(from) {
        let is_option = word.starts_with('-');
        if !is_option && known(&stem(word)).is_some() {
            return run(&stem(word), words, at);
        }
        if !is_option && !may_be_value {
            return Ok(());
        }
        may_be_value = is_option;
    }
    Ok(())
}

/// What is known of a program's words, from left to right.
struct Reader<'a> {
    program: &'static Program,
    words: &'a [&'a str],
    at: usize,
    /// An option says what the program is fetched from.
    is_from: bool,
    /// An option says what is fetched beside it.
    is_with: bool,
}

impl Reader<'_> {
    /// Reads which of the things it does is meant.
    fn verbs(&mut self) -> Result<Runs, Unpinned> {
        let mut said = String::new();
        loop {
            if let Some((_, runs)) = self.program.verbs.iter().find(|(verb, _)| *verb == said) {
                return Ok(*runs);
            }
            self.options()?;
            let Some(word) = self.words.get(self.at) else { return Err(self.unreadable(self.at - 1)) };
            if said.is_empty() && is_here(word) {
                return Ok(Here);
            }
            said = format!("{said} {word}").trim_start().to_owned();
            if !self
                .program
                .verbs
                .iter()
                .any(|(verb, _)| verb.split(' ').take(said.split(' ').count()).eq(said.split(' ')))
            {
                return Err(self.unreadable(self.at));
            }
            self.at += 1;
        }
    }

    /// Passes by options. What they have fetched has to be exact, and one that is not known has to go.
    fn options(&mut self) -> Result<(), Unpinned> {
        while let Some(word) = self.words.get(self.at).filter(|word| word.starts_with('-')) {
            if *word == "--" {
                self.at += 1;
                return Ok(());
            }
            let (option, value) = word.split_once('=').map_or((*word, None), |(option, value)| (option, Some(value)));
            let Program { flags, valued, from, with, .. } = self.program;
            match [flags, valued, from, with].iter().any(|list| lists(list, option)) {
                true => self.option(option, value)?,
                false => self.letters()?,
            }
        }
        Ok(())
    }

    /// One option, which is known, and its value.
    fn option(&mut self, option: &str, value: Option<&str>) -> Result<(), Unpinned> {
        let at = self.at;
        self.at += 1;
        if lists(self.program.flags, option) {
            return Ok(());
        }
        let value = match value {
            Some(value) => value,
            None => {
                self.at += 1;
                self.words.get(at + 1).copied().unwrap_or_default()
            }
        };
        let (is_from, is_with) = (lists(self.program.from, option), lists(self.program.with, option));
        let Takes(is_exact, remedy) = self.program.takes;
        if (is_from || is_with) && !is_exact(value) {
            return Err(open(self.words, at, remedy));
        }
        (self.is_from, self.is_with) = (self.is_from || is_from, self.is_with || is_with);
        Ok(())
    }

    /// Options of one letter each in one word, the last perhaps with its value; or a number, as programs had them once.
    fn letters(&mut self) -> Result<(), Unpinned> {
        let (at, word) = (self.at, self.words[self.at]);
        let is_number = word.len() > 1 && word[1..].bytes().all(|byte| byte.is_ascii_digit());
        if is_number && lists(self.program.valued, "-n") {
            self.at += 1;
            return Ok(());
        }
        let mut letters = word.char_indices().skip(1);
        while let Some((place, letter)) = letters.next().filter(|_| !word.starts_with("--")) {
            let (option, rest) = (format!("-{letter}"), &word[place + letter.len_utf8()..]);
            let Program { flags, valued, from, with, .. } = self.program;
            if lists(flags, &option) {
                if rest.is_empty() {
                    self.at += 1;
                    return Ok(());
                }
                continue;
            }
            if ![valued, from, with].iter().any(|list| lists(list, &option)) {
                break;
            }
            return self.option(&option, Some(rest).filter(|rest| !rest.is_empty()));
        }
        Err(self.unreadable(at))
    }

    fn unreadable(&self, word: usize) -> Unpinned {
        let shown = self.words.get(word).and_then(|shown| shown.split('=').next()).unwrap_or_default();
        let why = format!("what is started cannot be read for sure: `{shown}` is not known here");
        Unpinned { word, why, remedy: READABLE }
    }
}

fn open(words: &[&str], word: usize, remedy: &'static str) -> Unpinned {
    let shown = words.get(word).copied().unwrap_or_default();
    Unpinned { word, why: format!("`{shown}` is whatever bears that name when it starts"), remedy }
}

fn known(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| lists(program.names, name))
}

fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| !listed.is_empty() && listed == word)
}

/// What a file is called, without what only says that it is a program.
fn stem(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let endings = [".cmd", ".exe", ".bat", ".ps1", ".js", ".cjs", ".mjs"];
    endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name).to_owned()
}

/// The name of a package, without its version.
fn package(word: &str) -> String {
    let name = word.rsplit(':').next().unwrap_or_default();
    name.split(['@', '=', '[']).next().unwrap_or_default().to_owned()
}

fn is_file(name: &str) -> bool {
    name.starts_with('/') || name.starts_with("./") || name.starts_with("../")
}

/// A file of this machine, by its place or by what it is called.
fn is_here(name: &str) -> bool {
    let endings = [".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".go"];
    is_file(name) || (!name.contains([':', '@']) && endings.iter().any(|ending| name.ends_with(ending)))
}

/// `name@1.2.3`, `@scope/name@1.2.3`, or a file of this machine.
fn is_exact_npm(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c));
    let is_name = |name: &str| match name.strip_prefix('@').and_then(|name| name.split_once('/')) {
        Some((scope, name)) => plain(scope) && plain(name),
        None => plain(name),
    };
    is_file(name) || name.rsplit_once('@').is_some_and(|(name, version)| is_name(name) && is_semantic(version))
}

/// `name==1.2.3`, `name[extra]==1.2.3`, `name@1.2.3`, or a file of this machine.
fn is_exact_pypi(name: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._[],".contains(c));
    let version = name.split_once("==").or_else(|| name.rsplit_once('@'));
    is_file(name) || version.is_some_and(|(name, version)| is_name(name) && is_release(version))
}

/// `npm:name@1.2.3`, `jsr:@scope/name@1.2.3`, or a file of this machine.
fn is_exact_module(name: &str) -> bool {
    let named = name.strip_prefix("npm:").or_else(|| name.strip_prefix("jsr:"));
    match named {
        Some(named) => is_exact_npm(named.trim_start_matches('/')),
        None => !name.contains(':'),
    }
}

/// `example.com/server@v1.2.3`, or a file or directory of this machine.
fn is_exact_go(name: &str) -> bool {
    let version = name.rsplit_once('@').and_then(|(_, version)| version.strip_prefix('v'));
    name == "." || is_here(name) || version.is_some_and(is_semantic)
}

/// `name@sha256:...`, or `name:1.2.3`.
fn is_exact_image(name: &str) -> bool {
    if let Some((_, digest)) = name.split_once('@') {
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        return digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let last = name.rsplit('/').next().unwrap_or_default();
    let Some((_, tag)) = last.split_once(':').filter(|(name, _)| !name.is_empty()) else { return false };
    let (numbers, rest) = split_numbers(tag.trim_start_matches('v'));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    numbers.is_some_and(|count| count >= 2) && rest.chars().all(fits) && !rest.contains("latest")
}

/// How many numbers with dots in between a version begins with, and what comes after them; none where it begins otherwise.
fn split_numbers(version: &str) -> (Option<usize>, &str) {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    // A dot before letters is theirs.
    let end = version[..end].trim_end_matches('.').len();
    let (numbers, rest) = version.split_at(end);
    let are_numbers = numbers.split('.').all(|part| !part.is_empty() && part.len() <= 12);
    (are_numbers.then(|| numbers.split('.').count()), rest)
}

/// Three numbers, and perhaps what comes before or after a release. With fewer it would be a range, or a tag.
fn is_semantic(version: &str) -> bool {
    let (numbers, rest) = split_numbers(version);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    numbers == Some(3)
        && (rest.is_empty() || (rest.starts_with(['-', '+']) && rest.len() <= 64 && rest.chars().all(fits)))
}

/// Two numbers or more, and perhaps the words that Python has for what comes before or after a release.
fn is_release(version: &str) -> bool {
    const WORDS: [&str; 12] = ["alpha", "a", "beta", "b", "preview", "pre", "rc", "c", "post", "rev", "r", "dev"];
    let (version, local) = version.split_once('+').unwrap_or((version, "0"));
    let (numbers, mut rest) = split_numbers(version);
    while !rest.is_empty() {
        rest = rest.trim_start_matches(['.', '-', '_']);
        let Some(word) = WORDS.iter().find_map(|word| rest.strip_prefix(word)) else { return false };
        rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let is_local = local.len() <= 64 && local.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    numbers.is_some_and(|count| (2..=5).contains(&count)) && is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word that leaves open what runs; none where nothing does.
    #[track_caller]
    fn check(command: &str, expected: Option<usize>) {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(pinned(&words).err().map(|wrong| wrong.word), expected, "{command}");
    }

    #[test]
    fn what_fetches_a_package_names_its_exact_version() {
        for exact in [
            "npx -y @modelcontextprotocol/server-everything@2026.8.31 stdio",
            "/usr/bin/npx --yes some-server@1.2.3-beta.1",
            "npx -p some-server@1.2.3 some-server",
            "npx --package=some-server@1.2.3 -- some-server",
            "npx.cmd -yq some-server@1.2.3+build.5",
            "npm exec some-server@1.2.3",
            "npm --yes exec some-server@1.2.3",
            "npm run server",
            "pnpm dlx some-server@1.2.3",
            "pnpm --package=some-server@1.2.3 dlx some-server",
            "pnpm exec some-server",
            "bun x some-server@1.2.3",
            "bun ./server.ts",
            "npx ./server",
            "uvx mcp-server-git==2026.10.19 --repository .",
            "uvx --from mcp-server-git==1.2.3 --with extra==1.0 mcp-server-git",
            "uvx mcp-server-git@1.2.3",
            "uvx mcp-server-git[all]==1.2.3rc1",
            "uvx mcp-server-git==1.2.3.post1",
            "uv tool run mcp-server-git==1.2.3",
            "uv --quiet tool run mcp-server-git==1.2.3",
            "uv --directory /srv/git run server.py",
            "uv run /srv/git/server.py",
            "uv run python -m server",
            "uv run --with mcp[cli]==1.2.3 mcp run server.py",
            "pipx run --spec mcp-server-time==1.2 mcp-server-time",
            "docker run -i --rm -e TOKEN ghcr.io/x/server:1.2.3",
            "docker --context far run -ie TOKEN --name=server x/server:v1.2-alpine",
            "docker container run --rm -i x/server:1.2.3 --verbose",
            "docker run --rm -i x/server@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "docker exec -i box server",
            "deno run -A npm:some-server@1.2.3",
            "deno run --allow-net=example.com -c deno.json server.ts https://example.com",
            "go run example.com/server@v1.2.3",
            "go run -tags x ./cmd/server",
            "dnx Server@1.2.3 --yes",
            "timeout 5 npx some-server@1.2.3",
            "timeout --signal=KILL 5 server",
            "nice -n 5 npx some-server@1.2.3",
            "nice -5 server",
            "stdbuf -oL -eL server",
            "corepack pnpm dlx some-server@1.2.3",
            "node server.js npx",
            "node --enable-source-maps server.js",
            "python3 -m server",
            "python3 -u -m uv tool run mcp-server-git==1.2.3",
            "bash server.sh",
            "my-server --with other",
            "/opt/servers/weather",
        ] {
            check(exact, None);
        }
        for (open, word) in [
            ("npx -y some-server", 2),
            ("npx some-server@latest", 1),
            ("npx some-server@^1.2.3", 1),
            ("npx some-server@1", 1),
            ("npx some-server@1.2", 1),
            ("npx some-server@1.2-latest", 1),
            ("npx some-server@1.x.x", 1),
            ("npx @scope/server", 1),
            ("npx owner/server@1.2.3", 1),
            ("npx https://example.com/server.tgz@1.2.3", 1),
            ("npx -p some-server some-server@1.2.3", 1),
            ("npx -p some-server@1.2.3 npx other", 4),
            ("npx npm@10.0.0 exec other", 3),
            ("npx --unheard-of other some-server@1.2.3", 1),
            ("npx -y", 0),
            ("npx -c some-server", 1),
            ("npx.cmd some-server", 1),
            ("npm exec -- some-server", 3),
            ("npm --yes exec some-server", 3),
            ("npm x some-server@next", 2),
            ("npm init some-server", 0),
            ("npm install some-server", 1),
            ("yarn dlx some-server", 2),
            ("pnpm --silent dlx some-server", 3),
            ("/opt/node/bin/npx some-server", 1),
            ("uvx mcp-server-git", 1),
            ("uvx mcp-server-git>=1.2.3", 1),
            ("uvx mcp-server-git==1.2.*", 1),
            ("uvx mcp-server-git==1.2-latest", 1),
            ("uvx --from git+https://example.com/x mcp-server-git==1.2.3", 1),
            ("uvx --with extra mcp-server-git==1.2.3", 1),
            ("uvx --from uv==1.2.3 uvx other", 4),
            ("uv --quiet tool run mcp-server-git", 4),
            ("uv run --with mcp-server-git mcp-server-git", 2),
            ("uv run mcp-server-git", 2),
            ("uv run -m mcp_server_git", 2),
            ("uv run python -m uv tool run mcp-server-git", 7),
            ("pipx run mcp-server-time", 2),
            ("pipx --quiet run mcp-server-time", 3),
            ("docker run -i --rm x/server", 4),
            ("docker run x/server:latest", 2),
            ("docker run x/server:1.2-latest", 2),
            ("docker --context far run x/server", 4),
            ("docker container run x/server:latest", 3),
            ("docker run --entrypoint npx node:22.1.0 some-server", 2),
            ("docker run node:22.1.0 npx some-server", 4),
            ("docker compose up", 1),
            ("podman run x/server:stable", 2),
            ("deno run -A npm:some-server", 3),
            ("deno run jsr:@scope/server", 2),
            ("deno run https://example.com/server.ts", 2),
            ("deno run -c https://example.com/deno.json server.ts", 2),
            ("go run example.com/server@latest", 2),
            ("go run example.com/server", 2),
            ("dnx Server", 1),
            ("timeout 5 npx some-server", 3),
            ("timeout -k 1 5 npx some-server", 5),
            ("timeout --unheard-of 5 npx some-server@1.2.3", 1),
            ("nice npx some-server", 2),
            ("nice -n 5 npx some-server", 4),
            ("setsid -w npx some-server", 3),
            ("stdbuf -oL npx some-server", 3),
            ("busybox sh -c npx", 2),
            ("corepack npx some-server", 2),
            ("corepack pnpm@9 dlx some-server", 3),
            ("mise exec node@22 -- npx some-server", 0),
            ("poetry run npx some-server", 3),
            ("python3 -m uv tool run mcp-server-git", 5),
            ("python3 -um pipx run mcp-server-time", 4),
            ("python3 -X dev -m uv run mcp-server-git", 6),
            ("python3 /usr/bin/uvx mcp-server-git", 2),
            ("node /usr/lib/node_modules/npm/bin/npx-cli.js some-server", 2),
            ("node --no-warnings /opt/npx-cli.js some-server", 3),
            ("sh -c npx", 1),
            ("bash -lc npx", 1),
            ("cmd /c npx", 1),
            ("env A=b npx some-server@1.2.3", 0),
            ("sudo server", 0),
        ] {
            check(open, Some(word));
        }
    }
}
