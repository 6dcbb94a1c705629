//! The whole way to an answer: a URL, what its host leads to, and every redirect after it.

use std::net::IpAddr;

use crate::{
    address::{self, Special},
    host_name::HostName,
    url::{BadUrl, Host, HostProblem, WebUrl, judge_host},
};

/// How many redirects are followed.
pub const MAX_REDIRECTS: usize = 5;

/// Judges a URL and the redirects that follow it, hop by hop, as far as the first that is refused.
///
/// `look_up` says what a name leads to: the answers of one look-up or of several in a row. Every hop must be read, its
/// host must be one of the public internet, and every answer must be a public address. Who connects uses the answers
/// that were judged and asks no second time, but who answers differently the second time is up to no good.
pub fn walk(text: &str, redirects: &[String], look_up: impl FnMut(&HostName) -> Answers) -> Route {
    let mut route = Route { hops: Vec::new(), stop: None };
    route.stop = go(text, redirects, look_up, &mut route.hops).err();
    route
}

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// Nobody has looked it up.
    Unknown,
    /// What each look-up found.
    Found(Vec<Vec<IpAddr>>),
}

/// A way, as far as it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where it leads, the URL first. The last hop is the one that was refused, if one was and its URL could be read.
    pub hops: Vec<Hop>,
    /// Why it ends early.
    pub stop: Option<Stop>,
}

impl Route {
    /// Every address on the way, once.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = Vec::new();
        for address in self.hops.iter().flat_map(|hop| &hop.addresses) {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        all
    }
}

/// One request on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// What is asked for.
    pub url: WebUrl,
    /// What its host leads to.
    pub addresses: Vec<IpAddr>,
}

/// Why a way ends early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// It cannot be read.
    #[error("{0}")]
    Url(#[from] BadUrl),
    /// Its host is not one of the public internet.
    #[error("{0}")]
    Host(#[from] HostProblem),
    /// Nobody said what the name leads to.
    #[error("`{0}` has not been looked up")]
    Unknown(HostName),
    /// The name leads nowhere.
    #[error("`{0}` has no address")]
    NoAnswer(HostName),
    /// The name leads to an address that is not public.
    #[error("`{name}` leads to `{address}`, which is {}", .special.about())]
    Answer {
        /// Who was looked up.
        name: HostName,
        /// What was found.
        address: IpAddr,
        /// What that is.
        special: Special,
    },
    /// A redirect gives up encryption.
    #[error("the redirect gives up encryption")]
    Downgrade,
    /// The way is too long.
    #[error("there are more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
}

impl Stop {
    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(bad) => bad.code(),
            Self::Host(problem) => problem.code(),
            Self::Unknown(_) => "not_looked_up",
            Self::NoAnswer(_) => "no_answer",
            Self::Answer { special, .. } => special.as_str(),
            Self::Downgrade => "downgrade",
            Self::TooManyRedirects => "too_many_redirects",
        }
    }
}

fn go(
    text: &str,
    redirects: &[String],
    mut look_up: impl FnMut(&HostName) -> Answers,
    hops: &mut Vec<Hop>,
) -> Result<(), Stop> {
    let mut url = WebUrl::read(text)?;
    visit(None, &url, &mut look_up, hops)?;
    for (followed, location) in redirects.iter().enumerate() {
        if followed == MAX_REDIRECTS {
            return Err(Stop::TooManyRedirects);
        }
        let next = url.join(location)?;
        visit(Some(&url), &next, &mut look_up, hops)?;
        url = next;
    }
    Ok(())
}

fn visit(
    from: Option<&WebUrl>,
    url: &WebUrl,
    look_up: &mut impl FnMut(&HostName) -> Answers,
    hops: &mut Vec<Hop>,
) -> Result<(), Stop> {
    let mut addresses: Vec<IpAddr> = url.host().address().into_iter().collect();
    let judged = judge(from, url, look_up, &mut addresses);
    hops.push(Hop { url: url.clone(), addresses });
    judged
}

fn judge(
    from: Option<&WebUrl>,
    url: &WebUrl,
    look_up: &mut impl FnMut(&HostName) -> Answers,
    addresses: &mut Vec<IpAddr>,
) -> Result<(), Stop> {
    judge_host(url.host())?;
    if from.is_some_and(|from| from.downgrades_to(url)) {
        return Err(Stop::Downgrade);
    }
    let Host::Name(name) = url.host() else {
        return Ok(());
    };
    let Answers::Found(found) = look_up(name) else {
        return Err(Stop::Unknown(name.clone()));
    };
    addresses.extend(found.iter().flatten());
    judge_answers(name, &found)
}

