//! `toolgate-worker`: what a container of a room runs. It takes jobs on its standard input and has nothing to say to
//! anybody but the runtime.
//!
//! With a first word it furnishes the network of such a container instead, and is started by the runtime or beside the
//! container, never in it: `beside <socket>` stays, `within` has the runtime as its standard input and the network as its
//! standard output.

use std::{
    env,
    ffi::OsString,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::ExitCode,
};

use toolgate_sandbox::worker;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match live(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toolgate-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn live(words: &[OsString]) -> io::Result<()> {
    match words {
        [] => streams().and_then(|(input, output)| worker::serve(input, output)),
        [word, control] if word == worker::BESIDE => worker::beside(Path::new(control)),
        [word] if word == worker::WITHIN => streams().and_then(|(control, network)| worker::within(&control, &network)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "these words mean nothing to it")),
    }
}

fn streams() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?))
}
