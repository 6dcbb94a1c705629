//! The judged client against an internet that answers everywhere: whom it must not reach, it does not even knock at.
//!
//! Every address of this internet takes connections, so that a refusal is never owed to nobody being there. What
//! arrives is counted by the listeners, and what leaves by the kernel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::{
    collections::BTreeSet,
    env, fs,
    net::{IpAddr, SocketAddr},
    process::Command,
};

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_tests::{
    Bench, Ran,
    dns::Names,
    network::{CLIENT, NAME_SERVER, Network, Robots, Seen, Stage, at},
    skipped,
};

/// Other people's APIs and a search engine, which an operator set up and which lead inside.
const OTHERS: &str = "
search: { provider: searxng, endpoint: 'http://10.0.0.1/search' }
connections:
  literal: { base_url: 'http://10.0.0.1/api', auth: none, writes: allow }
  named: { base_url: 'http://inside.example.com/api', auth: none, writes: allow }
  public: { base_url: 'http://start.example.com/api', auth: none, writes: allow }
";

/// Where a public name leads unless a row says otherwise.
const PUBLIC: &str = "93.184.216.34";
/// The same in IPv6.
const PUBLIC_V6: &str = "2606:2800:220:1:248:1893:25c8:1946";

/// An agent on the client of a network.
struct Lab {
    network: Network,
    bench: Bench,
}

impl Lab {
    /// With a network that is open to the agent.
    fn open() -> Option<Self> {
        Self::with("")
    }

    /// With these constraints on the agent, as lines of YAML.
    fn with(constraints: &str) -> Option<Self> {
        let network = Network::new(env!("CARGO_BIN_EXE_outpost"))?;
        let lab = Self { network, bench: Bench::new() };
        fs::write(lab.bench.outside().join("authority.pem"), lab.network.authority()).unwrap();
        lab.configure(constraints, "");
        Some(lab)
    }

    /// The usual config, with more in the agent's constraints and in the block `egress`.
    fn configure(&self, constraints: &str, egress: &str) {
        let usual = format!("name_servers: [\"{NAME_SERVER}\"], ca_file: authority.pem, {egress}");
        self.write_config(constraints, &usual);
    }

    fn write_config(&self, constraints: &str, egress: &str) {
        let agents = format!("default: {{ level: elevated, constraints: {{ {constraints} }} }}");
        let config = format!("version: 1\nagents: {{ {agents} }}\negress: {{ {egress} }}\n{OTHERS}");
        fs::write(self.bench.outside().join("toolgate.yaml"), config).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let config = self.bench.outside().join("toolgate.yaml");
        let mut command = self.bench.command(args);
        command.arg("--config").arg(config);
        self.network.on_client(&command)
    }

    /// Fetches one page on this stage, and says what happened.
    fn fetch(&mut self, url: &str, stage: Stage) -> (Value, Seen) {
        self.network.stage(stage);
        let arguments = json!({ "url": url }).to_string();
        let outcome = Ran::fed(&mut self.command(&["call", "fetch_url", "-"]), arguments.as_bytes()).json();
        (outcome, self.network.seen())
    }

    /// Makes all these calls in one turn on this stage, and says what happened.
    fn turn(&mut self, calls: &[Value], stage: Stage) -> (Vec<Value>, Seen) {
        self.network.stage(stage);
        let calls = Value::from(calls).to_string();
        let Value::Array(outcomes) = Ran::fed(&mut self.command(&["turn"]), calls.as_bytes()).json() else {
            panic!("a turn is answered by a list")
        };
        (outcomes, self.network.seen())
    }

    /// Proves that each of these would have been counted if somebody had gone there.
    fn prove(&mut self, targets: &BTreeSet<SocketAddr>) {
        self.network.stage(Stage::default());
        let targets: Vec<SocketAddr> = targets.iter().copied().collect();
        let troubles = self.network.connect(&targets);
        let seen = self.network.seen();
        let arrived: BTreeSet<SocketAddr> = seen.targets().into_iter().collect();
        for (target, trouble) in targets.iter().zip(troubles) {
            assert_eq!(trouble, None, "{target} answers nobody");
            let to = SocketAddr::new(lands_at(target.ip()), target.port());
            assert!(arrived.contains(&to), "a connection to {target} was not counted: {arrived:?}");
        }
        assert_eq!((seen.targets().len(), seen.opened), (targets.len(), targets.len()), "{seen:?}");
    }
}

/// Where a connection to an address arrives.
fn lands_at(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".parse().unwrap(),
        IpAddr::V6(ip) if ip.is_unspecified() => "::1".parse().unwrap(),
        ip => ip,
    }
}

/// A call of `fetch_url`.
fn fetch_call(url: &str) -> Value {
    json!({ "tool": "fetch_url", "arguments": { "url": url } })
}

/// Each name with what it leads to, look-up by look-up.
fn names(rows: &[(&str, &[&[&str]])]) -> Names {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    rows.iter().map(|(name, lists)| ((*name).to_owned(), lists.iter().map(|list| words(list)).collect())).collect()
}

/// Every name leads to a public address.
fn everybody_is_public() -> Stage {
    Stage { names: names(&[("*", &[&[PUBLIC]])]), ..Stage::default() }
}

/// Refused or failed, with this code.
#[track_caller]
fn assert_stopped(outcome: &Value, code: &str, row: &str) {
    let stopped = ["refused", "failed"].map(Value::from).contains(&outcome["status"]);
    assert!(stopped && outcome["code"] == code, "{row}: `{code}` was expected: {outcome}");
}

/// This one was reached, and nobody else was even tried.
#[track_caller]
fn assert_only(seen: &Seen, target: SocketAddr, row: &str) {
    let targets = seen.targets();
    assert!(!targets.is_empty() && targets.iter().all(|to| *to == target), "{row}: {seen:?}");
    assert_eq!(seen.opened, targets.len(), "{row}: somebody else was knocked at");
}

