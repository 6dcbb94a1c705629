//! Calls that take longer than a client wants to wait: the extension `io.modelcontextprotocol/tasks`.
//!
//! A client that knows tasks is given one in place of an answer when a call has not ended after a moment. The call goes on
//! by itself, and the client comes to look: what it is at, what it asks, how it ended. A task belongs to the agent whose
//! list this is, and to nobody else who learns its name. One that nobody fetches is cancelled when its time is over.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use rmcp::{
    ErrorData,
    model::{
        DetailedTask, ErrorCode, GetTaskResult, InputRequests, InputResponses, JsonObject, MetaObject, Task,
        TaskPayload, TaskStatus,
    },
};
use serde_json::{Map, Value};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{Fault, Outcome};

use crate::{
    ask::chance,
    message::told,
    relay,
    underway::{Standing, UnderWay},
};

/// How long a call may take before it becomes a task.
pub(crate) const MOMENT: Duration = Duration::from_secs(5);
/// How long a call that can become a task waits for people.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long a task is there, from its beginning.
const LIFE: Duration = Duration::from_secs(30 * 60);
/// Tasks of one agent. When there are so many, calls wait as they do without tasks.
const MOST: usize = 32;
/// How often a client should come to look.
const LOOK: Duration = Duration::from_secs(1);
/// Answers that wait to be taken.
const UNTAKEN: usize = 8;
/// Bytes of results of one agent that wait to be fetched. The one that ended first makes room, as if its time were over.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The tasks of one agent.
#[derive(Default)]
pub(crate) struct Tasks(Arc<Mutex<List>>);

type List = HashMap<String, Kept>;

/// What became of a call that is to go on by itself.
pub(crate) enum Adopted {
    Task(Box<Task>),
    /// There are so many tasks that it goes on as it did.
    Full(UnderWay),
}

/// One of them.
struct Kept {
    until: Instant,
    stands: Arc<Mutex<Stands>>,
    answers: mpsc::Sender<InputResponses>,
    cancel: CancellationToken,
    running: JoinHandle<()>,
}

/// How it stands.
#[derive(Clone)]
struct Stands {
    task: Task,
    stage: Stage,
}

/// How far it is.
#[derive(Clone)]
enum Stage {
    Works,
    Asks(Map<String, Value>),
    Ended { at: Instant, end: End },
}

/// How it ended.
#[derive(Clone)]
enum End {
    /// With this result. As text it takes as many bytes as it is counted for.
    Done(Arc<str>),
    Failed(JsonObject),
    Cancelled,
}

/// How a call ended, as its client is told.
pub(crate) type Finished = Result<JsonObject, ErrorData>;

impl Tasks {
    /// Is there room for one more?
    pub(crate) fn has_room(&self) -> bool {
        self.lock().len() < MOST
    }

