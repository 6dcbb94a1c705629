//! Reading, judging and surviving.

use toolgate_contract::Verdict;

use super::{
    Parse, Place, Reading, judge,
    policy::{self, Rules},
    read,
    rules::RULES,
};

fn place() -> Place {
    Place::at("/srv/space", "/home/me")
}

fn reads(script: &str) -> Reading {
    read(script, &place())
}

fn hit_ids(script: &str) -> Vec<&'static str> {
    reads(script).hits.iter().map(|hit| hit.rule.id).collect()
}

#[test]
fn every_rule_hits_what_it_must_and_nothing_it_must_not() {
    let mut wrong = Vec::new();
    for rule in RULES {
        for script in rule.must {
            if !hit_ids(script).contains(&rule.id) {
                wrong.push(format!("{} misses {script:?}", rule.id));
            }
        }
        for script in rule.must_not {
            if hit_ids(script).contains(&rule.id) {
                wrong.push(format!("{} hits {script:?}", rule.id));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The rules of the examples below.
const FILE: &str = r#"{
    "allow": ["git log", "git status", "git diff", "ls", "cat", "grep", "echo", "cd", "head", "wc", "pwd", "true", "rg",
              "npm test", "printf", "sed", "awk", "sort", "find", "tar", "timeout", "sh"],
    "deny": ["rm", "git push", "dd"],
    "default": "ask", "write_redirect": "ask", "unparsable": "ask"
}"#;

fn verdict(script: &str) -> Verdict {
    let rules: Rules = serde_json::from_str(FILE).unwrap();
    policy::judge(&reads(script), &rules).verdict
}

fn check(verdicts: &[(&str, Verdict)]) {
    let wrong: Vec<_> = verdicts
        .iter()
        .map(|(script, expected)| (*script, *expected, verdict(script)))
        .filter(|(_, expected, got)| expected != got)
        .collect();
    assert_eq!(wrong, Vec::new());
}

#[test]
fn what_is_plain_and_allowed_is_not_asked_about() {
    for script in [
        "git log",
        "git log --oneline -n 3 -- src",
        "git -C sub status && git --no-pager diff | head -50",
        "FOO=1 ls",
        "for f in a b; do echo \"$f\"; done",
        "x=1; echo $x; echo \"$HOME\" $?",
        "if true; then ls; else pwd; fi",
        "ls *.rs 2>/dev/null",
        "cat <<'EOF'\nrm -rf / and git push\nEOF",
        "cat <<EOF\nplain text\nEOF",
        "grep -rn 'foo$' src; awk '{print $1}' x; sed -n '1,5p' x; sed 's/a/b/g' x",
        "echo $(git log) | wc -l",
        "timeout 5 ls; time ls; command ls; \\ls",
        "bash -c 'git log | head'",
        "[ -f x ] && cat x; [[ -n \"$HOME\" ]] && ls",
        "find . -name '*.rs'",
        "# only this\nls",
        "echo héllo ✓",
        "echo a 2>&1 >/dev/null",
        "sort x | head",
        "git lo\\\ng",
        "(cd src && ls)",
        "echo $((1+2)) {1..3}",
        "cat <(ls) | wc",
        "ls | while read f; do echo \"$f\"; done",
        "set -eu; tar tf x",
    ] {
        let rules: Rules = serde_json::from_str(FILE).unwrap();
        let judgement = policy::judge(&reads(script), &rules);
        assert_eq!((script, judgement.verdict, judgement.spoke), (script, Verdict::Allow, Vec::new()));
    }
}

#[test]
fn a_denied_command_is_denied_in_every_spelling() {
    for script in [
        "rm x",
        "git log && rm x",
        "ls\nrm x",
        "\\rm x",
        "r'm' x",
        "/bin/rm x",
        "./rm x",
        "$'\\x72m' x",
        "X=rm; $X x",
        "git -C d push",
        "git --no-pager -c a=b push",
        "command rm x",
        "nohup rm x",
        "timeout -s KILL 5 rm x",
        "env -u A B=1 nice -n 5 rm x",
        "stdbuf -o0 rm x",
        "sudo -u root -n rm x",
        "busybox rm x",
        "xargs -n 1 rm < list",
        "find . -exec rm {} \\;",
        "find . -name x -execdir echo {} + -ok rm {} \\;",
        "sh -c 'rm x'",
        "bash -lc \"rm x\"",
        "eval rm x",
        "trap 'rm x' EXIT",
        "env -S 'rm x'",
        "watch -n 1 rm x",
        "su -c 'rm x'",
        "git -c alias.l='!rm x' l",
        "git submodule foreach 'rm x'",
        "echo $(rm x)",
        "echo \"`rm x`\"",
        "echo `echo \\`rm x\\``",
        "echo <(rm x)",
        "echo ${x:-$(rm x)}",
        "echo ${x/a/$(rm x)}",
        "echo ${x#$(rm x)}",
        "echo ${x:$(rm x)}",
        "echo $((1+$(rm x)))",
        "(( x = $(rm x) ))",
        "a[$(rm x)]=1",
        "a=(1 $(rm x))",
        "[[ -n $(rm x) ]]",
        "case $(rm x) in a) ;; esac",
        "case x in $(rm x)) ;; esac",
        "for i in $(rm x); do ls; done",
        "for ((i=$(rm x);;)); do ls; done",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<< \"$(rm x)\"",
        "ls > $(rm x)",
        "ls() { rm x; }; ls",
        "! rm x",
        "time rm x",
        "coproc rm x",
        "ls & rm x",
        "{ rm x; }",
        "(rm x)",
        "while rm x; do ls; done",
        "export X=$(rm x)",
        "ls | xargs sudo timeout 5 sh -c 'rm x'",
        "git log \u{200b}; rm x",
        "sh <<< 'rm x'",
        "sh <<'E'\nrm x\nE",
        "echo $((rm x) ; ls)",
    ] {
        assert_eq!((script, verdict(script)), (script, Verdict::Deny));
    }
}

#[test]
fn what_is_not_certain_is_asked_about() {
    for script in [
        "$CMD x",
        "l$@s",
        "{cat,/etc/hosts}",
        "/bin/c?t x",
        "cat${IFS}x",
        "$'ls' x",
        "sh -c \"$X\"",
        "ls; if true",
        "git log )",
        "echo 'x",
        "git log\rls",
        "git log\u{2028}ls",
        "git\u{a0}log",
        "\u{433}it log",
        "echo \u{202e}x",
        "ls() { cat x; }; ls",
        "alias ls=cat; ls x",
        "LD_PRELOAD=x ls",
        "export PATH=x; ls",
        "PATH=x; ls",
        "env LD_PRELOAD=x ls",
        "IFS=x; ls",
        "GIT_PAGER=x git log",
        "for PATH in x; do ls; done",
        "read PATH; ls",
        "printf -v PATH x",
        "(( PATH = 1 )); ls",
        ": ${PATH:=x}; ls",
        "exec ls",
        "./ls",
        "/tmp/ls",
        "git log-evil",
        "echo $SECRET",
        "cat <<< \"$SECRET\"",
        "cat <<EOF\n$SECRET\nEOF",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${ ls; }",
        "echo ${| ls; }",
        "echo @(a|b)",
        "git $X log",
        "git -c core.pager=x log",
        "git --exec-path=x log",
        "git log --output=x",
        "git log --outp x",
        "git diff --ext-diff",
        "git grep -Oless x",
        "rg --pre x y",
        "rg foo *",
        "sort -o x y",
        "sort -uo x y",
        "sort --compress-prog=x y",
        "sed -i s/a/b/ x",
        "sed 's/a/b/e' x",
        "sed '1e id' x",
        "sed 's/a/b/w x' y",
        "awk 'BEGIN{system(\"id\")}'",
        "awk '{print > \"x\"}' y",
        "awk '{print | \"sh\"}' y",
        "tar --to-command=x -tf y",
        "tar xf y",
        "grep -r x ~/.ssh",
        "echo $(<.env)",
        "while read l; do echo \"$l\"; done < .env",
        "find . -delete",
        "find . -fprint x",
        "npm test --script-shell=x",
        "cd /tmp/x && git status",
        "cat $(echo x)",
        "cat .env",
        "cat ~/.ssh/id_rsa",
        "echo x > y",
        "> y",
        "{ ls; } >> y",
        "ls &> y",
        "cat < y > $z",
        "unset 'a[$(id)]'",
        "let 'a[$(id)]=1'",
        "timeout $X ls",
        "python3 x",
    ] {
        assert_eq!((script, verdict(script)), (script, Verdict::Ask));
    }
}

#[test]
fn what_is_not_certain_is_answered_as_the_list_says_and_never_passed() {
    let verdict = |unparsable: policy::Answer, script: &str| {
        let rules = Rules { default: policy::Answer::Allow, unparsable, ..Rules::default() };
        policy::judge(&reads(script), &rules).verdict
    };
    for script in ["echo 'x", "$CMD x", "cat <<< \"$SECRET\"", "X=$SECRET ls"] {
        assert_eq!((script, verdict(policy::Answer::Deny, script)), (script, Verdict::Deny));
    }
    for script in ["echo 'x", "$CMD x"] {
        assert_eq!((script, verdict(policy::Answer::Allow, script)), (script, Verdict::Ask));
    }
}

#[test]
fn the_strictest_answer_wins() {
    check(&[("ls", Verdict::Allow), ("ls; python3 x", Verdict::Ask), ("ls; python3 x; rm y", Verdict::Deny)]);
    check(&[("sort x > y; dd if=a of=b", Verdict::Deny), ("echo 'x", Verdict::Ask), ("echo 'rm x", Verdict::Deny)]);
}

#[test]
fn a_cap_never_makes_a_verdict_weaker() {
    let wrapped = format!("{}rm x", "env ".repeat(50));
    let nested = format!("{}rm x{}", "$(".repeat(100), ")".repeat(100));
    let chained = format!("{}rm x", "true && ".repeat(2000));
    let many = format!("{}rm x", "true\n".repeat(6000));
    let quoted = format!("{}rm x", "sh -c 'ls'; ".repeat(3000));
    let long = format!("ls {}", "x".repeat(super::MAX_BYTES));
    let substituted = format!("cat <<E\n{}\nE\nrm x", "$(a)".repeat(5000));
    assert_eq!(reads(&substituted).parse, Parse::Failed);
    for script in [wrapped, nested, chained, many, quoted, substituted, long] {
        assert_eq!((&script[..20], verdict(&script)), (&script[..20], Verdict::Deny));
    }
    let words = format!("ls {}", "x ".repeat(5000));
    let deep = format!("{}ls{}", "( ".repeat(40), " )".repeat(40));
    for script in [words, deep] {
        assert_eq!((&script[..20], verdict(&script)), (&script[..20], Verdict::Ask));
    }
}

#[test]
fn programs_are_listed_in_the_order_of_the_text() {
    let programs = |script| reads(script).programs().join(" ");
    assert_eq!(programs("git log | head && echo \"$(pwd)\""), "git head echo pwd");
    assert_eq!(programs("bash -c 'git log | head'; time ls"), "git head ls");
    assert_eq!(programs("nohup rm x; find . -exec cat {} +"), "nohup rm find cat");
    assert_eq!(programs("diff <(git log) <(ls)"), "diff git ls");
    assert_eq!(programs("$X; timeout 5 command ls; f() { pwd; }; f"), "timeout ls pwd");
    assert_eq!(programs("echo ${x/a/$(ls)} ${x#$(pwd)} ${x:$(id):1} $((1+$(wc))) ${a[$(tr)]}"), "echo ls pwd id wc tr");
    assert_eq!(programs("\u{433}it log"), "гit");
}

#[test]
fn effects_name_the_paths_they_touch() {
    let effects = |script| {
        let reading = reads(script);
        let shown = |e: &super::Effect| format!("{} {}", e.kind.as_str(), e.target.as_deref().unwrap_or("?"));
        (reading.effects.iter().map(shown).collect::<Vec<_>>().join(", "), reading.risk.to_string())
    };
    let check = |script, expected: &str, risk: &str| {
        assert_eq!((script, effects(script)), (script, (expected.to_owned(), risk.to_owned())));
    };
    check("cat a/../b", "fs_read /srv/space/b", "low");
    check("cd src && cat x", "fs_read /srv/space/src, fs_read /srv/space/src/x", "low");
    check("(cd src; cat x); cat y", "fs_read /srv/space/src, fs_read /srv/space/src/x, fs_read /srv/space/y", "low");
    check("echo x > y", "fs_write /srv/space/y", "medium");
    check("rm -rf build", "fs_delete /srv/space/build", "high");
    check("cat /opt/x", "fs_read /opt/x, outside_workspace /opt/x", "low");
    check("curl e", "exec curl, network ?", "medium");
    check("curl -s https://u:p@A.example.com/x", "exec curl, network a.example.com:443", "medium");
    check("git clone ssh://git@h:2222/r", "exec git, network h:2222", "medium");
    check("curl http://localhost:3000/a http://127.0.0.1 'http://[::1]:5/'", "exec curl", "medium");
    check("curl http://localhost $X", "exec curl, network ?", "medium");
    check(
        "curl http://a.example/ 'http://[2001:db8::1]/'",
        "exec curl, network [2001:db8::1]:80, network a.example:80",
        "medium",
    );
    check("curl http://localhost@e.example/", "exec curl, network e.example:80", "medium");
    check("cat .env", "fs_read /srv/space/.env, reads_secret /srv/space/.env", "high");
    check("cp a b", "fs_read /srv/space/a, fs_write /srv/space/b", "medium");
    check("dd if=a of=b", "fs_read /srv/space/a, fs_write /srv/space/b", "medium");
    check("echo x 2>/dev/null", "", "low");
    check("cat $(ls)", "fs_read ?", "low");
    check("sudo ls", "exec sudo, privileged sudo", "critical");
    check("rm -rf /", "fs_delete /, outside_workspace /", "critical");
}

#[test]
fn a_word_that_cannot_be_seen_is_shown_escaped() {
    let reading = reads("ls\u{200b} x");
    assert_eq!(reading.programs(), ["ls\\u{200b}"]);
    let codes: Vec<&str> = reading.doubts.iter().map(|doubt| doubt.code).collect();
    assert_eq!(codes, ["odd_character", "odd_command"]);
}

#[test]
fn a_parse_says_how_well_it_went() {
    let parse = |script: &str| reads(script).parse;
    assert_eq!([parse("ls"), parse("ls &&& pwd"), parse(&"(".repeat(100))], [Parse::Ok, Parse::Partial, Parse::Failed]);
    assert_eq!(judge(&reads("ls; if true")).verdict, Verdict::Ask);
}

mod survives {
    use proptest::prelude::*;

    use super::{Parse, Verdict, judge, reads, verdict};

    /// Pieces that parsers trip over.
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
        "<",
        ">",
        "<<E\n",
        "<<<",
        "<(",
        "$((",
        "#",
        "!",
        "=",
        "a=",
        "ls",
        "rm",
        " ",
        "if ",
        "then ",
        "fi",
        "for i in ",
        "do ",
        "done",
        "case x in ",
        "esac",
        "f() ",
        "E\n",
        "*",
        "~",
        "{a,b}",
        "$x",
        "${x:-",
        "${x@P}",
        "$'",
        "é",
        "\u{200b}",
        "\r",
        "\0",
        "eval ",
        "bash -c ",
        "env ",
        "find . -exec ",
        "git -C ",
        "time ",
        "coproc ",
        "@(",
        "\\`",
        "export ",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_text(script in any::<String>()) {
            judge(&reads(&script));
        }

        #[test]
        fn any_pieces(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60)) {
            judge(&reads(&pieces.concat()));
        }

        /// Nothing that is put before or around a denied command makes it pass.
        #[test]
        fn a_denied_command_among_pieces(
            before in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
            after in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
        ) {
            let script = format!("{}\nrm -rf /\n{}", before.concat(), after.concat());
            let reading = reads(&script);
            let ran = reading.commands.iter().any(|command| command.program() == "rm");
            prop_assert!(!ran || verdict(&script) == Verdict::Deny);
        }
    }

    /// One that a parser panics on: it cuts a character in two.
    #[test]
    fn a_parser_that_panics() {
        let script = "export trap${<<EOF` rmx [ $@${x@P} \\\\~ -rfa=\u{200b} @( x ^dountilifexec ' `sudoif {a,b} 1+$( \" ! \u{200b}";
        assert_eq!((reads(script).parse, judge(&reads(script)).verdict), (Parse::Failed, Verdict::Ask));
    }

    #[test]
    fn every_kind_of_bracket_ten_thousand_deep() {
        let pairs = [
            ("(", ")"),
            ("{ ", "; }"),
            ("[", "]"),
            ("$(", ")"),
            ("${x:-", "}"),
            ("`", "`"),
            ("$((", "))"),
            ("((", "))"),
            ("<(", ")"),
            ("if true; then ", "; fi"),
            ("while true; do ", "; done"),
            ("case x in a) ", ";; esac"),
            ("f() { ", "; }"),
            ("\"$(", ")\""),
            ("[[ ( ", " ) ]]"),
            ("! ", ""),
            ("a && ", ""),
            ("a | ", ""),
            ("x=(", ")"),
            ("a[", "]=1"),
            ("time ", ""),
            ("$((1+", "))"),
            ("env ", ""),
            ("bash -c \"", ""),
            ("coproc ", ""),
            ("{a,", "}"),
            ("@(", ")"),
            ("[[ a || ", "b ]]"),
            ("${a/b/", "}"),
            ("\")\" (", ")"),
            ("echo done; (", ")"),
        ];
        for (open, close) in pairs {
            let script = format!("{}ls{}", open.repeat(10_000), close.repeat(10_000));
            assert_ne!((open, judge(&reads(&script)).verdict), (open, Verdict::Allow));
        }
    }
}

#[test]
fn words_that_no_shell_sees_are_read_as_they_are() {
    let reads = |argv: &[&str], env: &[(&str, &str)]| {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        super::read_argv(&argv, &env, &place())
    };
    let rules: Rules = serde_json::from_str(FILE).unwrap();
    let verdict = |argv: &[&str]| policy::judge(&reads(argv, &[]), &rules).verdict;
    for argv in [
        &["git", "log"][..],
        &["echo", "$HOME; rm x"],
        &["echo", "$(rm x)", "`rm x`", "> y", "'"],
        &["grep", "a\nb", "x"],
        &["bash", "-c", "git log | head"],
    ] {
        assert_eq!((argv, verdict(argv)), (argv, Verdict::Allow));
    }
    for argv in [
        &["rm", "x"][..],
        &["/bin/rm", "x"],
        &["env", "A=1", "nice", "rm", "x"],
        &["bash", "-c", "git log; rm x"],
        &["find", ".", "-exec", "rm", "{}", ";"],
        &["git", "-C", "d", "push"],
        &["bash", "-c", &format!("{}rm x", "env ".repeat(50))],
        &["ls", &"x".repeat(super::MAX_BYTES)],
    ] {
        assert_eq!((argv, verdict(argv)), (argv, Verdict::Deny));
    }
    for argv in [&["ls;rm"][..], &["./ls"], &["ls", "\u{200b}"], &["sh", "-c", "$X"], &[""], &[]] {
        assert_eq!((argv, verdict(argv)), (argv, Verdict::Ask));
    }
    let hijacked = reads(&["ls"], &[("LD_PRELOAD", "x")]);
    assert_eq!(judge(&hijacked).verdict, Verdict::Ask);
    assert_eq!(judge(&reads(&["ls"], &[("A", "$B")])).verdict, Verdict::Allow);
    assert_eq!(hijacked.programs(), ["ls"]);
}

#[test]
fn what_is_typed_must_be_whole_lines_where_there_is_a_list() {
    let rules: Rules = serde_json::from_str(FILE).unwrap();
    let own = super::UserRules::default();
    let typed = |prefixes, text: &str| policy::Bounds { prefixes, own: &own }.judge_typed(text, &reads(text)).verdict;
    for (text, listed, free) in [
        ("git log\n", Verdict::Allow, Verdict::Allow),
        ("ls\ngit status\n", Verdict::Allow, Verdict::Allow),
        ("git lo", Verdict::Ask, Verdict::Allow),
        ("git log", Verdict::Ask, Verdict::Allow),
        ("git log\t\n", Verdict::Ask, Verdict::Allow),
        ("rm x\n", Verdict::Deny, Verdict::Allow),
        ("print('x\n", Verdict::Ask, Verdict::Allow),
        ("sudo ls\n", Verdict::Ask, Verdict::Ask),
        ("rm -rf /\n", Verdict::Deny, Verdict::Deny),
        ("", Verdict::Allow, Verdict::Allow),
        ("\n", Verdict::Allow, Verdict::Allow),
    ] {
        assert_eq!((text, typed(Some(&rules), text), typed(None, text)), (text, listed, free));
    }
}

#[test]
fn what_a_list_asks_about_is_asked_about_though_a_shorter_prefix_allows_it() {
    let rules = Rules { allow: vec!["git".into()], ask: vec!["git push".into()], ..Rules::default() };
    for (script, expected) in [
        ("git pull", Verdict::Allow),
        ("git push", Verdict::Ask),
        ("git -C x push -n", Verdict::Ask),
        ("echo 'x; git push", Verdict::Ask),
    ] {
        assert_eq!((script, policy::judge(&reads(script), &rules).verdict), (script, expected));
    }
}

#[test]
fn what_is_waived_is_not_asked_about_and_what_denies_stays() {
    let waive = |ids: &[&str]| Rules {
        default: policy::Answer::Allow,
        waive: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..Rules::default()
    };
    let verdict = |ids: &[&str], script: &str| policy::judge(&reads(script), &waive(ids)).verdict;
    assert_eq!(verdict(&[], "python3 -c 1"), Verdict::Ask);
    assert_eq!(verdict(&["inline_code"], "python3 -c 1"), Verdict::Allow);
    assert_eq!(verdict(&["inline_code"], "env"), Verdict::Ask);
    assert_eq!(verdict(&["hijack", "function"], "f() { A=1 ls; }; PATH=x f"), Verdict::Allow);
    assert_eq!(verdict(&["hijack", "function"], "f() { $A; }; PATH=x f"), Verdict::Ask);
    assert_eq!(verdict(&["delete_system", "unparsable"], "rm -rf /"), Verdict::Deny);
    assert_eq!(verdict(&["unparsable", "dynamic_command"], "$X"), Verdict::Ask);
}