/// URLs nobody must follow, and where a careless client would end up: nowhere, if no client can get there.
const LITERALS: &[(&str, &str, &str)] = &[
    // Plainly written.
    ("http://127.0.0.1/", "address_refused", "127.0.0.1:80"),
    ("http://127.0.0.1:8080/admin", "address_refused", "127.0.0.1:8080"),
    ("http://127.0.0.1:6379/", "address_refused", "127.0.0.1:6379"),
    ("https://127.0.0.1/", "address_refused", "127.0.0.1:443"),
    ("http://127.255.255.254/", "address_refused", "127.255.255.254:80"),
    ("http://0.0.0.0/", "address_refused", "0.0.0.0:80"),
    ("http://0.1.2.3/", "address_refused", "0.1.2.3:80"),
    ("http://10.0.0.1/", "address_refused", "10.0.0.1:80"),
    ("http://10.255.255.255:9200/_cat", "address_refused", "10.255.255.255:9200"),
    ("http://172.16.0.1/", "address_refused", "172.16.0.1:80"),
    ("http://172.31.255.255/", "address_refused", "172.31.255.255:80"),
    ("http://192.168.0.1/", "address_refused", "192.168.0.1:80"),
    ("https://192.168.178.1/login", "address_refused", "192.168.178.1:443"),
    ("http://100.64.0.1/", "address_refused", "100.64.0.1:80"),
    ("http://100.127.255.255/", "address_refused", "100.127.255.255:80"),
    ("http://169.254.1.1/", "address_refused", "169.254.1.1:80"),
    ("http://192.0.0.8/", "address_refused", "192.0.0.8:80"),
    ("http://192.0.2.77/", "address_refused", "192.0.2.77:80"),
    ("http://192.88.99.1/", "address_refused", "192.88.99.1:80"),
    ("http://198.18.5.5/", "address_refused", "198.18.5.5:80"),
    ("http://198.51.100.9/", "address_refused", "198.51.100.9:80"),
    ("http://203.0.113.9/", "address_refused", "203.0.113.9:80"),
    ("http://240.0.0.1/", "address_refused", "240.0.0.1:80"),
    ("http://255.255.255.254/", "address_refused", "255.255.255.254:80"),
    ("http://255.255.255.255/", "address_refused", ""),
    ("http://224.0.0.251/", "address_refused", ""),
    // Where clouds hand out credentials.
    ("http://169.254.169.254/latest/meta-data/iam/", "address_refused", "169.254.169.254:80"),
    ("http://169.254.170.2/v2/credentials/", "address_refused", "169.254.170.2:80"),
    ("http://168.63.129.16/machine?comp=goalstate", "address_refused", "168.63.129.16:80"),
    ("http://100.100.100.200/latest/", "address_refused", "100.100.100.200:80"),
    ("http://192.0.0.192/opc/v2/", "address_refused", "192.0.0.192:80"),
    ("http://[fd00:ec2::254]/latest/", "address_refused", "[fd00:ec2::254]:80"),
    ("http://[fd20:ce::254]/computeMetadata/", "address_refused", "[fd20:ce::254]:80"),
    // In other spellings.
    ("http://2130706433/", "url_refused", "127.0.0.1:80"),
    ("http://0x7f000001/", "url_refused", "127.0.0.1:80"),
    ("http://0X7F.0x0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://017700000001/", "url_refused", "127.0.0.1:80"),
    ("http://0177.0.0.01/", "url_refused", "127.0.0.1:80"),
    ("http://127.1/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1./", "url_refused", "127.0.0.1:80"),
    ("http://0/", "url_refused", "0.0.0.0:80"),
    ("http://10.1/", "url_refused", "10.0.0.1:80"),
    ("http://0xa.0.0.1:8080/", "url_refused", "10.0.0.1:8080"),
    ("http://0xA9FEA9FE/", "url_refused", "169.254.169.254:80"),
    ("http://2852039166/latest/", "url_refused", "169.254.169.254:80"),
    ("http://0251.0376.0251.0376/", "url_refused", "169.254.169.254:80"),
    ("http://169.254.43518/", "url_refused", "169.254.169.254:80"),
    ("http://%31%30.0.0.1/", "url_refused", "10.0.0.1:80"),
    ("http://127%2e0%2e0%2e1/", "url_refused", "127.0.0.1:80"),
    ("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://\u{2460}\u{2461}\u{2466}.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://127\u{3002}0\u{3002}0\u{3002}1/", "url_refused", "127.0.0.1:80"),
    ("http://192\u{ff0e}168\u{ff0e}1\u{ff0e}1/", "url_refused", "192.168.1.1:80"),
    ("http://127.0.0.1\u{200b}/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.\u{ad}0.1/", "url_refused", "127.0.0.1:80"),
    ("http://\u{1d7ed}\u{1d7ec}.0.0.1/", "url_refused", "10.0.0.1:80"),
    // Public ones in spellings that programs read differently.
    ("http://010.8.8.8/", "url_refused", "10.8.8.8:80"),
    ("http://134744072/", "url_refused", "8.8.8.8:80"),
    // IPv6.
    ("http://[::1]/", "address_refused", "[::1]:80"),
    ("http://[0:0:0:0:0:0:0:1]:8080/", "address_refused", "[::1]:8080"),
    ("http://[::]/", "address_refused", "[::]:80"),
    ("https://[::1]/", "address_refused", "[::1]:443"),
    ("http://[fc00::1]/", "address_refused", "[fc00::1]:80"),
    ("http://[fd12:3456:789a::1]/", "address_refused", "[fd12:3456:789a::1]:80"),
    ("http://[fec0::1]/", "address_refused", "[fec0::1]:80"),
    ("http://[fe80::1]/", "address_refused", ""),
    ("http://[fe80::1%25client]/", "url_refused", ""),
    ("http://[ff02::1]/", "address_refused", ""),
    ("http://[100::1]/", "address_refused", "[100::1]:80"),
    ("http://[2001:db8::1]/", "address_refused", "[2001:db8::1]:80"),
    ("http://[3fff::1]/", "address_refused", "[3fff::1]:80"),
    ("http://[5f00::1]/", "address_refused", "[5f00::1]:80"),
    ("http://[2001:2::1]/", "address_refused", "[2001:2::1]:80"),
    ("http://[4000::1]/", "address_refused", "[4000::1]:80"),
    // IPv6 with IPv4 in it.
    ("http://[::ffff:127.0.0.1]/", "address_refused", "[::ffff:127.0.0.1]:80"),
    ("http://[::ffff:7f00:1]/", "address_refused", "[::ffff:7f00:1]:80"),
    ("http://[0:0:0:0:0:ffff:a9fe:a9fe]/", "address_refused", "[::ffff:169.254.169.254]:80"),
    ("http://[::FFFF:192.168.0.1]/", "address_refused", "[::ffff:192.168.0.1]:80"),
    ("http://[::10.0.0.1]/", "address_refused", "[::10.0.0.1]:80"),
    ("http://[::ffff:0:10.0.0.1]/", "address_refused", "[::ffff:0:10.0.0.1]:80"),
    ("http://[64:ff9b::10.0.0.1]/", "address_refused", "[64:ff9b::10.0.0.1]:80"),
    ("http://[64:ff9b::a9fe:a9fe]/", "address_refused", "[64:ff9b::a9fe:a9fe]:80"),
    ("http://[64:ff9b:1::a00:1]/", "address_refused", "[64:ff9b:1::a00:1]:80"),
    ("http://[2002:a00:1::1]/", "address_refused", "[2002:a00:1::1]:80"),
    ("http://[2002:7f00:1::]/", "address_refused", "[2002:7f00:1::]:80"),
    ("http://[2001:0:4136:e378:8000:63bf:f5ff:fffe]/", "address_refused", "[2001:0:4136:e378:8000:63bf:f5ff:fffe]:80"),
    ("http://[2a00:1450::5efe:10.0.0.1]/", "address_refused", "[2a00:1450::5efe:10.0.0.1]:80"),
    ("http://[::ffff:8.8.8.8]/", "host_refused", "[::ffff:8.8.8.8]:80"),
    // The client itself, by addresses that look public.
    ("http://45.80.20.2/", "address_refused", "45.80.20.2:80"),
    ("http://45.80.20.2:8080/", "address_refused", "45.80.20.2:8080"),
    ("http://[2a0b:45:80::2]/", "address_refused", "[2a0b:45:80::2]:80"),
    // Somebody else in front of the host.
    ("http://example.com@127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1@example.com/", "url_refused", "127.0.0.1:80"),
    ("http://user:secret@example.com/", "url_refused", ""),
    ("http://example.com%40127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://example.com\\@127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1\\.example.com/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1#@example.com/", "address_refused", "127.0.0.1:80"),
    ("http://127.0.0.1?.example.com/", "address_refused", "127.0.0.1:80"),
    ("http:127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http:///127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http:\\\\127.0.0.1/", "url_refused", "127.0.0.1:80"),
    (" http://127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://example.com\t@127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1\r\nHost: example.com/", "url_refused", "127.0.0.1:80"),
    ("http://example.com:80@127.0.0.1:8080/", "url_refused", "127.0.0.1:8080"),
    // Other ways to talk.
    ("file:///etc/passwd", "url_refused", ""),
    ("ftp://127.0.0.1/", "url_refused", ""),
    ("gopher://127.0.0.1:6379/_INFO", "url_refused", "127.0.0.1:6379"),
    ("dict://127.0.0.1:11211/stats", "url_refused", "127.0.0.1:11211"),
    ("ws://127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("data:text/plain,hello", "url_refused", ""),
    ("//127.0.0.1/", "url_refused", "127.0.0.1:80"),
    ("127.0.0.1", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1:080/", "url_refused", "127.0.0.1:80"),
    ("http://127.0.0.1:65616/", "url_refused", "127.0.0.1:80"),
];

/// Names that belong to nobody on the internet. They would lead somewhere here, and are not even asked for.
const INTERNAL_NAMES: &[&str] = &[
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://localhost./",
    "http://www.localhost/",
    "http://localhost.localdomain/",
    "http://metadata/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    "http://metadata.goog/",
    "http://instance-data/latest/",
    "http://kubernetes.default.svc/",
    "http://kubernetes.default.svc.cluster.local/",
    "http://vault.service.consul/",
    "http://printer.local/",
    "http://router.lan/",
    "http://nas.home.arpa/",
    "http://wiki.corp/",
    "http://build.internal/",
    "http://intranet/",
    "http://redis:6379/",
    "https://hidden.onion/",
    "http://1.0.0.127.in-addr.arpa/",
    "http://something.test/",
];

/// The network itself: what these tests rest on.
#[test]
fn every_connection_is_counted_also_where_nobody_takes_it() {
    let Some(mut lab) = Lab::open() else { return };
    lab.prove(&[at(PUBLIC, 80), at(PUBLIC_V6, 443), at("127.0.0.1", 8080), at(CLIENT[0], 22)].into());
    lab.network.stage(Stage::default());
    let troubles = lab.network.connect(&[at(PUBLIC, 4444), at("::1", 4444)]);
    assert!(troubles.iter().all(Option::is_some), "{troubles:?}");
    assert_eq!(lab.network.seen(), Seen { opened: 2, ..Seen::default() });
}

#[test]
fn whoever_must_not_be_reached_is_not_knocked_at() {
    let Some(mut lab) = Lab::open() else { return };
    let reachable = LITERALS.iter().filter(|row| !row.2.is_empty()).map(|row| row.2.parse().unwrap());
    lab.prove(&reachable.collect());

    let calls: Vec<Value> = LITERALS.iter().map(|(url, ..)| fetch_call(url)).collect();
    let (outcomes, seen) = lab.turn(&calls, everybody_is_public());
    assert_eq!(seen, Seen::default(), "somebody was reached or asked for");
    for ((url, code, _), outcome) in LITERALS.iter().zip(outcomes) {
        assert_stopped(&outcome, code, url);
    }
}

#[test]
fn names_of_somebodys_own_network_are_not_even_asked_for() {
    let Some(mut lab) = Lab::open() else { return };
    let calls: Vec<Value> = INTERNAL_NAMES.iter().map(|url| fetch_call(url)).collect();
    let (outcomes, seen) = lab.turn(&calls, everybody_is_public());
    assert_eq!(seen, Seen::default(), "somebody was reached or asked for");
    for (url, outcome) in INTERNAL_NAMES.iter().zip(outcomes) {
        assert_stopped(&outcome, "host_refused", url);
    }
}

/// Names with their answers and the code that is expected.
const BAD_ANSWERS: &[(&str, &[&str], &str)] = &[
    ("loopback.example.com", &["127.0.0.1"], "address_refused"),
    ("loopback6.example.com", &["::1"], "address_refused"),
    ("both-loopbacks.example.com", &["127.0.0.1", "::1"], "address_refused"),
    ("ten.example.com", &["10.0.0.1"], "address_refused"),
    ("home.example.com", &["192.168.1.1"], "address_refused"),
    ("carrier.example.com", &["100.64.0.1"], "address_refused"),
    ("link.example.com", &["169.254.1.1"], "address_refused"),
    ("cloud.example.com", &["169.254.169.254"], "address_refused"),
    ("azure.example.com", &["168.63.129.16"], "address_refused"),
    ("aws6.example.com", &["fd00:ec2::254"], "address_refused"),
    ("zero.example.com", &["0.0.0.0"], "address_refused"),
    ("zero6.example.com", &["::"], "address_refused"),
    ("unique-local.example.com", &["fd12::1"], "address_refused"),
    ("mapped.example.com", &["::ffff:10.0.0.1"], "address_refused"),
    ("compatible.example.com", &["::10.0.0.1"], "address_refused"),
    ("nat64.example.com", &["64:ff9b::10.0.0.1"], "address_refused"),
    ("own-nat64.example.com", &["64:ff9b:1::808:808"], "address_refused"),
    ("sixtofour.example.com", &["2002:a00:1::1"], "address_refused"),
    ("teredo.example.com", &["2001:0:4136:e378:8000:63bf:f5ff:fffe"], "address_refused"),
    ("isatap.example.com", &["2a00:1450::5efe:10.0.0.1"], "address_refused"),
    ("documents.example.com", &["203.0.113.9"], "address_refused"),
    ("reserved.example.com", &["240.0.0.1"], "address_refused"),
    ("own.example.com", &[CLIENT[0]], "address_refused"),
    ("own6.example.com", &[CLIENT[1]], "address_refused"),
    // One bad answer spoils all.
    ("mixed.example.com", &[PUBLIC, "10.0.0.1"], "address_refused"),
    ("mixed-back.example.com", &["127.0.0.1", PUBLIC], "address_refused"),
    ("mixed-families.example.com", &[PUBLIC, "::1"], "address_refused"),
    ("mixed-families-back.example.com", &["192.168.1.1", PUBLIC_V6], "address_refused"),
    ("mixed-six.example.com", &[PUBLIC_V6, "fd00::1"], "address_refused"),
    ("mixed-many.example.com", &[PUBLIC, "8.8.8.8", "1.1.1.1", "169.254.169.254"], "address_refused"),
    ("mixed-own.example.com", &[PUBLIC, CLIENT[0]], "address_refused"),
    // By another name.
    ("alias.example.com", &["ten.example.com"], "address_refused"),
    ("alias-of-alias.example.com", &["alias.example.com"], "address_refused"),
    ("alias-inside.example.com", &["db.internal"], "address_refused"),
    // Nobody.
    ("empty.example.com", &[], "resolve_failed"),
    ("127.0.0.1.nip.example.com", &["127.0.0.1"], "address_refused"),
    ("xn--bcher-kva.example.com", &["10.0.0.1"], "address_refused"),
];

#[test]
fn names_that_lead_inside_are_not_followed() {
    let Some(mut lab) = Lab::open() else { return };
    let answers = BAD_ANSWERS.iter().flat_map(|(_, answers, _)| *answers);
    let reachable = answers.filter(|word| word.parse::<IpAddr>().is_ok()).map(|address| at(address, 80));
    lab.prove(&reachable.collect());

    let mut names: Names = BAD_ANSWERS.iter().flat_map(|(name, answers, _)| names(&[(name, &[answers])])).collect();
    names.insert("db.internal".into(), vec![vec!["10.0.0.7".into()]]);
    let mut urls: Vec<(String, &str)> =
        BAD_ANSWERS.iter().map(|(name, _, code)| (format!("http://{name}/"), *code)).collect();
    urls.push(("http://missing.example.org/".into(), "resolve_failed"));
    urls.push(("http://ten.example.com:8080/".into(), "address_refused"));
    urls.push(("https://ten.example.com/".into(), "address_refused"));
    urls.push(("http://TEN.Example.COM./".into(), "address_refused"));
    let calls: Vec<Value> = urls.iter().map(|(url, _)| fetch_call(url)).collect();
    let (outcomes, seen) = lab.turn(&calls, Stage { names, ..Stage::default() });
    assert_eq!((seen.targets(), seen.opened), (Vec::new(), 0), "somebody was reached");
    for ((url, code), outcome) in urls.iter().zip(outcomes) {
        assert_stopped(&outcome, code, url);
    }
}

#[test]
fn whoever_may_be_reached_is_reached_at_the_address_that_was_looked_up() {
    let Some(mut lab) = Lab::open() else { return };
    for (url, target) in [
        ("http://plain.example.com/", "151.101.1.6:80"),
        ("http://plain.example.com:8080/a?b=c#d", "151.101.1.6:8080"),
        ("https://plain.example.com/", "151.101.1.6:443"),
        ("https://plain.example.com:8443/", "151.101.1.6:8443"),
        ("http://PLAIN.example.com./", "151.101.1.6:80"),
        ("http://six.example.com/", "[2a04:4e42::6]:80"),
        ("https://six.example.com/", "[2a04:4e42::6]:443"),
        ("http://alias.example.com/", "151.101.1.6:80"),
        ("http://b\u{fc}cher.example.com/", "151.101.9.9:80"),
        ("http://127.0.0.1.example.com/", "151.101.7.7:80"),
        ("http://localhost.example.com/?to=http://127.0.0.1/", "151.101.8.8:80"),
        ("http://9.255.255.255/", "9.255.255.255:80"),
        ("http://11.0.0.0/", "11.0.0.0:80"),
        ("http://100.63.255.255/", "100.63.255.255:80"),
        ("http://172.32.0.0/", "172.32.0.0:80"),
        ("http://169.255.0.0/", "169.255.0.0:80"),
        ("http://168.63.129.17/", "168.63.129.17:80"),
        ("http://223.255.255.254/", "223.255.255.254:80"),
        ("https://1.1.1.1/", "1.1.1.1:443"),
        ("http://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]:80"),
        ("https://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]:443"),
    ] {
        let names = names(&[
            ("plain.example.com", &[&["151.101.1.6"]]),
            ("six.example.com", &[&["2a04:4e42::6"]]),
            ("alias.example.com", &[&["plain.example.com"]]),
            ("xn--bcher-kva.example.com", &[&["151.101.9.9"]]),
            ("127.0.0.1.example.com", &[&["151.101.7.7"]]),
            ("localhost.example.com", &[&["151.101.8.8"]]),
        ]);
        let (outcome, seen) = lab.fetch(url, Stage { names, ..Stage::default() });
        assert_eq!(outcome["status"], "done", "{url}: {outcome}");
        assert_only(&seen, target.parse().unwrap(), url);
        assert_eq!(seen.pages().len(), 1, "{url}");
    }
}

/// Whoever looks twice is answered differently the second time.
#[test]
fn a_name_that_turns_is_dialled_where_it_was_judged() {
    let Some(mut lab) = Lab::open() else { return };
    for (first, then) in [
        (PUBLIC, "127.0.0.1"),
        (PUBLIC, "169.254.169.254"),
        (PUBLIC, "10.0.0.1"),
        (PUBLIC_V6, "::1"),
        (PUBLIC, CLIENT[0]),
    ] {
        let row = format!("{first} then {then}");
        let stage = Stage { names: names(&[("turning.example.com", &[&[first], &[then]])]), ..Stage::default() };
        let request = json!({ "method": "GET", "url": "http://turning.example.com/" });
        let calls = [json!({ "tool": "http_request", "arguments": request })];
        let (outcomes, seen) = lab.turn(&calls, stage.clone());
        assert_eq!(outcomes[0]["status"], "done", "{row}: {}", outcomes[0]);
        assert_only(&seen, at(first, 80), &row);
        assert_eq!(seen.questions.len(), 2, "{row}: each type of address is asked for once: {:?}", seen.questions);

        // A page after the rules for robots, a second page, and a redirect to itself each look again, or go by the
        // connection there is.
        let calls = [fetch_call("http://turning.example.com/a"), fetch_call("http://turning.example.com/b")];
        let redirects = vec![(302, "http://turning.example.com/again".to_owned()); 2];
        let (outcomes, seen) = lab.turn(&calls, Stage { redirects, ..stage });
        assert_only(&seen, at(first, 80), &row);
        for outcome in outcomes {
            let ended = [&outcome["status"], &outcome["code"]];
            assert!(
                ended
                    .iter()
                    .any(|end| [json!("done"), json!("address_refused"), json!("redirect_refused")].contains(end)),
                "{row}: {outcome}"
            );
        }
    }
}

/// What the hosts of the redirects below lead to.
const HOSTS: &[(&str, &[&[&str]])] = &[
    ("start.example.com", &[&["151.101.1.1"]]),
    ("middle.example.com", &[&["151.101.2.2"]]),
    ("far.example.com", &[&["151.101.3.3"]]),
    ("inside.example.com", &[&["10.0.0.1"]]),
    ("inside6.example.com", &[&["fd00::1"]]),
    ("mixed.example.com", &[&["151.101.4.4", "127.0.0.1"]]),
    ("localhost", &[&["127.0.0.1"]]),
    ("metadata.google.internal", &[&["169.254.169.254"]]),
];

/// Where a walk begins, the redirects it is sent along, the hosts it may visit on the way, and how it ends.
const WALKS: &[(&str, &[&str], &[&str], &str)] = &[
    // To addresses.
    (HTTP, &["http://127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http://127.0.0.1:8080/admin"], &[START], "redirect_refused"),
    (HTTP, &["http://10.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http://169.254.169.254/latest/meta-data/"], &[START], "redirect_refused"),
    (HTTP, &["http://168.63.129.16/"], &[START], "redirect_refused"),
    (HTTP, &["http://0.0.0.0/"], &[START], "redirect_refused"),
    (HTTP, &["http://45.80.20.2/"], &[START], "redirect_refused"),
    (HTTP, &["http://[::1]/"], &[START], "redirect_refused"),
    (HTTP, &["http://[fd00:ec2::254]/"], &[START], "redirect_refused"),
    (HTTP, &["http://[::ffff:127.0.0.1]/"], &[START], "redirect_refused"),
    (HTTP, &["http://[64:ff9b::7f00:1]/"], &[START], "redirect_refused"),
    (HTTP, &["https://127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["//127.0.0.1/"], &[START], "redirect_refused"),
    // To addresses in other spellings.
    (HTTP, &["http://2130706433/"], &[START], "redirect_refused"),
    (HTTP, &["http://0x7f.1/"], &[START], "redirect_refused"),
    (HTTP, &["http://0177.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http://127.1/"], &[START], "redirect_refused"),
    (HTTP, &["//0/"], &[START], "redirect_refused"),
    (HTTP, &["http://127%2e0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http:\\\\127.0.0.1\\"], &[START], "redirect_refused"),
    (HTTP, &["/\\127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["\\\\127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http:127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http:/127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http:///127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["///127.0.0.1/"], &[START], "redirect_refused"),
    (HTTP, &["http://far.example.com\t@127.0.0.1/"], &[START], "redirect_refused"),
    // To names.
    (HTTP, &["http://inside.example.com/"], &[START], "redirect_refused"),
    (HTTP, &["http://inside6.example.com/"], &[START], "redirect_refused"),
    (HTTP, &["http://mixed.example.com/"], &[START], "redirect_refused"),
    (HTTP, &["http://localhost/"], &[START], "redirect_refused"),
    (HTTP, &["http://metadata.google.internal/computeMetadata/v1/"], &[START], "redirect_refused"),
    (HTTP, &["http://user:secret@far.example.com/"], &[START], "redirect_refused"),
    (HTTP, &["http://far.example.com@127.0.0.1/"], &[START], "redirect_refused"),
    // To other ways to talk.
    (HTTP, &["file:///etc/passwd"], &[START], "redirect_refused"),
    (HTTP, &["gopher://127.0.0.1:6379/_INFO"], &[START], "redirect_refused"),
    (HTTP, &["ftp://far.example.com/"], &[START], "redirect_refused"),
    (HTTP, &["data:text/html,hello"], &[START], "redirect_refused"),
    (HTTP, &["javascript:alert(1)"], &[START], "redirect_refused"),
    (HTTPS, &["http://far.example.com/"], &["151.101.1.1:443"], "redirect_refused"),
    (
        HTTPS,
        &["https://far.example.com/", "http://far.example.com/"],
        &["151.101.1.1:443", "151.101.3.3:443"],
        "redirect_refused",
    ),
    (HTTPS, &["https://10.0.0.1/"], &["151.101.1.1:443"], "redirect_refused"),
    // After a while.
    (HTTP, &["http://far.example.com/", "http://127.0.0.1/"], &[START, FAR], "redirect_refused"),
    (HTTP, &["/next", "?again", "http://10.0.0.1/"], &[START], "redirect_refused"),
    (
        HTTP,
        &[
            "http://middle.example.com/",
            "http://far.example.com/",
            "https://start.example.com/",
            "//inside.example.com/",
        ],
        &[START, "151.101.2.2:80", FAR, "151.101.1.1:443"],
        "redirect_refused",
    ),
    (HTTP, &["/1", "/2", "/3", "/4", "/5", "/6"], &[START], "too_many_redirects"),
    (HTTP, &["/1", "/2", "/3", "/4", "/5", "http://127.0.0.1/"], &[START], "too_many_redirects"),
    // To where it may lead.
    (HTTP, &["/1", "/2", "/3", "/4", "/5"], &[START], "done"),
    (HTTP, &["http://far.example.com:8080/"], &[START, "151.101.3.3:8080"], "done"),
    (HTTP, &["https://far.example.com/"], &[START, "151.101.3.3:443"], "done"),
    (HTTP, &["http://[2606:4700:4700::1111]/"], &[START, "[2606:4700:4700::1111]:80"], "done"),
];
const HTTP: &str = "http://start.example.com/page";
const HTTPS: &str = "https://start.example.com/page";
const START: &str = "151.101.1.1:80";
const FAR: &str = "151.101.3.3:80";

#[test]
fn redirects_are_judged_hop_by_hop() {
    let Some(mut lab) = Lab::open() else { return };
    for (n, (url, places, visited, end)) in WALKS.iter().enumerate() {
        let statuses = [301, 302, 303, 307, 308].into_iter().cycle().skip(n);
        let redirects = statuses.zip(places.iter().map(ToString::to_string)).collect();
        let (outcome, seen) = lab.fetch(url, Stage { names: names(HOSTS), redirects, ..Stage::default() });
        let row = format!("{url} then {places:?}");
        match *end {
            "done" => assert_eq!(outcome["status"], "done", "{row}: {outcome}"),
            code => assert_stopped(&outcome, code, &row),
        }
        let targets: BTreeSet<SocketAddr> = seen.targets().into_iter().collect();
        assert_eq!(targets, visited.iter().map(|to| to.parse().unwrap()).collect(), "{row}");
        assert_eq!(seen.opened, seen.targets().len(), "{row}: somebody else was knocked at");
        let pages = if *end == "too_many_redirects" { 6 } else { places.len() + usize::from(*end == "done") };
        assert_eq!(seen.pages().len(), pages, "{row}: {seen:?}");
    }
}

#[test]
fn nobody_is_believed_without_the_right_certificate() {
    let Some(mut lab) = Lab::open() else { return };
    let stage = everybody_is_public;
    for host in ["expired.example.com", "misnamed.example.com", "stranger.example.com"] {
        let (outcome, seen) = lab.fetch(&format!("https://{host}/"), stage());
        assert_stopped(&outcome, "tls_failed", host);
        assert_eq!((seen.pages(), seen.targets()), (vec![], vec![at(PUBLIC, 443)]), "{host}");
    }
    let (outcome, _) = lab.fetch("https://known.example.com/", stage());
    assert_eq!(outcome["status"], "done", "{outcome}");
    // The authority is the test's own: without the operator's word it is nobody's.
    lab.write_config("", &format!("name_servers: [\"{NAME_SERVER}\"]"));
    let (outcome, seen) = lab.fetch("https://known.example.com/", stage());
    assert_stopped(&outcome, "tls_failed", "an unknown authority");
    assert_eq!(seen.pages(), [""; 0]);
}

#[test]
fn proxies_of_the_environment_are_nobodys_business() {
    let Some(mut lab) = Lab::open() else { return };
    for url in ["http://plain.example.com/", "https://plain.example.com/"] {
        lab.network.stage(everybody_is_public());
        let mut command = lab.command(&["call", "fetch_url", &json!({ "url": url }).to_string()]);
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env(name, "http://127.0.0.1:8080");
        }
        Ran::of(&mut command).done();
        let seen = lab.network.seen();
        assert_eq!(seen.client, [], "the proxy was asked");
        assert!(seen.world.iter().all(|visit| visit.to.ip().to_string() == PUBLIC), "{seen:?}");
        assert_eq!(seen.opened, seen.world.len());
    }
}

#[test]
fn an_agents_list_binds_redirects_too() {
    let Some(mut lab) = Lab::with("network: allowlist_only, network_allowlist: [start.example.com]") else { return };
    let stage =
        |place: &str| Stage { names: names(HOSTS), redirects: vec![(302, place.to_owned())], ..Stage::default() };
    for place in
        ["http://far.example.com/", "https://far.example.com/", "http://151.101.3.3/", "http://start.example.com:8080/"]
    {
        let (outcome, seen) = lab.fetch(HTTP, stage(place));
        assert_stopped(&outcome, "redirect_refused", place);
        assert_eq!((seen.pages().len(), seen.opened), (1, seen.targets().len()), "{place}");
        assert!(seen.targets().iter().all(|to| *to == START.parse().unwrap()), "{place}: {seen:?}");
    }
    let (outcome, seen) = lab.fetch(HTTP, stage("https://start.example.com/"));
    assert_eq!((&outcome["status"], seen.pages().len()), (&"done".into(), 2), "{outcome}");

    for url in ["http://far.example.com/", "http://151.101.1.1/", "http://start.example.com.far.example.com/"] {
        let (outcome, seen) = lab.fetch(url, stage(HTTP));
        assert_stopped(&outcome, "not_permitted", url);
        assert_eq!(seen, Seen::default(), "{url}");
    }
}

#[test]
fn an_agent_without_a_network_reaches_nobody() {
    let Some(mut lab) = Lab::with("network: none") else { return };
    let (outcome, seen) = lab.fetch(HTTP, Stage { names: names(HOSTS), ..Stage::default() });
    assert_stopped(&outcome, "not_permitted", HTTP);
    assert_eq!(seen, Seen::default());
}

#[test]
fn internal_hosts_are_reached_where_the_operator_lists_them_and_nowhere_else() {
    let Some(mut lab) = Lab::open() else { return };
    lab.configure("", "hostname_allowlist: [inside.example.com, \"wiki.corp:8080\"]");
    let stage = || Stage {
        names: names(&[
            ("inside.example.com", &[&["10.0.0.1"]]),
            ("wiki.corp", &[&["192.168.7.7"]]),
            ("other.example.com", &[&["10.0.0.1"]]),
        ]),
        ..Stage::default()
    };
    for (url, target) in [("http://inside.example.com/", "10.0.0.1:80"), ("http://wiki.corp:8080/", "192.168.7.7:8080")]
    {
        let (outcome, seen) = lab.fetch(url, stage());
        assert_eq!(outcome["status"], "done", "{url}: {outcome}");
        assert!(seen.targets().iter().all(|to| *to == target.parse().unwrap()), "{seen:?}");
        assert_eq!((seen.pages().len(), seen.opened), (1, seen.targets().len()), "{url}");
    }
    for (url, code) in [
        ("http://other.example.com/", "address_refused"),
        ("http://10.0.0.1/", "address_refused"),
        ("http://x.inside.example.com/", "resolve_failed"),
        ("http://wiki.corp/", "host_refused"),
        ("http://localhost/", "host_refused"),
    ] {
        let (outcome, seen) = lab.fetch(url, stage());
        assert_stopped(&outcome, code, url);
        assert_eq!((seen.targets(), seen.opened), (vec![], 0), "{url}");
    }
    // Where clouds hand out credentials stays closed to a name that is listed.
    let names = names(&[("inside.example.com", &[&["169.254.169.254"]])]);
    let (outcome, seen) = lab.fetch("http://inside.example.com/", Stage { names, ..Stage::default() });
    assert_stopped(&outcome, "address_refused", "credentials");
    assert_eq!((seen.targets(), seen.opened), (vec![], 0));
}

#[test]
fn servers_that_want_no_robots_are_left_alone() {
    let Some(mut lab) = Lab::open() else { return };
    let stage =
        || Stage { robots: Robots::Rules("User-agent: *\nDisallow: /private\n".into()), ..everybody_is_public() };
    let calls = [1, 2, 3].map(|n| fetch_call(&format!("http://polite.example.com/private/{n}")));
    let (outcomes, seen) = lab.turn(&calls, stage());
    assert_eq!(seen.pages(), [""; 0], "what robots are asked not to fetch was fetched");
    for outcome in outcomes {
        assert_stopped(&outcome, "robots_refused", "a page that is not for robots");
    }
    let calls = [1, 2, 3].map(|n| fetch_call(&format!("http://polite.example.com/public/{n}")));
    let (outcomes, seen) = lab.turn(&calls, stage());
    assert!(outcomes.iter().all(|outcome| outcome["status"] == "done"), "{outcomes:?}");
    assert_eq!(seen.pages().len(), 3);

    // Asking what a server wants leads nobody inside either.
    for place in ["http://127.0.0.1/robots.txt", "http://169.254.169.254/latest/", "//localhost/robots.txt"] {
        let stage = Stage { robots: Robots::At(place.to_owned()), ..everybody_is_public() };
        let (outcome, seen) = lab.fetch("http://polite.example.com/", stage);
        assert_stopped(&outcome, "robots_refused", place);
        assert_only(&seen, at(PUBLIC, 80), place);
        assert_eq!(seen.pages(), [""; 0], "{place}");
    }
}

#[test]
fn every_tool_that_talks_asks_the_same_judge() {
    let Some(mut lab) = Lab::open() else { return };
    let mut calls = Vec::new();
    for url in ["http://127.0.0.1/", "http://10.0.0.1:8080/", "http://[::1]/", "http://inside.example.com/"] {
        calls.push(json!({ "tool": "read_webpage", "arguments": { "url": url } }));
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] {
            calls.push(json!({ "tool": "http_request", "arguments": { "method": method, "url": url } }));
        }
    }
    for connection in ["literal", "named"] {
        calls.push(json!({ "tool": "external_data", "arguments": { "connection": connection, "path": "/items" } }));
    }
    calls.push(json!({ "tool": "web_search", "arguments": { "query": "engines" } }));
    let stage = || Stage { names: names(HOSTS), ..Stage::default() };
    let (outcomes, seen) = lab.turn(&calls, stage());
    assert_eq!((seen.targets(), seen.opened), (vec![], 0), "somebody was reached");
    for (call, outcome) in calls.iter().zip(outcomes) {
        assert_stopped(&outcome, "address_refused", &call.to_string());
    }

    // A connection is for its own server; what is elsewhere is not looked for, also not where the server sends on to.
    let elsewhere = ["http://10.0.0.1/api/x", "http://far.example.com/api/x", "https://start.example.com/api/x"];
    let calls =
        elsewhere.map(|url| json!({ "tool": "external_data", "arguments": { "connection": "public", "url": url } }));
    let (outcomes, seen) = lab.turn(&calls, stage());
    assert_eq!(seen, Seen::default());
    for (url, outcome) in elsewhere.iter().zip(outcomes) {
        assert_stopped(&outcome, "connection_mismatch", url);
    }
    let call = json!({ "tool": "external_data", "arguments": { "connection": "public", "path": "/x" } });
    let redirects = vec![(302, "http://far.example.com/".to_owned())];
    let (_, seen) = lab.turn(&[call], Stage { redirects, ..stage() });
    assert_only(&seen, START.parse().unwrap(), "a connection whose server sends on");

    // The other methods are walked hop by hop too, where that is asked for.
    for (n, method) in ["HEAD", "POST", "PUT", "DELETE"].into_iter().enumerate() {
        let arguments = json!({ "method": method, "url": HTTP, "follow_redirects": true });
        let redirects = vec![([301, 307, 308, 302][n], "http://127.0.0.1:8080/admin".to_owned())];
        let (outcomes, seen) =
            lab.turn(&[json!({ "tool": "http_request", "arguments": arguments })], Stage { redirects, ..stage() });
        assert_stopped(&outcomes[0], "redirect_refused", method);
        assert_only(&seen, START.parse().unwrap(), method);
    }
}

/// Remotes git must not be led to, and where it would end up.
const REMOTES: &[(&str, &str)] = &[
    ("http://127.0.0.1/r.git", "address_refused"),
    ("https://127.0.0.1/r.git", "address_refused"),
    ("https://10.0.0.1:8443/r.git", "address_refused"),
    ("https://169.254.169.254/r.git", "address_refused"),
    ("https://[::1]/r.git", "address_refused"),
    ("https://[::ffff:10.0.0.1]/r.git", "address_refused"),
    ("https://45.80.20.2/r.git", "address_refused"),
    ("https://inside.example.com/r.git", "address_refused"),
    ("https://mixed.example.com/r.git", "address_refused"),
    ("ssh://git@10.0.0.1/r.git", "address_refused"),
    ("ssh://git@inside.example.com/r.git", "address_refused"),
    ("git@inside.example.com:r.git", "address_refused"),
    ("https://localhost/r.git", "host_refused"),
    ("https://metadata.google.internal/r.git", "host_refused"),
    ("https://2130706433/r.git", "url_refused"),
    ("https://127.1/r.git", "url_refused"),
    ("https://start.example.com@127.0.0.1/r.git", "address_refused"),
    ("https://user:secret@start.example.com/r.git", "url_refused"),
    ("git://127.0.0.1/r.git", "url_refused"),
    ("file:///etc", "url_refused"),
    ("ext::sh -c env", "url_refused"),
    ("/etc", "url_refused"),
    ("--upload-pack=env", "url_refused"),
];

#[test]
fn git_is_not_led_inside() {
    let Some(mut lab) = Lab::open() else { return };
    let clone =
        |url: &str, n: usize| json!({ "tool": "git_clone", "arguments": { "url": url, "directory": format!("r{n}") } });
    let stage = || Stage { names: names(HOSTS), ..Stage::default() };
    let calls: Vec<Value> = REMOTES.iter().enumerate().map(|(n, (url, _))| clone(url, n)).collect();
    let (outcomes, seen) = lab.turn(&calls, stage());
    assert_eq!((seen.targets(), seen.opened), (vec![], 0), "somebody was reached");
    for ((url, code), outcome) in REMOTES.iter().zip(outcomes) {
        assert_stopped(&outcome, code, url);
    }

    // A remote that turns, or sends on, is only ever found where it was judged.
    let turning: &[&[&str]] = &[&["151.101.5.5"], &["127.0.0.1"]];
    let places = ["http://127.0.0.1/r.git/info/refs", "http://inside.example.com/", "http://far.example.com/"];
    for (n, place) in places.into_iter().enumerate() {
        let redirects = vec![(302, place.to_owned())];
        let names = names(&[HOSTS, &[("turning.example.com", turning)]].concat());
        let (outcomes, seen) =
            lab.turn(&[clone("http://turning.example.com/r.git", n)], Stage { names, redirects, ..Stage::default() });
        if outcomes[0]["code"] == "wall_missing" {
            return skipped(format!("no room can be made in this network: {}", outcomes[0]["message"]));
        }
        assert_stopped(&outcomes[0], "redirect_refused", place);
        assert_only(&seen, at("151.101.5.5", 80), place);
    }
}

/// The addresses that were judged are the ones a program's door dials, unless the operator leaves that to the door.
#[test]
fn a_remote_is_looked_up_once_unless_the_operator_says_otherwise() {
    let Some(mut lab) = Lab::open() else { return };
    let turning: &[&[&str]] = &[&["151.101.5.5"], &["151.101.6.6"]];
    for (n, (mitigation, reached)) in [("true", "151.101.5.5"), ("false", "151.101.6.6")].into_iter().enumerate() {
        lab.configure("", &format!("dns_rebinding_mitigation: {mitigation}"));
        let arguments = json!({ "url": "http://turning.example.com/r.git", "directory": format!("r{n}") });
        let names = names(&[HOSTS, &[("turning.example.com", turning)]].concat());
        let (outcomes, seen) =
            lab.turn(&[json!({ "tool": "git_clone", "arguments": arguments })], Stage { names, ..Stage::default() });
        if outcomes[0]["code"] == "wall_missing" {
            return skipped(format!("no room can be made in this network: {}", outcomes[0]["message"]));
        }
        assert_only(&seen, at(reached, 80), mitigation);
    }
}

/// What programs try whose room has the agent's list: once whom they may reach, and then all the others.
const KNOCKS: &str = "
curl -sS -m 5 http://start.example.com/
for host in inside.example.com mixed.example.com far.example.com start.example.com:8080 151.101.3.3 127.0.0.1 10.0.0.1 169.254.169.254 [::1]; do
    curl -sS -m 5 http://$host/
done
curl -sS -m 5 --resolve start.example.com:80:10.0.0.1 http://start.example.com/
curl -sS -m 5 --connect-to ::127.0.0.1:80 http://start.example.com/
curl -sS -m 5 -H 'Host: inside.example.com' http://start.example.com/
curl -sS -m 5 -x http://start.example.com:80 http://inside.example.com/
curl -sS -m 5 http://turning.example.com/
curl -sS -m 5 http://turning.example.com/
curl -sS -m 5 https://inside.example.com/
true
";

#[test]
fn programs_in_a_room_reach_whom_the_client_would() {
    if let Err(error) = Command::new("curl").arg("--version").output() {
        return skipped(format!("there is no `curl` to knock with: {error}"));
    }
    let listed = "start.example.com, inside.example.com, mixed.example.com, turning.example.com";
    let Some(mut lab) = Lab::with(&format!("network: allowlist_only, network_allowlist: [{listed}]")) else { return };
    let turning: &[&[&str]] = &[&["151.101.5.5"], &["127.0.0.1"]];
    let names = names(&[HOSTS, &[("turning.example.com", turning)]].concat());
    let call = json!({ "tool": "run_code", "arguments": { "language": "bash", "code": KNOCKS } });
    let (outcomes, seen) = lab.turn(&[call], Stage { names, ..Stage::default() });
    if outcomes[0]["code"] == "wall_missing" {
        return skipped(format!("no room can be made in this network: {}", outcomes[0]["message"]));
    }
    assert_eq!(outcomes[0]["status"], "done", "{}", outcomes[0]);
    assert_eq!(seen.targets(), [START.parse().unwrap(), at("151.101.5.5", 80)], "{}", outcomes[0]);
    assert_eq!(seen.opened, 2, "somebody else was knocked at");
}

/// One line of a corpus.
#[derive(Debug, Deserialize)]
struct Row {
    url: String,
    expected: String,
    resolves: Option<Answers>,
    redirects: Option<Vec<String>>,
}

/// What a name leads to: always the same, or something else at every look-up.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Answers {
    Steady(Vec<String>),
    Turning(Vec<Vec<String>>),
}

impl Row {
    /// In rows that say nothing about names, every name is somebody's, so that nothing is stopped by nobody being there.
    fn answers(&self) -> Vec<Vec<String>> {
        match self.resolves.clone() {
            None => vec![vec![PUBLIC.to_owned()]],
            Some(Answers::Steady(list)) => vec![list],
            Some(Answers::Turning(lists)) => lists,
        }
    }

    /// What is wrong with how it went.
    fn trouble(&self, outcome: &Value, seen: &Seen) -> Option<String> {
        let answers = self.answers();
        let visited = seen.targets();
        let stopped = !outcome["code"].is_null();
        let is_first_answer = |to: &SocketAddr| answers[0].contains(&to.ip().to_string());
        let only_first_answers = visited.iter().all(is_first_answer) && seen.opened == visited.len();
        let right = match (self.expected.as_str(), &self.resolves, &self.redirects) {
            ("allow", ..) => outcome["status"] == "done" && !visited.is_empty() && seen.opened == visited.len(),
            // Somebody who answers first is visited; where that leads is what must not be.
            (_, _, Some(places)) => stopped && only_first_answers && seen.pages().len() <= places.len(),
            (_, Some(Answers::Turning(_)), _) => only_first_answers,
            _ => stopped && visited.is_empty() && seen.opened == 0,
        };
        let said = (&outcome["status"], &outcome["code"], &outcome["message"]);
        (!right).then(|| format!("{self:?}\n  said {said:?}\n  visited {visited:?}, opened {}", seen.opened))
    }
}

/// The rows of `$TOOLGATE_SSRF_ROWS`, a file of JSON lines: `url`, `expected` (`allow` or `block`), `resolves` and
/// `redirects`.
#[test]
#[ignore = "needs a corpus"]
fn a_corpus_reaches_nobody_it_must_not() {
    let Some(mut lab) = Lab::open() else { return };
    let rows = fs::read_to_string(env::var_os("TOOLGATE_SSRF_ROWS").unwrap()).unwrap();
    let rows: Vec<Row> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut troubles = Vec::new();
    for row in &rows {
        let places = row.redirects.clone().unwrap_or_default();
        let stage = Stage {
            names: [("*".to_owned(), row.answers())].into(),
            redirects: places.into_iter().map(|place| (302, place)).collect(),
            ..Stage::default()
        };
        let (outcome, seen) = lab.fetch(&row.url, stage);
        troubles.extend(row.trouble(&outcome, &seen));
    }
    let blocks = rows.iter().filter(|row| row.expected == "block").count();
    eprintln!("{} rows, {blocks} to block, {} wrong", rows.len(), troubles.len());
    assert!(troubles.is_empty(), "{}", troubles.join("\n"));
}