    /// Lets a call go on by itself. `finish` says what its client gets in the end: none where it was cancelled.
    pub(crate) fn adopt(
        &self,
        call: UnderWay,
        finish: impl FnOnce(Outcome, Option<Value>) -> Option<Finished> + Send + 'static,
    ) -> Result<Adopted, ErrorData> {
        let (name, now) = (chance()?, Timestamp::now().to_string());
        // Held until it is in the list: two that come at once do not both take the last place.
        let mut tasks = self.lock();
        if tasks.len() >= MOST {
            return Ok(Adopted::Full(call));
        }
        let task = Task::new(&name, TaskStatus::Working, &now, &now)
            .with_ttl_ms(LIFE.as_secs() * 1_000)
            .with_poll_interval_ms(LOOK.as_secs() * 1_000);
        let stands = Arc::new(Mutex::new(Stands::new(task.clone())));
        let (answers, brought) = mpsc::channel(UNTAKEN);
        let (cancel, until) = (CancellationToken::new(), Instant::now() + LIFE);
        let told = stands.clone();
        let ended = call.alone(brought, cancel.clone(), move |standing| {
            told.lock().unwrap_or_else(PoisonError::into_inner).take(standing)
        });
        let (late, told, all) = (cancel.clone(), stands.clone(), Arc::downgrade(&self.0));
        let running = tokio::spawn(async move {
            let mut ended = std::pin::pin!(ended);
            let (outcome, lacks) = tokio::select! {
                ended = &mut ended => ended,
                () = sleep_until(until) => {
                    late.cancel();
                    ended.await
                }
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).end(finish(outcome, lacks));
            if let Some(all) = all.upgrade() {
                make_room(&mut all.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        tasks.insert(name, Kept { until, stands, answers, cancel, running });
        Ok(Adopted::Task(Box::new(task)))
    }

    /// How a task stands.
    pub(crate) fn show(&self, name: &str, meta: MetaObject) -> Result<GetTaskResult, ErrorData> {
        let Stands { task, stage } = self.find(name, |task| task.stands().clone())?;
        let (payload, meta) = match stage {
            Stage::Works => (TaskPayload::Working, meta),
            Stage::Asks(questions) => {
                // The SDK's type for them would lose what it has no word for.
                let nothing = TaskPayload::InputRequired { input_requests: InputRequests::new() };
                (nothing, relay::with_questions(questions, meta))
            }
            Stage::Ended { end: End::Done(result), .. } => {
                (TaskPayload::Completed { result: serde_json::from_str(&result).unwrap_or_default() }, meta)
            }
            Stage::Ended { end: End::Failed(error), .. } => (TaskPayload::Failed { error }, meta),
            Stage::Ended { end: End::Cancelled, .. } => (TaskPayload::Cancelled, meta),
        };
        let mut shown = GetTaskResult::new(DetailedTask::new(task, payload));
        shown.meta = Some(meta);
        Ok(shown)
    }

    /// Takes answers to what a task asks. Those to anything else are nobody's.
    pub(crate) fn answer(&self, name: &str, answers: InputResponses) -> Result<(), ErrorData> {
        // A task that takes none any more, or not so many at once, asks again.
        self.find(name, |task| drop(task.answers.try_send(answers)))
    }

    /// Takes a task back. What has ended stays as it ended.
    pub(crate) fn cancel(&self, name: &str) -> Result<(), ErrorData> {
        self.find(name, |task| task.cancel.cancel())
    }

    /// Takes all of them back, and waits until their ends are recorded.
    pub(crate) async fn close(&self) {
        let tasks = std::mem::take(&mut *self.lock());
        tasks.values().for_each(|task| task.cancel.cancel());
        for task in tasks.into_values() {
            // How it ended is in the record.
            let _ = task.running.await;
        }
    }

    fn find<T>(&self, name: &str, then: impl FnOnce(&Kept) -> T) -> Result<T, ErrorData> {
        self.lock().get(name).map(then).ok_or_else(|| {
            let message = "there is no such task, or its time is over";
            told(ErrorCode::INVALID_PARAMS, Fault::failed("unknown_task", message, "Make the call again."))
        })
    }

    /// The tasks there are: what ended and was not fetched in time is gone, and what runs is cancelled by its own clock.
    fn lock(&self) -> MutexGuard<'_, List> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|_, task| task.until > Instant::now() || !task.running.is_finished());
        tasks
    }
}

impl Kept {
    fn stands(&self) -> MutexGuard<'_, Stands> {
        self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it ended, and the bytes of its result.
    fn result(&self) -> Option<(Instant, usize)> {
        match &self.stands().stage {
            Stage::Ended { at, end: End::Done(result) } => Some((*at, result.len())),
            _ => None,
        }
    }
}

/// Sees to it that results take no more bytes than they may.
fn make_room(tasks: &mut List) {
    let results = |(name, task): (&String, &Kept)| task.result().map(|(at, bytes)| (at, name.clone(), bytes));
    let mut results: Vec<_> = tasks.iter().filter_map(results).collect();
    results.sort();
    let mut bytes: usize = results.iter().map(|(.., bytes)| bytes).sum();
    for (_, name, freed) in results {
        if bytes <= MOST_BYTES {
            return;
        }
        tasks.remove(&name);
        bytes -= freed;
    }
}

impl Stands {
    fn new(task: Task) -> Self {
        Self { task, stage: Stage::Works }
    }

    fn take(&mut self, standing: Standing) {
        match standing {
            Standing::Works => self.stage = Stage::Works,
            Standing::At(message) => self.task.status_message = Some(message),
            Standing::Asks(questions) => self.stage = Stage::Asks(questions),
        }
        self.task.last_updated_at = Timestamp::now().to_string();
    }

    fn end(&mut self, finished: Option<Finished>) {
        let end = match finished {
            Some(Ok(result)) => End::Done(Value::Object(result).to_string().into()),
            Some(Err(error)) => match serde_json::to_value(error) {
                Ok(Value::Object(error)) => End::Failed(error),
                _ => End::Failed(JsonObject::new()),
            },
            None => End::Cancelled,
        };
        self.stage = Stage::Ended { at: Instant::now(), end };
        self.task.status_message = None;
        self.task.last_updated_at = Timestamp::now().to_string();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use serde_json::json;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::present::tests::outcome;

    const MEGABYTE: usize = 1024 * 1024;

    /// A call that ends after this time, with a result of so many bytes of text.
    fn ending(tasks: &Tasks, after: Duration, bytes: usize) -> String {
        let ended = async move {
            sleep(after).await;
            outcome()
        };
        name(tasks, UnderWay::staged(ended, CancellationToken::new()), bytes)
    }

    /// One that does not end by itself, and what tells that it was cancelled.
    fn hanging(tasks: &Tasks) -> (String, CancellationToken) {
        let cancelled = CancellationToken::new();
        (name(tasks, UnderWay::staged(pending(), cancelled.clone()), 0), cancelled)
    }

    #[track_caller]
    fn name(tasks: &Tasks, call: UnderWay, bytes: usize) -> String {
        let text = move || JsonObject::from_iter([("text".to_owned(), json!("x".repeat(bytes)))]);
        let finish = move |outcome: Outcome, _| outcome.code.is_none().then(|| Ok(text()));
        match tasks.adopt(call, finish).unwrap() {
            Adopted::Task(task) => task.task_id.clone(),
            Adopted::Full(call) => panic!("there was no room for {call:?}"),
        }
    }

    /// How a task stands, or why nobody knows.
    fn status(tasks: &Tasks, name: &str) -> String {
        match tasks.show(name, MetaObject::new()) {
            Ok(shown) => json!(shown)["status"].as_str().unwrap().to_owned(),
            Err(error) => error.data.unwrap()["code"].as_str().unwrap().to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_has_so_many_tasks_at_once() {
        let tasks = Tasks::default();
        let names: Vec<_> = (0..MOST).map(|_| hanging(&tasks).0).collect();
        assert!(!tasks.has_room());
        // One more that comes at the same moment, when it has already been said that there is room.
        let cancelled = CancellationToken::new();
        let late = tasks.adopt(UnderWay::staged(pending(), cancelled.clone()), |_, _| None).unwrap();
        let Adopted::Full(_call) = late else { panic!("there was one more") };
        assert!(!cancelled.is_cancelled());
        // One that has ended still waits to be fetched.
        tasks.cancel(&names[0]).unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!((status(&tasks, &names[0]), tasks.has_room()), ("cancelled".to_owned(), false));
        sleep(LIFE).await;
        assert!(tasks.has_room());
        hanging(&tasks);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_there_for_half_an_hour() {
        let tasks = Tasks::default();
        let (hangs, cancelled) = hanging(&tasks);
        let done = ending(&tasks, Duration::from_secs(60), 1);
        let moment = Duration::from_secs(1);
        sleep(Duration::from_secs(30 * 60) - moment).await;
        assert_eq!((&*status(&tasks, &hangs), &*status(&tasks, &done)), ("working", "completed"));
        assert!(!cancelled.is_cancelled());
        sleep(2 * moment).await;
        assert_eq!((&*status(&tasks, &hangs), &*status(&tasks, &done)), ("unknown_task", "unknown_task"));
        assert!(cancelled.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn results_that_wait_to_be_fetched_take_so_many_bytes() {
        let tasks = Tasks::default();
        let (hangs, _) = hanging(&tasks);
        // The second ends first, so it is the one that makes room.
        let ends = [2, 1, 3].map(|after| ending(&tasks, Duration::from_secs(after), 21 * MEGABYTE));
        sleep(Duration::from_secs(10)).await;
        let all = || [&hangs, &ends[0], &ends[1], &ends[2]].map(|name| status(&tasks, name));
        assert_eq!(all(), ["working", "completed", "completed", "completed"]);
        let small = ending(&tasks, Duration::ZERO, MEGABYTE);
        advance(Duration::from_secs(1)).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(all(), ["working", "completed", "unknown_task", "completed"]);
        let shown = json!(tasks.show(&small, MetaObject::new()).unwrap());
        assert_eq!(shown["result"]["text"].as_str().unwrap().len(), MEGABYTE, "it is whole");
        let error = |name: &str| tasks.show(name, MetaObject::new()).unwrap_err();
        assert_eq!(error(&ends[1]), error("nobody's"), "as if there had never been one");
    }
}
