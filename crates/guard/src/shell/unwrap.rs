//! Commands that start commands, and the plain form of a command.

use super::ir::{Assignment, Command, Flow, Role, Word};

/// What a command starts.
#[derive(Debug)]
pub(super) enum Inner {
    Nothing,
    Commands {
        role: Role,
        commands: Vec<(Vec<Assignment>, Vec<Word>)>,
    },
    Scripts {
        role: Role,
        scripts: Vec<Word>,
    },
    /// Something, but these words do not say what for certain.
    Unclear(Vec<Word>),
}

/// A command in its plain form.
#[derive(Debug)]
pub(super) struct Normal {
    pub words: Vec<Word>,
    pub is_system_program: bool,
    /// Directories it goes to before it works: `git -C`.
    pub directories: Vec<Word>,
}

const SYSTEM_DIRS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Takes the directory off the name, and the global options off `git`.
pub(super) fn normalise(argv: &[Word]) -> Normal {
    let Some(name) = argv.first() else {
        return Normal { words: Vec::new(), is_system_program: false, directories: Vec::new() };
    };
    let text = name.text();
    let (dir, base) = text.rsplit_once('/').map_or((None, text), |(dir, base)| (Some(dir), base));
    let base = base.trim_end_matches(".exe");
    let program = match name {
        Word::Literal(_) => Word::new(base),
        Word::Dynamic { why, .. } => Word::Dynamic { guess: base.to_owned(), why: *why },
    };
    let mut normal = Normal {
        words: vec![program],
        is_system_program: dir.is_none_or(|dir| SYSTEM_DIRS.contains(&dir)),
        directories: Vec::new(),
    };
    let rest = &argv[1..];
    let from = if base == "git" { git_globals(rest, &mut normal.directories) } else { 0 };
    normal.words.extend_from_slice(&rest[from..]);
    normal
}

/// How many words of global options stand before the subcommand of `git`.
fn git_globals(args: &[Word], directories: &mut Vec<Word>) -> usize {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        match word.text() {
            "-C" => {
                directories.extend(args.get(at + 1).cloned());
                at += 2;
            }
            "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" | "--config-env" | "--exec-path"
            | "--attr-source" => at += 2,
            option if option.starts_with('-') && option.len() > 1 => at += 1,
            _ => break,
        }
    }
    at.min(args.len())
}

/// A program that starts the command in its own arguments.
struct Wrapper {
    name: &'static str,
    role: Role,
    /// One-letter options whose value is the next word.
    short: &'static str,
    /// Long options whose value is the next word.
    long: &'static [&'static str],
    /// Words between the options and the command.
    skip: usize,
}

