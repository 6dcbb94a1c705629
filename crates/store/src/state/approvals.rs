//! Rounds of questions, and the votes on them.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use toolgate_contract::{
    Answer, Approval, ApprovalId, ApprovalState, Digest, Person, Principal, Question, Risk, TimedOut, Vote,
};

use super::{
    ApprovalFilter, Ballot, Filed, MOST_WAITING, Taken, VoteError,
    row::{Json, Trouble, json, maybe_json, name, word},
};

pub(super) fn file(tx: &Transaction<'_>, question: &Question, now_ms: u64) -> Result<Filed, Trouble> {
    if let Some(standing) = newest(tx, &question.digest, &question.principal)? {
        let counts = matches!(standing.state, ApprovalState::Waiting | ApprovalState::Approved);
        if counts && !standing.is_late(now_ms) {
            return Ok(Filed::Standing(standing));
        }
    }
    let waiting: u32 = tx.query_row(
        "SELECT count(*) FROM approvals
         WHERE state = 'waiting' AND agent = ?1 AND (expires_ms IS NULL OR expires_ms > ?2)",
        params![&*question.agent.0, now_ms],
        |row| row.get(0),
    )?;
    if waiting >= MOST_WAITING {
        return Ok(Filed::TooMany);
    }
    let last: u32 =
        tx.query_row("SELECT coalesce(max(round), 0) FROM approvals WHERE digest = ?1", [question.digest.0], |row| {
            row.get(0)
        })?;
    let round = last.saturating_add(1);
    let id = ApprovalId::of(&question.digest, round);
    tx.execute(
        "INSERT INTO approvals(id, digest, round, agent, principal, state, question, may_approve, step, created_ms, expires_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6, ?7, 0, ?8, ?9)",
        params![
            id.0,
            question.digest.0,
            round,
            &*question.agent.0,
            Json(&question.principal),
            Json(question),
            Json(&question.may_approve),
            now_ms,
            question.expires_ms,
        ],
    )?;
    Ok(Filed::New(changed(tx, &id)?))
}

pub(super) fn get(tx: &Transaction<'_>, id: &ApprovalId) -> Result<Option<Approval>, Trouble> {
    let found = tx.query_row("SELECT * FROM approvals WHERE id = ?1", [&id.0], approval).optional()?;
    found.map(|found| with_votes(tx, found)).transpose()
}

pub(super) fn list(tx: &Transaction<'_>, filter: &ApprovalFilter) -> Result<Vec<Approval>, Trouble> {
    let mut query = tx.prepare(
        "SELECT * FROM approvals
         WHERE (?1 = '[]' OR state IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR agent = ?2)
         ORDER BY seq DESC LIMIT ?3",
    )?;
    let agent = filter.agent.as_ref().map(|agent| &*agent.0);
    let rows = query.query_map(params![Json(&filter.states), agent, filter.limit], approval)?;
    rows.map(|row| with_votes(tx, row?)).collect()
}

pub(super) fn waiting(tx: &Transaction<'_>, after: Option<&ApprovalId>, most: u32) -> Result<Vec<Approval>, Trouble> {
    // A round keeps its end and its number, so it is known what comes after it, also when it no longer waits.
    let mut query = tx.prepare(
        "SELECT * FROM approvals
         WHERE state = 'waiting' AND (?1 IS NULL OR (expires_ms IS NULL, coalesce(expires_ms, 0), seq) >
             (SELECT expires_ms IS NULL, coalesce(expires_ms, 0), seq FROM approvals WHERE id = ?1))
         ORDER BY expires_ms IS NULL, coalesce(expires_ms, 0), seq LIMIT ?2",
    )?;
    let rows = query.query_map(params![after.map(|after| &after.0), most], approval)?;
    rows.map(|row| with_votes(tx, row?)).collect()
}

