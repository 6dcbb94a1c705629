//! A forge behind a connection: asks it, and reads what it says.

use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use toolgate_contract::{Fault, WebLimits, WebRequest, WebResponse};

use super::{
    ask::{Ask, NewPull, SEGMENT, Service},
    fault::{CONFLICT, UNREADABLE, in_answer},
    place::{Head, Repository},
    pull::{ChangedFile, Comment, Filter, MergeMethod, Pull, Whole},
    read::Merged,
};
use crate::{Cx, once::pass_on};

/// How long one request may take.
const WALL: Duration = Duration::from_secs(30);

/// How many pages of one list are turned at most, and how long they are at least: what is wanted may be rare.
const MOST_PAGES: usize = 10;
const LEAST_PAGE: usize = 30;

/// A forge behind a connection.
pub(super) struct Forge<'a> {
    cx: &'a Cx,
    connection: String,
    service: Service,
    /// From the connection's address to the API.
    root: &'static str,
}

/// The beginning of a list.
#[derive(Debug)]
pub(super) struct Beginning<T> {
    pub(super) items: Vec<T>,
    /// There may be more.
    pub(super) more: bool,
}

impl<'a> Forge<'a> {
    pub(super) fn at(cx: &'a Cx, connection: &str) -> Result<Self, Fault> {
        let (service, root) = Service::at(&cx.web()?.connection(connection)?)?;
        Ok(Self { cx, connection: connection.to_owned(), service, root })
    }

    pub(super) fn create(&self, repository: &Repository, new: &NewPull) -> Result<Pull, Fault> {
        let answer = self.send(&self.service.create(repository, new)?)?;
        Ok(readable(self.service.read_pull(&answer.body))?.pull)
    }

    pub(super) fn list(
        &self,
        repository: &Repository,
        filter: &Filter,
        head: Option<&Head>,
        most: usize,
    ) -> Result<Beginning<Pull>, Fault> {
        let ask = self.service.list(repository, filter, head)?;
        self.turn_pages(ask, most, Service::read_pulls, |pull| filter.wants(pull))
    }

    pub(super) fn view(&self, repository: &Repository, number: u64) -> Result<Whole, Fault> {
        let answer = self.send(&self.service.view(repository, number)?)?;
        readable(self.service.read_pull(&answer.body))
    }

    pub(super) fn comments(
        &self,
        repository: &Repository,
        number: u64,
        most: usize,
    ) -> Result<Beginning<Comment>, Fault> {
        self.turn_pages(self.service.comments(repository, number)?, most, Service::read_comments, |_| true)
    }

    pub(super) fn files(
        &self,
        repository: &Repository,
        number: u64,
        most: usize,
    ) -> Result<Beginning<ChangedFile>, Fault> {
        self.turn_pages(self.service.files(repository, number)?, most, Service::read_files, |_| true)
    }

    pub(super) fn comment(&self, repository: &Repository, number: u64, text: &str) -> Result<Comment, Fault> {
        let answer = self.send(&self.service.comment(repository, number, text)?)?;
        readable(self.service.read_comment(&answer.body))
    }

    /// Merges exactly this commit, and gives the commit that made, where the forge tells.
    pub(super) fn merge(
        &self,
        repository: &Repository,
        number: u64,
        how: MergeMethod,
        head: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        let answer = self.send(&self.service.merge(repository, number, how, head)?)?;
        match readable(self.service.read_merged(&answer.body))? {
            Merged { done: true, commit } => Ok(commit),
            Merged { done: false, .. } => Err(CONFLICT.failed(
                "the forge took the request and did not merge",
                "Look at the pull request with `pr_view`, then decide again.",
            )),
        }
    }

    pub(super) fn delete_branch(&self, repository: &Repository, branch: &str) -> Result<(), Fault> {
        self.send(&self.service.delete_branch(repository, branch)?).map(drop)
    }

    /// Collects what is wanted of a list, page by page.
    fn turn_pages<T>(
        &self,
        ask: Ask,
        most: usize,
        read: fn(Service, &[u8]) -> serde_json::Result<Vec<T>>,
        wants: impl Fn(&T) -> bool,
    ) -> Result<Beginning<T>, Fault> {
        let mut items = Vec::new();
        let mut more = true;
        for page in 1..=MOST_PAGES {
            self.cx.check()?;
            let mut ask = ask.clone();
            ask.query.extend(self.service.page(page, most.max(LEAST_PAGE)));
            let answer = self.send(&ask)?;
            items.extend(readable(read(self.service, &answer.body))?.into_iter().filter(&wants));
            more = has_next(&answer);
            if !more || items.len() >= most {
                break;
            }
        }
        more |= items.len() > most;
        items.truncate(most);
        Ok(Beginning { items, more })
    }

    fn send(&self, ask: &Ask) -> Result<WebResponse, Fault> {
        let mut url = format!("{}{}", self.root, ask.path);
        for (i, (name, value)) in ask.query.iter().enumerate() {
            url.push(if i == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.extend(utf8_percent_encode(value, SEGMENT));
        }
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut headers: Vec<_> = self.service.headers().iter().map(own).collect();
        if ask.body.is_some() {
            headers.push(("content-type".into(), "application/json".into()));
        }
        if ask.method.writes() {
            pass_on(self.cx, &mut headers)?;
        }
        let request = WebRequest {
            method: ask.method,
            url,
            headers,
            body: ask.body.as_ref().map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            connection: Some(self.connection.clone()),
            polite: false,
            limits: WebLimits { wall: WALL, redirects: 0, ..WebLimits::default() },
        };
        let answer = self.cx.web()?.send(&request, self.cx.stop_flag())?;
        match answer.status {
            200..300 => Ok(answer),
            _ => Err(in_answer(&answer, ask.method.writes())),
        }
    }
}

fn readable<T>(read: serde_json::Result<T>) -> Result<T, Fault> {
    // Where it goes wrong is told, what stands there is not: somebody else wrote it.
    read.map_err(|error| {
        UNREADABLE.failed(
            format!("the forge's answer cannot be read, at line {} column {}", error.line(), error.column()),
            "Ask the operator whether the connection's `kind` and address are right.",
        )
    })
}

/// All three say with a link whether there is another page.
fn has_next(answer: &WebResponse) -> bool {
    answer.header("link").is_some_and(|links| links.contains("rel=\"next\""))
}
