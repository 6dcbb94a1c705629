//! What programs do with their arguments: which files they read, write and remove, and which of their options run or
//! write something although the program itself only reads.

use super::{
    ir::{Command, UNKNOWN, Word},
    unwrap::SHELLS,
};

/// What a program does with the files it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// Prints what is in them.
    Reads,
    /// Looks at their names and sizes only.
    Looks,
    /// Creates or changes them.
    Writes,
    /// Reads all but the last, and writes that.
    Copies,
    /// Removes them.
    Removes,
    /// Takes no files.
    None,
    /// Not known: it may do anything.
    Unknown,
}

/// What is known about a program by its name.
pub(super) fn files(program: &str) -> Files {
    match program {
        "cat" | "head" | "tail" | "less" | "more" | "bat" | "nl" | "tac" | "rev" | "cut" | "paste" | "fold" | "fmt"
        | "grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack" | "sed" | "awk" | "gawk" | "mawk" | "sort"
        | "uniq" | "comm" | "join" | "tr" | "diff" | "cmp" | "sdiff" | "xxd" | "od" | "hexdump" | "strings"
        | "base64" | "base32" | "jq" | "yq" | "column" | "expand" | "unexpand" | "zcat" | "xzcat" | "bzcat"
        | "look" | "pr" | "split" | "csplit" | "iconv" | "source" | "." | "mapfile" | "readarray" | "read" => {
            Files::Reads
        }
        "ls" | "dir" | "tree" | "stat" | "file" | "wc" | "du" | "df" | "find" | "fd" | "readlink" | "realpath"
        | "basename" | "dirname" | "test" | "[" | "md5sum" | "sha1sum" | "sha256sum" | "sha512sum" | "cksum"
        | "sum" | "cd" | "pushd" | "exa" | "eza" => Files::Looks,
        "tee" | "touch" | "mkdir" | "mkfifo" | "mknod" | "chmod" | "chown" | "chgrp" | "truncate" | "setfacl"
        | "chattr" | "patch" | "gzip" | "gunzip" | "xz" | "unxz" | "bzip2" | "bunzip2" | "zstd" | "unzip" | "dd"
        | "vi" | "vim" | "nvim" | "nano" | "ed" | "emacs" | "mktemp" => Files::Writes,
        "cp" | "mv" | "ln" | "install" | "rsync" | "scp" | "link" => Files::Copies,
        "rm" | "rmdir" | "unlink" | "shred" | "srm" => Files::Removes,
        "echo" | "printf" | "true" | "false" | ":" | "pwd" | "date" | "whoami" | "id" | "uname" | "hostname"
        | "sleep" | "seq" | "yes" | "which" | "type" | "expr" | "nproc" | "uptime" | "ps" | "free" | "arch" | "tty"
        | "wait" | "jobs" | "exit" | "return" | "break" | "continue" | "shift" | "set" | "export" | "local"
        | "declare" | "readonly" | "typeset" | "unset" | "kill" | "pkill" | "killall" | "pgrep" | "command"
        | "builtin" | "let" | "popd" | "dirs" | "umask" | "ulimit" | "times" | "getopts" | "fg" | "bg" | "history"
        | "alias" => Files::None,
        _ => Files::Unknown,
    }
}

/// Builtins that steer the script and do nothing else.
pub(super) fn is_flow(program: &str) -> bool {
    matches!(program, ":" | "break" | "continue" | "return" | "exit" | "shift" | "local" | "export" | "declare")
        || matches!(
            program,
            "readonly" | "typeset" | "unset" | "[" | "test" | "wait" | "let" | "false" | "read" | "set"
        )
}

