//! A tool: its declaration and its body, and how a typed function becomes one.

use std::{fmt, marker::PhantomData, pin::Pin, sync::Arc};

use schemars::{
    JsonSchema,
    generate::{Contract, SchemaSettings},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use toolgate_contract::{ActionType, CommandLine, ConnectionUse, Effect, EffectKind, Fault, Needs, ToolDef, Truncated};

use crate::Cx;

/// What a call amounts to, read from its (validated) input. Pure: it looks at nothing else.
pub trait Reading: Send + Sync {
    /// What a call would do.
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault>;
    /// What a call would start, if it starts a program. The words are read and judged by the gate, never here.
    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault>;
    /// What a call amounts to, where that differs from what the tool declares.
    fn action(&self, _input: &Value) -> Result<Option<ActionType>, Fault> {
        Ok(None)
    }
    /// The connection a call would use.
    fn connection(&self, _input: &Value) -> Result<Option<ConnectionUse>, Fault> {
        Ok(None)
    }
}

/// A body that does its work where it is called.
pub type Run = Arc<dyn Fn(&Cx, Value) -> Result<Output, Fault> + Send + Sync>;

/// What a body that waits for others gives at once.
pub type Awaited = Pin<Box<dyn Future<Output = Result<Output, Fault>> + Send>>;

/// A body that waits for others.
pub type Waits = Arc<dyn Fn(Arc<Cx>, Value) -> Awaited + Send + Sync>;

/// What runs when a call has been permitted.
#[derive(Clone)]
pub enum Work {
    /// It may block: it gets a thread of its own. It must return soon after [`Cx::check`] starts to fail; the call is
    /// answered at its deadline all the same, but the thread and the tool's slot stay taken until the body returns.
    Blocking(Run),
    /// Microseconds for a small input: then it runs on the caller's thread, and an answer after its deadline does not
    /// count. With a larger input it is like any other.
    Instant(Run),
    /// It only waits for others, and needs no thread for that. It must not block; told to stop, it says how far it came,
    /// and one that does not listen is dropped.
    Waiting(Waits),
}

impl Work {
    /// A typed function that may block.
    pub fn blocking<I, O>(run: impl Fn(&Cx, I) -> Result<Answer<O>, Fault> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
    {
        Self::Blocking(Arc::new(move |cx, input| {
            run(cx, serde_json::from_value(input).map_err(bad_input)?)?.into_output()
        }))
    }

    /// A function that waits for others.
    pub fn waiting<F>(run: impl Fn(Arc<Cx>, Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Answer<Value>, Fault>> + Send + 'static,
    {
        Self::Waiting(Arc::new(move |cx, input| {
            let answer = run(cx, input);
            Box::pin(async move {
                let Answer { value, text, truncated } = answer.await?;
                Ok(Output::of(value, text, truncated))
            })
        }))
    }

    /// The function of a body that does its work where it is called.
    pub fn here(&self) -> Option<&Run> {
        match self {
            Self::Blocking(run) | Self::Instant(run) => Some(run),
            Self::Waiting(_) => None,
        }
    }
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
    /// What its calls amount to.
    pub reading: Arc<dyn Reading>,
    /// What runs.
    pub work: Work,
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
        Self::doing(def, effects, Work::blocking(run))
    }

    /// A tool from work and the schemas of its definition.
    pub fn doing<I>(def: ToolDef, effects: impl Fn(&I) -> Vec<Effect> + Send + Sync + 'static, work: Work) -> Self
    where
        I: DeserializeOwned + 'static,
    {
        let command = |_: &I| None;
        let reading = Arc::new(Typed { effects, command, types: PhantomData::<fn(I)> });
        Self { def, reading, work, reconcile: None, preview: None }
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
        let reading = Arc::new(Typed { effects, command, types: PhantomData::<fn(I)> });
        Self { def, reading, work: Work::blocking(run), reconcile: None, preview: None }
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
        let reading = Arc::new(Meant {
            reading: self.reading,
            action: move |input: &I| Some(action(input)),
            connection,
            types: PhantomData::<fn(I)>,
        });
        Self { reading, ..self }
    }

    /// Says which connection a call uses, and whether it may change something there.
    #[must_use]
    pub fn through<I>(self, connection: impl Fn(&I) -> Option<ConnectionUse> + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + 'static,
    {
        let action = |_: &I| None;
        let reading = Arc::new(Meant { reading: self.reading, action, connection, types: PhantomData::<fn(I)> });
        Self { reading, ..self }
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
        let work = match self.work {
            Work::Blocking(run) => Work::Instant(run),
            work @ (Work::Instant(_) | Work::Waiting(_)) => work,
        };
        Self { work, ..self }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.def.name).finish()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blocking(_) => "Blocking",
            Self::Instant(_) => "Instant",
            Self::Waiting(_) => "Waiting",
        })
    }
}

struct Typed<E, C, I> {
    effects: E,
    command: C,
    types: PhantomData<fn(I)>,
}

impl<E, C, I> Reading for Typed<E, C, I>
where
    E: Fn(&I) -> Vec<Effect> + Send + Sync,
    C: Fn(&I) -> Option<CommandLine> + Send + Sync,
    I: DeserializeOwned,
{
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault> {
        Ok((self.effects)(&I::deserialize(input).map_err(bad_input)?))
    }

    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault> {
        Ok((self.command)(&I::deserialize(input).map_err(bad_input)?))
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
        Ok(Output::of(structured, text, truncated))
    }
}

impl Output {
    /// What a tool gave, with the value as its text where it has none of its own.
    fn of(structured: Value, text: Option<String>, truncated: Option<Truncated>) -> Self {
        let text = text.unwrap_or_else(|| match &structured {
            Value::String(text) => text.clone(),
            other => format!("{other:#}"),
        });
        Self { structured, text, truncated }
    }
}

/// Calls that mean something else, depending on their input.
struct Meant<A, C, I> {
    reading: Arc<dyn Reading>,
    action: A,
    connection: C,
    types: PhantomData<fn(I)>,
}

impl<A, C, I> Reading for Meant<A, C, I>
where
    A: Fn(&I) -> Option<ActionType> + Send + Sync,
    C: Fn(&I) -> Option<ConnectionUse> + Send + Sync,
    I: DeserializeOwned,
{
    fn effects(&self, input: &Value) -> Result<Vec<Effect>, Fault> {
        self.reading.effects(input)
    }

    fn command(&self, input: &Value) -> Result<Option<CommandLine>, Fault> {
        self.reading.command(input)
    }

    fn action(&self, input: &Value) -> Result<Option<ActionType>, Fault> {
        match (self.action)(&I::deserialize(input).map_err(bad_input)?) {
            Some(action) => Ok(Some(action)),
            None => self.reading.action(input),
        }
    }

    fn connection(&self, input: &Value) -> Result<Option<ConnectionUse>, Fault> {
        match (self.connection)(&I::deserialize(input).map_err(bad_input)?) {
            Some(connection) => Ok(Some(connection)),
            None => self.reading.connection(input),
        }
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