/// The order of the refusals is that of what helps: there is no use in another person where nothing waits.
pub(super) fn vote(
    tx: &Transaction<'_>,
    id: &ApprovalId,
    ballot: &Ballot,
    now_ms: u64,
) -> Result<Result<Approval, VoteError>, Trouble> {
    let Some(round) = get(tx, id)? else { return Ok(Err(VoteError::Unknown(id.clone()))) };
    if let Err(refused) = may_vote(&round, &ballot.by, now_ms) {
        return Ok(Err(refused));
    }
    let answer = match ballot.answer {
        Answer::Yes => "yes",
        Answer::No => "no",
    };
    tx.execute(
        "INSERT INTO votes SELECT seq, ?2, ?3, ?4, ?5 FROM approvals WHERE id = ?1",
        params![id.0, &*ballot.by.0, answer, ballot.reason, now_ms],
    )?;
    let enough = round.yeses() + 1 >= usize::from(round.question.people);
    match ballot.answer {
        Answer::No => decide(tx, id, ApprovalState::Denied, now_ms)?,
        Answer::Yes if enough => decide(tx, id, ApprovalState::Approved, now_ms)?,
        Answer::Yes => {}
    }
    Ok(Ok(changed(tx, id)?))
}

fn may_vote(round: &Approval, person: &Person, now_ms: u64) -> Result<(), VoteError> {
    let id = round.id.clone();
    match round.state {
        ApprovalState::Waiting if !round.is_late(now_ms) => {}
        ApprovalState::Waiting | ApprovalState::Expired => return Err(VoteError::Expired(id)),
        state => return Err(VoteError::NotWaiting { id, state }),
    }
    if round.question.principal == Principal::Person(person.clone()) {
        return Err(VoteError::SelfApproval(person.clone()));
    }
    if !round.may_approve.is_empty() && !round.may_approve.contains(person) {
        return Err(VoteError::WrongPerson(person.clone()));
    }
    if round.votes.iter().any(|vote| vote.by == *person) {
        return Err(VoteError::AlreadyVoted(person.clone()));
    }
    Ok(())
}

fn decide(tx: &Transaction<'_>, id: &ApprovalId, state: ApprovalState, now_ms: u64) -> Result<(), Trouble> {
    let sql = "UPDATE approvals SET state = ?2, decided_ms = ?3 WHERE id = ?1";
    tx.execute(sql, params![id.0, state.as_str(), now_ms])?;
    Ok(())
}

pub(super) fn take(
    tx: &Transaction<'_>,
    question: &Digest,
    principal: &Principal,
    now_ms: u64,
) -> Result<Taken, Trouble> {
    let Some(round) = newest(tx, question, principal)? else { return Ok(Taken::None) };
    let used = tx.execute(
        "UPDATE approvals SET state = 'used', used_ms = ?2
         WHERE id = ?1 AND state = 'approved' AND (expires_ms IS NULL OR expires_ms > ?2)",
        params![round.id.0, now_ms],
    )?;
    if used == 1 {
        return Ok(Taken::Yes(changed(tx, &round.id)?));
    }
    Ok(match round.state {
        ApprovalState::Waiting if !round.is_late(now_ms) => Taken::Waiting(round),
        ApprovalState::Denied => Taken::Denied(round),
        ApprovalState::Waiting | ApprovalState::Approved | ApprovalState::Expired | ApprovalState::Used => Taken::None,
    })
}

pub(super) fn denied(tx: &Transaction<'_>, deed: &Digest, now_ms: u64) -> Result<Option<Approval>, Trouble> {
    let sql = "SELECT * FROM approvals
         WHERE state = 'denied' AND (expires_ms IS NULL OR expires_ms > ?2) AND question ->> 'deed' = ?1
         ORDER BY seq DESC LIMIT 1";
    let found = tx.query_row(sql, params![deed.to_string(), now_ms], approval).optional()?;
    found.map(|found| with_votes(tx, found)).transpose()
}

pub(super) fn time_out(
    tx: &Transaction<'_>,
    id: &ApprovalId,
    answer: Answer,
    why: String,
    now_ms: u64,
) -> Result<Option<Approval>, Trouble> {
    let Some(round) = get(tx, id)?.filter(|round| round.state == ApprovalState::Waiting) else { return Ok(None) };
    let state = match answer {
        Answer::Yes if round.question.risk >= Risk::High || round.question.people > 1 => return Ok(None),
        Answer::Yes if round.is_late(now_ms) => return Ok(None),
        Answer::Yes => ApprovalState::Approved,
        Answer::No => ApprovalState::Denied,
    };
    let out = TimedOut { answer, why, at_ms: now_ms };
    tx.execute("UPDATE approvals SET timed_out = ?2 WHERE id = ?1", params![id.0, Json(out)])?;
    decide(tx, id, state, now_ms)?;
    changed(tx, id).map(Some)
}

