//! The state of a single machine: `state.db` in a data directory.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, ready},
};
use tokio::sync::{oneshot, watch};
use toolgate_contract::{
    AgentName, Answer, Approval, ApprovalId, Cost, Digest, Evidence, Exceeded, Grant, GrantId, GrantTerms, InstanceId,
    Latch, LatchKind, Limit, LoginCode, Once, OnceKey, Person, Principal, Question, Resolution, Token, Totals,
};

use super::{
    Account, Answered, ApprovalFilter, Ballot, CompleteError, Completed, EffectFilter, Filed, Reservation, Reserved,
    State, Taken, Ticket, VoteError, approvals, db::Db, evidence, grants, known::Known, latches, once, spend, tokens,
};
use crate::StoreError;

/// Remembers what changes in a data directory. Dropping it finishes what was begun.
///
/// One thread of its own does all the work, because a change waits for the disk. A caller that goes away does not take
/// its change back. Tokens that were looked up are remembered where they are asked for (`known.rs`).
#[derive(Debug)]
pub struct SqliteState {
    work: Mutex<Option<Sender<Work>>>,
    /// None once it is closed.
    known: Arc<Mutex<Option<Known>>>,
    instance: InstanceId,
    closed: watch::Receiver<Option<Result<(), StoreError>>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce(&mut Db) + Send>;

impl SqliteState {
    /// Opens the state of a data directory, and makes both if they are not there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let mut db = Db::open(dir)?;
        let instance = db.instance.id.clone();
        let known = Arc::new(Mutex::new(Some(db.known())));
        let (work, jobs) = mpsc::channel::<Work>();
        let (result, closed) = watch::channel(None);
        let thread = thread::Builder::new().name("state".to_owned()).spawn(move || {
            for job in jobs {
                job(&mut db);
            }
            result.send_replace(Some(db.close()));
        });
        let thread = Some(thread.map_err(|error| StoreError::file(dir, error))?);
        Ok(Self { work: Mutex::new(Some(work)), known, instance, closed, thread })
    }

