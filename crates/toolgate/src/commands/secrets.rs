//! `toolgate secrets`: the vault.

use std::{
    fs::File,
    io::{self, IsTerminal, Read as _, Write as _, stderr, stdin},
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use toolgate_runtime::secrets::{LONGEST, Secret, Vault};
use zeroize::Zeroizing;

use crate::{
    problem::Problem,
    setup::{Place, secret_places},
    show,
};

/// Keep the secrets of connections in an encrypted vault
///
/// A connection names a secret, as `vault:NAME`, and no agent ever sees its value. The vault is vault.age in the data
/// directory, encrypted with the key in vault-identity.txt beside it or in the file that TOOLGATE_VAULT_IDENTITY names;
/// the program `age` opens it too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate secrets set forge-token
  pass show forge | toolgate secrets set forge-token
  toolgate secrets set forge-token --from-env FORGE_TOKEN
  toolgate secrets list")]
pub(crate) struct Secrets {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put a value into the vault
    ///
    /// It is typed, and not shown, or comes from standard input, a variable or a file, without the line end it may have.
    Set {
        /// What to call it
        name: String,
        /// Take the value of this variable
        #[arg(long, value_name = "VAR", conflicts_with = "from_file")]
        from_env: Option<String>,
        /// Take the content of this file
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        // A value that is typed here by mistake must not be repeated in an error.
        #[arg(hide = true)]
        value: Vec<String>,
    },
    /// List the names, never the values
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Take a secret out of the vault
    Remove {
        /// Its name
        name: String,
    },
}

impl Secrets {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let places = secret_places(&place.data_dir()?);
        let vault = Vault::new(place.data_dir()?, places.identity.clone());
        match self.command {
            Command::Set { value, .. } if !value.is_empty() => {
                return Err(Problem::usage(
                    "a secret on the command line stays in the history of the shell: type it when you are asked, or \
                     pipe it in",
                ));
            }
            Command::Set { name, from_env, from_file, .. } => {
                let bytes = match (from_env, from_file) {
                    (Some(variable), _) => {
                        let value = (places.environment)(&variable);
                        let unset = || Problem::usage(format!("the variable `{variable}` is not set"));
                        Zeroizing::new(value.ok_or_else(unset)?.into_vec())
                    }
                    (None, Some(file)) => read_file(&file)?,
                    (None, None) if stdin().is_terminal() => ask(&name)?,
                    (None, None) => read_all(stdin().lock())?,
                };
                vault.set(&name, &Secret::admit("the new entry", &bytes)?)?;
                show::line(&format!("{name} is set: write vault:{name} in a connection"))?;
            }
            Command::List { json } => {
                let kept = vault.list()?;
                if show::wants_json(json) {
                    show::json(&kept)?;
                } else {
                    show::table(["NAME", "SET AT"], kept.into_iter().map(|kept| [kept.name, kept.set_at]))?;
                }
            }
            Command::Remove { name } => {
                vault.remove(&name)?;
                show::line(&format!("{name} is removed"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let unreadable = |error: io::Error| Problem::usage(format!("`{}` cannot be read: {error}", path.display()));
    read_all(File::open(path).map_err(unreadable)?)
        .map_err(|_| Problem::usage(format!("`{}` cannot be read, or holds more than a secret", path.display())))
}

/// All there is, up to a little more than a secret may have.
fn read_all(from: impl io::Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 3));
    from.take(LONGEST as u64 + 3).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a person types, without showing it.
fn ask(name: &str) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let mut out = stderr().lock();
    let quiet = Quiet::enter()?;
    write!(out, "Value of {}: ", show::plain(name))?;
    out.flush()?;
    let typed = read_line();
    drop(quiet);
    writeln!(out)?;
    typed?.ok_or_else(|| Problem::usage("nothing was set"))
}

/// One line, key by key. None where it was broken off.
fn read_line() -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    const BREAK: u8 = 0x03;
    const END: u8 = 0x04;
    const BACKSPACE: [u8; 2] = [0x08, 0x7f];
    const ERASE_LINE: u8 = 0x15;

    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST + 3));
    let mut key = [0];
    while line.len() <= LONGEST && rustix::io::retry_on_intr(|| rustix::io::read(stdin(), &mut key))? == 1 {
        match key[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            BREAK => return Ok(None),
            END if line.is_empty() => return Ok(None),
            ERASE_LINE => line.clear(),
            erased if BACKSPACE.contains(&erased) => {
                // A character of several bytes goes as a whole.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            other => line.push(other),
        }
    }
    Ok(Some(line))
}

/// A terminal that shows nothing of what is typed and leaves every key to us: a break in the middle would otherwise end
/// the program and leave the terminal like this. Dropping it, also in a panic, makes it as it was.
struct Quiet(Termios);

impl Quiet {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed before is not taken for the secret.
        tcsetattr(stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // There is nobody to tell, and nothing else to try.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}