const fn wrapper(
    name: &'static str,
    role: Role,
    short: &'static str,
    long: &'static [&'static str],
    skip: usize,
) -> Wrapper {
    Wrapper { name, role, short, long, skip }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("command", Role::Transparent, "", &[], 0),
    wrapper("builtin", Role::Transparent, "", &[], 0),
    wrapper("time", Role::Transparent, "fo", &["--format", "--output"], 0),
    wrapper("timeout", Role::Transparent, "sk", &["--signal", "--kill-after"], 1),
    wrapper("nice", Role::Transparent, "n", &["--adjustment"], 0),
    wrapper("stdbuf", Role::Transparent, "ioe", &["--input", "--output", "--error"], 0),
    wrapper("exec", Role::Wrapper, "a", &[], 0),
    wrapper("env", Role::Wrapper, "uC", &["--unset", "--chdir"], 0),
    wrapper("nohup", Role::Wrapper, "", &[], 0),
    wrapper("setsid", Role::Wrapper, "", &[], 0),
    wrapper("ionice", Role::Wrapper, "cnt", &["--class", "--classdata"], 0),
    wrapper("chrt", Role::Wrapper, "TPD", &[], 1),
    wrapper("taskset", Role::Wrapper, "", &[], 1),
    wrapper("setarch", Role::Wrapper, "", &[], 1),
    wrapper("linux32", Role::Wrapper, "", &[], 0),
    wrapper("linux64", Role::Wrapper, "", &[], 0),
    wrapper("prlimit", Role::Wrapper, "", &[], 0),
    wrapper("fakeroot", Role::Wrapper, "lf", &[], 0),
    wrapper("strace", Role::Wrapper, "oespEIOPSXau", &[], 0),
    wrapper("ltrace", Role::Wrapper, "oesplnuaxAD", &[], 0),
    wrapper("xvfb-run", Role::Wrapper, "efnpsw", &[], 0),
    wrapper("unbuffer", Role::Wrapper, "", &[], 0),
    wrapper("catchsegv", Role::Wrapper, "", &[], 0),
    wrapper("torsocks", Role::Wrapper, "", &[], 0),
    wrapper("proxychains", Role::Wrapper, "f", &[], 0),
    wrapper("proxychains4", Role::Wrapper, "f", &[], 0),
    wrapper("chroot", Role::Wrapper, "", &[], 1),
    wrapper("unshare", Role::Wrapper, "SGRw", &["--root", "--wd", "--setuid", "--setgid"], 0),
    wrapper("nsenter", Role::Wrapper, "tSG", &["--target", "--setuid", "--setgid"], 0),
    wrapper("sudo", Role::Wrapper, "ugphCrtTUDR", SUDO_LONG, 0),
    wrapper("doas", Role::Wrapper, "uC", &[], 0),
    wrapper("pkexec", Role::Wrapper, "", &["--user"], 0),
    wrapper("gosu", Role::Wrapper, "", &[], 1),
    wrapper("su-exec", Role::Wrapper, "", &[], 1),
    wrapper("systemd-run", Role::Wrapper, "upEHM", &["--unit", "--property", "--uid", "--gid", "--setenv"], 0),
    wrapper("dbus-run-session", Role::Wrapper, "", &[], 0),
    wrapper("firejail", Role::Wrapper, "", &[], 0),
    wrapper("busybox", Role::Wrapper, "", &[], 0),
    wrapper("toybox", Role::Wrapper, "", &[], 0),
    wrapper("xargs", Role::Wrapper, "IEdLnPsa", XARGS_LONG, 0),
    wrapper("parallel", Role::Wrapper, "jIaNnSL", PARALLEL_LONG, 0),
    wrapper("chronic", Role::Wrapper, "", &[], 0),
    wrapper("ifne", Role::Wrapper, "", &[], 0),
    wrapper("rlwrap", Role::Wrapper, "", &[], 0),
    wrapper("entr", Role::Wrapper, "", &[], 0),
];

const SUDO_LONG: &[&str] = &[
    "--user",
    "--group",
    "--prompt",
    "--host",
    "--chdir",
    "--chroot",
    "--role",
    "--type",
    "--other-user",
    "--command-timeout",
    "--close-from",
];
const XARGS_LONG: &[&str] =
    &["--delimiter", "--max-args", "--max-procs", "--max-lines", "--arg-file", "--replace", "--max-chars"];
const PARALLEL_LONG: &[&str] = &["--jobs", "--arg-file", "--max-args", "--sshlogin", "--colsep", "--delimiter"];

/// Shells that take a script after `-c`.
pub(super) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash"];

/// What a command starts, as far as its words say.
pub(super) fn inner(command: &Command) -> Inner {
    let program = command.program();
    let args = command.args();
    if SHELLS.contains(&program) {
        return match shell(args) {
            Inner::Nothing if command.operands().next().is_none() || command.has_short('s') => fed(command),
            inner => inner,
        };
    }
    match program {
        "eval" => return joined(args, Role::Wrapper),
        "watch" => {
            let words = after_options(args, "nqT", &["--interval"]).unwrap_or_default();
            return joined(&words, Role::Wrapper);
        }
        "trap" => return trap(args),
        "su" | "runuser" | "script" | "flock" if has_script_option(args) => return script_option(args),
        "runuser" | "flock" => {
            let (short, skip) = if program == "flock" { ("wE", 1) } else { ("ugG", 0) };
            let words = after_options(args, short, &[]).unwrap_or_default();
            return started(Role::Wrapper, words.get(skip..).unwrap_or_default());
        }
        "find" | "fd" | "fdfind" => return find(args),
        "git" => return git(command),
        "env" if split_string(args).is_some() => {
            return Inner::Scripts { role: Role::Wrapper, scripts: split_string(args).into_iter().collect() };
        }
        "command" if command.has_short('v') || command.has_short('V') => return Inner::Nothing,
        _ => {}
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program) else { return Inner::Nothing };
    let Some(mut words) = after_options(args, wrapper.short, wrapper.long) else {
        return Inner::Unclear(args.to_vec());
    };
    words.drain(..wrapper.skip.min(words.len()));
    if matches!(program, "xargs" | "parallel") {
        if words.is_empty() {
            return Inner::Nothing;
        }
        for word in &mut words {
            if word.text().contains("{}") {
                *word = Word::input();
            }
        }
        words.push(Word::input());
    }
    started(wrapper.role, &words)
}

