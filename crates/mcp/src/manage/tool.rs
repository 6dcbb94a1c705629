//! A tool of the management surface, the three builders that make one, and what a call of it has to pass.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use toolgate_contract::{Fault, Scope, ToolDef};
use toolgate_runtime::{schema::Schema, tokens::Proven, tools::input_schema};

use super::{
    answer::Answered,
    desk::{Desk, House},
    page::{self, Paging},
};

/// The longest reason, in bytes: as long as a person's answer may be.
const LONGEST_REASON: usize = 2_000;

/// What a tool does, and so what a call of it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// It looks.
    Read,
    /// It takes something away from agents, or adds to what speaks against them.
    Write,
    /// It gives agents more, or removes something for good.
    Admin,
}

/// A tool.
pub(crate) struct Tool {
    pub(crate) def: ToolDef,
    pub(crate) kind: Kind,
    /// What the person's token must be good for.
    pub(crate) scope: Scope,
    /// It talks to another machine.
    pub(crate) reaches_out: bool,
    /// Compiled when it is first called.
    schema: OnceLock<Result<Schema, String>>,
    body: Body,
}

type Body = Arc<dyn Fn(Desk, Value) -> BoxFuture<'static, Answered> + Send + Sync>;

/// What stands beside a tool's own arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Why; empty where nothing is changed.
    pub(crate) reason: String,
    pub(crate) page: Paging,
}

