//! The way to other machines: the blocks `egress` and `search`.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use serde::Serialize;
use toolgate_contract::{SearchEngine, SearchProvider};
use toolgate_egress::Internal;
use toolgate_guard::url::WebUrl;

use super::{
    check::Check,
    file::{EgressFile, SearchFile},
    findings::{Findings, Said},
    load::At,
};

/// How other machines are found and reached. Which of them an agent may talk to is policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EgressSettings {
    /// Hosts that may be internal by name and by address: `host`, `*.host`, an address or a block, with a port or without.
    pub hostname_allowlist: Vec<String>,
    /// Who is asked for addresses; none leaves it to the machine.
    pub name_servers: Vec<SocketAddr>,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The addresses of a git remote are looked up once, judged, and are then the only ones for that call.
    pub dns_rebinding_mitigation: bool,
    /// Whom `web_search` asks.
    pub search: SearchEngine,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            hostname_allowlist: Vec::new(),
            name_servers: Vec::new(),
            ca_file: None,
            dns_rebinding_mitigation: true,
            search: SearchEngine {
                provider: SearchProvider::Duckduckgo,
                endpoint: DUCKDUCKGO.to_owned(),
                connection: None,
            },
        }
    }
}

const DUCKDUCKGO: &str = "https://html.duckduckgo.com/html/";
const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";
/// The port of name servers.
const DNS: u16 = 53;

/// The blocks of one file.
#[derive(Debug, Default)]
pub(super) struct EgressLayer {
    hostname_allowlist: Option<Vec<Said<String>>>,
    name_servers: Option<Vec<SocketAddr>>,
    ca_file: Option<Said<String>>,
    dns_rebinding_mitigation: Option<bool>,
    search: Option<SearchEngine>,
}

impl EgressLayer {
    /// Puts a trusted file's words in place of earlier ones.
    pub(super) fn apply(self, settings: &mut EgressSettings, findings: &mut Findings) {
        if let Some(hosts) = self.hostname_allowlist {
            settings.hostname_allowlist = hosts.into_iter().map(|host| host.value).collect();
        }
        if let Some(servers) = self.name_servers {
            settings.name_servers = servers;
        }
        if let Some(said) = self.ca_file {
            settings.ca_file = certificates(&said, findings);
        }
        if let Some(on) = self.dns_rebinding_mitigation {
            settings.dns_rebinding_mitigation = on;
        }
        if let Some(search) = self.search {
            settings.search = search;
        }
    }
}

/// Checks both blocks.
pub(super) fn check(cx: &mut Check<'_>, egress: Option<&EgressFile>, search: Option<&SearchFile>) -> EgressLayer {
    let mut layer = EgressLayer { search: search.and_then(|block| search_engine(cx, block)), ..EgressLayer::default() };
    let Some(block) = egress else { return layer };
    layer.hostname_allowlist =
        block.hostname_allowlist.as_deref().map(|hosts| hosts.iter().filter_map(|host| internal(cx, host)).collect());
    layer.name_servers = block
        .name_servers
        .as_deref()
        .map(|servers| servers.iter().filter_map(|server| name_server(cx, server)).collect());
    layer.ca_file = block.ca_file.as_ref().map(|file| cx.said(file));
    layer.dns_rebinding_mitigation = block.dns_rebinding_mitigation.as_ref().map(|on| on.value);
    layer
}

/// A host that may be internal, as the judge reads it.
fn internal(cx: &mut Check<'_>, said: &At<String>) -> Option<Said<String>> {
    match Internal::parse(std::slice::from_ref(&said.value)) {
        Ok(_) => Some(cx.said(said)),
        Err(fault) => {
            cx.error(said.mark, fault.message, fault.remedy);
            None
        }
    }
}

fn name_server(cx: &mut Check<'_>, said: &At<String>) -> Option<SocketAddr> {
    let with_port = said.value.parse::<SocketAddr>().ok();
    let address = with_port.or_else(|| Some(SocketAddr::new(said.value.parse::<IpAddr>().ok()?, DNS)));
    if address.is_none() {
        let message = format!("`{}` is not the address of a name server", said.value);
        cx.error(said.mark, message, "Write an address such as `10.0.0.53` or `10.0.0.53:5353`.");
    }
    address
}

fn search_engine(cx: &mut Check<'_>, block: &SearchFile) -> Option<SearchEngine> {
    const WORDS: [(&str, SearchProvider); 3] = [
        ("duckduckgo", SearchProvider::Duckduckgo),
        ("searxng", SearchProvider::Searxng),
        ("brave", SearchProvider::Brave),
    ];
    let Some(word) = &block.provider else {
        cx.error(
            cx.key(&["search"]),
            "`search` names no provider",
            "Write `provider: searxng`, `brave` or `duckduckgo`.",
        );
        return None;
    };
    let Some((_, provider)) = WORDS.into_iter().find(|(name, _)| *name == word.value) else {
        cx.unknown("search provider", word, WORDS.map(|(name, _)| name));
        return None;
    };
    let endpoint = match (&block.endpoint, provider) {
        (Some(said), _) => endpoint(cx, said)?,
        (None, SearchProvider::Duckduckgo) => DUCKDUCKGO.to_owned(),
        (None, SearchProvider::Brave) => BRAVE.to_owned(),
        (None, SearchProvider::Searxng) => {
            let remedy =
                "Write `endpoint:` with the address of the instance, such as `https://search.example.org/search`.";
            cx.error(word.mark, "a SearXNG instance has no address of its own", remedy);
            return None;
        }
    };
    Some(SearchEngine { provider, endpoint, connection: block.connection.as_ref().map(|name| name.value.clone()) })
}

fn endpoint(cx: &mut Check<'_>, said: &At<String>) -> Option<String> {
    match WebUrl::read(&said.value) {
        Ok(url) => Some(url.as_str().to_owned()),
        Err(why) => {
            cx.error(
                said.mark,
                format!("`{}` is not the address of a search engine: {why}", said.value),
                "Write an `https://` address.",
            );
            None
        }
    }
}

/// The file of certificates, relative to the config that names it.
fn certificates(said: &Said<String>, findings: &mut Findings) -> Option<PathBuf> {
    let dir = findings.texts.get(said.spot.file).map(|text| text.dir().to_owned()).unwrap_or_default();
    let path = dir.join(&said.value);
    match path.canonicalize() {
        Ok(real) if real.is_file() => Some(real),
        Ok(_) => {
            findings.error(
                said.spot,
                format!("`{}` is not a file", path.display()),
                "Name a file of certificates in PEM form.",
            );
            None
        }
        Err(error) => {
            let message = format!("`{}` cannot be opened: {error}", path.display());
            findings.error(said.spot, message, "Name a file of certificates in PEM form.");
            None
        }
    }
}
