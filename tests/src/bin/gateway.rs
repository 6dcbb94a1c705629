//! Starts Toolgate behind a port for the conformance suite ([`toolgate_tests::gateway`]), says the URL as its first line and ends
//! with its input.
//!
//! usage: gateway alone|bridged

use std::{
    env,
    io::{self, Read, Write},
};

use toolgate_tests::gateway::Gateway;

fn main() -> io::Result<()> {
    let gateway = match env::args().nth(1).as_deref() {
        Some("alone") => Gateway::alone(),
        Some("bridged") => Gateway::bridged(),
        _ => return Err(io::Error::other("usage: gateway alone|bridged")),
    };
    writeln!(io::stdout(), "{}", gateway.url())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