/// The command after any `NAME=value` words.
fn started(role: Role, words: &[Word]) -> Inner {
    let is_assignment = |word: &&Word| {
        let name = word.text().split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && !name.starts_with('-') && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    };
    let assigned: Vec<&Word> = words.iter().take_while(is_assignment).collect();
    let rest = &words[assigned.len()..];
    if rest.is_empty() {
        return Inner::Nothing;
    }
    let assignments = assigned.into_iter().map(|word| {
        let (name, _) = word.text().split_once('=').unwrap_or_default();
        Assignment { name: name.to_owned(), value: word.after(name.len() + 1) }
    });
    Inner::Commands { role, commands: vec![(assignments.collect(), rest.to_vec())] }
}

/// The words after the options; none when a word that is not certain could be an option.
fn after_options(args: &[Word], short: &str, long: &[&str]) -> Option<Vec<Word>> {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        if word.literal().is_none() && word.may_be_option() {
            return None;
        }
        let text = word.text();
        if text == "--" {
            at += 1;
            break;
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        let takes_next = match text.strip_prefix("--") {
            Some(name) => !name.contains('=') && long.iter().any(|long| name.len() > 1 && long[2..].starts_with(name)),
            None => {
                text.chars().next_back().is_some_and(|last| short.contains(last)) && {
                    // In a cluster the first letter that takes a value takes the rest of the cluster.
                    let first = text[1..].find(|letter| short.contains(letter));
                    first == Some(text.len() - 2)
                }
            }
        };
        at += if takes_next { 2 } else { 1 };
    }
    Some(args.get(at..).unwrap_or_default().to_vec())
}

fn shell(args: &[Word]) -> Inner {
    let mut takes_script = false;
    for (at, word) in args.iter().enumerate() {
        let text = word.text();
        if word.literal().is_none() && word.may_be_option() && !takes_script {
            return if word.why().is_some_and(|why| why == super::ir::Why::Substitution) && at == 0 {
                // `bash <(..)`: a file, and a rule of its own.
                Inner::Nothing
            } else {
                Inner::Unclear(args.to_vec())
            };
        }
        match text {
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => {
                if text.starts_with("--") {
                    return Inner::Unclear(args.to_vec());
                }
            }
            _ if text.starts_with("--") && text.len() > 2 => {}
            _ if (text.starts_with('-') || text.starts_with('+')) && text.len() > 1 && text != "--" => {
                takes_script |= text.starts_with('-') && text.contains('c');
            }
            _ if at > 0 && matches!(args[at - 1].text(), "-o" | "+o" | "-O" | "+O") => {}
            "--" => {}
            _ if takes_script => {
                // Anything but a plain `-c` with the script may change how the script is read.
                let role = if at == 1 && args.len() == 2 { Role::Transparent } else { Role::Wrapper };
                return Inner::Scripts { role, scripts: vec![word.clone()] };
            }
            _ => return Inner::Nothing,
        }
    }
    Inner::Nothing
}

/// A shell without a script reads one from its input, which may stand in the script itself.
fn fed(command: &Command) -> Inner {
    let texts = command.redirects.iter().filter(|redirect| redirect.flow == Flow::Text);
    let scripts: Vec<Word> = texts.map(|redirect| redirect.target.clone()).collect();
    match scripts.is_empty() {
        true => Inner::Nothing,
        false => Inner::Scripts { role: Role::Wrapper, scripts },
    }
}

