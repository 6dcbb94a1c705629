//! What every [`State`] promises. An implementation runs the whole suite on a place of its own.

use std::{sync::Arc, time::Duration};

use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, ApprovalState, Cost, Digest, Exceeded, Grant, Latch, LatchKind, Limit,
    LoginCode, Meter, Once, OnceState, Principal, Question, Resolution, Resolved, Revoked, Risk, TimedOut, Token,
    Totals, Vote, Window,
};
use toolgate_store::{
    StoreError,
    state::{
        Account, ApprovalFilter, CompleteError, Completed, EffectFilter, Filed, MOST_WAITING, Reservation, Reserved,
        State, Taken, Ticket, VoteError,
    },
};

use crate::things::{
    NOW, account, code, coder, every_effect, every_round, evidence, key, no, outcome, person, question, requester,
    reservation, terms, token, yes,
};

/// Somewhere a state is kept, for one test.
pub(crate) trait Place {
    /// Another instance of the same state.
    fn open(&self) -> Arc<dyn State>;
}

/// Asks, and expects to be the first to do so.
async fn ask(state: &dyn State, question: Question) -> Approval {
    match state.file(question, NOW).await.unwrap() {
        Filed::New(approval) => approval,
        standing => panic!("it was asked before: {standing:?}"),
    }
}

/// A question that was answered with yes.
async fn approved(state: &dyn State, name: &str) -> Approval {
    let asked = ask(state, question(name)).await;
    state.vote(asked.id, yes("user:bob"), NOW).await.unwrap()
}

async fn take(state: &dyn State, name: &str, now_ms: u64) -> Taken {
    state.take(Digest::of(name.as_bytes()), requester(), now_ms).await.unwrap()
}

/// Claims an effect, and expects to be the one who may try.
async fn claim(state: &dyn State, wanted: Reservation) -> Ticket {
    match state.reserve(wanted, NOW).await.unwrap() {
        Reserved::Fresh(ticket) => ticket,
        other => panic!("it is not to be had: {other:?}"),
    }
}

pub(crate) async fn a_question_is_asked_once_while_it_counts(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, question("one")).await;
    let expected = Approval {
        id: ApprovalId::of(&Digest::of(b"one"), 1),
        round: 1,
        question: question("one"),
        state: ApprovalState::Waiting,
        votes: vec![],
        timed_out: None,
        may_approve: vec![],
        step: 0,
        escalated_ms: None,
        created_ms: NOW,
        decided_ms: None,
        used_ms: None,
    };
    assert_eq!(asked, expected);
    assert_eq!(state.approval(asked.id.clone()).await.unwrap(), Some(asked.clone()));
    // The same while it waits, from another program too, whatever else the second question says.
    let again = Question { picture: "another".into(), ..question("one") };
    assert_eq!(place.open().file(again, NOW + 1).await.unwrap(), Filed::Standing(asked.clone()));
    let voted = state.vote(asked.id, yes("user:bob"), NOW + 2).await.unwrap();
    assert_eq!(state.file(question("one"), NOW + 3).await.unwrap(), Filed::Standing(voted.clone()));
    assert_eq!(state.approvals(every_round()).await.unwrap(), [voted]);
}

pub(crate) async fn a_question_after_its_answer_is_a_new_round(place: &dyn Place) {
    let state = place.open();
    let first = ask(&*state, question("one")).await;
    state.vote(first.id, no("user:bob"), NOW).await.unwrap();
    let second = ask(&*state, question("one")).await;
    assert_eq!((second.round, second.id.clone()), (2, ApprovalId::of(&Digest::of(b"one"), 2)));
    state.vote(second.id, yes("user:bob"), NOW).await.unwrap();
    assert!(matches!(take(&*state, "one", NOW).await, Taken::Yes(_)));
    let third = ask(&*state, Question { expires_ms: Some(NOW + 10), ..question("one") }).await;
    assert_eq!(third.round, 3);
    // Past its time and not yet told so: the next one does not wait for that.
    let Filed::New(fourth) = state.file(question("one"), NOW + 10).await.unwrap() else { panic!("it is late") };
    assert_eq!((fourth.round, fourth.state), (4, ApprovalState::Waiting));
    let states = state.approvals(every_round()).await.unwrap().into_iter().map(|round| round.state);
    use ApprovalState::{Denied, Used, Waiting};
    assert_eq!(states.collect::<Vec<_>>(), [Waiting, Waiting, Used, Denied]);
}

pub(crate) async fn rounds_are_listed_newest_first(place: &dyn Place) {
    let state = place.open();
    for name in ["one", "two", "three"] {
        ask(&*state, question(name)).await;
    }
    let other = AgentName::from("other");
    ask(&*state, Question { agent: other.clone(), ..question("four") }).await;
    state.vote(ApprovalId::of(&Digest::of(b"two"), 1), no("user:bob"), NOW).await.unwrap();
    let list = async |filter: ApprovalFilter| {
        let rounds = state.approvals(filter).await.unwrap().into_iter();
        rounds.map(|round| round.question.call.0.replace("call of ", "")).collect::<Vec<_>>()
    };
    assert_eq!(list(every_round()).await, ["four", "three", "two", "one"]);
    assert_eq!(list(ApprovalFilter { limit: 2, ..every_round() }).await, ["four", "three"]);
    assert_eq!(list(ApprovalFilter { agent: Some(other), ..every_round() }).await, ["four"]);
    let waiting = ApprovalFilter { states: vec![ApprovalState::Waiting], agent: Some(coder()), limit: 9 };
    assert_eq!(list(waiting).await, ["three", "one"]);
    let ended = ApprovalFilter { states: vec![ApprovalState::Denied, ApprovalState::Used], ..every_round() };
    assert_eq!(list(ended).await, ["two"]);
}

pub(crate) async fn of_one_agent_so_many_questions_wait_and_no_more(place: &dyn Place) {
    let state = place.open();
    let numbered = |n: u32| question(&n.to_string());
    for n in 0..MOST_WAITING {
        ask(&*state, numbered(n)).await;
    }
    let file = async |question: Question, now_ms| state.file(question, now_ms).await.unwrap();
    assert_eq!(file(question("more"), NOW).await, Filed::TooMany);
    assert!(matches!(file(numbered(0), NOW).await, Filed::Standing(_)), "it is asked already");
    ask(&*state, Question { agent: AgentName::from("other"), ..question("theirs") }).await;
    state.vote(ApprovalId::of(&numbered(7).digest, 1), no("user:bob"), NOW).await.unwrap();
    ask(&*state, question("more")).await;
    assert_eq!(file(question("still more"), NOW).await, Filed::TooMany);
    assert!(matches!(file(question("still more"), NOW + 60_000).await, Filed::New(_)), "the others are late");
}

