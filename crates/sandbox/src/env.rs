//! The environment of a room: built from empty, never inherited.
//!
//! A job may ask for variables of its own. Some names are refused, because they change which program runs or what is
//! loaded into it, and nobody who reads the command would see it; others because they carry what does not belong in an
//! environment. The room holds whatever its variables are: this table keeps the record honest, and secrets out of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use toolgate_contract::Fault;
use toolgate_gate::Permit;

/// What the room says about itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base<'a> {
    /// Its private home.
    pub(crate) home: &'a str,
    /// Its private directory for temporary files.
    pub(crate) tmp: &'a str,
    /// The name of its user.
    pub(crate) user: &'a str,
    /// What reads what is written there.
    pub(crate) term: Term,
    /// Where its secrets come from.
    pub(crate) secrets: Secrets,
}

/// Where the secrets of a job come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// It has none: a variable that reads like one was written down by whoever asked for the job.
    None,
    /// The operator names them, and whoever made the job looked them up.
    Given,
}

impl Secrets {
    pub(crate) fn of(permit: &Permit) -> Self {
        if permit.needs().secrets { Self::Given } else { Self::None }
    }
}

/// What reads the output of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// Nobody who understands escapes.
    Dumb,
    /// A terminal emulator.
    Xterm,
}

/// The environment of a job, sorted by name.
pub(crate) fn build(
    prefixes: &[PathBuf],
    asked: &BTreeMap<String, String>,
    base: &Base<'_>,
) -> Result<Vec<(String, String)>, Fault> {
    let mut env = of_the_room(prefixes, base)?;
    admit(asked, base.secrets)?;
    env.extend(asked.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(env.into_iter().collect())
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Without `PWD`: a program that wants to know where it is asks the kernel.
fn of_the_room(prefixes: &[PathBuf], base: &Base<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let mut path = String::new();
    for prefix in prefixes {
        path.push_str(in_path(prefix)?);
        path.push(':');
    }
    path.push_str(PATH);
    let term = match base.term {
        Term::Dumb => "dumb",
        Term::Xterm => "xterm-256color",
    };
    let own = [
        ("HOME", base.home),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", base.user),
        ("PATH", &path),
        ("SHELL", "/bin/sh"),
        ("TERM", term),
        ("TMPDIR", base.tmp),
        ("USER", base.user),
    ];
    Ok(own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// A directory as it can stand in `PATH`. A relative one would mean another directory wherever the program goes.
fn in_path(directory: &Path) -> Result<&str, Fault> {
    match directory.to_str() {
        Some(text) if directory.is_absolute() && !text.contains([':', '\0']) => Ok(text),
        _ => Err(bad(
            format!("`{}` cannot be a directory in `PATH`", directory.display().to_string().escape_debug()),
            "Give an absolute path in UTF-8 without colons.",
        )),
    }
}

const MOST_VARIABLES: usize = 256;
const LONGEST_NAME: usize = 256;
const LONGEST_VALUE: usize = 64 << 10;
const MOST_BYTES: usize = 512 << 10;

fn admit(asked: &BTreeMap<String, String>, secrets: Secrets) -> Result<(), Fault> {
    if asked.len() > MOST_VARIABLES {
        return Err(bad(
            format!("{} variables are too many: at most {MOST_VARIABLES}", asked.len()),
            "Put the values into a file and name the file.",
        ));
    }
    for (name, value) in asked {
        admit_name(name)?;
        admit_value(name, value)?;
        admit_variable(name)?;
        if secrets == Secrets::None && READS_LIKE_A_SECRET.holds(name) {
            return Err(READS_LIKE_A_SECRET.refusal(name));
        }
    }
    // As the kernel counts: a sign between the two and one at the end.
    let bytes: usize = asked.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > MOST_BYTES {
        return Err(bad(
            format!("the variables take {bytes} bytes: at most {MOST_BYTES}"),
            "Put the values into a file and name the file.",
        ));
    }
    Ok(())
}

/// May a job ask for a variable of this name, where its secrets are given to it? The same answer as when it starts, for who
/// asks before.
pub fn admit_variable(name: &str) -> Result<(), Fault> {
    match REFUSED.iter().find(|group| group.holds(name)) {
        Some(group) => Err(group.refusal(name)),
        None => Ok(()),
    }
}

fn admit_name(name: &str) -> Result<(), Fault> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if starts_well && is_word && name.len() <= LONGEST_NAME {
        return Ok(());
    }
    let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
    Err(bad(
        format!("`{shown}` cannot be the name of a variable"),
        "Use letters, digits and underscores, no digit first, at most 256 in all.",
    ))
}

/// The value itself is never told: it may be a secret.
fn admit_value(name: &str, value: &str) -> Result<(), Fault> {
    if value.contains('\0') {
        return Err(bad(format!("the value of `{name}` holds a NUL byte"), "Remove the NUL byte."));
    }
    if value.len() > LONGEST_VALUE {
        return Err(bad(
            format!("the value of `{name}` takes {} bytes: at most {LONGEST_VALUE}", value.len()),
            "Put the value into a file and name the file.",
        ));
    }
    Ok(())
}

fn bad(message: String, remedy: &str) -> Fault {
    Fault::failed("bad_environment", message, remedy)
}

/// Names that are refused for one reason.
struct Group {
    /// Goes on after the name.
    why: &'static str,
    remedy: &'static str,
    /// Does `token` mean `TOKEN`? To a program it does not; to somebody who names a secret it does.
    case: Case,
    /// A `*` stands for anything, at the start or the end.
    names: &'static [&'static str],
    /// Names among them that are harmless.
    except: &'static [&'static str],
}

enum Case {
    Matters,
    Ignored,
}

impl Group {
    fn refusal(&self, name: &str) -> Fault {
        Fault::refused("environment_refused", format!("`{name}` {}", self.why), self.remedy)
    }

    fn holds(&self, name: &str) -> bool {
        let name = match self.case {
            Case::Matters => name.to_owned(),
            Case::Ignored => name.to_ascii_uppercase(),
        };
        let any = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, &name));
        any(self.names) && !any(self.except)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

const SAY_IT_IN_THE_COMMAND: &str = "Say it in the command itself, where it can be read.";

const REFUSED: &[Group] = &[
    Group {
        why: "is set by the room",
        remedy: "Leave it out; a directory for `PATH` goes into `extra_safe_path_prefixes` in the config.",
        case: Case::Matters,
        names: &["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD"],
        except: &[],
    },
    Group {
        why: "changes what is loaded into every program",
        remedy: "Leave it out; link the program against what it needs.",
        case: Case::Matters,
        names: &[
            "LD_*",
            "DYLD_*",
            "GLIBC_TUNABLES",
            "GCONV_PATH",
            "GETCONF_DIR",
            "LOCPATH",
            "NLSPATH",
            "OPENSSL_CONF",
            "OPENSSL_ENGINES",
            "OPENSSL_MODULES",
            "GTK_MODULES",
            "GTK_PATH",
            "GIO_EXTRA_MODULES",
            "GIO_MODULE_DIR",
            "QT_PLUGIN_PATH",
            "QT_QPA_PLATFORM_PLUGIN_PATH",
        ],
        except: &[],
    },
    Group {
        why: "changes what names of hosts mean",
        remedy: "Use the host's own name.",
        case: Case::Matters,
        names: &["HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "NIS_PATH"],
        except: &[],
    },
    Group {
        why: "makes a shell run or read something else than its script",
        remedy: "Put it at the start of the script.",
        case: Case::Matters,
        names: &[
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_*",
            "BASH_LOADABLES_PATH",
            "BASH_XTRACEFD",
            "SHELLOPTS",
            "BASHOPTS",
            "PS0",
            "PS1",
            "PS2",
            "PS4",
            "PROMPT_COMMAND",
            "IFS",
            "CDPATH",
            "FPATH",
            "ZDOTDIR",
        ],
        except: &[],
    },
    Group {
        why: "makes an interpreter run or load something else than its program",
        remedy: SAY_IT_IN_THE_COMMAND,
        case: Case::Matters,
        names: &[
            "PYTHONSTARTUP",
            "PYTHONHOME",
            "PYTHONPATH",
            "PYTHONINSPECT",
            "PYTHONUSERBASE",
            "PYTHONEXECUTABLE",
            "PYTHONPLATLIBDIR",
            "PYTHONBREAKPOINT",
            "PYTHONWARNINGS",
            "PYTHONPYCACHEPREFIX",
            "NODE_OPTIONS",
            "NODE_PATH",
            "NODE_REPL_EXTERNAL_MODULE",
            "PERL5OPT",
            "PERL5LIB",
            "PERL5DB",
            "PERLLIB",
            "RUBYOPT",
            "RUBYLIB",
            "PHPRC",
            "PHP_INI_SCAN_DIR",
            "LUA_INIT*",
            "LUA_PATH*",
            "LUA_CPATH*",
            "TCLLIBPATH",
            "AWKPATH",
            "AWKLIBPATH",
            "R_PROFILE",
            "R_PROFILE_USER",
            "R_ENVIRON",
            "R_ENVIRON_USER",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "DOTNET_STARTUP_HOOKS",
            "CORECLR_*",
            "COR_*",
            "ERL_FLAGS",
            "ERL_AFLAGS",
            "ERL_ZFLAGS",
        ],
        except: &[],
    },
    Group {
        why: "makes `npm` run something else",
        remedy: SAY_IT_IN_THE_COMMAND,
        // `npm` reads its settings in either case.
        case: Case::Ignored,
        names: &[
            "NPM_CONFIG_SCRIPT_SHELL",
            "NPM_CONFIG_SHELL",
            "NPM_CONFIG_NODE_OPTIONS",
            "NPM_CONFIG_GIT",
            "NPM_CONFIG_EDITOR",
            "NPM_CONFIG_VIEWER",
            "NPM_CONFIG_USERCONFIG",
            "NPM_CONFIG_GLOBALCONFIG",
        ],
        except: &[],
    },
    Group {
        why: "makes a compiler or a build run something else",
        remedy: SAY_IT_IN_THE_COMMAND,
        case: Case::Matters,
        names: &["GCC_EXEC_PREFIX", "COMPILER_PATH", "MAKEFILES", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"],
        except: &[],
    },
    Group {
        // Most of them name a program or a file that names one, and new ones come; so the harmless ones are listed.
        why: "can make `git` run something else or work elsewhere",
        remedy: "Use an option of `git`, such as `-C` or `--no-pager`.",
        case: Case::Matters,
        names: &["GIT_*"],
        except: &[
            "GIT_AUTHOR_NAME",
            "GIT_AUTHOR_EMAIL",
            "GIT_AUTHOR_DATE",
            "GIT_COMMITTER_NAME",
            "GIT_COMMITTER_EMAIL",
            "GIT_COMMITTER_DATE",
            "GIT_TERMINAL_PROMPT",
            "GIT_OPTIONAL_LOCKS",
            "GIT_MERGE_AUTOEDIT",
            "GIT_MERGE_VERBOSITY",
            "GIT_ADVICE",
            "GIT_FLUSH",
            "GIT_PROGRESS_DELAY",
            "GIT_LITERAL_PATHSPECS",
            "GIT_GLOB_PATHSPECS",
            "GIT_NOGLOB_PATHSPECS",
            "GIT_ICASE_PATHSPECS",
            "GIT_LFS_SKIP_SMUDGE",
        ],
    },
    Group {
        why: "names a program that other programs start",
        remedy: "Leave it out; use the option of the program, such as `--no-pager` or `-m MESSAGE`.",
        case: Case::Matters,
        names: &[
            "EDITOR",
            "VISUAL",
            "FCEDIT",
            "SUDO_EDITOR",
            "PAGER",
            "MANPAGER",
            "MANOPT",
            "SYSTEMD_PAGER",
            "BAT_PAGER",
            "DELTA_PAGER",
            "GH_PAGER",
            "LESS",
            "LESSOPEN",
            "LESSCLOSE",
            "LESSEDIT",
            "LESSKEY*",
            "BROWSER",
            "VIMINIT",
            "GVIMINIT",
            "EXINIT",
            "TAR_OPTIONS",
            "ZIPOPT",
            "RSYNC_RSH",
            "RSYNC_CONNECT_PROG",
            "CVS_RSH",
            "SVN_SSH",
            "HGMERGE",
            "HGEDITOR",
            "HGRCPATH",
        ],
        except: &[],
    },
    Group {
        why: "names a file of settings, which can name programs",
        remedy: SAY_IT_IN_THE_COMMAND,
        case: Case::Matters,
        names: &["XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "WGETRC", "SYSTEM_WGETRC", "CURL_HOME", "INPUTRC"],
        except: &[],
    },
    Group {
        why: "leads to somebody else's keys or machines",
        remedy: "Leave it out; a room talks to none of them.",
        case: Case::Matters,
        names: &[
            "SSH_AUTH_SOCK",
            "SSH_AGENT_PID",
            "SSH_ASKPASS*",
            "SUDO_ASKPASS",
            "GPG_AGENT_INFO",
            "GNUPGHOME",
            "DOCKER_HOST",
            "DOCKER_CONFIG",
            "DOCKER_CONTEXT",
            "CONTAINER_HOST",
            "KUBECONFIG",
            "DBUS_SESSION_BUS_ADDRESS",
            "DBUS_SYSTEM_BUS_ADDRESS",
            "NOTIFY_SOCKET",
        ],
        except: &[],
    },
];

const READS_LIKE_A_SECRET: Group = Group {
    why: "reads like a secret",
    remedy: "Give secrets by reference, never by value: an environment can be read and is written down.",
    case: Case::Ignored,
    names: &[
        "*TOKEN*",
        "*SECRET*",
        "*PASSWORD*",
        "*PASSWD*",
        "*PASSPHRASE*",
        "*_PWD",
        "*CREDENTIAL*",
        "*PRIVATE_KEY*",
        "*PRIVATEKEY*",
        "*API_KEY*",
        "*APIKEY*",
        "*ACCESS_KEY*",
        "*ENCRYPTION_KEY*",
        "*SIGNING_KEY*",
        "*BEARER*",
        "*AUTH_CONFIG*",
        "AWS_*",
    ],
    // Words of language models, and where a cloud is. Each by its full name: a pattern here would open a way around
    // all of the above.
    except: &["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "MAX_OUTPUT_TOKENS", "AWS_REGION", "AWS_DEFAULT_REGION"],
};

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use toolgate_contract::FaultKind;

    use super::*;

    const BASE: Base<'_> =
        Base { home: "/home/agent", tmp: "/tmp", user: "agent", term: Term::Dumb, secrets: Secrets::None };

    fn asked<const N: usize>(variables: [(&str, &str); N]) -> BTreeMap<String, String> {
        variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn built(prefixes: &[PathBuf], variables: &BTreeMap<String, String>, base: &Base<'_>) -> Result<String, Fault> {
        let env = build(prefixes, variables, base)?;
        Ok(env.iter().map(|(name, value)| format!("{name}={value}\n")).collect())
    }

    /// One variable is asked for: the code of the fault, or that it is there with its value.
    fn check(name: &str, value: &str, expected: Result<(), (FaultKind, &str)>) {
        let variables = asked([(name, value)]);
        match build(&[], &variables, &BASE) {
            Ok(env) => {
                assert_eq!(expected, Ok(()), "`{name}` was let in");
                let found: Vec<_> = env.iter().filter(|(found, _)| found == name).collect();
                assert_eq!(found, [&(name.to_owned(), value.to_owned())]);
            }
            Err(fault) => {
                assert_eq!(expected, Err((fault.kind, &*fault.code)), "`{name}`: {fault}");
                assert!(fault.message.len() < 400 && !fault.remedy.is_empty());
            }
        }
    }

    const REFUSAL: Result<(), (FaultKind, &str)> = Err((FaultKind::Refused, "environment_refused"));
    const BAD: Result<(), (FaultKind, &str)> = Err((FaultKind::Failed, "bad_environment"));

    #[test]
    fn a_room_has_this_and_nothing_else() {
        assert_eq!(
            built(&[], &asked([]), &BASE).unwrap(),
            "HOME=/home/agent\n\
             LANG=C.UTF-8\n\
             LOGNAME=agent\n\
             PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             SHELL=/bin/sh\n\
             TERM=dumb\n\
             TMPDIR=/tmp\n\
             USER=agent\n"
        );
    }

    #[test]
    fn prefixes_come_first_and_what_is_asked_for_is_added() {
        assert_eq!(
            built(
                &["/opt/a/bin".into(), "/opt/b".into()],
                &asked([("LANG", "de_DE.UTF-8"), ("TZ", ""), ("a_1", "x=y z\n")]),
                &Base { term: Term::Xterm, ..BASE },
            )
            .unwrap(),
            "HOME=/home/agent\n\
             LANG=de_DE.UTF-8\n\
             LOGNAME=agent\n\
             PATH=/opt/a/bin:/opt/b:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             SHELL=/bin/sh\n\
             TERM=xterm-256color\n\
             TMPDIR=/tmp\n\
             TZ=\n\
             USER=agent\n\
             a_1=x=y z\n\n"
        );
    }

    #[test]
    fn a_prefix_is_one_absolute_directory() {
        let not_text = OsStr::from_bytes(b"/opt/\xFF");
        for prefix in
            [OsStr::new("bin"), OsStr::new(""), OsStr::new("."), OsStr::new("/a:/b"), OsStr::new("/a\0"), not_text]
        {
            let fault = build(&[prefix.into()], &asked([]), &BASE).unwrap_err();
            assert_eq!((fault.kind, &*fault.code), (FaultKind::Failed, "bad_environment"), "{prefix:?}");
        }
    }

    #[test]
    fn names_are_words() {
        for name in ["A", "_", "a1", "Z_9", "RUST_BACKTRACE", &"N".repeat(256)] {
            check(name, "1", Ok(()));
        }
        for name in ["", "1A", "A=B", "A B", "A\0", "A\nB", "A-B", "\u{C4}", "A\u{0391}", "BASH_FUNC_ls%%", "A.B"] {
            check(name, "1", BAD);
        }
        check(&"N".repeat(257), "1", BAD);
        check(&"\u{1B}[31m".repeat(100_000), "1", BAD);
    }

    #[test]
    fn values_are_bounded_and_hold_no_nul() {
        check("A", &"v".repeat(64 << 10), Ok(()));
        check("A", &"v".repeat((64 << 10) + 1), BAD);
        check("A", "a\0b", BAD);
        check("A", "\u{1F600}\t", Ok(()));
    }

    #[test]
    fn all_together_is_bounded() {
        let many = |count: usize, value: usize| -> BTreeMap<String, String> {
            (0..count).map(|n| (format!("V{n:04}"), "v".repeat(value))).collect()
        };
        assert!(build(&[], &many(256, 1), &BASE).is_ok());
        assert_eq!(build(&[], &many(257, 1), &BASE).unwrap_err().code, "bad_environment");
        // 256 variables of 2 KiB: name, value and two signs.
        assert!(build(&[], &many(256, 2_048 - 7), &BASE).is_ok());
        assert_eq!(build(&[], &many(256, 2_048 - 6), &BASE).unwrap_err().code, "bad_environment");
    }

    #[test]
    fn every_name_of_the_table_is_refused() {
        for group in REFUSED {
            for pattern in group.names {
                check(&pattern.replace('*', "X"), "1", REFUSAL);
                if matches!(group.case, Case::Ignored) {
                    check(&pattern.replace('*', "X").to_lowercase(), "1", REFUSAL);
                }
            }
        }
    }

    #[test]
    fn every_exception_of_the_table_is_let_in() {
        for name in REFUSED.iter().flat_map(|group| group.except) {
            check(name, "1", Ok(()));
        }
    }

    #[test]
    fn exceptions_are_names_that_would_be_refused() {
        for group in REFUSED {
            for name in group.except {
                assert!(!name.contains('*'));
                assert!(group.names.iter().any(|pattern| matches(pattern, name)), "{name}");
            }
        }
    }

    #[test]
    fn ways_to_run_something_else_are_refused() {
        for name in [
            "PATH",
            "HOME",
            "TMPDIR",
            "USER",
            "SHELL",
            "PWD",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "GLIBC_TUNABLES",
            "GCONV_PATH",
            "BASH_ENV",
            "ENV",
            "SHELLOPTS",
            "BASHOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "IFS",
            "PYTHONSTARTUP",
            "PYTHONHOME",
            "PYTHONPATH",
            "PYTHONINSPECT",
            "PYTHONWARNINGS",
            "NODE_OPTIONS",
            "NODE_PATH",
            "npm_config_script_shell",
            "PERL5OPT",
            "PERL5LIB",
            "PERL5DB",
            "RUBYOPT",
            "RUBYLIB",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "GIT_PAGER",
            "GIT_ASKPASS",
            "GIT_CONFIG",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_EXEC_PATH",
            "GIT_TEMPLATE_DIR",
            "GIT_PROXY_COMMAND",
            "GIT_DIR",
            "GIT_WORK_TREE",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "DOCKER_HOST",
            "KUBECONFIG",
            "EDITOR",
            "VISUAL",
            "PAGER",
            "LESSOPEN",
            "LESSCLOSE",
            "MANPAGER",
        ] {
            check(name, "1", REFUSAL);
        }
    }

    #[test]
    fn secrets_are_refused_and_never_told() {
        for name in [
            "GITHUB_TOKEN",
            "github_token",
            "npm_config__authToken",
            "CLIENT_SECRET",
            "PGPASSWORD",
            "MYSQL_PWD",
            "DB_PASSWD",
            "KEY_PASSPHRASE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SSH_PRIVATE_KEY",
            "OPENAI_API_KEY",
            "stripeApiKey",
            "AWS_ACCESS_KEY_ID",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "TOKENIZERS_API_KEY",
            "SECRET_MAX_TOKENS",
        ] {
            let fault = build(&[], &asked([(name, "hunter2")]), &BASE).unwrap_err();
            assert_eq!((fault.kind, &*fault.code), (FaultKind::Refused, "environment_refused"), "{name}");
            assert!(fault.remedy.contains("by reference"), "{fault}");
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
        let given = Base { secrets: Secrets::Given, ..BASE };
        assert!(build(&[], &asked([("GITHUB_TOKEN", "hunter2")]), &given).is_ok());
        assert!(build(&[], &asked([("LD_PRELOAD", "hunter2")]), &given).is_err());
        let nul = build(&[], &asked([("A", "hunter2\0")]), &BASE).unwrap_err();
        assert!(!nul.to_string().contains("hunter2"), "{nul}");
    }

    #[test]
    fn ordinary_names_are_let_in() {
        for name in [
            "CI",
            "DEBUG",
            "TERM",
            "TZ",
            "LC_ALL",
            "COLUMNS",
            "NO_COLOR",
            "CC",
            "CFLAGS",
            "MAKEFLAGS",
            "RUSTFLAGS",
            "RUST_LOG",
            "CARGO_TERM_COLOR",
            "NODE_ENV",
            "npm_config_loglevel",
            "PYTHONUNBUFFERED",
            "PYTHONDONTWRITEBYTECODE",
            "GIT_AUTHOR_NAME",
            "GIT_COMMITTER_DATE",
            "GOFLAGS",
            "JAVA_HOME",
            "MAVEN_OPTS",
            "HTTP_PROXY",
            "env",
            "path",
            "KEYBOARD",
            "MONKEY",
            "ENVIRONMENT",
            "BUILD_ID",
        ] {
            check(name, "1", Ok(()));
        }
    }

    #[test]
    fn one_refused_name_refuses_all() {
        let variables = asked([("A", "1"), ("LD_PRELOAD", "/tmp/x.so"), ("Z", "1")]);
        assert_eq!(
            build(&[], &variables, &BASE).unwrap_err(),
            Fault::refused(
                "environment_refused",
                "`LD_PRELOAD` changes what is loaded into every program",
                "Leave it out; link the program against what it needs.",
            )
        );
    }
}
