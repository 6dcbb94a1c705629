//! What people agreed to: the only way from a question to a permit.

use serde_json::Value;
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalState, Covers, Digest, Grant, Principal, Reason, SafetyClass,
};

use crate::{Permit, covers};

/// The right to run one call, if people agree.
#[derive(Debug)]
pub struct Asking {
    /// So many must.
    pub people: u8,
    /// Why they are asked.
    pub reasons: Vec<Reason>,
    permit: Permit,
}

/// The call people are asked about.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The hash of everything a yes would approve.
    pub question: &'a Digest,
    /// Who wants it.
    pub agent: &'a AgentName,
    /// Who makes the call.
    pub by: &'a Principal,
    /// Which tool.
    pub tool: &'a str,
    /// The hash of its definition.
    pub definition: &'a Digest,
    /// Its class.
    pub class: SafetyClass,
    /// The arguments as they came: what is filled in is the definition's, which the question names.
    pub arguments: &'a Value,
}

impl Asking {
    pub(crate) fn new(people: u8, reasons: Vec<Reason>, permit: Permit) -> Self {
        Self { people, reasons, permit }
    }

    /// The permit, if what was agreed to is this question and enough people did.
    pub fn agreed(self, question: &Digest, agreed: &Agreed) -> Result<Permit, Self> {
        if agreed.question == *question && agreed.people >= self.people { Ok(self.permit) } else { Err(self) }
    }
}

/// People agreed to one question.
#[derive(Debug)]
pub struct Agreed {
    question: Digest,
    people: u8,
}

impl Agreed {
    /// By an approval whose yes was just used. One that is not used yet proves nothing: somebody else may use it.
    pub fn by_approval(approval: &Approval) -> Option<Self> {
        if approval.state != ApprovalState::Used {
            return None;
        }
        let in_silence = approval.timed_out.as_ref().is_some_and(|out| out.answer == Answer::Yes);
        let people = u8::try_from(approval.yeses()).unwrap_or(u8::MAX).max(u8::from(in_silence));
        (people > 0).then_some(Self { question: approval.question.digest, people })
    }