pub(crate) async fn what_waits_is_given_by_its_end_and_in_pages(place: &dyn Place) {
    let state = place.open();
    for (name, end) in [("b", Some(20)), ("d", Some(30)), ("e", None), ("a", Some(10)), ("c", Some(20)), ("f", None)] {
        ask(&*state, Question { expires_ms: end.map(|end| NOW + end), ..question(name) }).await;
    }
    let id = |name: &str| ApprovalId::of(&Digest::of(name.as_bytes()), 1);
    state.vote(id("d"), yes("user:bob"), NOW).await.unwrap();
    let check = async |after: Option<&str>, most: u32, expected: &[&str]| {
        let page = state.waiting(after.map(id), most).await.unwrap();
        let names: Vec<_> = page.into_iter().map(|round| round.id).collect();
        assert_eq!(names, expected.iter().map(|name| id(name)).collect::<Vec<_>>(), "{after:?}");
    };
    check(None, 9, &["a", "b", "c", "e", "f"]).await;
    check(None, 2, &["a", "b"]).await;
    check(Some("b"), 2, &["c", "e"]).await;
    check(Some("d"), 2, &["e", "f"]).await;
    check(Some("f"), 2, &[]).await;
}

pub(crate) async fn one_yes_is_enough_where_one_is_needed(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, question("one")).await;
    let voted = state.vote(asked.id.clone(), yes("user:bob"), NOW + 5).await.unwrap();
    let vote = Vote { by: person("user:bob"), answer: Answer::Yes, reason: "looks right".to_owned(), at_ms: NOW + 5 };
    let expected =
        Approval { state: ApprovalState::Approved, votes: vec![vote], decided_ms: Some(NOW + 5), ..asked.clone() };
    assert_eq!(voted, expected);
    let refused = VoteError::NotWaiting { id: asked.id.clone(), state: ApprovalState::Approved };
    assert_eq!(state.vote(asked.id.clone(), no("user:cas"), NOW + 6).await, Err(refused));
    assert_eq!(state.approval(asked.id).await.unwrap(), Some(expected));
}

pub(crate) async fn two_people_are_two_different_people(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, Question { people: 2, risk: Risk::Critical, ..question("one") }).await;
    let once = state.vote(asked.id.clone(), yes("user:bob"), NOW).await.unwrap();
    assert_eq!((once.state, once.votes.len()), (ApprovalState::Waiting, 1));
    assert!(matches!(take(&*state, "one", NOW).await, Taken::Waiting(_)));
    let twice = place.open().vote(asked.id.clone(), yes("user:bob"), NOW).await;
    assert_eq!(twice, Err(VoteError::AlreadyVoted(person("user:bob"))));
    // Nor may they take it back: another person decides.
    let back = state.vote(asked.id.clone(), no("user:bob"), NOW).await;
    assert_eq!(back, Err(VoteError::AlreadyVoted(person("user:bob"))));
    assert_eq!(state.approval(asked.id.clone()).await.unwrap(), Some(once));
    let both = state.vote(asked.id, yes("user:cas"), NOW).await.unwrap();
    let voters: Vec<_> = both.votes.iter().map(|vote| &*vote.by.0).collect();
    assert_eq!((both.state, voters), (ApprovalState::Approved, vec!["user:bob", "user:cas"]));
    assert!(matches!(take(&*state, "one", NOW).await, Taken::Yes(_)));
}

pub(crate) async fn one_no_denies_at_once(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, Question { people: 2, ..question("one") }).await;
    state.vote(asked.id.clone(), yes("user:bob"), NOW).await.unwrap();
    let denied = state.vote(asked.id.clone(), no("user:cas"), NOW + 1).await.unwrap();
    assert_eq!((denied.state, denied.denial()), (ApprovalState::Denied, Some("not on a Friday")));
    let refused = VoteError::NotWaiting { id: asked.id.clone(), state: ApprovalState::Denied };
    for ballot in [yes("user:dan"), yes("user:cas"), no("user:dan")] {
        assert_eq!(state.vote(asked.id.clone(), ballot, NOW + 2).await, Err(refused.clone()));
    }
    assert_eq!(take(&*state, "one", NOW + 2).await, Taken::Denied(denied));
}

pub(crate) async fn a_no_is_to_a_deed(place: &dyn Place) {
    let state = place.open();
    let deed = Digest::of(b"deed of one");
    let denied = async |now_ms| state.denied(deed, now_ms).await.unwrap();
    let asked = ask(&*state, question("one")).await;
    let other = ask(&*state, Question { deed: Some(deed), ..question("one under another key") }).await;
    approved(&*state, "two").await;
    assert_eq!(denied(NOW).await, None);
    state.vote(other.id, yes("user:bob"), NOW).await.unwrap();
    let no = state.vote(asked.id, no("user:bob"), NOW).await.unwrap();
    assert_eq!(denied(NOW + 59_999).await, Some(no));
    assert_eq!(denied(NOW + 60_000).await, None);
    assert_eq!(state.denied(Digest::of(b"deed of two"), NOW).await.unwrap(), None);
}

pub(crate) async fn nobody_approves_what_they_asked_for(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, question("one")).await;
    for ballot in [yes("user:ann"), no("user:ann")] {
        let refused = state.vote(asked.id.clone(), ballot, NOW).await;
        assert_eq!(refused, Err(VoteError::SelfApproval(person("user:ann"))));
    }
    assert_eq!(state.approval(asked.id.clone()).await.unwrap(), Some(asked));
    // Not even where the list of those who may answer names them.
    let named = Question { may_approve: vec![person("user:ann")], ..question("two") };
    let asked = ask(&*state, named).await;
    let refused = state.vote(asked.id, yes("user:ann"), NOW).await;
    assert_eq!(refused, Err(VoteError::SelfApproval(person("user:ann"))));
    // An agent's question is anybody's to answer.
    let asked = ask(&*state, Question { principal: Principal::Agent(coder()), ..question("three") }).await;
    assert_eq!(state.vote(asked.id, yes("user:ann"), NOW).await.unwrap().state, ApprovalState::Approved);
}

pub(crate) async fn only_those_named_may_answer(place: &dyn Place) {
    let state = place.open();
    let named = Question { may_approve: vec![person("user:cas"), person("user:dan")], ..question("one") };
    let asked = ask(&*state, named).await;
    let refused = state.vote(asked.id.clone(), no("user:bob"), NOW).await;
    assert_eq!(refused, Err(VoteError::WrongPerson(person("user:bob"))));
    assert_eq!(state.vote(asked.id, yes("user:dan"), NOW).await.unwrap().state, ApprovalState::Approved);
}