pub(super) fn expire(tx: &Transaction<'_>, now_ms: u64) -> Result<Vec<Approval>, Trouble> {
    let over = "state IN ('waiting', 'approved') AND expires_ms <= ?1";
    let mut query = tx.prepare(&format!("SELECT id FROM approvals WHERE {over} ORDER BY seq"))?;
    let ids: Vec<String> = query.query_map([now_ms], |row| row.get(0))?.collect::<Result<_, _>>()?;
    tx.execute(&format!("UPDATE approvals SET state = 'expired', decided_ms = ?1 WHERE {over}"), [now_ms])?;
    ids.into_iter().map(|id| changed(tx, &ApprovalId(id))).collect()
}

pub(super) fn escalate(
    tx: &Transaction<'_>,
    id: &ApprovalId,
    from: u32,
    may_approve: &[Person],
    now_ms: u64,
) -> Result<Option<Approval>, Trouble> {
    let escalated = tx.execute(
        "UPDATE approvals SET step = step + 1, escalated_ms = ?3, may_approve = ?4
         WHERE id = ?1 AND step = ?2 AND state = 'waiting' AND (expires_ms IS NULL OR expires_ms > ?3)",
        params![id.0, from, now_ms, Json(may_approve)],
    )?;
    if escalated == 1 { changed(tx, id).map(Some) } else { Ok(None) }
}

/// The last round of a question that this principal asked.
fn newest(tx: &Transaction<'_>, question: &Digest, principal: &Principal) -> Result<Option<Approval>, Trouble> {
    let sql = "SELECT * FROM approvals WHERE digest = ?1 AND principal = ?2 ORDER BY round DESC LIMIT 1";
    let found = tx.query_row(sql, params![question.0, Json(principal)], approval).optional()?;
    found.map(|found| with_votes(tx, found)).transpose()
}

/// A round that is there, as it is now.
fn changed(tx: &Transaction<'_>, id: &ApprovalId) -> Result<Approval, Trouble> {
    with_votes(tx, tx.query_row("SELECT * FROM approvals WHERE id = ?1", [&id.0], approval)?)
}

fn with_votes(tx: &Transaction<'_>, (seq, approval): (i64, Approval)) -> Result<Approval, Trouble> {
    let mut query = tx.prepare_cached("SELECT * FROM votes WHERE approval = ?1 ORDER BY rowid")?;
    let votes = query.query_map([seq], vote_of)?.collect::<Result<_, _>>()?;
    Ok(Approval { votes, ..approval })
}

fn vote_of(row: &Row<'_>) -> rusqlite::Result<Vote> {
    let answer = |text: &str| match text {
        "yes" => Some(Answer::Yes),
        "no" => Some(Answer::No),
        _ => None,
    };
    Ok(Vote {
        by: name(row, "person")?,
        answer: word(row, "answer", answer)?,
        reason: row.get("reason")?,
        at_ms: row.get("at_ms")?,
    })
}

/// A round without its votes, and its number.
fn approval(row: &Row<'_>) -> rusqlite::Result<(i64, Approval)> {
    let approval = Approval {
        id: ApprovalId(row.get("id")?),
        round: row.get("round")?,
        question: json(row, "question")?,
        state: word(row, "state", ApprovalState::parse)?,
        votes: Vec::new(),
        timed_out: maybe_json(row, "timed_out")?,
        may_approve: json(row, "may_approve")?,
        step: row.get("step")?,
        escalated_ms: row.get("escalated_ms")?,
        created_ms: row.get("created_ms")?,
        decided_ms: row.get("decided_ms")?,
        used_ms: row.get("used_ms")?,
    };
    Ok((row.get("seq")?, approval))
}
