//! A tool: its declaration and its body, and how a typed function becomes one.

use std::{fmt, marker::PhantomData, sync::Arc};

use schemars::{
    JsonSchema,
    generate::{Contract, SchemaSettings},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use toolgate_contract::{ActionType, CommandLine, ConnectionUse, Effect, EffectKind, Fault, Needs, ToolDef, Truncated};

use crate::Cx;

/// What runs when a call has been permitted.
///
/// A body may block: it has a thread of its own. It must return soon after [`Cx::check`] starts to fail; the call is
/// answered at its deadline all the same, but the thread and the tool's slot stay taken until the body returns.
pub trait Body: Send + Sync {
    /// What a call with this (validated) input would do. Pure: it looks at nothing but the input.
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault>;
    /// What a call with this (validated) input would start, if it starts a program. Pure, too: the words are read and
    /// judged by the gate, never here.
    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault>;
    /// What a call with this (validated) input amounts to, where that differs from what the tool declares. Pure.
    fn action(&self, _input: &Value) -> Result<Option<ActionType>, Fault> {
        Ok(None)
    }
    /// The connection a call with this (validated) input would use. Pure.
    fn connection(&self, _input: &Value) -> Result<Option<ConnectionUse>, Fault> {
        Ok(None)
    }
    /// Does it.
    fn run(&self, cx: &Cx, input: Value) -> Result<Output, Fault>;
}

/// What a body gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The typed output.
    pub structured: Value,
    /// What the model reads.
    pub text: String,
    /// What the body itself had to cut.
    pub truncated: Option<Truncated>,
}

/// What a typed body gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T> {
    value: T,
    text: Option<String>,
    truncated: Option<Truncated>,
}

impl<T> Answer<T> {
    /// A value that speaks for itself: a string is read as it is, anything else as JSON.
    pub fn new(value: T) -> Self {
        Self { value, text: None, truncated: None }
    }

    /// A value with a text written for the model.
    pub fn with_text(value: T, text: impl Into<String>) -> Self {
        Self { value, text: Some(text.into()), truncated: None }
    }

    /// Says that this is not all there is.
    #[must_use]
    pub fn truncated(self, truncated: Option<Truncated>) -> Self {
        Self { truncated, ..self }
    }
}

/// How long a body takes, whatever it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Longer than a thread switch: it gets a thread of its own, and its deadline answers the call without it.
    Blocking,
    /// Microseconds for a small input: then it runs on the caller's thread, and an answer after its deadline does not
    /// count. With a larger input it is like any other.
    Instant,
}

/// What became of an effect nobody knew about.
#[derive(Debug, Clone, PartialEq)]
pub enum Reconciled<T> {
    /// It happened; this is what it answers.
    Happened(T),
    /// It did not happen.
    DidNotHappen,
    /// Nobody can say.
    CannotSay,
}

/// Finds out what became of the effect under the key in its hands. It changes nothing.
pub type Reconcile = Arc<dyn Fn(&Cx, Value) -> Result<Reconciled<Output>, Fault> + Send + Sync>;

/// Says what a call would change, for a person who is asked to allow it. It has hands that read.
pub type Preview = Arc<dyn Fn(&Cx, Value) -> Result<String, Fault> + Send + Sync>;

/// A declaration and a body.
#[derive(Clone)]
pub struct Tool {
    /// What it is.
    pub def: ToolDef,
    /// What it does.
    pub body: Arc<dyn Body>,
    /// How long that takes.
    pub pace: Pace,
    /// How it finds out what became of an effect.
    pub reconcile: Option<Reconcile>,
    /// How it says what a call would change.
    pub preview: Option<Preview>,
}