pub(crate) async fn after_its_time_nothing_counts(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, question("one")).await;
    let end = NOW + 60_000;
    let late = state.vote(asked.id.clone(), yes("user:bob"), end).await;
    assert_eq!(late, Err(VoteError::Expired(asked.id.clone())));
    assert_eq!(take(&*state, "one", end).await, Taken::None);
    state.vote(asked.id.clone(), yes("user:bob"), end - 1).await.unwrap();
    assert_eq!(take(&*state, "one", end).await, Taken::None);
    assert_eq!(state.expire(end).await.unwrap().len(), 1);
    let late = state.vote(asked.id.clone(), yes("user:cas"), NOW).await;
    assert_eq!(late, Err(VoteError::Expired(asked.id)));
    // A clock that was set back does not bring it back.
    assert_eq!(take(&*state, "one", NOW).await, Taken::None);
    // What has no end does not end.
    let asked = ask(&*state, Question { expires_ms: None, ..question("two") }).await;
    assert_eq!(state.expire(u64::MAX >> 1).await.unwrap(), []);
    state.vote(asked.id, yes("user:bob"), end).await.unwrap();
    assert!(matches!(take(&*state, "two", u64::MAX >> 1).await, Taken::Yes(_)));
}

pub(crate) async fn an_unknown_round_takes_no_answer(place: &dyn Place) {
    let state = place.open();
    let id = ApprovalId("apr_000000000000000000000000".to_owned());
    assert_eq!(state.vote(id.clone(), yes("user:bob"), NOW).await, Err(VoteError::Unknown(id.clone())));
    assert_eq!(state.approval(id).await.unwrap(), None);
    assert_eq!(take(&*state, "one", NOW).await, Taken::None);
}

pub(crate) async fn a_yes_is_used_once(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, question("one")).await;
    assert_eq!(take(&*state, "one", NOW).await, Taken::Waiting(asked.clone()));
    let approved = state.vote(asked.id.clone(), yes("user:bob"), NOW).await.unwrap();
    let used = Approval { state: ApprovalState::Used, used_ms: Some(NOW + 7), ..approved };
    assert_eq!(take(&*state, "one", NOW + 7).await, Taken::Yes(used.clone()));
    assert_eq!(take(&*state, "one", NOW + 8).await, Taken::None);
    assert_eq!(take(&*place.open(), "one", NOW + 8).await, Taken::None);
    let refused = VoteError::NotWaiting { id: asked.id.clone(), state: ApprovalState::Used };
    assert_eq!(state.vote(asked.id.clone(), yes("user:cas"), NOW + 8).await, Err(refused));
    assert_eq!(state.approval(asked.id).await.unwrap(), Some(used));
}

pub(crate) async fn a_yes_belongs_to_the_one_who_asked(place: &dyn Place) {
    let state = place.open();
    approved(&*state, "one").await;
    let bob = Principal::Person(person("user:bob"));
    // Bob said yes to Ann. That does not let Bob do it, and what Bob asks himself is a question of its own.
    assert_eq!(state.take(Digest::of(b"one"), bob.clone(), NOW).await.unwrap(), Taken::None);
    let own = ask(&*state, Question { principal: bob.clone(), ..question("one") }).await;
    assert_eq!((own.round, own.state), (2, ApprovalState::Waiting));
    assert_eq!(state.take(Digest::of(b"one"), bob, NOW).await.unwrap(), Taken::Waiting(own.clone()));
    let refused = state.vote(own.id, yes("user:bob"), NOW).await;
    assert_eq!(refused, Err(VoteError::SelfApproval(person("user:bob"))));
    assert!(matches!(take(&*state, "one", NOW).await, Taken::Yes(round) if round.round == 1));
}

pub(crate) async fn time_denies_and_approves_only_what_is_harmless(place: &dyn Place) {
    let state = place.open();
    let why = || "low risk and nobody minded for an hour".to_owned();
    let out = async |id: &ApprovalId, answer| state.time_out(id.clone(), answer, why(), NOW + 9).await.unwrap();

    let low = ask(&*state, Question { risk: Risk::Low, ..question("low") }).await;
    let timed_out = Some(TimedOut { answer: Answer::Yes, why: why(), at_ms: NOW + 9 });
    let expected = Approval { state: ApprovalState::Approved, timed_out, decided_ms: Some(NOW + 9), ..low.clone() };
    assert_eq!(out(&low.id, Answer::Yes).await, Some(expected));
    assert_eq!(out(&low.id, Answer::No).await, None);
    assert!(matches!(take(&*state, "low", NOW + 9).await, Taken::Yes(_)));

    for (name, risk, people) in [("high", Risk::High, 1), ("critical", Risk::Critical, 1), ("two", Risk::Low, 2)] {
        let asked = ask(&*state, Question { risk, people, ..question(name) }).await;
        assert_eq!(out(&asked.id, Answer::Yes).await, None, "{name}");
        assert_eq!(take(&*state, name, NOW + 9).await, Taken::Waiting(asked.clone()));
        let denied = out(&asked.id, Answer::No).await.unwrap();
        assert_eq!((denied.state, denied.denial()), (ApprovalState::Denied, Some(&*why())));
        assert_eq!(take(&*state, name, NOW + 9).await, Taken::Denied(denied));
    }
    let late = ask(&*state, Question { risk: Risk::Low, expires_ms: Some(NOW + 9), ..question("late") }).await;
    assert_eq!(out(&late.id, Answer::Yes).await, None);
    assert_eq!(out(&late.id, Answer::No).await.map(|late| late.state), Some(ApprovalState::Denied));
    assert_eq!(out(&ApprovalId("apr_none".to_owned()), Answer::No).await, None);
}

pub(crate) async fn a_round_is_escalated_once_per_step(place: &dyn Place) {
    let state = place.open();
    let asked = ask(&*state, Question { may_approve: vec![person("user:bob")], ..question("one") }).await;
    let boss = vec![person("user:cas")];
    let expected = Approval { step: 1, escalated_ms: Some(NOW + 5), may_approve: boss.clone(), ..asked.clone() };
    assert_eq!(state.escalate(asked.id.clone(), 0, boss.clone(), NOW + 5).await.unwrap(), Some(expected.clone()));
    assert_eq!(state.escalate(asked.id.clone(), 0, boss.clone(), NOW + 6).await.unwrap(), None);
    assert_eq!(state.approval(asked.id.clone()).await.unwrap(), Some(expected));
    let refused = state.vote(asked.id.clone(), yes("user:bob"), NOW + 6).await;
    assert_eq!(refused, Err(VoteError::WrongPerson(person("user:bob"))));
    assert_eq!(state.escalate(asked.id.clone(), 1, boss.clone(), NOW + 60_000).await.unwrap(), None);
    state.vote(asked.id.clone(), yes("user:cas"), NOW + 6).await.unwrap();
    assert_eq!(state.escalate(asked.id, 1, boss, NOW + 7).await.unwrap(), None);
}

