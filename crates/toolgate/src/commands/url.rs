//! `toolgate url`: would a URL be let through, and why not.

use std::{
    io::{BufRead, Write, stdin, stdout},
    net::{IpAddr, ToSocketAddrs},
    process::ExitCode,
};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_guard::{
    host_name::HostName,
    route::{self, Answers, Hop, Route},
    url::WebUrl,
};
use toolgate_runtime::egress::{Internal, Judge};

use crate::{problem::Problem, setup::Place, show};

/// Say whether a URL would be let through, and why not
///
/// Nothing is fetched. The host is looked up, unless --resolve says what it leads to; hosts on the config's
/// `egress.hostname_allowlist` may be internal. The answer is 0 for a URL that
/// would be let through and 3 for one that is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate url https://example.com/
  toolgate url http://0x7f.1/
  toolgate url http://rebind.example.com/ --resolve rebind.example.com=93.184.216.34,127.0.0.1
  toolgate url --jsonl < urls.jsonl

A line in and a line out, with --jsonl; nothing is looked up:
  {\"url\": \"http://a.docs.rs/\", \"resolves\": [\"1.1.1.1\"], \"redirects\": [\"http://10.0.0.1/\"]}
  {\"verdict\": \"block\", \"reason\": \"private\", \"addresses\": [\"1.1.1.1\", \"10.0.0.1\"]}

`resolves` may hold the answers of successive look-ups ([[ip..], [ip..]]); it
holds for every name on the way.")]
pub(crate) struct Url {
    /// The URL
    #[arg(required_unless_present = "jsonl", conflicts_with = "jsonl")]
    url: Option<String>,
    /// What a name leads to, instead of looking it up
    #[arg(long, value_name = "HOST=IP,IP", value_parser = read_known)]
    resolve: Vec<Known>,
    /// Read {"url", "resolves", "redirects"} per line from standard input, print one answer per line
    #[arg(long)]
    jsonl: bool,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone)]
struct Known {
    name: HostName,
    addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
struct Line {
    url: String,
    resolves: Option<Resolves>,
    redirects: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Resolves {
    Once(Vec<IpAddr>),
    InARow(Vec<Vec<IpAddr>>),
}

impl Url {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let Some(url) = &self.url else {
            return lines(&self.resolve);
        };
        let mut route = route::walk(url, &[], |name| self.found(name));
        if route.stop.is_some()
            && let Some(hop) = self.listed(url, place)?
        {
            route = Route { hops: vec![hop], stop: None };
        }
        if self.json {
            show::json(&answer(&route))?;
        } else {
            show::line(&page(url, &route))?;
        }
        Ok(ExitCode::from(if route.stop.is_none() { 0 } else { 3 }))
    }
}

impl Url {
    fn found(&self, name: &HostName) -> Answers {
        match known(&self.resolve, name) {
            Answers::Unknown => look_up(name),
            found => found,
        }
    }

    /// Where the URL leads, if it is to an internal host that the operator listed.
    fn listed(&self, url: &str, place: &Place) -> Result<Option<Hop>, Problem> {
        let Ok(url) = WebUrl::read(url) else { return Ok(None) };
        let listed = place.config()?.egress.hostname_allowlist;
        let judge = Judge::new(Internal::parse(&listed).map_err(|fault| Problem::usage(fault.to_string()))?);
        if judge.host(url.host(), url.port()).is_err() {
            return Ok(None);
        }
        let addresses: Vec<IpAddr> = match url.host().name().map(|name| self.found(name)) {
            Some(Answers::Found(found)) => found.into_iter().flatten().collect(),
            Some(Answers::Unknown) => Vec::new(),
            None => url.host().address().into_iter().collect(),
        };
        let admitted = judge.admit(url.host().name(), url.port(), &addresses).is_ok();
        Ok(admitted.then_some(Hop { url, addresses }))
    }
}

fn read_known(text: &str) -> Result<Known, String> {
    let (name, addresses) = text.split_once('=').ok_or("write HOST=IP,IP")?;
    let name = HostName::parse(name).map_err(|bad| format!("`{name}` is not a host: {bad}"))?;
    let read = |address: &str| address.parse().map_err(|_| format!("`{address}` is not an address"));
    Ok(Known { name, addresses: addresses.split(',').map(read).collect::<Result<_, _>>()? })
}

fn known(known: &[Known], name: &HostName) -> Answers {
    let found: Vec<_> = known.iter().filter(|known| known.name == *name).map(|known| known.addresses.clone()).collect();
    if found.is_empty() { Answers::Unknown } else { Answers::Found(found) }
}

/// What the machine says. A look-up that fails has found nothing.
fn look_up(name: &HostName) -> Answers {
    let found = (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
    Answers::Found(vec![found.unwrap_or_default()])
}

/// One answer for every line, in order: a line that cannot be read is answered, too, and never with a yes.
fn lines(resolve: &[Known]) -> Result<ExitCode, Problem> {
    let mut out = stdout().lock();
    for line in stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match serde_json::from_slice::<Line>(&line) {
            Ok(line) => answer(&walk(&line, resolve)),
            Err(_) => json!({ "verdict": "block", "reason": "bad_line", "addresses": [] }),
        };
        match writeln!(out, "{answer}") {
            Err(error) if show::reader_left(&error) => return Ok(ExitCode::SUCCESS),
            other => other?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn walk(line: &Line, resolve: &[Known]) -> Route {
    let redirects = line.redirects.as_deref().unwrap_or_default();
    route::walk(&line.url, redirects, |name| match &line.resolves {
        None => known(resolve, name),
        Some(Resolves::Once(found)) => Answers::Found(vec![found.clone()]),
        Some(Resolves::InARow(found)) => Answers::Found(found.clone()),
    })
}

fn answer(route: &Route) -> Value {
    let verdict = if route.stop.is_none() { "allow" } else { "block" };
    let reason = route.stop.as_ref().map(route::Stop::code);
    json!({ "verdict": verdict, "reason": reason, "addresses": route.addresses() })
}

fn page(written: &str, route: &Route) -> String {
    let mut page = match &route.stop {
        None => "let through\n".to_owned(),
        Some(stop) => format!("refused: {stop} ({})\n", stop.code()),
    };
    let Some(hop) = route.hops.last() else {
        return format!("{page}\nurl        {}", show::plain(written));
    };
    page += &format!("\nurl        {}\n", hop.url);
    page += &format!("host       {}, port {}\n", hop.url.host(), hop.url.port());
    for (index, address) in hop.addresses.iter().enumerate() {
        page += &format!("{:<11}{address}\n", if index == 0 { "addresses" } else { "" });
    }
    page.trim_end().to_owned()
}