    /// By a grant, if it covers the call. Where two people are needed no grant does, and what spends money or acts with
    /// rights an agent does not have is granted call by call. Nobody grants what they call for themselves, nor what they
    /// have not seen: a tool whose definition changed is another one.
    pub fn by_grant(grant: &Grant, wanted: &Wanted<'_>) -> Option<Self> {
        let terms = &grant.terms;
        let is_covered = match &terms.covers {
            Covers::Exactly(question) => question == wanted.question,
            Covers::Arguments(patterns) => wanted.class < SafetyClass::Financial && covers(patterns, wanted.arguments),
        };
        let is_known = terms.tool == wanted.tool && terms.definition.as_ref() == Some(wanted.definition);
        let is_theirs = terms.agent == *wanted.agent && is_known;
        let is_own = matches!(wanted.by, Principal::Person(person) if *person == terms.by);
        (is_theirs && is_covered && !is_own).then_some(Self { question: *wanted.question, people: 1 })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contract::{ApprovalId, CallId, GrantId, GrantTerms, Needs, Person, Question, Risk, TimedOut, Vote};

    use super::*;

    fn asking(people: u8) -> Asking {
        Asking::new(people, Vec::new(), Permit::of_operator(Needs::NOTHING))
    }

    fn approval(state: ApprovalState, yeses: &[&str], in_silence: bool) -> Approval {
        let question = Question {
            digest: Digest::of(b"q"),
            deed: None,
            call: CallId("c".into()),
            agent: AgentName::from("coder"),
            principal: Principal::Agent(AgentName::from("coder")),
            tool: "pay".into(),
            definition: Digest::of(b"d"),
            arguments: json!({}),
            reasons: Vec::new(),
            people: 1,
            risk: Risk::Low,
            class: SafetyClass::Write,
            action: "code:write".into(),
            effects: Vec::new(),
            labels: Vec::new(),
            picture: Value::Null,
            may_approve: Vec::new(),
            expires_ms: None,
            once: None,
        };
        let vote = |by: &&str| Vote { by: Person::from(*by), answer: Answer::Yes, reason: String::new(), at_ms: 1 };
        let timed_out = TimedOut { answer: Answer::Yes, why: String::new(), at_ms: 1 };
        Approval {
            id: ApprovalId::of(&question.digest, 1),
            round: 1,
            question,
            state,
            votes: yeses.iter().map(vote).collect(),
            timed_out: in_silence.then_some(timed_out),
            may_approve: Vec::new(),
            step: 0,
            escalated_ms: None,
            created_ms: 0,
            decided_ms: None,
            used_ms: None,
        }
    }

    #[test]
    fn a_yes_that_was_used_is_a_permit_for_its_question_and_for_so_many_people() {
        let check = |approval: Approval, question: &[u8], people: u8, expected: bool| {
            let agreed = Agreed::by_approval(&approval);
            let permit = agreed.and_then(|agreed| asking(people).agreed(&Digest::of(question), &agreed).ok());
            assert_eq!(permit.is_some(), expected, "{approval:?} {people}");
        };
        let used = |yeses: &[&str]| approval(ApprovalState::Used, yeses, false);
        check(used(&["ann"]), b"q", 1, true);
        check(used(&["ann", "bob"]), b"q", 2, true);
        check(used(&["ann"]), b"q", 2, false);
        check(used(&["ann"]), b"other", 1, false);
        check(used(&[]), b"q", 1, false);
        assert!(Agreed::by_approval(&used(&[])).is_none(), "nobody said yes");
        check(approval(ApprovalState::Used, &[], true), b"q", 1, true);
        check(approval(ApprovalState::Used, &[], true), b"q", 2, false);
        for state in [ApprovalState::Waiting, ApprovalState::Approved, ApprovalState::Denied, ApprovalState::Expired] {
            check(approval(state, &["ann"], false), b"q", 1, false);
        }
    }

    #[test]
    fn a_grant_is_for_one_agent_one_tool_and_what_it_covers() {
        let check = |terms: GrantTerms, class: SafetyClass, people: u8, expected: bool| {
            let (question, agent, arguments) = (Digest::of(b"q"), AgentName::from("coder"), json!({ "path": "src/a" }));
            let definition = &Digest::of(b"d");
            let grant = Grant { id: GrantId("g".into()), terms, left: 1, created_ms: 0, revoked: None };
            let is_permitted = |by: &Principal| {
                let (question, agent, arguments) = (&question, &agent, &arguments);
                let wanted = Wanted { question, agent, by, tool: "write", definition, class, arguments };
                let agreed = Agreed::by_grant(&grant, &wanted);
                agreed.is_some_and(|agreed| asking(people).agreed(question, &agreed).is_ok())
            };
            let bob = Principal::Person(Person::from("bob"));
            for by in [&Principal::Agent(agent.clone()), &bob] {
                assert_eq!(is_permitted(by), expected, "{grant:?} {class} {people} {by}");
            }
            assert!(!is_permitted(&Principal::Person(grant.terms.by.clone())), "{grant:?}");
        };
        let terms = |agent: &str, tool: &str, covers: Covers| GrantTerms {
            agent: AgentName::from(agent),
            tool: tool.into(),
            definition: Some(Digest::of(b"d")),
            covers,
            uses: 1,
            until_ms: None,
            by: Person::from("ann"),
            reason: String::new(),
        };
        let exactly = || Covers::Exactly(Digest::of(b"q"));
        let matching = |pattern: &str| Covers::Arguments([("path".to_owned(), pattern.to_owned())].into());
        check(terms("coder", "write", exactly()), SafetyClass::Write, 1, true);
        check(terms("coder", "write", exactly()), SafetyClass::Privileged, 1, true);
        check(terms("coder", "write", exactly()), SafetyClass::Privileged, 2, false);
        check(terms("coder", "write", Covers::Exactly(Digest::of(b"r"))), SafetyClass::Write, 1, false);
        check(terms("other", "write", exactly()), SafetyClass::Write, 1, false);
        check(terms("coder", "read", exactly()), SafetyClass::Write, 1, false);
        check(terms("coder", "write", matching("src/*")), SafetyClass::Network, 1, true);
        check(terms("coder", "write", matching("doc/*")), SafetyClass::Write, 1, false);
        check(terms("coder", "write", matching("src/*")), SafetyClass::Financial, 1, false);
        for definition in [Some(Digest::of(b"other")), None] {
            for covers in [exactly(), matching("src/*")] {
                check(GrantTerms { definition, ..terms("coder", "write", covers) }, SafetyClass::Write, 1, false);
            }
        }
    }
}