pub(crate) async fn what_expires_is_told_once(place: &dyn Place) {
    let state = place.open();
    let waiting = ask(&*state, question("waiting")).await;
    let unused = approved(&*state, "unused").await;
    approved(&*state, "used").await;
    take(&*state, "used", NOW).await;
    let denied = ask(&*state, question("denied")).await;
    state.vote(denied.id, no("user:bob"), NOW).await.unwrap();
    ask(&*state, Question { expires_ms: None, ..question("open") }).await;
    let end = NOW + 60_000;
    assert_eq!(state.expire(end - 1).await.unwrap(), []);
    let expired = state.expire(end).await.unwrap();
    let gone = |round: Approval| Approval { state: ApprovalState::Expired, decided_ms: Some(end), ..round };
    assert_eq!(expired, [gone(waiting), gone(unused)]);
    assert_eq!(state.expire(end).await.unwrap(), []);
}

pub(crate) async fn two_questions_never_share_a_name(place: &dyn Place) {
    let state = place.open();
    let (mut one, mut other) = (question("one"), question("other"));
    // A name shows 12 bytes of the hash, and those can be made to agree.
    one.digest = Digest([7; 32]);
    other.digest = Digest([7; 32]);
    other.digest.0[31] = 8;
    let asked = ask(&*state, one).await;
    assert!(state.file(other.clone(), NOW).await.is_err());
    state.vote(asked.id, yes("user:bob"), NOW).await.unwrap();
    assert_eq!(state.take(other.digest, requester(), NOW).await.unwrap(), Taken::None);
}

pub(crate) async fn a_grant_is_used_as_often_as_it_says(place: &dyn Place) {
    let state = place.open();
    let given = state.grant(terms(2), NOW).await.unwrap();
    let expected = Grant { id: given.id.clone(), terms: terms(2), left: 2, created_ms: NOW, revoked: None };
    assert_eq!(given, expected);
    let id = || vec![given.id.clone()];
    assert_eq!(state.use_grant(id(), NOW).await.unwrap(), Some(Grant { left: 1, ..given.clone() }));
    assert_eq!(place.open().use_grant(id(), NOW).await.unwrap(), Some(Grant { left: 0, ..given.clone() }));
    assert_eq!(state.use_grant(id(), NOW).await.unwrap(), None);
    assert_eq!(state.grants(None).await.unwrap(), [Grant { left: 0, ..given }]);
}

pub(crate) async fn a_grant_ends_when_it_is_taken_back_or_its_time_is_over(place: &dyn Place) {
    let state = place.open();
    let given = state.grant(terms(5), NOW).await.unwrap();
    let id = || vec![given.id.clone()];
    assert_eq!(state.use_grant(id(), NOW + 60_000).await.unwrap(), None);
    assert_eq!(state.use_grant(id(), NOW + 59_999).await.unwrap().map(|grant| grant.left), Some(4));
    let revoked = Some(Revoked { by: person("user:cas"), at_ms: NOW + 1 });
    let back = Grant { left: 4, revoked, ..given.clone() };
    assert_eq!(state.revoke(given.id.clone(), person("user:cas"), NOW + 1).await.unwrap(), Some(back.clone()));
    assert_eq!(state.use_grant(id(), NOW + 2).await.unwrap(), None);
    // Who was first stays written.
    assert_eq!(state.revoke(given.id.clone(), person("user:dan"), NOW + 2).await.unwrap(), None);
    assert_eq!(state.grants(None).await.unwrap(), [back]);
}

pub(crate) async fn the_first_grant_that_holds_is_used(place: &dyn Place) {
    let state = place.open();
    let mut ids = Vec::new();
    for uses in [0, 1, 1] {
        ids.push(state.grant(terms(uses), NOW).await.unwrap().id);
    }
    let mut used = Vec::new();
    while let Some(grant) = state.use_grant(ids.clone(), NOW).await.unwrap() {
        used.push(grant.id);
    }
    assert_eq!(used, ids[1..]);
    assert_eq!(state.use_grant(vec![], NOW).await.unwrap(), None);
}

pub(crate) async fn grants_are_listed_by_agent(place: &dyn Place) {
    let state = place.open();
    let mine = state.grant(terms(1), NOW).await.unwrap();
    let mut theirs = terms(1);
    theirs.agent = AgentName::from("other");
    let theirs = state.grant(theirs, NOW).await.unwrap();
    assert_eq!(state.grants(Some(coder())).await.unwrap(), std::slice::from_ref(&mine));
    assert_eq!(state.grants(None).await.unwrap(), [theirs, mine]);
}

pub(crate) async fn an_effect_is_claimed_once(place: &dyn Place) {
    let (state, other) = (place.open(), place.open());
    let ticket = claim(&*state, reservation("one")).await;
    assert_eq!(ticket.key(), &key("one"));
    assert_eq!(state.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Running);
    assert_eq!(other.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Running);
    let running = Once {
        key: key("one"),
        fingerprint: reservation("one").fingerprint,
        call: reservation("one").call,
        state: OnceState::Running,
        holder: state.instance(),
        attempt: 1,
        outcome: None,
        resolved: None,
        reserved_ms: NOW,
        changed_ms: NOW,
    };
    assert_eq!(other.effects(every_effect()).await.unwrap(), std::slice::from_ref(&running));
    state.complete(ticket, Completed::Done(outcome("paid")), NOW + 5).await.unwrap();
    assert_eq!(state.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Done(outcome("paid")));
    assert_eq!(other.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Done(outcome("paid")));
    let done = Once { state: OnceState::Done, outcome: Some(outcome("paid")), changed_ms: NOW + 5, ..running };
    assert_eq!(other.effects(every_effect()).await.unwrap(), [done]);
}

pub(crate) async fn a_key_stands_for_one_thing(place: &dyn Place) {
    let state = place.open();
    let other = || Reservation { fingerprint: Digest::of(b"900 coins to eve"), ..reservation("one") };
    let conflict = async || assert_eq!(state.reserve(other(), NOW).await.unwrap(), Reserved::Conflict);
    let ticket = claim(&*state, reservation("one")).await;
    conflict().await;
    state.complete(ticket, Completed::Failed(outcome("no line")), NOW).await.unwrap();
    conflict().await;
    let ticket = claim(&*state, reservation("one")).await;
    state.complete(ticket, Completed::Unknown(outcome("no answer")), NOW).await.unwrap();
    conflict().await;
    // Another agent or another tool has keys of its own.
    let mut theirs = other();
    theirs.key.agent = AgentName::from("other");
    claim(&*state, theirs).await;
    let mut elsewhere = other();
    elsewhere.key.tool = "refund".to_owned();
    claim(&*state, elsewhere).await;
}

