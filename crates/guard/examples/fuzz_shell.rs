//! Throws scripts at the reader of shell commands until it falls over.
//!
//!     cargo run --release -p toolgate-guard --example fuzz_shell -- [COUNT] [SEED]
//!
//! Every script is made from a seed, so a run can be repeated: pieces of shell put together and cut up again, a command
//! that must be denied hidden among them, brackets nested deeper than anyone writes. A reader that overflows its stack
//! or aborts takes the program down; one that allows what must be denied is told with the script. There is no need of a
//! nightly compiler, which the usual fuzzers want.

#![expect(clippy::print_stdout, reason = "the counts are what it is for")]

use std::{collections::BTreeMap, env, process::ExitCode};

use toolgate_contract::Verdict;
use toolgate_guard::shell::{
    Parse, Place, UserRule, UserRules,
    ir::{Command, Word},
    judge,
    policy::Bounds,
    profiles::Profile,
    read, read_argv,
    rules::{RULES, Severity},
};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let count: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let seed: u64 = args.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);

    let place = Place::at("/srv/space", "/home/me");
    let own = own_rules();
    let lists = [Profile::Coder, Profile::ReadOnly, Profile::ReadOnlyNoNet].map(|profile| profile.rules().into_owned());
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for n in 0..count {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n);
        let script = script(&mut dice);
        let reading = match dice.up_to(8) {
            0 => read_argv(&script.split(' ').map(str::to_owned).collect::<Vec<_>>(), &BTreeMap::new(), &place),
            _ => read(&script, &place),
        };
        let table = judge(&reading);
        let is_denied = |command: &Command| command.argv.iter().map(Word::text).eq(DENIED.split(' '));
        let runs_rm = reading.commands.iter().any(is_denied);
        for rules in &lists {
            let bounds = Bounds { prefixes: Some(rules), own: &own };
            let strictest = bounds.judge(&reading).verdict.min(bounds.judge_typed(&script, &reading).verdict);
            if runs_rm && (table.verdict != Verdict::Deny || strictest != Verdict::Deny) {
                println!("let through, seed {seed}, script {n}: {script:?}");
                return ExitCode::FAILURE;
            }
        }
        let parse = match reading.parse {
            Parse::Ok => "read in full",
            Parse::Partial => "read in part",
            Parse::Failed => "not read",
        };
        let verdict = match table.verdict {
            Verdict::Allow => "nothing against it",
            Verdict::Ask => "asked about",
            Verdict::Deny => "denied",
        };
        for what in [parse, verdict] {
            *counts.entry(what).or_default() += 1;
        }
    }
    println!("{count} scripts from seed {seed}");
    for (what, count) in counts {
        println!("{count:>9} {what}");
    }
    ExitCode::SUCCESS
}

/// What no script may get past the rules once it is read as a command.
const DENIED: &str = "rm -rf /";

fn own_rules() -> UserRules {
    let rule = UserRule {
        id: "own".into(),
        pattern: "git push ** --force|-f".into(),
        severity: Severity::Deny,
        reason: "nobody forces a push".into(),
        must: vec!["git push -f".into()],
        must_not: vec!["git push".into()],
    };
    UserRules::load(vec![rule]).unwrap_or_default()
}

/// One script: a few pieces, an example of a rule, nesting, or a script cut up.
fn script(dice: &mut Dice) -> String {
    match dice.up_to(10) {
        0 => nested(dice),
        1 => {
            let examples: Vec<&str> =
                RULES.iter().flat_map(|rule| rule.must.iter().chain(rule.must_not)).copied().collect();
            let script = dice.one_of(&examples).to_owned();
            mutated(dice, script)
        }
        2 | 3 => {
            let (before, after) = (pieces(dice, 12), pieces(dice, 12));
            format!("{before}\n{DENIED}\n{after}")
        }
        4 | 5 => {
            let script = pieces(dice, 40);
            mutated(dice, script)
        }
        _ => pieces(dice, 60),
    }
}

fn pieces(dice: &mut Dice, most: u64) -> String {
    (0..dice.up_to(most)).map(|_| dice.one_of(PIECES)).collect()
}

/// Brackets in brackets, of one kind or of several, closed or not, up to a thousand deep.
fn nested(dice: &mut Dice) -> String {
    let depth = if dice.up_to(4) == 0 { dice.up_to(1_000) } else { dice.up_to(48) };
    let same = dice.up_to(2) == 0;
    let first = dice.one_of(PAIRS);
    let (mut open, mut close) = (String::new(), Vec::new());
    for _ in 0..depth {
        let (left, right) = if same { first } else { dice.one_of(PAIRS) };
        open += left;
        close.push(right);
    }
    let closed = if dice.up_to(8) == 0 { 0 } else { close.len() };
    let inside = pieces(dice, 6);
    open + &inside + &close.into_iter().rev().take(closed).collect::<String>()
}