/// Does the program run what it is given as text or as a file?
pub(super) fn is_interpreter(program: &str) -> bool {
    let versioned = |name: &str| {
        let rest = program.strip_prefix(name);
        rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    };
    SHELLS.contains(&program)
        || ["python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "tclsh"]
            .iter()
            .any(|n| versioned(n))
        || matches!(program, "deno" | "bun" | "osascript" | "pwsh" | "powershell" | "Rscript" | "julia" | "groovy")
        || matches!(program, "eval" | "source" | "." | "expect" | "guile" | "elixir" | "erl" | "ts-node" | "tsx")
}

/// Does it talk to other machines?
pub(super) fn is_network(command: &Command) -> bool {
    let program = command.program();
    let first = command.operands().next().map_or("", Word::text);
    match program {
        "curl" | "wget" | "nc" | "ncat" | "netcat" | "socat" | "ssh" | "scp" | "sftp" | "ftp" | "tftp" | "telnet"
        | "rsync" | "ping" | "ping6" | "traceroute" | "tracepath" | "dig" | "host" | "nslookup" | "whois" | "nmap"
        | "aria2c" | "http" | "https" | "xh" | "httpie" | "lynx" | "w3m" | "links" | "gh" | "glab" | "aws"
        | "gcloud" | "az" | "kubectl" | "helm" | "terraform" | "npx" | "uvx" | "pipx" | "mosh" | "rclone" | "s3cmd"
        | "mail" | "sendmail" | "openssl" | "axel" | "psql" | "mysql" | "redis-cli" | "mongosh" => {
            program != "openssl" || first == "s_client"
        }
        "git" => matches!(
            first,
            "clone" | "fetch" | "pull" | "push" | "ls-remote" | "submodule" | "remote" | "send-email" | "archive"
        ),
        "pip" | "pip3" | "npm" | "pnpm" | "yarn" | "gem" | "go" | "bundle" | "poetry" | "uv" | "conda" | "composer" => {
            matches!(
                first,
                "install" | "i" | "add" | "ci" | "update" | "upgrade" | "download" | "get" | "publish" | "sync" | ""
            ) || matches!(first, "create" | "dlx" | "exec" | "login" | "push" | "require")
        }
        "cargo" => matches!(first, "install" | "add" | "update" | "publish" | "fetch" | "search" | "login"),
        "apt" | "apt-get" | "dnf" | "yum" | "apk" | "pacman" | "brew" | "zypper" | "snap" | "flatpak" => {
            !matches!(first, "list" | "show" | "info")
        }
        "docker" | "podman" => matches!(first, "pull" | "push" | "login" | "run" | "build" | "search"),
        _ => false,
    }
}

/// Does it use rights the agent does not have by itself?
pub(super) fn is_privileged(program: &str) -> bool {
    matches!(program, "sudo" | "su" | "doas" | "pkexec" | "runuser" | "gosu" | "su-exec" | "chroot" | "nsenter")
        || matches!(program, "unshare" | "systemd-run" | "machinectl" | "sudoedit" | "setpriv" | "capsh" | "newgrp")
}

/// An option that runs a program, reads one from a file, or writes one, in a program that otherwise only reads.
pub(super) fn risky_option(command: &Command) -> Option<String> {
    let args = command.args();
    let program = command.program();
    if program == "git" {
        return git_option(command);
    }
    let (short, long): (&str, &[&str]) = match program {
        "rg" => ("z", &["--pre", "--pre-glob", "--hostname-bin", "--search-zip"]),
        "sort" => ("oT", &["--output", "--compress-program", "--temporary-directory", "--files0-from"]),
        "tar" => (
            "IFOxcruA",
            &[
                "--to-command",
                "--checkpoint-action",
                "--use-compress-program",
                "--rsh-command",
                "--info-script",
                "--new-volume-script",
                "--extract",
                "--get",
                "--create",
                "--append",
                "--update",
                "--delete",
                "--rmt-command",
                "--index-file",
                "--one-top-level",
                "--add-file",
            ],
        ),
        "fd" | "fdfind" => ("xX", &["--exec", "--exec-batch"]),
        "ssh" | "scp" | "sftp" => ("oFEJSLRDNfw", &["--"]),
        "rsync" => ("e", &["--rsh", "--rsync-path", "--files-from", "--remove-source-files", "--delete"]),
        "curl" => (
            "oOKTFdXHuEJDcwQ",
            &[
                "--output",
                "--remote-name",
                "--remote-name-all",
                "--write-out",
                "--quote",
                "--unix-socket",
                "--abstract-unix-socket",
                "--engine",
                "--ssl-sessions",
                "--config",
                "--upload-file",
                "--data",
                "--form",
                "--request",
                "--output-dir",
                "--data-binary",
                "--data-raw",
                "--data-urlencode",
                "--json",
                "--cookie-jar",
                "--dump-header",
                "--trace",
                "--trace-ascii",
                "--stderr",
                "--libcurl",
                "--etag-save",
                "--hsts",
                "--alt-svc",
                "--proxy",
                "--netrc-file",
            ],
        ),
        "wget" => (
            "OoePair",
            &["--output-document", "--execute", "--use-askpass", "--post-file", "--post-data", "--output-file"],
        ),
        "man" => ("PHC", &["--pager", "--html", "--preprocessor", "--config-file"]),
        "less" | "more" => ("oOkTpP", &["--log-file", "--LOG-FILE", "--lesskey-file"]),
        "bat" => ("", &["--pager", "--paging", "--map-syntax"]),
        "tree" => ("oR", &["--output"]),
        "date" => ("s", &["--set"]),
        "yq" => ("i", &["--inplace", "--in-place"]),
        "split" => ("", &["--filter"]),
        "diff" | "sdiff" => ("o", &["--output"]),
        "printf" => ("v", &[]),
        "npm" | "pnpm" | "yarn" | "npx" => (
            "",
            &["--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig", "--registry", "--cwd"],
        ),
        "cargo" => ("Z", &["--config", "--target-dir", "--manifest-path"]),
        "go" => ("", &["-exec", "-toolexec", "-vettool", "-overlay", "--exec", "--toolexec", "--vettool"]),
        "make" | "gmake" => ("fCEI", &["--file", "--makefile", "--eval", "--directory", "--include-dir"]),
        "pytest" | "py.test" => ("pco", &["--rootdir", "--confcutdir", "--override-ini", "--pyargs"]),
        "docker" | "podman" => {
            ("v", &["--privileged", "--volume", "--mount", "--pid", "--net", "--cap-add", "--device"])
        }
        "zip" => ("TmO", &["--unzip-command", "--move"]),
        "grep" | "egrep" | "fgrep" | "ls" | "cat" | "head" | "tail" | "wc" | "echo" | "pwd" | "true" => return None,
        "find" => {
            let acts = ["-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-exec", "-execdir", "-ok", "-okdir"];
            return args.iter().map(Word::text).find(|arg| acts.contains(arg)).map(str::to_owned);
        }
        "sed" => return sed_option(command),
        "awk" | "gawk" | "mawk" | "nawk" => return awk_option(command),
        "xxd" if command.has_short('r') || command.has_long("--revert") => return Some("-r".to_owned()),
        "uniq" | "xxd" => return command.operands().nth(1).map(|file| format!("an output file, {file}")),
        _ => return None,
    };
    // The first word of `tar` is a cluster of options also without its dash.
    let is_cluster = |word: &&Word| word.text().contains(|letter| short.contains(letter));
    if let Some(cluster) = args.first().filter(|_| program == "tar").filter(is_cluster) {
        return Some(cluster.text().to_owned());
    }
    given(command, short, long)
}

/// Could a word that is not certain bring in an option this program must not be given?
pub(super) fn has_risky_options(program: &str) -> bool {
    !matches!(files(program), Files::None | Files::Looks) && !matches!(program, "cat" | "head" | "tail" | "grep" | "wc")
        || matches!(program, "find" | "fd" | "tree" | "date" | "printf")
}

fn given(command: &Command, short: &str, long: &[&str]) -> Option<String> {
    let is_short = |option: &&str| !option.starts_with("--") && option[1..].contains(|letter| short.contains(letter));
    let found_long = || long.iter().find(|name| command.has_long(name)).map(|name| (*name).to_owned());
    found_long().or_else(|| command.options().find(is_short).map(str::to_owned))
}

fn git_option(command: &Command) -> Option<String> {
    let globals = command.argv.len() - command.words.len();
    let harmless = ["--no-pager", "-P", "-p", "--paginate", "--no-optional-locks", "--literal-pathspecs", "-C"];
    let mut skip = false;
    for word in command.argv.get(1..=globals).unwrap_or_default() {
        if skip {
            skip = false;
        } else if word.literal().is_some_and(|text| harmless.contains(&text)) {
            skip = word.text() == "-C";
        } else {
            return Some(word.text().to_owned());
        }
    }
    let long = [
        "--output",
        "--ext-diff",
        "--textconv",
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--open-files-in-pager",
        "--template",
        "--config",
        "--separate-git-dir",
        "--output-directory",
        "--show-signature",
        "--run-command",
    ];
    let subcommand = command.operands().next().map_or("", Word::text);
    let short = match subcommand {
        "grep" => "O",
        "rebase" => "xi",
        "clone" | "fetch" | "pull" | "ls-remote" => "uc",
        "archive" | "format-patch" => "o",
        _ => "",
    };
    let url = command.operands().map(Word::text).find(|operand| operand.contains("::"));
    given(command, short, &long).or_else(|| url.filter(|_| is_network(command)).map(str::to_owned))
}

/// Only scripts of plain addresses, `p`, `d`, `q`, `=` and substitutions are known to be harmless.
fn sed_option(command: &Command) -> Option<String> {
    if let Some(option) = given(command, "iswf", &["--in-place", "--file", "--separate"]) {
        return Some(option);
    }
    let args = command.args();
    let expressions: Vec<&Word> = args
        .windows(2)
        .filter(|pair| matches!(pair[0].text(), "-e" | "--expression" | "-ne" | "-Ee" | "-re" | "-nEe"))
        .map(|pair| &pair[1])
        .collect();
    let joined = args.iter().find(|arg| arg.text().starts_with("--expression="));
    if let Some(word) = joined {
        return Some(word.text().to_owned());
    }
    let scripts: Vec<&Word> = if expressions.is_empty() { command.operands().take(1).collect() } else { expressions };
    scripts.iter().find(|script| !is_plain_sed(script.text())).map(|script| format!("the script {script}"))
}

fn is_plain_sed(script: &str) -> bool {
    if script.contains([UNKNOWN, '\n', '{', '}']) {
        return false;
    }
    let mut rest = script.trim();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | '~' | '!' | ' ' | '+'));
        let Some(first) = rest.chars().next() else { return true };
        let end = match first {
            '/' => match after_delimiter(&rest[1..], '/') {
                Some(after) => {
                    rest = after.trim_start_matches(['I', 'M']);
                    continue;
                }
                None => return false,
            },
            'p' | 'd' | 'q' | '=' | 'G' | 'N' | 'P' | 'D' | 'n' | 'h' | 'H' | 'g' | 'x' => &rest[1..],
            's' | 'y' => {
                let Some(delimiter) = rest[1..].chars().next().filter(|c| !c.is_alphanumeric()) else { return false };
                let body = &rest[1 + delimiter.len_utf8()..];
                let Some(after) = after_delimiter(body, delimiter).and_then(|r| after_delimiter(r, delimiter)) else {
                    return false;
                };
                after.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I'))
            }
            _ => return false,
        };
        rest = end.trim_start();
        match rest.strip_prefix(';') {
            Some(after) => rest = after,
            None => return rest.is_empty(),
        }
    }
}

fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

fn awk_option(command: &Command) -> Option<String> {
    if let Some(option) = given(command, "fiElo", &["--file", "--include", "--load", "--exec", "--source"]) {
        return Some(option);
    }
    let program = command.operands().next()?;
    let text = program.text();
    let acts = text.contains("system") || text.contains("getline") || text.contains('@') || text.contains(UNKNOWN);
    // `||` is no pipe, and a comparison stands before any brace.
    let text = text.replace("||", "");
    let body = text.find('{').map_or("", |at| &text[at..]);
    let prints = body.contains("print");
    (acts || text.contains('|') || (prints && body.contains('>'))).then(|| format!("the program {program}"))
}