pub(crate) async fn what_did_not_happen_may_be_tried_again(place: &dyn Place) {
    let (state, other) = (place.open(), place.open());
    let ticket = claim(&*state, reservation("one")).await;
    state.complete(ticket, Completed::Failed(outcome("no line")), NOW).await.unwrap();
    let ticket =
        claim(&*other, Reservation { call: toolgate_contract::CallId("next".to_owned()), ..reservation("one") }).await;
    let [known] = state.effects(every_effect()).await.unwrap().try_into().unwrap();
    assert_eq!((known.attempt, known.holder, known.call.0.as_str()), (2, other.instance(), "next"));
    assert_eq!((known.state, known.outcome), (OnceState::Running, None));
    other.complete(ticket, Completed::Done(outcome("paid")), NOW).await.unwrap();
}

pub(crate) async fn only_the_holder_says_how_it_ended(place: &dyn Place) {
    let (state, other) = (place.open(), place.open());
    let ticket = claim(&*state, reservation("one")).await;
    let before = state.effects(every_effect()).await.unwrap();
    let not_held = || Err(CompleteError::NotHeld { key: key("one") });
    for ended in [Completed::Done(outcome("paid")), Completed::Failed(outcome("no line"))] {
        assert_eq!(other.complete(ticket.clone(), ended, NOW + 1).await, not_held());
    }
    assert_eq!(state.effects(every_effect()).await.unwrap(), before);
    state.complete(ticket.clone(), Completed::Done(outcome("paid")), NOW + 2).await.unwrap();
    // And only once.
    let after = state.effects(every_effect()).await.unwrap();
    assert_eq!(state.complete(ticket, Completed::Failed(outcome("no line")), NOW + 3).await, not_held());
    assert_eq!(state.effects(every_effect()).await.unwrap(), after);
}

pub(crate) async fn a_late_holder_is_not_heard(place: &dyn Place) {
    let state = place.open();
    let first = claim(&*state, reservation("one")).await;
    state.complete(first.clone(), Completed::Failed(outcome("no line")), NOW).await.unwrap();
    let second = claim(&*state, reservation("one")).await;
    let late = state.complete(first, Completed::Done(outcome("paid")), NOW).await;
    assert_eq!(late, Err(CompleteError::NotHeld { key: key("one") }));
    assert_eq!(state.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Running);
    state.complete(second, Completed::Done(outcome("paid")), NOW).await.unwrap();
}

pub(crate) async fn an_instance_that_left_leaves_its_effects_unknown(place: &dyn Place) {
    let (gone, state) = (place.open(), place.open());
    for name in ["one", "two"] {
        claim(&*gone, reservation(name)).await;
    }
    let ours = claim(&*state, reservation("ours")).await;
    assert_eq!(state.orphaned(NOW).await.unwrap(), []);
    gone.close().await.unwrap();
    // Whoever asks for one finds out, and so does whoever looks.
    assert_eq!(state.reserve(reservation("one"), NOW + 1).await.unwrap(), Reserved::Unknown);
    let orphans = state.orphaned(NOW + 2).await.unwrap();
    let names: Vec<_> = orphans.iter().map(|once| (&*once.key.key, once.state, once.changed_ms)).collect();
    assert_eq!(names, [("two", OnceState::Unknown, NOW + 2)]);
    assert_eq!(state.orphaned(NOW + 3).await.unwrap(), []);
    let unknown = EffectFilter { states: vec![OnceState::Unknown], ..every_effect() };
    assert_eq!(state.effects(unknown).await.unwrap().len(), 2);
    assert_eq!(state.reserve(reservation("two"), NOW + 3).await.unwrap(), Reserved::Unknown);
    state.complete(ours, Completed::Done(outcome("paid")), NOW + 3).await.unwrap();
}

pub(crate) async fn a_person_resolves_only_what_is_unknown(place: &dyn Place) {
    let state = place.open();
    let bob = || person("user:bob");
    let resolve = async |name: &str, found: Resolution| state.resolve(key(name), bob(), found, NOW + 9).await.unwrap();

    assert_eq!(resolve("one", Resolution::DidNotHappen).await, None);
    let ticket = claim(&*state, reservation("one")).await;
    assert_eq!(resolve("one", Resolution::DidNotHappen).await, None);
    state.complete(ticket.clone(), Completed::Unknown(outcome("no answer")), NOW).await.unwrap();
    assert_eq!(state.reserve(reservation("one"), NOW).await.unwrap(), Reserved::Unknown);
    let happened = Resolution::Happened(outcome("the bank says so"));
    let resolved = resolve("one", happened.clone()).await.unwrap();
    assert_eq!((resolved.state, resolved.outcome), (OnceState::Resolved, Some(outcome("no answer"))));
    assert_eq!(resolved.resolved, Some(Resolved { by: bob(), resolution: happened, at_ms: NOW + 9 }));
    assert_eq!(resolve("one", Resolution::DidNotHappen).await, None);
    let said = Reserved::Done(outcome("the bank says so"));
    assert_eq!(state.reserve(reservation("one"), NOW).await.unwrap(), said);
    let late = state.complete(ticket, Completed::Failed(outcome("late")), NOW).await;
    assert_eq!(late, Err(CompleteError::NotHeld { key: key("one") }));

    let ticket = claim(&*state, reservation("two")).await;
    state.complete(ticket, Completed::Unknown(outcome("no answer")), NOW).await.unwrap();
    resolve("two", Resolution::DidNotHappen).await.unwrap();
    let ticket = claim(&*state, reservation("two")).await;
    state.complete(ticket, Completed::Done(outcome("paid")), NOW).await.unwrap();
    assert_eq!(resolve("two", Resolution::DidNotHappen).await, None);
}

pub(crate) async fn effects_are_listed_by_what_changed_last(place: &dyn Place) {
    let state = place.open();
    let first = claim(&*state, reservation("one")).await;
    claim(&*state, reservation("two")).await;
    let mut theirs = reservation("three");
    theirs.key.agent = AgentName::from("other");
    claim(&*state, theirs).await;
    state.complete(first, Completed::Done(outcome("paid")), NOW + 1).await.unwrap();
    let list = async |filter: EffectFilter| {
        let effects = state.effects(filter).await.unwrap().into_iter();
        effects.map(|once| once.key.key).collect::<Vec<_>>()
    };
    assert_eq!(list(every_effect()).await, ["one", "three", "two"]);
    assert_eq!(list(EffectFilter { limit: 1, ..every_effect() }).await, ["one"]);
    assert_eq!(list(EffectFilter { agent: Some(coder()), ..every_effect() }).await, ["one", "two"]);
    assert_eq!(list(EffectFilter { states: vec![OnceState::Running], ..every_effect() }).await, ["three", "two"]);
}