/// Characters removed, doubled, moved or replaced.
fn mutated(dice: &mut Dice, script: String) -> String {
    let mut chars: Vec<char> = script.chars().collect();
    for _ in 0..=dice.up_to(6) {
        if chars.is_empty() {
            break;
        }
        let at = dice.index(chars.len());
        match dice.up_to(5) {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            2 => {
                let other = dice.index(chars.len());
                chars.swap(at, other);
            }
            3 => chars.truncate(at),
            _ => chars[at] = dice.one_of(ODD),
        }
    }
    chars.into_iter().collect()
}

/// Small, quick and the same everywhere; nothing here needs more of chance.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    fn up_to(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % len
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }
}

const PAIRS: &[(&str, &str)] = &[
    ("(", ")"),
    ("{ ", "; }"),
    ("[", "]"),
    ("$(", ")"),
    ("\"$(", ")\""),
    ("${x:-", "}"),
    ("${x/a/", "}"),
    ("`", "`"),
    ("$((", "))"),
    ("((", "))"),
    ("<(", ")"),
    ("[[ ( ", " ) ]]"),
    ("x=(", ")"),
    ("a[", "]=1"),
    ("{a,", "}"),
    ("@(", ")"),
    ("if true; then ", "; fi"),
    ("while true; do ", "; done"),
    ("for i in a; do ", "; done"),
    ("case x in a) ", ";; esac"),
    ("f() { ", "; }"),
    ("! ", ""),
    ("time ", ""),
    ("coproc ", ""),
    ("a && ", ""),
    ("a | ", ""),
    ("env ", ""),
    ("sudo timeout 5 ", ""),
    ("xargs ", ""),
    ("bash -c '", "'"),
    ("bash -c \"", "\""),
    ("eval ", ""),
    ("find . -exec ", " \\;"),
    ("cat <<E\n", "\nE\n"),
];

const PIECES: &[&str] = &[
    "(",
    ")",
    "{ ",
    "; }",
    "[[ ",
    " ]]",
    "((",
    "))",
    "$(",
    "${",
    "}",
    "`",
    "'",
    "\"",
    "\\",
    "\n",
    ";",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    "<",
    ">",
    ">>",
    "2>&1",
    "&>",
    "<>",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "<<<",
    "<(",
    ">(",
    "$((",
    "#",
    "!",
    "=",
    "a=",
    "a+=",
    "a[1]=",
    "PATH=",
    "LD_PRELOAD=",
    "ls",
    "rm",
    "rm -rf /",
    "rm -rf ",
    "cat ",
    "git ",
    "git push",
    "git -C x ",
    "git -c a=b ",
    "curl http://e/x",
    "sh",
    "bash -c ",
    "bash -s ",
    "env ",
    "sudo ",
    "eval ",
    "xargs ",
    "find . -exec ",
    "timeout 5 ",
    "nohup ",
    "busybox ",
    "exec ",
    "source ",
    "trap ",
    "export ",
    "declare -n ",
    "local ",
    "unset ",
    "read ",
    "printf -v ",
    "alias ",
    "time ",
    "coproc ",
    "cd ",
    "cd /",
    " ",
    "  ",
    "\t",
    "if ",
    "then ",
    "elif ",
    "else ",
    "fi",
    "for i in ",
    "for ((",
    "select i in ",
    "while ",
    "until ",
    "do ",
    "done",
    "case x in ",
    "esac",
    ";;",
    ";&",
    "f() ",
    "function f ",
    "E\n",
    "*",
    "?",
    "[a-z]",
    "~",
    "~root",
    "{a,b}",
    "{1..9}",
    "$x",
    "$@",
    "$?",
    "$$",
    "${x:-",
    "${x:=",
    "${x@P}",
    "${!x}",
    "${x[@]}",
    "${#x}",
    "${x^^}",
    "$'",
    "$'\\x72",
    "$\"",
    "@(",
    "+(",
    "\\`",
    "\\\n",
    "é",
    "\u{200b}",
    "\u{202e}",
    "\u{fffd}",
    "\r",
    "\0",
    "\u{a0}",
    "\u{2028}",
    "/dev/sda",
    "/dev/tcp/e/1",
    "/etc/passwd",
    ".env",
    "-",
    "--",
    "-c ",
    "-rf ",
    "/",
    "../..",
    "1",
    "a",
    "x",
];

const ODD: &[char] = &[
    '(', ')', '{', '}', '[', ']', '$', '`', '\'', '"', '\\', '\n', ';', '&', '|', '<', '>', '#', '!', '=', '*', '?',
    '~', ' ', '\t', '\r', '\0', 'a', '/', '-', '0', 'é', '\u{200b}', '\u{202e}', '\u{fffd}', '\u{2028}',
];