    async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Db) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |db| {
            // A caller that went away needs no answer.
            let _ = answer.send(job(db));
        });
        let sent = match &*self.work.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.send(work).is_ok(),
            None => false,
        };
        if !sent {
            return Err(StoreError::StateClosed);
        }
        answered.await.unwrap_or(Err(StoreError::StateClosed))
    }

    fn stop(&self) {
        held(&self.known).take();
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn held(known: &Mutex<Option<Known>>) -> MutexGuard<'_, Option<Known>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The token with this hash, if it holds, for whoever asks next too.
fn look_up(db: &mut Db, known: &Mutex<Option<Known>>, hash: &Digest, now_ms: u64) -> Result<Option<Token>, StoreError> {
    let moment = held(known).as_mut().and_then(Known::moment);
    let found = db.read(|tx| tokens::by_hash(tx, hash, now_ms))?;
    if found.as_ref().is_some_and(|token| tokens::is_stale(token, now_ms)) {
        return db.write(|tx| tokens::touch(tx, hash, now_ms));
    }
    if let (Some(token), Some(known)) = (&found, held(known).as_mut()) {
        known.learn(token, moment, now_ms);
    }
    Ok(found)
}

impl Drop for SqliteState {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl State for SqliteState {
    fn file(&self, question: Question, now_ms: u64) -> Answered<'_, Filed> {
        self.ask(move |db| db.write(|tx| approvals::file(tx, &question, now_ms))).boxed()
    }

    fn approval(&self, id: ApprovalId) -> Answered<'_, Option<Approval>> {
        self.ask(move |db| db.read(|tx| approvals::get(tx, &id))).boxed()
    }

    fn approvals(&self, filter: ApprovalFilter) -> Answered<'_, Vec<Approval>> {
        self.ask(move |db| db.read(|tx| approvals::list(tx, &filter))).boxed()
    }

    fn waiting(&self, after: Option<ApprovalId>, most: u32) -> Answered<'_, Vec<Approval>> {
        self.ask(move |db| db.read(|tx| approvals::waiting(tx, after.as_ref(), most))).boxed()
    }

    fn vote(&self, id: ApprovalId, ballot: Ballot, now_ms: u64) -> BoxFuture<'_, Result<Approval, VoteError>> {
        let voted = self.ask(move |db| db.write(|tx| approvals::vote(tx, &id, &ballot, now_ms)));
        async move { voted.await? }.boxed()
    }

    fn take(&self, question: Digest, principal: Principal, now_ms: u64) -> Answered<'_, Taken> {
        self.ask(move |db| db.write(|tx| approvals::take(tx, &question, &principal, now_ms))).boxed()
    }

    fn denied(&self, deed: Digest, now_ms: u64) -> Answered<'_, Option<Approval>> {
        self.ask(move |db| db.read(|tx| approvals::denied(tx, &deed, now_ms))).boxed()
    }

    fn time_out(&self, id: ApprovalId, answer: Answer, why: String, now_ms: u64) -> Answered<'_, Option<Approval>> {
        self.ask(move |db| db.write(|tx| approvals::time_out(tx, &id, answer, why, now_ms))).boxed()
    }

    fn expire(&self, now_ms: u64) -> Answered<'_, Vec<Approval>> {
        self.ask(move |db| db.write(|tx| approvals::expire(tx, now_ms))).boxed()
    }

    fn escalate(
        &self,
        id: ApprovalId,
        from: u32,
        may_approve: Vec<Person>,
        now_ms: u64,
    ) -> Answered<'_, Option<Approval>> {
        self.ask(move |db| db.write(|tx| approvals::escalate(tx, &id, from, &may_approve, now_ms))).boxed()
    }

    fn grant(&self, terms: GrantTerms, now_ms: u64) -> Answered<'_, Grant> {
        self.ask(move |db| db.write(|tx| grants::add(tx, &terms, now_ms))).boxed()
    }

    fn grants(&self, agent: Option<AgentName>) -> Answered<'_, Vec<Grant>> {
        self.ask(move |db| db.read(|tx| grants::list(tx, agent.as_ref()))).boxed()
    }

    fn revoke(&self, id: GrantId, by: Person, now_ms: u64) -> Answered<'_, Option<Grant>> {
        self.ask(move |db| db.write(|tx| grants::revoke(tx, &id, by, now_ms))).boxed()
    }

    fn use_grant(&self, candidates: Vec<GrantId>, now_ms: u64) -> Answered<'_, Option<Grant>> {
        self.ask(move |db| db.write(|tx| grants::take(tx, &candidates, now_ms))).boxed()
    }

    fn instance(&self) -> InstanceId {
        self.instance.clone()
    }

    fn reserve(&self, wanted: Reservation, now_ms: u64) -> Answered<'_, Reserved> {
        self.ask(move |db| {
            let (us, instances) = (db.instance.id.clone(), db.instances.clone());
            db.write(|tx| once::reserve(tx, &wanted, &us, &instances, now_ms))
        })
        .boxed()
    }

    fn complete(&self, ticket: Ticket, ended: Completed, now_ms: u64) -> BoxFuture<'_, Result<(), CompleteError>> {
        let (us, key) = (self.instance.clone(), ticket.key.clone());
        let held = self.ask(move |db| db.write(|tx| once::complete(tx, &ticket, &us, &ended, now_ms)));
        async move { if held.await? { Ok(()) } else { Err(CompleteError::NotHeld { key }) } }.boxed()
    }

    fn orphaned(&self, now_ms: u64) -> Answered<'_, Vec<Once>> {
        self.ask(move |db| {
            let instances = db.instances.clone();
            db.write(|tx| once::orphaned(tx, &instances, now_ms))
        })
        .boxed()
    }

    fn effect(&self, key: OnceKey) -> Answered<'_, Option<Once>> {
        self.ask(move |db| db.read(|tx| once::get(tx, &key))).boxed()
    }

    fn effects(&self, filter: EffectFilter) -> Answered<'_, Vec<Once>> {
        self.ask(move |db| db.read(|tx| once::list(tx, &filter))).boxed()
    }

    fn resolve(&self, key: OnceKey, by: Person, found: Resolution, now_ms: u64) -> Answered<'_, Option<Once>> {
        self.ask(move |db| db.write(|tx| once::resolve(tx, &key, by, found, now_ms))).boxed()
    }

    fn add_evidence(&self, evidence: Evidence) -> Answered<'_, u64> {
        self.ask(move |db| db.write(|tx| evidence::add(tx, &evidence))).boxed()
    }

    fn evidence(&self, agent: AgentName) -> Answered<'_, Vec<Evidence>> {
        self.ask(move |db| db.read(|tx| evidence::of(tx, &agent))).boxed()
    }

    fn evidence_after(&self, agent: AgentName, number: u64) -> Answered<'_, Vec<(u64, Evidence)>> {
        self.ask(move |db| db.read(|tx| evidence::after(tx, &agent, number))).boxed()
    }

    fn agents_with_evidence(&self) -> Answered<'_, Vec<AgentName>> {
        self.ask(move |db| db.read(evidence::agents)).boxed()
    }

    fn try_spend(
        &self,
        account: Account,
        cost: Cost,
        limits: Vec<Limit>,
        now_ms: u64,
    ) -> Answered<'_, Result<Totals, Exceeded>> {
        self.ask(move |db| db.write(|tx| spend::try_add(tx, &account, &cost, &limits, now_ms))).boxed()
    }

    fn spend(&self, account: Account, cost: Cost, now_ms: u64) -> Answered<'_, Totals> {
        self.ask(move |db| db.write(|tx| spend::add(tx, &account, &cost, now_ms))).boxed()
    }

    fn spent(&self, account: Account, now_ms: u64) -> Answered<'_, Totals> {
        self.ask(move |db| db.read(|tx| spend::totals(tx, &account, now_ms))).boxed()
    }

    fn add_token(&self, token: Token) -> Answered<'_, ()> {
        self.ask(move |db| db.write(|tx| tokens::add(tx, &token))).boxed()
    }

    fn token_by_hash(&self, hash: Digest, now_ms: u64) -> Answered<'_, Option<Token>> {
        let remembered = match held(&self.known).as_mut() {
            Some(known) => known.token(&hash, now_ms),
            None => Err(StoreError::StateClosed),
        };
        match remembered {
            Ok(Some(token)) if !tokens::is_stale(&token, now_ms) => {
                ready(Ok(token.holds(now_ms).then_some(token))).boxed()
            }
            Ok(_) => {
                let known = self.known.clone();
                self.ask(move |db| look_up(db, &known, &hash, now_ms)).boxed()
            }
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn tokens(&self) -> Answered<'_, Vec<Token>> {
        self.ask(move |db| db.read(tokens::list)).boxed()
    }

    fn revoke_token(&self, id: String, now_ms: u64) -> Answered<'_, Option<Token>> {
        self.ask(move |db| db.write(|tx| tokens::revoke(tx, &id, now_ms))).boxed()
    }

    fn rotate_token(
        &self,
        id: String,
        hash: Digest,
        expires_ms: Option<u64>,
        now_ms: u64,
    ) -> Answered<'_, Option<Token>> {
        self.ask(move |db| db.write(|tx| tokens::rotate(tx, &id, &hash, expires_ms, now_ms))).boxed()
    }

    fn add_login_code(&self, code: LoginCode, now_ms: u64) -> Answered<'_, ()> {
        self.ask(move |db| db.write(|tx| tokens::add_code(tx, &code, now_ms))).boxed()
    }

    fn use_login_code(&self, hash: Digest, now_ms: u64) -> Answered<'_, Option<Person>> {
        self.ask(move |db| db.write(|tx| tokens::use_code(tx, &hash, now_ms))).boxed()
    }

    fn latch(&self, agent: AgentName, kind: LatchKind, why: String, now_ms: u64) -> Answered<'_, bool> {
        self.ask(move |db| db.write(|tx| latches::close(tx, &agent, kind, &why, now_ms))).boxed()
    }

    fn latches(&self, agent: AgentName) -> Answered<'_, Vec<Latch>> {
        self.ask(move |db| db.read(|tx| latches::of(tx, &agent))).boxed()
    }

    fn clear(&self, agent: AgentName, kind: LatchKind, by: Person, now_ms: u64) -> Answered<'_, Option<Latch>> {
        self.ask(move |db| db.write(|tx| latches::clear(tx, &agent, kind, by, now_ms))).boxed()
    }

    fn close(&self) -> Answered<'_, ()> {
        self.stop();
        let mut ended = self.closed.clone();
        async move {
            match ended.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or(Ok(())),
                Err(_) => Err(StoreError::StateClosed),
            }
        }
        .boxed()
    }
}