pub(crate) async fn evidence_stays_in_order(place: &dyn Place) {
    let (state, other) = (place.open(), place.open());
    let all = [evidence("coder", "t-1"), evidence("other", "t-2"), evidence("coder", "t-3")];
    // An entry may tell of something earlier; it is still the last to be added.
    let early = toolgate_contract::Evidence { at_ms: NOW - 5, ..evidence("coder", "t-4") };
    let mut numbers = Vec::new();
    for (each, state) in all.iter().chain([&early]).zip([&state, &other, &state, &other]) {
        numbers.push(state.add_evidence(each.clone()).await.unwrap());
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(state.evidence(coder()).await.unwrap(), [all[0].clone(), all[2].clone(), early.clone()]);
    assert_eq!(state.evidence(AgentName::from("other")).await.unwrap(), [all[1].clone()]);
    assert_eq!(state.evidence(AgentName::from("nobody")).await.unwrap(), []);
    assert_eq!(state.evidence_after(coder(), 0).await.unwrap().len(), 3);
    let after = state.evidence_after(coder(), numbers[0]).await.unwrap();
    assert_eq!(after, [(numbers[2], all[2].clone()), (numbers[3], early.clone())]);
    assert_eq!(state.evidence_after(coder(), numbers[3]).await.unwrap(), []);
    assert_eq!(state.agents_with_evidence().await.unwrap(), [coder(), AgentName::from("other")]);
}

fn cost(calls: u64) -> Cost {
    Cost { calls, bytes_out: 10 * calls, units: 100 * calls, wall_ms: 1_000 * calls }
}

pub(crate) async fn spending_is_counted_by_task_day_and_ever(place: &dyn Place) {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let (state, midnight) = (place.open(), NOW / DAY * DAY + DAY);
    let spend = async |task, calls, now| state.spend(account(task), cost(calls), now).await.unwrap();
    let totals = |task, day, ever| Totals { task: cost(task), day: cost(day), ever: cost(ever) };
    assert_eq!(spend(Some("t-1"), 1, midnight - 1).await, totals(1, 1, 1));
    assert_eq!(spend(Some("t-2"), 2, midnight - 1).await, totals(2, 3, 3));
    assert_eq!(spend(None, 4, midnight - 1).await, totals(0, 7, 7));
    assert_eq!(spend(Some("t-1"), 8, midnight).await, totals(9, 8, 15));
    let other = Account { agent: AgentName::from("other"), task: Some("t-1".to_owned()) };
    assert_eq!(state.spend(other, cost(1), midnight).await.unwrap(), totals(1, 1, 1));
    let spent = async |task, now| state.spent(account(task), now).await.unwrap();
    assert_eq!(spent(Some("t-2"), midnight).await, totals(2, 8, 15));
    assert_eq!(spent(None, midnight - 1).await, totals(0, 7, 15));
    assert_eq!(spent(Some("t-3"), midnight + DAY).await, totals(0, 0, 15));
}

pub(crate) async fn a_limit_counts_nothing_when_it_is_passed(place: &dyn Place) {
    let state = place.open();
    let limit = |window, meter, most| Limit { window, meter, most };
    let limits = || {
        vec![
            limit(Window::Task, Meter::Calls, 3),
            limit(Window::Day, Meter::Units, 500),
            limit(Window::Ever, Meter::BytesOut, 60),
        ]
    };
    let spend = async |task, calls| state.try_spend(account(task), cost(calls), limits(), NOW).await.unwrap();
    let exceeded = |limit, spent, wanted| Err(Exceeded { limit, spent, wanted });
    assert_eq!(spend(Some("t-1"), 4).await, exceeded(limit(Window::Task, Meter::Calls, 3), 0, 4));
    assert_eq!(state.spent(account(Some("t-1")), NOW).await.unwrap(), Totals::default());
    assert!(spend(Some("t-1"), 3).await.is_ok());
    assert_eq!(spend(Some("t-1"), 1).await, exceeded(limit(Window::Task, Meter::Calls, 3), 3, 4));
    assert_eq!(spend(Some("t-2"), 3).await, exceeded(limit(Window::Day, Meter::Units, 500), 300, 600));
    assert!(spend(Some("t-2"), 2).await.is_ok());
    let tomorrow = NOW + 24 * 60 * 60 * 1000;
    let next = state.try_spend(account(None), cost(2), limits(), tomorrow).await.unwrap();
    assert_eq!(next, exceeded(limit(Window::Ever, Meter::BytesOut, 60), 50, 70));
    // Without a task a limit on tasks says nothing, and what was spent anyway is counted beyond any limit.
    let none = state.try_spend(account(None), cost(1), vec![limit(Window::Task, Meter::Calls, 0)], tomorrow).await;
    assert_eq!(none.unwrap().map(|totals| totals.ever), Ok(cost(6)));
    assert_eq!(state.spend(account(None), cost(9), tomorrow).await.unwrap().ever, cost(15));
}

pub(crate) async fn a_full_meter_stays_full(place: &dyn Place) {
    let state = place.open();
    let much = Cost { calls: u64::MAX, ..Cost::default() };
    let full = state.spend(account(None), much, NOW).await.unwrap();
    assert_eq!(state.spend(account(None), cost(1), NOW).await.unwrap().ever.calls, full.ever.calls);
    assert!(full.ever.calls >= u64::MAX >> 1);
}

pub(crate) async fn a_token_holds_until_it_ends_or_is_taken_back(place: &dyn Place) {
    let state = place.open();
    state.add_token(token("one")).await.unwrap();
    state.add_token(Token { expires_ms: None, ..token("two") }).await.unwrap();
    let by_hash =
        async |name: &str, now| state.token_by_hash(Digest::of(name.as_bytes()), now).await.unwrap().map(|it| it.id);
    let end = NOW + 3_600_000;
    assert_eq!(by_hash("one", end - 1).await, Some("tok_one".to_owned()));
    assert_eq!(by_hash("one", end).await, None);
    assert_eq!(by_hash("two", end).await, Some("tok_two".to_owned()));
    assert_eq!(by_hash("three", NOW).await, None);
    let revoked = state.revoke_token("tok_two".to_owned(), end).await.unwrap().unwrap();
    assert_eq!((revoked.id.as_str(), revoked.revoked_ms), ("tok_two", Some(end)));
    assert_eq!(by_hash("two", end).await, None);
    assert_eq!(by_hash("two", NOW).await, None);
    assert_eq!(state.revoke_token("tok_two".to_owned(), end + 1).await.unwrap(), None);
    assert_eq!(state.revoke_token("tok_three".to_owned(), NOW).await.unwrap(), None);
    let listed = state.tokens().await.unwrap();
    assert_eq!(listed.iter().map(|token| &*token.id).collect::<Vec<_>>(), ["tok_two", "tok_one"]);
    assert_eq!(listed[0].revoked_ms, Some(end));
}

pub(crate) async fn a_rotated_token_has_one_secret(place: &dyn Place) {
    let state = place.open();
    state.add_token(token("one")).await.unwrap();
    let rotate = async |hash: &str, now| {
        state.rotate_token("tok_one".to_owned(), Digest::of(hash.as_bytes()), Some(NOW + 7_200_000), now).await.unwrap()
    };
    let expected = Token { hash: Digest::of(b"new"), expires_ms: Some(NOW + 7_200_000), ..token("one") };
    assert_eq!(rotate("new", NOW).await, Some(expected));
    assert_eq!(state.token_by_hash(Digest::of(b"one"), NOW).await.unwrap(), None);
    assert!(state.token_by_hash(Digest::of(b"new"), NOW + 7_199_999).await.unwrap().is_some());
    // One that no longer holds is not brought back this way.
    assert_eq!(rotate("newer", NOW + 7_200_000).await, None);
    state.revoke_token("tok_one".to_owned(), NOW).await.unwrap();
    assert_eq!(rotate("newer", NOW).await, None);
    assert_eq!(state.token_by_hash(Digest::of(b"newer"), NOW).await.unwrap(), None);
}

pub(crate) async fn tokens_have_names_and_secrets_of_their_own(place: &dyn Place) {
    let state = place.open();
    state.add_token(token("one")).await.unwrap();
    assert!(state.add_token(Token { hash: Digest::of(b"other"), ..token("one") }).await.is_err());
    assert!(state.add_token(Token { id: "tok_other".to_owned(), ..token("one") }).await.is_err());
    state.add_token(token("two")).await.unwrap();
    assert!(state.rotate_token("tok_two".to_owned(), Digest::of(b"one"), None, NOW).await.is_err());
    assert_eq!(state.tokens().await.unwrap(), [token("two"), token("one")]);
}

pub(crate) async fn the_last_use_of_a_token_is_known_to_the_minute(place: &dyn Place) {
    let state = place.open();
    state.add_token(token("one")).await.unwrap();
    let used = async |now| {
        state.token_by_hash(Digest::of(b"one"), now).await.unwrap();
        state.tokens().await.unwrap()[0].last_used_ms
    };
    assert_eq!(used(NOW + 5).await, Some(NOW + 5));
    assert_eq!(used(NOW + 60_004).await, Some(NOW + 5));
    assert_eq!(used(NOW + 60_005).await, Some(NOW + 60_005));
    assert_eq!(used(NOW).await, Some(NOW + 60_005));
}

/// Whoever asks all the time must not be told what was true a moment ago.
pub(crate) async fn a_token_taken_back_elsewhere_holds_no_longer_here(place: &dyn Place) {
    let (here, elsewhere) = (place.open(), place.open());
    for round in 0..20 {
        let name = format!("round {round}");
        here.add_token(token(&name)).await.unwrap();
        let holds = async || here.token_by_hash(Digest::of(name.as_bytes()), NOW).await.unwrap().is_some();
        assert!(holds().await);
        // Asked long enough for whatever is kept to be kept, and sometimes not.
        tokio::time::sleep(Duration::from_millis(7 * (round % 5))).await;
        for _ in 0..10 {
            assert!(holds().await);
        }
        elsewhere.revoke_token(format!("tok_{name}"), NOW).await.unwrap().unwrap();
        assert!(!holds().await, "in round {round}");
    }
}

pub(crate) async fn a_login_code_opens_once_and_in_time(place: &dyn Place) {
    let state = place.open();
    let enter = async |name: &str, now| state.use_login_code(Digest::of(name.as_bytes()), now).await.unwrap();
    state.add_login_code(code("one"), NOW).await.unwrap();
    assert_eq!(enter("other", NOW).await, None);
    assert_eq!(enter("one", NOW + 60_000).await, None);
    assert_eq!(enter("one", NOW + 59_999).await, Some(person("user:bob")));
    assert_eq!(enter("one", NOW + 59_999).await, None);
    // A used code cannot be made to open again by adding it again.
    assert!(state.add_login_code(code("one"), NOW).await.is_err());
    let later = LoginCode { expires_ms: NOW + 120_000, ..code("two") };
    state.add_login_code(later, NOW + 60_000).await.unwrap();
    assert_eq!(enter("one", NOW).await, None);
    assert_eq!(enter("two", NOW + 60_000).await, Some(person("user:bob")));
}

pub(crate) async fn an_agent_is_held_back_until_a_person_lets_go(place: &dyn Place) {
    let state = place.open();
    use LatchKind::{ErrorRate, SecurityIncident};
    let latch = async |kind, why: &str, now| state.latch(coder(), kind, why.to_owned(), now).await.unwrap();
    let clear = async |kind, now| state.clear(coder(), kind, person("user:bob"), now).await.unwrap();
    let held = |kind, why: &str, since_ms| Latch { agent: coder(), kind, since_ms, why: why.to_owned(), cleared: None };

    assert_eq!(clear(ErrorRate, NOW).await, None);
    assert!(latch(ErrorRate, "9 of 10 failed", NOW + 1).await);
    assert!(!latch(ErrorRate, "10 of 10 failed", NOW + 2).await);
    assert!(latch(SecurityIncident, "read a key", NOW + 3).await);
    let both = [held(ErrorRate, "9 of 10 failed", NOW + 1), held(SecurityIncident, "read a key", NOW + 3)];
    assert_eq!(state.latches(coder()).await.unwrap(), both);
    assert!(both[0].holds());

    let cleared = Some(Revoked { by: person("user:bob"), at_ms: NOW + 4 });
    let open = Latch { cleared, ..both[0].clone() };
    assert_eq!(clear(ErrorRate, NOW + 4).await, Some(open.clone()));
    assert!(!open.holds());
    assert_eq!(clear(ErrorRate, NOW + 5).await, None);
    assert_eq!(state.latches(coder()).await.unwrap(), [open, both[1].clone()]);
    assert!(latch(ErrorRate, "again", NOW + 6).await);
    assert_eq!(state.latches(coder()).await.unwrap(), [held(ErrorRate, "again", NOW + 6), both[1].clone()]);
    assert_eq!(state.latches(AgentName::from("other")).await.unwrap(), []);
}

/// Lets two instances do the same at the same time, and gives what each got.
async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    racers: &[Arc<dyn State>],
    run: impl Fn(Arc<dyn State>) -> F,
) -> Vec<T> {
    let running: Vec<_> = racers.iter().map(|state| tokio::spawn(run(state.clone()))).collect();
    let mut results = Vec::new();
    for racer in running {
        results.push(racer.await.unwrap());
    }
    results
}

