//! `toolgate-worker`: what a container of a room runs. It takes jobs on its standard input and has nothing to say to
//! anybody but the runtime.

use std::{io, os::fd::AsFd as _, process::ExitCode};

fn main() -> ExitCode {
    let streams = io::stdin().as_fd().try_clone_to_owned().and_then(|input| {
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok((input, output))
    });
    match streams.and_then(|(input, output)| toolgate_sandbox::worker::serve(input, output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toolgate-worker: {error}");
            ExitCode::FAILURE
        }
    }
}