/// All or nothing: who controls a name controls which of its addresses is tried.
fn judge_answers(name: &HostName, found: &[Vec<IpAddr>]) -> Result<(), Stop> {
    if found.is_empty() || found.iter().any(Vec::is_empty) {
        return Err(Stop::NoAnswer(name.clone()));
    }
    for address in found.iter().flatten() {
        address::judge(*address).map_err(|special| Stop::Answer { name: name.clone(), address: *address, special })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "93.184.216.34";

    fn found(look_ups: &[&[&str]]) -> Answers {
        let read = |found: &&[&str]| found.iter().map(|address| address.parse().unwrap()).collect();
        Answers::Found(look_ups.iter().map(read).collect())
    }

    /// Every name leads to `answers`; the code of what stops the way, and the addresses on it.
    #[track_caller]
    fn check(url: &str, redirects: &[&str], answers: &Answers, expected: (Option<&str>, &[&str])) {
        let redirects: Vec<String> = redirects.iter().map(ToString::to_string).collect();
        let route = walk(url, &redirects, |_| answers.clone());
        let addresses: Vec<String> = route.addresses().iter().map(ToString::to_string).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        assert_eq!((route.stop.as_ref().map(Stop::code), &addresses[..]), expected, "{url} {redirects:?}");
    }

    #[test]
    fn every_answer_of_every_look_up_must_be_public() {
        for (answers, expected) in [
            (found(&[&[PUBLIC]]), (None, &[PUBLIC][..])),
            (found(&[&[PUBLIC], &["1.1.1.1", PUBLIC]]), (None, &[PUBLIC, "1.1.1.1"])),
            (found(&[&["64:ff9b::808:808"]]), (None, &["64:ff9b::808:808"])),
            (found(&[&[PUBLIC, "127.0.0.1"]]), (Some("loopback"), &[PUBLIC, "127.0.0.1"])),
            (found(&[&[PUBLIC], &["10.0.0.1"]]), (Some("private"), &[PUBLIC, "10.0.0.1"])),
            (found(&[&["::ffff:10.0.0.1"]]), (Some("private"), &["::ffff:10.0.0.1"])),
            (found(&[&["168.63.129.16"]]), (Some("metadata"), &["168.63.129.16"])),
            (found(&[&[]]), (Some("no_answer"), &[])),
            (found(&[]), (Some("no_answer"), &[])),
            (found(&[&[PUBLIC], &[]]), (Some("no_answer"), &[PUBLIC])),
            (Answers::Unknown, (Some("not_looked_up"), &[])),
        ] {
            check("http://docs.rs/", &[], &answers, expected);
        }
    }

    #[test]
    fn an_address_is_its_own_answer() {
        check("http://1.1.1.1/", &[], &Answers::Unknown, (None, &["1.1.1.1"]));
        check("http://1.1.1.1/", &[], &found(&[&["10.0.0.1"]]), (None, &["1.1.1.1"]));
        check("http://10.0.0.1/", &[], &found(&[&[PUBLIC]]), (Some("private"), &["10.0.0.1"]));
    }

    #[test]
    fn a_name_that_is_refused_is_not_looked_up() {
        let route = walk("http://a.internal/", &[], |name| unreachable!("{name} is looked up"));
        assert_eq!(route.stop.map(|stop| stop.code()), Some("internal_name"));
    }

    #[test]
    fn every_hop_is_judged_like_the_first() {
        let public = found(&[&[PUBLIC]]);
        for (redirects, expected) in [
            (&["/b", "https://crates.io/", "c"][..], (None, &[PUBLIC][..])),
            (&["https://1.1.1.1/"], (None, &[PUBLIC, "1.1.1.1"])),
            (&["https://crates.io/", "https://10.0.0.1/"], (Some("private"), &[PUBLIC, "10.0.0.1"])),
            (&["https://localhost/"], (Some("localhost_name"), &[PUBLIC])),
            (&["//0x7f.1/"], (Some("odd_address"), &[PUBLIC])),
            (&["https://user:p@crates.io/"], (Some("userinfo"), &[PUBLIC])),
            (&["file:///etc/passwd"], (Some("scheme_refused"), &[PUBLIC])),
            (&["http://crates.io/"], (Some("downgrade"), &[PUBLIC])),
            (&["http://127.0.0.1/"], (Some("loopback"), &[PUBLIC, "127.0.0.1"])),
            (&["1", "2", "3", "4", "5"], (None, &[PUBLIC])),
            (&["1", "2", "3", "4", "5", "6"], (Some("too_many_redirects"), &[PUBLIC])),
        ] {
            check("https://docs.rs/a", redirects, &public, expected);
        }
        check("http://docs.rs/", &["https://docs.rs/", "http://docs.rs/"], &public, (Some("downgrade"), &[PUBLIC]));
        check("http://docs.rs/", &["http://crates.io/"], &public, (None, &[PUBLIC]));
    }

    #[test]
    fn a_hop_is_judged_by_its_own_answers() {
        let route = walk("http://a.docs.rs/", &["http://b.docs.rs/".into()], |name| match name.as_str() {
            "a.docs.rs" => found(&[&[PUBLIC]]),
            _ => found(&[&["169.254.169.254"]]),
        });
        let name = HostName::parse("b.docs.rs").unwrap();
        let address = "169.254.169.254".parse().unwrap();
        assert_eq!(route.stop, Some(Stop::Answer { name, address, special: Special::Metadata }));
        let told = route.stop.unwrap().to_string();
        assert_eq!(
            told,
            "`b.docs.rs` leads to `169.254.169.254`, which is where a cloud hands out a machine's credentials"
        );
    }
}
