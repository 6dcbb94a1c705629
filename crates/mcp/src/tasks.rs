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

/// The tasks of one agent.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Kept>>);

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
    payload: TaskPayload,
    /// What it asks.
    questions: Option<Map<String, Value>>,
}

/// How a call ended, as its client is told.
pub(crate) type Finished = Result<JsonObject, ErrorData>;

impl Tasks {
    /// Is there room for one more?
    pub(crate) fn has_room(&self) -> bool {
        let mut tasks = self.lock();
        // What ended and was not fetched in time is gone; what runs is cancelled by its own clock.
        tasks.retain(|_, task| task.until > Instant::now() || !task.running.is_finished());
        tasks.len() < MOST
    }

    /// Lets a call go on by itself. `finish` says what its client gets in the end: none where it was cancelled.
    pub(crate) fn adopt(
        &self,
        call: UnderWay,
        finish: impl FnOnce(Outcome, Option<Value>) -> Option<Finished> + Send + 'static,
    ) -> Result<Task, ErrorData> {
        let (name, now) = (chance()?, Timestamp::now().to_string());
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
        let (late, told) = (cancel.clone(), stands.clone());
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
        });
        self.lock().insert(name, Kept { until, stands, answers, cancel, running });
        Ok(task)
    }

    /// How a task stands.
    pub(crate) fn show(&self, name: &str, meta: MetaObject) -> Result<GetTaskResult, ErrorData> {
        let stands = self.find(name, |task| task.stands.lock().unwrap_or_else(PoisonError::into_inner).clone())?;
        let Stands { task, payload, questions } = stands;
        let mut shown = GetTaskResult::new(DetailedTask::new(task, payload));
        shown.meta = Some(match questions {
            Some(questions) => relay::with_questions(questions, meta),
            None => meta,
        });
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
        let mut tasks = self.lock();
        tasks.retain(|_, task| task.until > Instant::now() || !task.running.is_finished());
        tasks.get(name).map(then).ok_or_else(|| {
            let message = "there is no such task, or its time is over";
            told(ErrorCode::INVALID_PARAMS, Fault::failed("unknown_task", message, "Make the call again."))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stands {
    fn new(task: Task) -> Self {
        Self { task, payload: TaskPayload::Working, questions: None }
    }

    fn take(&mut self, standing: Standing) {
        match standing {
            Standing::Works => (self.payload, self.questions) = (TaskPayload::Working, None),
            Standing::At(message) => self.task.status_message = Some(message),
            Standing::Asks(questions) => {
                // The SDK's type for them would lose what it has no word for.
                self.payload = TaskPayload::InputRequired { input_requests: InputRequests::new() };
                self.questions = Some(questions);
            }
        }
        self.task.last_updated_at = Timestamp::now().to_string();
    }

    fn end(&mut self, finished: Option<Finished>) {
        self.payload = match finished {
            Some(Ok(result)) => TaskPayload::Completed { result },
            Some(Err(error)) => match serde_json::to_value(error) {
                Ok(Value::Object(error)) => TaskPayload::Failed { error },
                _ => TaskPayload::Failed { error: JsonObject::new() },
            },
            None => TaskPayload::Cancelled,
        };
        (self.task.status_message, self.questions) = (None, None);
        self.task.last_updated_at = Timestamp::now().to_string();
    }
}