pub(crate) async fn two_racers_for_a_yes_get_one(place: &dyn Place) {
    let racers = [place.open(), place.open()];
    for round in 0..1_000 {
        let name = format!("round {round}");
        approved(&*racers[round % 2], &name).await;
        let digest = Digest::of(name.as_bytes());
        let taken = race(&racers, |state| async move { state.take(digest, requester(), NOW).await.unwrap() }).await;
        let yes = taken.iter().filter(|taken| matches!(taken, Taken::Yes(_))).count();
        let none = taken.iter().filter(|taken| **taken == Taken::None).count();
        assert_eq!((yes, none), (1, 1), "{name}: {taken:?}");
    }
}

pub(crate) async fn racers_for_the_last_uses_get_as_many_as_there_are(place: &dyn Place) {
    let racers = [place.open(), place.open(), place.open()];
    for uses in [1, 2].repeat(50) {
        let grant = racers[0].grant(terms(uses), NOW).await.unwrap();
        let used = race(&racers, |state| {
            let id = grant.id.clone();
            async move { state.use_grant(vec![id], NOW).await.unwrap() }
        })
        .await;
        let mut left: Vec<_> = used.into_iter().flatten().map(|grant| grant.left).collect();
        left.sort_unstable();
        assert_eq!(left, (0..uses).collect::<Vec<_>>());
    }
}

