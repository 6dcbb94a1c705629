//! Whose a container and a job are, as variables of their environment: what is said there can be told apart later.

use toolgate_contract::Job;

use crate::pool::NOBODY_YET;

/// The agent.
pub const AGENT_ID: &str = "TOOLGATE_AGENT_ID";
/// The instance of the runtime.
pub const SESSION_ID: &str = "TOOLGATE_SESSION_ID";
/// What the agent is at.
pub const TASK_ID: &str = "TOOLGATE_TASK_ID";
/// The call.
pub const REQUEST_ID: &str = "TOOLGATE_REQUEST_ID";

/// The longest value that is told. A task is called whatever its caller likes.
const LONGEST: usize = 256;

/// Marks a job as part of a call. What the job says about that itself does not count.
pub fn mark(job: &mut Job, agent: &str, task: Option<&str>, request: &str) {
    job.env.remove(SESSION_ID);
    for (name, value) in [(AGENT_ID, Some(agent)), (TASK_ID, task), (REQUEST_ID, Some(request))] {
        match value.filter(|value| is_told(value)) {
            Some(value) => job.env.insert(name.to_owned(), value.to_owned()),
            None => job.env.remove(name),
        };
    }
}

/// Whose a room is: at first whoever it was made for, later whoever had its last job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) agent: Option<String>,
    pub(crate) session: String,
    pub(crate) task: Option<String>,
    pub(crate) request: Option<String>,
}

impl Ids {
    /// Of a room for `owner`, who is called `agent` or `agent/task`. One that was made ahead is nobody's.
    pub(crate) fn of(owner: &str, session: &str) -> Self {
        let mut ids = Self { session: session.to_owned(), ..Self::default() };
        ids.given_to(owner);
        ids
    }

    pub(crate) fn given_to(&mut self, owner: &str) {
        if owner == NOBODY_YET {
            return;
        }
        let (agent, task) = owner.split_once('/').map_or((owner, None), |(agent, task)| (agent, Some(task)));
        let told = |value: &str| is_told(value).then(|| value.to_owned());
        (self.agent, self.task) = (told(agent), task.and_then(told));
    }

    /// Takes over whose a job is, where it is marked.
    pub(crate) fn follow(&mut self, job: &Job) {
        let Some(request) = job.env.get(REQUEST_ID) else { return };
        self.request = Some(request.clone());
        self.agent = job.env.get(AGENT_ID).cloned();
        self.task = job.env.get(TASK_ID).cloned();
    }

    /// What is known, as a container is told it.
    pub(crate) fn variables(&self) -> Vec<String> {
        let known =
            [(AGENT_ID, self.agent.as_deref()), (SESSION_ID, Some(&*self.session)), (TASK_ID, self.task.as_deref())];
        known.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
    }
}

fn is_told(value: &str) -> bool {
    !value.is_empty() && value.len() <= LONGEST && !value.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toolgate_contract::JobLimits;

    use super::*;

    fn job(env: &[(&str, &str)]) -> Job {
        let env: BTreeMap<_, _> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Job { argv: Vec::new(), cwd: String::new(), env, stdin: Vec::new(), limits: JobLimits::default() }
    }

    #[test]
    fn a_job_is_marked_and_has_no_say_in_it() {
        let check = |asked: &[(&str, &str)], task: Option<&str>, expected: &[(&str, &str)]| {
            let mut marked = job(asked);
            mark(&mut marked, "coder", task, "call-1");
            assert_eq!(marked, job(expected), "{asked:?} {task:?}");
        };
        let (agent, request) = ((AGENT_ID, "coder"), (REQUEST_ID, "call-1"));
        check(&[("A", "b")], None, &[("A", "b"), agent, request]);
        check(&[], Some("fix"), &[agent, (TASK_ID, "fix"), request]);
        let lies = [(AGENT_ID, "x"), (SESSION_ID, "x"), (TASK_ID, "x"), (REQUEST_ID, "x")];
        check(&lies, None, &[agent, request]);
        let long = "t".repeat(LONGEST + 1);
        for odd in ["", "a\0b", "a\nb", &long] {
            check(&lies, Some(odd), &[agent, request]);
        }
        check(&[], Some(&long[1..]), &[agent, (TASK_ID, &long[1..]), request]);
    }

    #[test]
    fn a_room_is_its_owners_and_then_its_last_jobs() {
        let check = |ids: &Ids, expected: &[&str]| assert_eq!(ids.variables(), expected);
        check(&Ids::of("coder", "s"), &["TOOLGATE_AGENT_ID=coder", "TOOLGATE_SESSION_ID=s"]);
        let all = ["TOOLGATE_AGENT_ID=coder", "TOOLGATE_SESSION_ID=s", "TOOLGATE_TASK_ID=a/b"];
        check(&Ids::of("coder/a/b", "s"), &all);
        let mut ids = Ids::of(NOBODY_YET, "s");
        check(&ids, &["TOOLGATE_SESSION_ID=s"]);
        ids.given_to("coder/a/b");
        check(&ids, &all);
        ids.follow(&job(&[(AGENT_ID, "nobody's word")]));
        check(&ids, &all);
        ids.follow(&job(&[(AGENT_ID, "tester"), (REQUEST_ID, "call-2")]));
        check(&ids, &["TOOLGATE_AGENT_ID=tester", "TOOLGATE_SESSION_ID=s"]);
        assert_eq!(ids.request.as_deref(), Some("call-2"));
    }
}