/// Looks at something.
pub(crate) fn read<A, F>(
    name: &'static str,
    about: &'static str,
    body: impl Fn(Desk, A) -> F + Send + Sync + 'static,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Answered> + Send + 'static,
{
    let mut schema = input_schema::<A>();
    close(&mut schema);
    let def = ToolDef { name: name.into(), description: about.into(), input_schema: schema, ..ToolDef::default() };
    let body = Arc::new(body);
    let body: Body = Arc::new(move |desk, arguments| {
        let body = body.clone();
        Box::pin(async move { body(desk, typed(arguments)?).await })
    });
    Tool { def, kind: Kind::Read, scope: Scope::Read, reaches_out: false, schema: OnceLock::new(), body }
}

/// Takes something away from agents. It says why.
pub(crate) fn write<A, F>(
    name: &'static str,
    scope: Scope,
    about: &'static str,
    body: impl Fn(Desk, A) -> F + Send + Sync + 'static,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Answered> + Send + 'static,
{
    let mut tool = read(name, about, body);
    let reason = json!({
        "type": "string", "minLength": 1, "maxLength": LONGEST_REASON, "pattern": "\\S",
        "description": "Why, in the person's words. It is kept in the record.",
    });
    require(&mut tool.def.input_schema, "reason", reason);
    Tool { kind: Kind::Write, scope, ..tool }
}

/// Gives agents more, or removes something for good. It says who does it, why, and that it is meant.
pub(crate) fn admin<A, F>(
    name: &'static str,
    scope: Scope,
    about: &'static str,
    body: impl Fn(Desk, A) -> F + Send + Sync + 'static,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Answered> + Send + 'static,
{
    let mut tool = write(name, scope, about, body);
    let actor = json!({
        "type": "string", "minLength": 1, "maxLength": 200,
        "description": "The person who does this: the one the token belongs to.",
    });
    let confirm = json!({
        "const": true, "description": "That the person has said, of exactly this, that it is to be done.",
    });
    require(&mut tool.def.input_schema, "actor", actor);
    require(&mut tool.def.input_schema, "confirm", confirm);
    Tool { kind: Kind::Admin, ..tool }
}

impl Tool {
    /// Gives its answer in pages.
    pub(crate) fn paged(mut self) -> Self {
        if let Some(properties) = self.def.input_schema["properties"].as_object_mut() {
            properties.extend(page::properties());
        }
        self
    }

    /// Wants more of a token than to read.
    pub(crate) fn wants(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Talks to another machine.
    pub(crate) fn reaching_out(self) -> Self {
        Self { reaches_out: true, ..self }
    }

    /// The first part of its name.
    pub(crate) fn domain(&self) -> &str {
        self.def.name.split('_').next().unwrap_or_default()
    }

    /// One call, from arrival to answer.
    pub(crate) async fn call(&self, house: &Arc<House>, who: Proven, arguments: Value) -> Answered {
        let (input, beside) = match self.admit(&who, &arguments) {
            Ok(admitted) => admitted,
            Err(fault) => {
                self.note_refused(house, &who, &fault).await;
                return Err(fault);
            }
        };
        if self.kind == Kind::Read {
            return (self.body)(Desk::new(house.clone(), who, beside), input).await;
        }
        // No record, no effect.
        let mut detail = house.without_secrets(json!({ "arguments": input, "reason": beside.reason }));
        detail["proved_with"] = json!(who.token);
        house.note("managed", &who, &self.def.name, detail).await?;
        // It goes on to its end, also when whoever asked is gone.
        let body = (self.body)(Desk::new(house.clone(), who.clone(), beside), input);
        let ended = tokio::spawn(body).await.unwrap_or_else(|error| Err(lost(&error.to_string())));
        if let Err(fault) = &ended {
            house.note("manage_failed", &who, &self.def.name, json!({ "code": fault.code })).await?;
        }
        ended
    }

    /// What nobody may do, or did not ask for in order, is in the record too, where it would have changed something. Nothing
    /// happens either way, so a record that cannot be written changes nothing about the answer.
    async fn note_refused(&self, house: &House, who: &Proven, fault: &Fault) {
        if self.kind == Kind::Read {
            return;
        }
        let detail = json!({ "code": fault.code, "proved_with": who.token });
        let noted = house.note("manage_refused", who, &self.def.name, detail).await;
        if let Err(fault) = noted {
            tracing::error!(tool = %self.def.name, "what was refused could not be recorded: {fault}");
        }
    }

    /// The arguments the tool runs with: rights first, then whoever gives them stands for them, then they are read.
    fn admit(&self, who: &Proven, arguments: &Value) -> Result<(Value, Beside), Fault> {
        if !who.may(self.scope) {
            let message = format!("the token of `{}` is not for `{}`", who.person, self.scope);
            return Err(Fault::refused("scope_missing", message, "Ask a person who may; do not try another way."));
        }
        if self.kind == Kind::Admin {
            vouched(who, arguments)?;
        }
        if self.kind != Kind::Read && !is_said(&arguments["reason"]) {
            return Err(missing("missing_reason", "nobody says why", "Give the person's `reason`."));
        }
        let schema = self.schema.get_or_init(|| Schema::compile(&self.def.input_schema)).as_ref().map_err(|error| {
            Fault::failed("manage_failed", format!("the schema of the tool is broken: {error}"), "Report it as a bug.")
        })?;
        let mut input = schema.admit_input(&self.def, arguments)?;
        let mut take = |name: &str| input.as_object_mut().and_then(|fields| fields.remove(name));
        let reason = take("reason").as_ref().and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let (_actor, _confirm) = (take("actor"), take("confirm"));
        let page = Paging::read(&self.def.name, take("limit").as_ref(), take("cursor").as_ref())?;
        Ok((input, Beside { reason, page }))
    }
}

/// Does somebody stand for what is asked: the person whose token it is, by name, and explicitly?
fn vouched(who: &Proven, arguments: &Value) -> Result<(), Fault> {
    if !is_said(&arguments["actor"]) {
        return Err(missing("missing_actor", "nobody says who does this", "Name the person as `actor`."));
    }
    if arguments["actor"] != json!(who.person) {
        let message = format!("the token belongs to `{}`, and somebody else is named as `actor`", who.person);
        return Err(missing("wrong_actor", message, "Name the person whose token this is; nobody acts for another."));
    }
    if arguments["confirm"] != json!(true) {
        let remedy = "Ask the person about exactly this, and send `confirm: true` when they agreed.";
        return Err(missing("missing_confirm", "nobody says that this is meant", remedy));
    }
    Ok(())
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn missing(code: &'static str, message: impl Into<String>, remedy: &str) -> Fault {
    Fault::refused(code, message, remedy)
}

fn lost(error: &str) -> Fault {
    Fault::failed("manage_failed", format!("the work was lost: {error}"), "Look into the log, and report it as a bug.")
}

fn typed<A: DeserializeOwned>(arguments: Value) -> Result<A, Fault> {
    serde_json::from_value(arguments).map_err(|error| {
        Fault::failed("invalid_arguments", error.to_string(), "Compare them with the tool's input schema.")
    })
}

/// Arguments are an object, and nothing is in it that the schema does not name.
fn close(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("description");
        fields.insert("type".to_owned(), json!("object"));
        fields.insert("additionalProperties".to_owned(), json!(false));
        fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
}

fn require(schema: &mut Value, name: &str, property: Value) {
    schema["properties"][name] = property;
    match schema["required"].as_array_mut() {
        Some(required) => required.push(json!(name)),
        None => schema["required"] = json!([name]),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::Person;

    use super::*;
    use crate::manage::answer::Data;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        #[expect(dead_code, reason = "it is read, and not used")]
        agent: String,
    }

    fn tool() -> Tool {
        admin("agents_probe", Scope::Admin, "A probe.", async |_, _: Arguments| Ok(Data::one(&json!(null))))
    }

    fn check(scopes: &[Scope], arguments: Value, expected: Result<Value, &str>) {
        let who =
            Proven { person: Person::from("ann"), scopes: scopes.iter().copied().collect(), token: String::new() };
        let admitted = tool().admit(&who, &arguments);
        let admitted = admitted.as_ref().map(|(input, _)| input.clone()).map_err(|fault| &*fault.code);
        assert_eq!(admitted, expected, "{arguments}");
    }

    #[test]
    fn rights_come_first_then_the_triple_then_the_schema() {
        let all = json!({ "agent": "coder", "actor": "ann", "confirm": true, "reason": "asked for" });
        check(&[Scope::Admin], all.clone(), Ok(json!({ "agent": "coder" })));
        check(&[Scope::Read, Scope::Approve], all.clone(), Err("scope_missing"));
        check(&[], json!({}), Err("scope_missing"));
        let with = |name: &str, value: Value| {
            let mut changed = all.clone();
            changed[name] = value;
            changed
        };
        for (name, value, code) in [
            ("actor", json!(null), "missing_actor"),
            ("actor", json!(" "), "missing_actor"),
            ("actor", json!("Ann"), "wrong_actor"),
            ("actor", json!("bob"), "wrong_actor"),
            ("confirm", json!(false), "missing_confirm"),
            ("confirm", json!("true"), "missing_confirm"),
            ("confirm", json!(1), "missing_confirm"),
            ("reason", json!(" \n"), "missing_reason"),
            ("reason", json!(7), "missing_reason"),
            ("reason", json!("x".repeat(2_001)), "invalid_arguments"),
            ("agent", json!(7), "invalid_arguments"),
            ("agents", json!("coder"), "invalid_arguments"),
            ("limit", json!(1), "invalid_arguments"),
        ] {
            check(&[Scope::Admin], with(name, value), Err(code));
        }
    }

    #[test]
    fn the_schema_alone_wants_the_triple_too() {
        let tool = tool();
        let schema = Schema::compile(&tool.def.input_schema).unwrap();
        let all = json!({ "agent": "coder", "actor": "ann", "confirm": true, "reason": "asked for" });
        assert!(schema.admit_input(&tool.def, &all).is_ok());
        for name in ["agent", "actor", "confirm", "reason"] {
            let mut without = all.clone();
            without.as_object_mut().unwrap().remove(name);
            assert!(schema.admit_input(&tool.def, &without).is_err(), "{name}");
        }
        for (name, value) in [("confirm", json!(false)), ("confirm", json!("true")), ("reason", json!(" "))] {
            let mut wrong = all.clone();
            wrong[name] = value;
            assert!(schema.admit_input(&tool.def, &wrong).is_err(), "{name}");
        }
    }
}