pub(crate) async fn racers_for_an_effect_get_one_ticket(place: &dyn Place) {
    let racers = [place.open(), place.open()];
    for round in 0..100 {
        let name = format!("round {round}");
        let reserved = race(&racers, |state| {
            let wanted = reservation(&name);
            async move { state.reserve(wanted, NOW).await.unwrap() }
        })
        .await;
        let fresh = reserved.iter().filter(|reserved| matches!(reserved, Reserved::Fresh(_))).count();
        let running = reserved.iter().filter(|reserved| **reserved == Reserved::Running).count();
        assert_eq!((fresh, running), (1, 1), "{name}: {reserved:?}");
    }
}

pub(crate) async fn racers_for_a_login_code_get_in_once(place: &dyn Place) {
    let racers = [place.open(), place.open()];
    for round in 0..50 {
        let code = LoginCode { expires_ms: NOW + 1 + round, ..code(&format!("code {round}")) };
        racers[0].add_login_code(code.clone(), NOW).await.unwrap();
        let entered = race(&racers, |state| async move { state.use_login_code(code.hash, NOW).await.unwrap() }).await;
        assert_eq!(entered.into_iter().flatten().count(), 1);
    }
}

pub(crate) async fn racers_for_a_limit_stay_within_it(place: &dyn Place) {
    let racers = [place.open(), place.open(), place.open()];
    let limit = Limit { window: Window::Task, meter: Meter::Calls, most: 20 };
    let mut granted = 0;
    for _ in 0..10 {
        let spent = race(&racers, |state| async move {
            state.try_spend(account(Some("t-1")), cost(1), vec![limit], NOW).await.unwrap()
        })
        .await;
        granted += spent.into_iter().flatten().count();
    }
    assert_eq!(granted, 20);
    assert_eq!(racers[0].spent(account(Some("t-1")), NOW).await.unwrap().task, cost(20));
}

pub(crate) async fn racers_to_escalate_escalate_once(place: &dyn Place) {
    let racers = [place.open(), place.open()];
    let asked = ask(&*racers[0], question("one")).await;
    for step in 0..20 {
        let escalated = race(&racers, |state| {
            let id = asked.id.clone();
            async move { state.escalate(id, step, vec![person("user:cas")], NOW).await.unwrap() }
        })
        .await;
        assert_eq!(escalated.into_iter().flatten().map(|round| round.step).collect::<Vec<_>>(), [step + 1]);
    }
}

/// Everything a state holds, in words.
async fn everything(state: &dyn State) -> Vec<String> {
    vec![
        format!("{:?}", state.approvals(every_round()).await.unwrap()),
        format!("{:?}", state.grants(None).await.unwrap()),
        format!("{:?}", state.effects(every_effect()).await.unwrap()),
        format!("{:?}", state.evidence(coder()).await.unwrap()),
        format!("{:?}", state.spent(account(Some("t-1")), NOW).await.unwrap()),
        format!("{:?}", state.tokens().await.unwrap()),
        format!("{:?}", state.latches(coder()).await.unwrap()),
    ]
}

pub(crate) async fn everything_is_there_after_closing(place: &dyn Place) {
    let state = place.open();
    approved(&*state, "one").await;
    ask(&*state, question("two")).await;
    let grant = state.grant(terms(2), NOW).await.unwrap();
    state.use_grant(vec![grant.id], NOW).await.unwrap();
    for (name, ended) in [("done", Completed::Done(outcome("paid"))), ("lost", Completed::Unknown(outcome("?")))] {
        let ticket = claim(&*state, reservation(name)).await;
        state.complete(ticket, ended, NOW).await.unwrap();
    }
    state.add_evidence(evidence("coder", "t-1")).await.unwrap();
    state.spend(account(Some("t-1")), cost(3), NOW).await.unwrap();
    state.add_token(token("one")).await.unwrap();
    state.add_login_code(code("one"), NOW).await.unwrap();
    state.latch(coder(), LatchKind::BudgetExhausted, "spent".to_owned(), NOW).await.unwrap();
    let before = everything(&*state).await;
    assert!(before.iter().all(|part| part != "[]"), "{before:?}");
    state.close().await.unwrap();

    let state = place.open();
    assert_eq!(everything(&*state).await, before);
    assert!(matches!(take(&*state, "one", NOW).await, Taken::Yes(_)));
    assert_eq!(state.reserve(reservation("done"), NOW).await.unwrap(), Reserved::Done(outcome("paid")));
    assert_eq!(state.use_login_code(code("one").hash, NOW).await.unwrap(), Some(person("user:bob")));
}

pub(crate) async fn a_closed_state_answers_nothing(place: &dyn Place) {
    let state = place.open();
    state.close().await.unwrap();
    assert_eq!(state.file(question("one"), NOW).await, Err(StoreError::StateClosed));
    assert_eq!(state.reserve(reservation("one"), NOW).await, Err(StoreError::StateClosed));
    assert_eq!(state.tokens().await, Err(StoreError::StateClosed));
    assert_eq!(state.close().await, Ok(()));
    assert_eq!(place.open().approvals(every_round()).await.unwrap(), []);
}