/// Words that are joined with spaces and read as a script.
fn joined(args: &[Word], role: Role) -> Inner {
    if args.is_empty() {
        return Inner::Nothing;
    }
    let text = args.iter().map(Word::text).collect::<Vec<_>>().join(" ");
    let script = match args.iter().filter_map(Word::why).max() {
        None => Word::Literal(text),
        Some(why) => Word::Dynamic { guess: text, why },
    };
    Inner::Scripts { role, scripts: vec![script] }
}

fn trap(args: &[Word]) -> Inner {
    match args {
        [first, _, ..] if !matches!(first.text(), "-" | "" | "-l" | "-p" | "-P") => {
            let script = if first.text() == "--" { args[1].clone() } else { first.clone() };
            Inner::Scripts { role: Role::Wrapper, scripts: vec![script] }
        }
        _ => Inner::Nothing,
    }
}

fn has_script_option(args: &[Word]) -> bool {
    args.iter().any(|arg| is_script_option(arg.text()))
}

fn is_script_option(text: &str) -> bool {
    text == "--command"
        || text.starts_with("--command=")
        || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'))
}

fn script_option(args: &[Word]) -> Inner {
    let Some(at) = args.iter().position(|arg| is_script_option(arg.text())) else { return Inner::Nothing };
    let script = match args[at].text().find('=') {
        Some(equals) => Some(args[at].after(equals + 1)),
        None => args.get(at + 1).cloned(),
    };
    Inner::Scripts { role: Role::Wrapper, scripts: script.into_iter().collect() }
}

fn split_string(args: &[Word]) -> Option<Word> {
    let at = args.iter().position(|arg| arg.text().starts_with("-S") || arg.text().starts_with("--split-string"))?;
    match (args[at].text(), args[at].text().find('=')) {
        ("-S" | "--split-string", _) => args.get(at + 1).cloned(),
        (text, Some(equals)) if text.starts_with("--") => Some(args[at].after(equals + 1)),
        _ => Some(args[at].after(2)),
    }
}

fn find(args: &[Word]) -> Inner {
    let starts = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let mut commands = Vec::new();
    let mut at = 0;
    while at < args.len() {
        if starts.contains(&args[at].text()) {
            let rest = &args[at + 1..];
            let end = rest.iter().position(|word| matches!(word.text(), ";" | "+")).unwrap_or(rest.len());
            let found = |word: &Word| if word.text().contains("{}") { Word::input() } else { word.clone() };
            let argv: Vec<Word> = rest[..end].iter().map(found).collect();
            if !argv.is_empty() {
                commands.push((Vec::new(), argv));
            }
            at += end + 1;
        }
        at += 1;
    }
    match commands.is_empty() {
        true => Inner::Nothing,
        false => Inner::Commands { role: Role::Wrapper, commands },
    }
}

/// Aliases given on the command line, and subcommands that run what they are given.
fn git(command: &Command) -> Inner {
    let globals = command.argv.len() - command.words.len();
    let shell_alias = |word: &Word| {
        let is_alias = word.text().starts_with("alias.");
        word.text().find("=!").filter(|_| is_alias).map(|at| word.after(at + 2))
    };
    let mut scripts: Vec<Word> =
        command.argv.get(1..=globals).unwrap_or_default().iter().filter_map(shell_alias).collect();
    let args = command.args();
    match (args.first().map(Word::text), args.get(1).map(Word::text)) {
        (Some("bisect"), Some("run")) => return started(Role::Wrapper, &args[2..]),
        (Some("submodule"), Some("foreach")) => {
            let words = after_options(&args[2..], "", &[]).unwrap_or_default();
            return joined(&words, Role::Wrapper);
        }
        (Some("rebase"), _) => {
            let execs = args.windows(2).filter(|pair| matches!(pair[0].text(), "-x" | "--exec"));
            scripts.extend(execs.map(|pair| pair[1].clone()));
            let given = args.iter().filter(|arg| arg.text().starts_with("--exec="));
            scripts.extend(given.map(|arg| arg.after("--exec=".len())));
        }
        _ => {}
    }
    match scripts.is_empty() {
        true => Inner::Nothing,
        false => Inner::Scripts { role: Role::Wrapper, scripts },
    }
}
