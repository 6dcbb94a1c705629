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
    visit(&url, &mut look_up, hops)?;
    for (followed, location) in redirects.iter().enumerate() {
        if followed == MAX_REDIRECTS {
            return Err(Stop::TooManyRedirects);
        }
        let next = url.join(location)?;
        if url.downgrades_to(&next) {
            return Err(Stop::Downgrade);
        }
        visit(&next, &mut look_up, hops)?;
        url = next;
    }
    Ok(())
}

fn visit(url: &WebUrl, look_up: &mut impl FnMut(&HostName) -> Answers, hops: &mut Vec<Hop>) -> Result<(), Stop> {
    let host = url.host();
    let judged = judge_host(host);
    let answers = match host {
        Host::Name(name) if judged.is_ok() => look_up(name),
        Host::Name(_) => Answers::Unknown,
        Host::V4(address) => Answers::Found(vec![vec![(*address).into()]]),
        Host::V6(address) => Answers::Found(vec![vec![(*address).into()]]),
    };
    let addresses = match &answers {
        Answers::Unknown => Vec::new(),
        Answers::Found(found) => found.concat(),
    };
    hops.push(Hop { url: url.clone(), addresses });
    judged?;
    match host {
        Host::Name(name) => judge_answers(name, &answers),
        Host::V4(_) | Host::V6(_) => Ok(()),
    }
}

/// All or nothing: who controls a name controls which of its addresses is tried.
fn judge_answers(name: &HostName, answers: &Answers) -> Result<(), Stop> {
    let Answers::Found(found) = answers else {
        return Err(Stop::Unknown(name.clone()));
    };
    if found.is_empty() || found.iter().any(Vec::is_empty) {
        return Err(Stop::NoAnswer(name.clone()));
    }
    for address in found.iter().flatten() {
        address::judge(*address).map_err(|special| Stop::Answer { name: name.clone(), address: *address, special })?;
    }
    Ok(())
}
