//! The inbox: what people are asked, with all they need to answer.

use askama::Template;
use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
};
use toolgate_contract::{Answer, Approval, ApprovalState, Principal, Scope};

use super::{Frame, Page, part, render, see, when};
use crate::{
    Shared,
    caller::{self, Caller},
    now_ms,
    people::{self, DiffLine, Picture},
    problem::Problem,
    text::Text,
};

/// How many of the answered ones are shown.
const ANSWERED: u32 = 25;

#[derive(Template)]
#[template(path = "approvals.html")]
struct Inbox {
    frame: Frame,
    waiting: Vec<Card>,
    answered: Vec<Card>,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct OnePage {
    frame: Frame,
    card: Card,
}

/// One question.
struct Card {
    id: Text,
    link: String,
    state: &'static str,
    tool: Text,
    agent: Text,
    asked_by: Text,
    when: String,
    expires: String,
    risk: &'static str,
    class: &'static str,
    action: Text,
    people: u8,
    yeses: usize,
    reasons: Vec<(Text, Text, Text)>,
    effects: Vec<(Text, Text)>,
    labels: Vec<Text>,
    command: Option<Text>,
    path: Option<Text>,
    lines: Vec<(&'static str, &'static str, Text)>,
    no_diff: Option<Text>,
    summary: Vec<Text>,
    arguments: Text,
    digest: String,
    call: String,
    votes: Vec<(Text, &'static str, Text, String)>,
    csrf: String,
    /// Why this person cannot answer; empty where they can.
    barred: &'static str,
}

impl Card {
    fn of(approval: &Approval, caller: &Caller) -> Self {
        let question = &approval.question;
        let picture = Picture::of(&question.picture, &question.arguments);
        let line = |line: DiffLine| match line {
            DiffLine::Gone(text) => ("gone", "- ", Text(text)),
            DiffLine::New(text) => ("new", "+ ", Text(text)),
            // A line that stays has its blank already; a second one puts it below those that change.
            DiffLine::Around(text) => ("around", if text.starts_with(' ') { " " } else { "" }, Text(text)),
        };
        let mut votes: Vec<_> = approval
            .votes
            .iter()
            .map(|vote| {
                let answer = if vote.answer == Answer::Yes { "yes" } else { "no" };
                (Text(vote.by.to_string()), answer, Text(vote.reason.clone()), when(vote.at_ms))
            })
            .collect();
        votes.extend(approval.timed_out.as_ref().map(|out| {
            let answer = if out.answer == Answer::Yes { "yes" } else { "no" };
            (Text("time".into()), answer, Text(out.why.clone()), when(out.at_ms))
        }));
        Self {
            id: Text(approval.id.to_string()),
            link: format!("/approvals/{}", part(&approval.id.0)),
            state: approval.state.as_str(),
            tool: Text(question.tool.clone()),
            agent: Text(question.agent.to_string()),
            asked_by: Text(question.principal.to_string()),
            when: when(approval.created_ms),
            expires: question.expires_ms.map(when).unwrap_or_default(),
            risk: question.risk.as_str(),
            class: question.class.as_str(),
            action: Text(question.action.clone()),
            people: question.people,
            yeses: approval.yeses(),
            reasons: question
                .reasons
                .iter()
                .map(|why| (Text(why.rule.clone()), Text(why.text.clone()), Text(why.source.clone())))
                .collect(),
            effects: question
                .effects
                .iter()
                .map(|effect| {
                    let kind = Text::of(&serde_json::json!(effect.kind));
                    (kind, Text(effect.target.clone().unwrap_or_default()))
                })
                .collect(),
            labels: question.labels.iter().cloned().map(Text).collect(),
            command: picture.command.map(Text),
            path: picture.path.map(Text),
            lines: picture.lines.into_iter().map(line).collect(),
            no_diff: picture.no_diff.map(Text),
            summary: picture.summary.into_iter().map(Text).collect(),
            arguments: Text::json(&question.arguments),
            digest: question.digest.to_string(),
            call: format!("/calls/{}", part(&question.call.0)),
            votes,
            csrf: caller.csrf().to_owned(),
            barred: barred(approval, caller),
        }
    }
}

/// What would be said to this person if they answered. The answer itself is judged where it is kept.
fn barred(approval: &Approval, caller: &Caller) -> &'static str {
    let Principal::Person(person) = &caller.principal else { return "only people answer" };
    if approval.state != ApprovalState::Waiting || approval.is_late(now_ms()) {
        "it no longer takes answers"
    } else if !caller.may(Scope::Approve) {
        "to answer takes the scope `approve`"
    } else if approval.question.principal == caller.principal {
        "you made this call, and cannot answer for it"
    } else if approval.votes.iter().any(|vote| vote.by == *person) {
        "you have answered; another person has to"
    } else if !approval.may_approve.is_empty() && !approval.may_approve.contains(person) {
        "it is for others to answer"
    } else {
        ""
    }
}

pub(super) async fn list(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let mut waiting = people::questions(&shared, vec![ApprovalState::Waiting], None, 200).await?;
    // Whoever waits longest comes first.
    waiting.reverse();
    let others = ApprovalState::ALL.iter().copied().filter(|state| *state != ApprovalState::Waiting).collect();
    let answered = people::questions(&shared, others, None, ANSWERED).await?;
    let cards = |all: &[Approval]| all.iter().map(|approval| Card::of(approval, &caller)).collect::<Vec<_>>();
    let (waiting, answered) = (cards(&waiting), cards(&answered));
    render(&Inbox { frame: Frame::new("Approvals", "approvals", &caller), waiting, answered })
}

pub(super) async fn one(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Page {
    let approval = people::question(&shared, &id).await?;
    let card = Card::of(&approval, &caller);
    render(&OnePage { frame: Frame::new("One question", "approvals", &caller), card })
}

pub(super) async fn answer(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Page {
    let field = |name| caller::field(&headers, &bytes, name).unwrap_or_default();
    let answer = match &*field("answer") {
        "yes" => Answer::Yes,
        "no" => Answer::No,
        _ => return Err(Problem::bad_request("the form does not say yes or no", "Load the page again.")),
    };
    people::answer(&shared, &id, &caller.person()?, answer, &field("reason")).await?;
    Ok(see("/approvals"))
}