impl Tool {
    /// A tool from a function. The schemas come from its types, the effects of a call from its input.
    pub fn typed<I, O>(
        def: ToolDef,
        effects: impl Fn(&I) -> Vec<Effect> + Send + Sync + 'static,
        run: impl Fn(&Cx, I) -> Result<Answer<O>, Fault> + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: Serialize + JsonSchema + Send + Sync + 'static,
    {
        let def = ToolDef { input_schema: input_schema::<I>(), output_schema: schema::<O>(Contract::Serialize), ..def };
        let command = |_: &I| None;
        let body = Arc::new(Typed { effects, command, run, types: PhantomData::<fn(I) -> O> });
        Self { def, body, pace: Pace::Blocking, reconcile: None, preview: None }
    }

    /// A tool that starts a program. Which one, and what else that does, is read from the words it would start.
    pub fn starting<I, O>(
        def: ToolDef,
        command: impl Fn(&I) -> CommandLine + Clone + Send + Sync + 'static,
        run: impl Fn(&Cx, I) -> Result<Answer<O>, Fault> + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: Serialize + JsonSchema + Send + Sync + 'static,
    {
        let def = ToolDef { input_schema: input_schema::<I>(), output_schema: schema::<O>(Contract::Serialize), ..def };
        let line = command.clone();
        let effects =
            move |input: &I| vec![Effect { kind: EffectKind::Exec, target: line(input).program().map(str::to_owned) }];
        let command = move |input: &I| Some(command(input));
        let body = Arc::new(Typed { effects, command, run, types: PhantomData::<fn(I) -> O> });
        Self { def, body, pace: Pace::Blocking, reconcile: None, preview: None }
    }

    /// A tool that touches nothing: a function of its input.
    pub fn pure<I, O>(def: ToolDef, run: impl Fn(&Cx, I) -> Result<Answer<O>, Fault> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: Serialize + JsonSchema + Send + Sync + 'static,
    {
        Self::typed(ToolDef { needs: Needs::NOTHING, ..def }, |_: &I| Vec::new(), run)
    }

    /// Says what a call amounts to where that depends on its input.
    #[must_use]
    pub fn acting<I>(self, action: impl Fn(&I) -> ActionType + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + 'static,
    {
        let connection = |_: &I| None;
        let body = Arc::new(Meant {
            body: self.body,
            action: move |input: &I| Some(action(input)),
            connection,
            types: PhantomData::<fn(I)>,
        });
        Self { body, ..self }
    }

    /// Says which connection a call uses, and whether it may change something there.
    #[must_use]
    pub fn through<I>(self, connection: impl Fn(&I) -> Option<ConnectionUse> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + 'static,
    {
        let action = |_: &I| None;
        let body = Arc::new(Meant { body: self.body, action, connection, types: PhantomData::<fn(I)> });
        Self { body, ..self }
    }

    /// Says how to find out what became of an effect whose answer was lost: a look, by its key, that changes nothing.
    #[must_use]
    pub fn reconciling<I, O>(
        self,
        look: impl Fn(&Cx, I) -> Result<Reconciled<Answer<O>>, Fault> + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
    {
        let reconcile = move |cx: &Cx, input: Value| match look(cx, serde_json::from_value(input).map_err(bad_input)?)?
        {
            Reconciled::Happened(answer) => Ok(Reconciled::Happened(answer.into_output()?)),
            Reconciled::DidNotHappen => Ok(Reconciled::DidNotHappen),
            Reconciled::CannotSay => Ok(Reconciled::CannotSay),
        };
        Self { reconcile: Some(Arc::new(reconcile)), ..self }
    }

    /// Says how to show what a call would change: a text for people, made with hands that only read.
    #[must_use]
    pub fn previewing<I>(self, show: impl Fn(&Cx, I) -> Result<String, Fault> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned,
    {
        let preview = move |cx: &Cx, input: Value| show(cx, serde_json::from_value(input).map_err(bad_input)?);
        Self { preview: Some(Arc::new(preview)), ..self }
    }

    /// Says that a small input takes the body microseconds. Only for a tool that touches nothing.
    #[must_use]
    pub fn instant(self) -> Self {
        Self { pace: Pace::Instant, ..self }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.def.name).finish()
    }
}

struct Typed<E, C, F, I, O> {
    effects: E,
    command: C,
    run: F,
    types: PhantomData<fn(I) -> O>,
}

impl<E, C, F, I, O> Body for Typed<E, C, F, I, O>
where
    E: Fn(&I) -> Vec<Effect> + Send + Sync,
    C: Fn(&I) -> Option<CommandLine> + Send + Sync,
    F: Fn(&Cx, I) -> Result<Answer<O>, Fault> + Send + Sync,
    I: DeserializeOwned,
    O: Serialize,
{
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault> {
        Ok((self.effects)(&I::deserialize(input).map_err(bad_input)?))
    }

    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault> {
        Ok((self.command)(&I::deserialize(input).map_err(bad_input)?))
    }

    fn run(&self, cx: &Cx, input: Value) -> Result<Output, Fault> {
        (self.run)(cx, serde_json::from_value(input).map_err(bad_input)?)?.into_output()
    }
}

impl<T: Serialize> Answer<T> {
    fn into_output(self) -> Result<Output, Fault> {
        let Self { value, text, truncated } = self;
        let structured = serde_json::to_value(value).map_err(|error| {
            Fault::failed(
                "bad_output",
                format!("the tool's output is not JSON: {error}"),
                "Report this as a bug in the tool.",
            )
        })?;
        let text = text.unwrap_or_else(|| match &structured {
            Value::String(text) => text.clone(),
            other => format!("{other:#}"),
        });
        Ok(Output { structured, text, truncated })
    }
}

/// A body whose calls mean something else, depending on their input.
struct Meant<A, C, I> {
    body: Arc<dyn Body>,
    action: A,
    connection: C,
    types: PhantomData<fn(I)>,
}

impl<A, C, I> Body for Meant<A, C, I>
where
    A: Fn(&I) -> Option<ActionType> + Send + Sync,
    C: Fn(&I) -> Option<ConnectionUse> + Send + Sync,
    I: DeserializeOwned,
{
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault> {
        self.body.effects(input)
    }

    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault> {
        self.body.command(input)
    }

    fn action(&self, input: &Value) -> Result<Option<ActionType>, Fault> {
        match (self.action)(&I::deserialize(input).map_err(bad_input)?) {
            Some(action) => Ok(Some(action)),
            None => self.body.action(input),
        }
    }

    fn connection(&self, input: &Value) -> Result<Option<ConnectionUse>, Fault> {
        match (self.connection)(&I::deserialize(input).map_err(bad_input)?) {
            Some(connection) => Ok(Some(connection)),
            None => self.body.connection(input),
        }
    }

    fn run(&self, cx: &Cx, input: Value) -> Result<Output, Fault> {
        self.body.run(cx, input)
    }
}

fn bad_input(error: serde_json::Error) -> Fault {
    Fault::failed(
        "invalid_arguments",
        format!("the arguments do not fit: {error}"),
        "Compare them with the tool's input schema.",
    )
}

/// The schema of arguments of a type.
pub fn input_schema<I: JsonSchema>() -> Value {
    schema::<I>(Contract::Deserialize)
}

/// The schema of a type, 2020-12, with definitions inlined so that a model reads it without following references.
/// Reading and writing have schemas of their own: a field with a default may be left out of the arguments, one that is
/// skipped when empty may be missing from the output.
fn schema<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
        s.contract = contract;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let mut schema = schema.to_value();
    drop_rust_formats(&mut schema);
    schema
}

/// `uint64` and the like are formats only Rust knows; other clients warn about them. The bounds say the same.
fn drop_rust_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_rust = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|f| is_rust(f) || matches!(f, "float" | "double"))
            {
                fields.remove("format");
            }
            fields.values_mut().for_each(drop_rust_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_rust_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
