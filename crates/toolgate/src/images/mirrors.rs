//! Where packages come from: the Debian mirrors that this machine's apt uses.
//!
//! Only Debian's own: what another source of this machine offers under the name of a package would be in the image on
//! this machine, and on no other. Which keys are believed is not left to the machine either.

use std::{path::Path, process::Command};

use toolgate_contract::Fault;
use toolgate_runtime::config::Recipe;

/// The keys of Debian's releases.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What apt is asked for each of its sources.
const FORMAT: &str = "$(SITE)\t$(CODENAME)\t$(ORIGIN)";

/// Where packages come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mirrors {
    /// Lines of a `sources.list`.
    pub(super) sources: Vec<String>,
    /// Settings of apt: the proxies that lead there.
    pub(super) settings: Vec<String>,
}

/// The mirrors for the release of a recipe.
pub(super) fn of(recipe: &Recipe) -> Result<Mirrors, Fault> {
    if !Path::new(KEYRING).is_file() {
        let message = format!("Debian's keys are not there: `{KEYRING}`");
        return Err(Fault::failed("no_debian_keys", message, "Install the package `debian-archive-keyring`."));
    }
    let targets = ask("apt-get", &["indextargets", "--format", FORMAT, "Created-By: Packages"])?;
    let sources = sources(&targets, &recipe.suite);
    if sources.is_empty() {
        let remedy = "Add a Debian mirror to apt's sources and run `apt-get update`.";
        return Err(Fault::failed("no_debian_mirror", "apt on this machine knows no Debian mirror", remedy));
    }
    Ok(Mirrors { sources, settings: proxies(&ask("apt-config", &["dump"])?) })
}

fn ask(program: &str, args: &[&str]) -> Result<String, Fault> {
    let failed = |why: &str| {
        let remedy = "Use a machine with Debian's apt, and see that this command works there.";
        Fault::failed("apt_failed", format!("`{program} {}` failed: {why}", args.join(" ")), remedy)
    };
    let asked = Command::new(program).args(args).env("LC_ALL", "C.UTF-8").output();
    let answer = asked.map_err(|error| failed(&error.to_string()))?;
    if !answer.status.success() {
        return Err(failed(String::from_utf8_lossy(&answer.stderr).trim()));
    }
    String::from_utf8(answer.stdout).map_err(|_| failed("it does not answer in UTF-8"))
}

/// One line for each of a mirror's parts, for this release whatever the machine's own is.
fn sources(targets: &str, suite: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for target in targets.lines() {
        let mut fields = target.split('\t');
        let (Some(site), Some(codename), Some("Debian")) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        // A mirror has the release, its updates and its corrections. Of backports and proposals nothing is wanted.
        let part = match codename.split_once('-') {
            None => "",
            Some((_, "updates")) => "-updates",
            Some((_, "security")) => "-security",
            Some(_) => continue,
        };
        let line = format!("deb [signed-by={KEYRING}] {site} {suite}{part} main");
        if !site.contains(char::is_whitespace) && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn proxies(settings: &str) -> Vec<String> {
    let is_proxy = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        name.starts_with("acquire::") && (name.contains("::proxy") && !line.ends_with("\"\";"))
    };
    settings.lines().filter(is_proxy).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{KEYRING, proxies, sources};

    fn check(targets: &str, expected: &[&str]) {
        let expected: Vec<String> =
            expected.iter().map(|rest| format!("deb [signed-by={KEYRING}] {rest} main")).collect();
        assert_eq!(sources(targets, "trixie"), expected, "{targets}");
    }

    #[test]
    fn a_mirror_is_asked_for_the_release_of_the_recipe() {
        let machine = "http://m/debian\tbookworm\tDebian\n\
            http://m/debian\tbookworm-updates\tDebian\n\
            http://m/debian-security\tbookworm-security\tDebian\n";
        let expected =
            ["http://m/debian trixie", "http://m/debian trixie-updates", "http://m/debian-security trixie-security"];
        check(machine, &expected);
    }

    #[test]
    fn only_debian_is_asked() {
        check("https://node.example/20\tnodistro\t. nodistro\nhttp://u/ubuntu\tnoble\tUbuntu\n", &[]);
        // Nothing is known about a source before `apt-get update`.
        check("http://m/debian\t\t\n", &[]);
    }

    #[test]
    fn neither_backports_nor_the_same_twice() {
        check("http://m/debian\tbookworm-backports\tDebian\n", &[]);
        check("http://m/debian\tbookworm\tDebian\nhttp://m/debian\tbookworm\tDebian\n", &["http://m/debian trixie"]);
    }

    #[test]
    fn a_site_adds_no_words_of_its_own() {
        check("http://m/debian [trusted=yes]\tbookworm\tDebian\n", &[]);
    }

    #[test]
    fn proxies_are_passed_on_and_nothing_else() {
        let dump = "APT \"\";\nAcquire::http::Proxy \"http://p:3142\";\nAcquire::https::Proxy::m \"DIRECT\";\n\
            Acquire::http::Proxy \"\";\nAcquire::Languages:: \"none\";\nDPkg::Post-Invoke:: \"x Acquire::Proxy\";\n";
        let expected = ["Acquire::http::Proxy \"http://p:3142\";", "Acquire::https::Proxy::m \"DIRECT\";"];
        assert_eq!(proxies(dump), expected);
    }
}
