//! Serves a script of [`toolgate_tests::hostile`].
//!
//! usage: hostile stdio SCRIPT
//!        hostile http SCRIPT [ADDRESS]
//!
//! SCRIPT is JSON, or `@` and the path of a file with it. Over HTTP the URL is the first line of the output, and it ends
//! with its input.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr},
};

use toolgate_tests::hostile::{Hostile, Script, serve_stdio};

fn main() -> io::Result<()> {
    let words: Vec<_> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stdio", given] => serve_stdio(script(given)?),
        ["http", given] => serve_http(script(given)?, (Ipv4Addr::LOCALHOST, 0).into()),
        ["http", given, address] => serve_http(script(given)?, address.parse().map_err(io::Error::other)?),
        _ => Err(io::Error::other("usage: hostile stdio|http SCRIPT [ADDRESS]")),
    }
}

fn script(given: &str) -> io::Result<Script> {
    let text = match given.strip_prefix('@') {
        Some(path) => fs::read_to_string(path)?,
        None => given.to_owned(),
    };
    Ok(serde_json::from_str(&text)?)
}

fn serve_http(script: Script, address: SocketAddr) -> io::Result<()> {
    let hostile = Hostile::at(address, script)?;
    writeln!(io::stdout(), "{}", hostile.url())?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
