//! The state of a single machine: `state.db` in a data directory.

use std::{
    num::NonZero,
    path::Path,
    sync::{
        Mutex, PoisonError,
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
    State, Taken, Ticket, VoteError, approvals,
    db::{Db, Glance},
    evidence, grants, latches, once, spend, tokens,
};
use crate::StoreError;

/// Remembers what changes in a data directory. Dropping it finishes what was begun.
///
/// One thread of its own does all the work, because a change waits for the disk. A caller that goes away does not take
/// its change back. Only tokens are looked up where they are asked for: every request over HTTP does, and the way to another
/// thread and back costs more than the look.
#[derive(Debug)]
pub struct SqliteState {
    work: Mutex<Option<Sender<Work>>>,
    /// As many as there are threads that ask, up to a few: a request does not wait for the look of another.
    glances: Vec<Mutex<Option<Glance>>>,
    instance: InstanceId,
    closed: watch::Receiver<Option<Result<(), StoreError>>>,
    thread: Option<JoinHandle<()>>,
}

type Work = Box<dyn FnOnce(&mut Db) + Send>;

/// The most that look at once.
const GLANCES: usize = 4;

impl SqliteState {
    /// Opens the state of a data directory, and makes both if they are not there.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let mut db = Db::open(dir)?;
        let instance = db.instance.id.clone();
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(GLANCES);
        let glances = (0..threads).map(|_| Ok(Mutex::new(Some(db.glance()?)))).collect::<Result<_, StoreError>>()?;
        let (work, jobs) = mpsc::channel::<Work>();
        let (result, closed) = watch::channel(None);
        let thread = thread::Builder::new().name("state".to_owned()).spawn(move || {
            for job in jobs {
                job(&mut db);
            }
            result.send_replace(Some(db.close()));
        });
        let thread = Some(thread.map_err(|error| StoreError::file(dir, error))?);
        Ok(Self { work: Mutex::new(Some(work)), glances, instance, closed, thread })
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

    /// Looks where nobody else does, if there is such a place.
    fn look_up(&self, hash: &Digest, now_ms: u64) -> Result<Option<Token>, StoreError> {
        let free = self.glances.iter().find_map(|glance| glance.try_lock().ok());
        let mut held = free.or_else(|| Some(self.glances.first()?.lock().unwrap_or_else(PoisonError::into_inner)));
        match held.as_deref_mut() {
            Some(Some(glance)) => glance.token(hash, now_ms),
            Some(None) | None => Err(StoreError::StateClosed),
        }
    }

    fn stop(&self) {
        // Before the thread closes its own: what was written ahead moves into the file with the last.
        for glance in &self.glances {
            glance.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
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
        match self.look_up(&hash, now_ms) {
            Ok(Some(token)) if tokens::is_stale(&token, now_ms) => {
                self.ask(move |db| db.write(|tx| tokens::touch(tx, &hash, now_ms))).boxed()
            }
            found => ready(found).boxed(),
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
