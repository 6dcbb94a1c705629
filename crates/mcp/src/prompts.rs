//! Prompts: common tasks in words, for people who choose them from a menu.
//!
//! A prompt names tools, so it is offered where the agent may use them.

use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;
use toolgate_contract::Fault;

/// One prompt.
struct Task {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The tools it names.
    tools: &'static [&'static str],
    arguments: &'static [Argument],
    /// What is said, with `{name}` for an argument.
    text: &'static str,
}

struct Argument {
    name: &'static str,
    about: &'static str,
    /// What it is if it is left out; none where it must be given.
    default: Option<&'static str>,
}

/// The argument that is the name of a tool.
const TOOL: &str = "tool";

const TASKS: &[Task] = &[
    Task {
        name: "survey_workspace",
        title: "Survey the workspace",
        about: "Find out what the workspace holds and how it is built and tested.",
        tools: &["ls", "find", "read"],
        arguments: &[],
        text: "Look at the workspace with `ls`, `find` and `read`, beginning with its readme and its build files. Then tell \
               me in a page: what it is, how it is laid out, how it is built and tested, and what looks unfinished. Change \
               nothing.",
    },
    Task {
        name: "review_changes",
        title: "Review the changes",
        about: "Read what changed in the repository and report what is wrong with it.",
        tools: &["git_status", "git_diff", "read"],
        arguments: &[Argument {
            name: "against",
            about: "The commit or branch to compare with.",
            default: Some("HEAD"),
        }],
        text: "Review the changes of this repository against `{against}`. Use `git_status` and `git_diff`, and `read` what \
               is around them. Report mistakes first, each with file and line and why it is one, then risks, then taste. \
               Change nothing.",
    },
    Task {
        name: "use_tool",
        title: "Use a tool",
        about: "Reach a goal with one tool.",
        tools: &[],
        arguments: &[
            Argument { name: TOOL, about: "The tool.", default: None },
            Argument { name: "goal", about: "What is to be reached.", default: None },
        ],
        text: "Use the tool `{tool}` to reach this: {goal}. If a call is refused, follow the remedy it names, and tell me \
               when only a person can allow it.",
    },
];

/// The prompts for an agent that may use these tools.
pub(crate) fn list(tools: &[&str]) -> Vec<Prompt> {
    offered(tools).map(shown).collect()
}

/// What a prompt says with these arguments.
pub(crate) fn get(tools: &[&str], name: &str, arguments: Option<&JsonObject>) -> Result<GetPromptResult, Fault> {
    let task = offered(tools).find(|task| task.name == name).ok_or_else(|| unknown(name))?;
    let mut text = task.text.to_owned();
    for argument in task.arguments {
        let given = arguments.and_then(|arguments| arguments.get(argument.name)).and_then(Value::as_str);
        let value = given.or(argument.default).ok_or_else(|| {
            let message = format!("prompt `{name}` needs `{}`", argument.name);
            Fault::failed("missing_argument", message, "Give it as a string.")
        })?;
        text = text.replace(&format!("{{{}}}", argument.name), value);
    }
    let said = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![said]).with_description(task.about))
}

/// There is no such prompt.
pub(crate) fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(80).flat_map(char::escape_default).collect();
    Fault::failed("unknown_prompt", format!("there is no prompt `{shown}`"), "Choose one that is listed.")
}

/// The values an argument could have that begin like this; none where there is no such prompt.
pub(crate) fn complete(tools: &[&str], name: &str, argument: &str, begins: &str) -> Option<Vec<String>> {
    let task = offered(tools).find(|task| task.name == name)?;
    let is_tool = argument == TOOL && task.takes(TOOL);
    let fits = tools.iter().filter(|tool| is_tool && tool.starts_with(begins));
    Some(fits.map(ToString::to_string).collect())
}

fn offered<'a>(tools: &'a [&str]) -> impl Iterator<Item = &'static Task> + 'a {
    TASKS.iter().filter(|task| task.tools.iter().all(|tool| tools.contains(tool)))
}

impl Task {
    fn takes(&self, argument: &str) -> bool {
        self.arguments.iter().any(|it| it.name == argument)
    }
}

fn shown(task: &Task) -> Prompt {
    let argument = |argument: &Argument| {
        PromptArgument::new(argument.name).with_description(argument.about).with_required(argument.default.is_none())
    };
    let arguments: Vec<_> = task.arguments.iter().map(argument).collect();
    Prompt::new(task.name, Some(task.about), (!arguments.is_empty()).then_some(arguments)).with_title(task.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(tools: &[&str]) -> Vec<String> {
        list(tools).into_iter().map(|prompt| prompt.name).collect()
    }

    #[test]
    fn a_prompt_is_offered_where_its_tools_are() {
        assert_eq!(names(&[]), ["use_tool"]);
        assert_eq!(names(&["find", "ls", "read"]), ["survey_workspace", "use_tool"]);
        let refused = get(&[], "survey_workspace", None).unwrap_err();
        assert_eq!(refused.code, "unknown_prompt");
    }

    #[test]
    fn arguments_are_filled_in() {
        let said = |arguments: Value| {
            let result = get(&["git_status", "git_diff", "read"], "review_changes", arguments.as_object()).unwrap();
            serde_json::to_value(result).unwrap()["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
        };
        assert!(said(json!({})).contains("against `HEAD`"));
        assert!(said(json!({ "against": "main" })).contains("against `main`"));
        assert_eq!(get(&[], "use_tool", None).unwrap_err().code, "missing_argument");
    }

    #[test]
    fn names_of_tools_are_completed() {
        let tools = ["git_diff", "git_log", "read"];
        assert_eq!(complete(&tools, "use_tool", "tool", "git").unwrap(), ["git_diff", "git_log"]);
        assert_eq!(complete(&tools, "use_tool", "goal", "git"), Some(Vec::new()));
        assert_eq!(complete(&tools, "nothing", "tool", ""), None);
    }

    #[test]
    fn every_argument_is_in_its_text() {
        for task in TASKS {
            for argument in task.arguments {
                assert!(task.text.contains(&format!("{{{}}}", argument.name)), "{} {}", task.name, argument.name);
            }
        }
    }
}
