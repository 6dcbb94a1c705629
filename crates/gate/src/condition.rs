//! The language of conditions: when may a tool be called.
//!
//! ```text
//! agent.level == "elevated" or "release" in agent.roles
//! starts_with(args.path, "docs/") and not contains(args.path, "secret")
//! risk <= "medium" and matches(args.branch, "^feature/[a-z0-9-]+$")
//! ```
//!
//! - **Values**: strings in single or double quotes, numbers, `true`, `false`, `null`, lists in brackets. A string has
//!   no escapes, so that a regular expression is written as it is; a quote inside it is the other kind.
//! - **Variables**: dotted paths that start with one of [`VARIABLES`]; any other name is an error when the condition
//!   is read.
//! - **Operators**, loosest first: `or` (`||`), `and` (`&&`), `not` (`!`), then one of `==`, `!=`, `<`, `<=`, `>`,
//!   `>=`, `in`, which do not chain. `and` and `or` go from left to right and stop at the first answer.
//! - `==` and `!=` want two values of one type; only `null` may be compared with anything. `<` and its like order
//!   numbers, and words of one scale: risks, safety classes, the four ordered access levels. Other words have no
//!   order: by the alphabet, `critical` would be less than `low`.
//! - `x in list`: does an element of the list equal `x`?
//! - `contains(x, y)`: is `y` an element of the list `x`, or a part of the string `x`?
//! - `starts_with(x, y)`, `ends_with(x, y)`: of strings.
//! - `matches(x, "regex")`: does the expression match anywhere in the string `x`? It is compiled when the condition
//!   is read, and matches in linear time.
//! - `has_key(x, "k")`: has the object `x` this key? No, if `x` is missing or null.
//! - `is_empty(x)`: is this string, list or object empty? Yes, if `x` is missing or null.
//!
//! Everything else that does not fit is an error, never a silent `false`: behind a `not`, a false is a yes. The gate
//! takes every error as a no.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet, fmt};

use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};
use toolgate_contract::{Level, Risk, SafetyClass, nearest};

/// The names a variable may start with.
pub const VARIABLES: [&str; 7] = ["action", "agent", "args", "class", "labels", "risk", "tool"];

/// The longest condition, in bytes.
const MAX_LENGTH: usize = 4096;
/// How deep parentheses, lists, calls and `not` may nest.
const MAX_DEPTH: usize = 32;
/// The largest compiled regular expression, in bytes. Enough for Unicode classes, too small for a bomb of repetitions.
const MAX_REGEX: usize = 1024 * 1024;

/// A condition that was read.
#[derive(Debug, Clone)]
pub struct Condition(Expr);

/// A condition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at byte {offset})")]
pub struct ConditionError {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes from the start.
    pub offset: usize,
}

/// A condition that cannot be answered for this call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A variable has no value.
    #[error("`{0}` is not set")]
    Missing(String),
    /// A value is of a type that does not fit.
    #[error("{0}")]
    Mismatch(String),
}

impl Condition {
    /// Reads a condition.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        if text.len() > MAX_LENGTH {
            return Err(error(MAX_LENGTH, format!("the condition is longer than {MAX_LENGTH} bytes")));
        }
        let mut parser = Parser { tokens: tokens(text)?, at: 0, end: text.len(), depth: 0 };
        let expr = parser.any()?;
        match parser.peek() {
            None => Ok(Self(expr)),
            Some(found) => Err(parser.error(format!("expected an operator or the end, found {found}"))),
        }
    }

    /// Does it hold for these variables?
    pub fn eval(&self, variables: &Value) -> Result<bool, EvalError> {
        self.eval_for(Variables { known: variables, arguments: None })
    }

    pub(crate) fn eval_for(&self, variables: Variables<'_>) -> Result<bool, EvalError> {
        self.0.truth(variables)
    }

    /// What it begins with, if that can be judged at a glance: the variable, and what is said about it.
    pub(crate) fn glance(&self) -> Option<(&[String], Glance)> {
        let first = match &self.0 {
            Expr::All(exprs) => exprs.first()?,
            other => other,
        };
        let Expr::Binary(binary, sides) = first else { return None };
        let [Expr::Path(path), Expr::Literal(Value::String(text))] = &**sides else { return None };
        Some((path, Glance { binary: *binary, text: text.as_str().into() }))
    }

    /// The first names of the variables it speaks about.
    pub fn variables(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        self.0.collect_variables(&mut found);
        found
    }
}

/// The comparison a condition begins with, where that is one of a variable with a text. When it does not hold, nothing of
/// the condition does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glance {
    binary: Binary,
    text: Box<str>,
}

impl Glance {
    /// Is it certain that the condition does not hold, if this is the variable? What is no text is for the condition to
    /// judge.
    pub(crate) fn rules_out(&self, value: Option<&Value>) -> bool {
        let Some(Value::String(found)) = value else { return false };
        match self.binary {
            Binary::Equal => **found != *self.text,
            Binary::StartsWith => !found.starts_with(&*self.text),
            Binary::EndsWith => !found.ends_with(&*self.text),
            Binary::Contains => !found.contains(&*self.text),
            _ => false,
        }
    }
}

/// What a condition may speak about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables<'v> {
    /// An object with everything there is.
    pub(crate) known: &'v Value,
    /// What stands for `args` in it, where that is kept elsewhere.
    pub(crate) arguments: Option<&'v Value>,
}

impl<'v> Variables<'v> {
    /// The variable, if it is there.
    pub(crate) fn get(self, path: &[String]) -> Option<&'v Value> {
        find(path, self)
    }
}

#[derive(Debug, Clone)]
enum Expr {
    Literal(Value),
    Path(Vec<String>),
    List(Vec<Expr>),
    Not(Box<Expr>),
    /// All of them, from left to right. Flat, because a chain of a thousand would nest a thousand deep.
    All(Vec<Expr>),
    /// Any of them, from left to right.
    Any(Vec<Expr>),
    Binary(Binary, Box<[Expr; 2]>),
    IsEmpty(Box<Expr>),
    Matches(Box<Expr>, Regex),
}

/// What takes two values and says yes or no, written between them or as a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Contains,
    HasKey,
    StartsWith,
    EndsWith,
}

const OPERATORS: [(&str, Binary); 7] = [
    ("==", Binary::Equal),
    ("!=", Binary::NotEqual),
    ("<", Binary::Less),
    ("<=", Binary::LessOrEqual),
    (">", Binary::Greater),
    (">=", Binary::GreaterOrEqual),
    ("in", Binary::In),
];

#[derive(Debug, Clone, Copy)]
enum Function {
    Binary(Binary),
    IsEmpty,
    Matches,
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("contains", Function::Binary(Binary::Contains)),
    ("ends_with", Function::Binary(Binary::EndsWith)),
    ("has_key", Function::Binary(Binary::HasKey)),
    ("is_empty", Function::IsEmpty),
    ("matches", Function::Matches),
    ("starts_with", Function::Binary(Binary::StartsWith)),
];

impl Expr {
    fn truth(&self, variables: Variables<'_>) -> Result<bool, EvalError> {
        match self {
            Self::Not(expr) => Ok(!expr.truth(variables)?),
            Self::All(exprs) => {
                for expr in exprs {
                    if !expr.truth(variables)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(exprs) => {
                for expr in exprs {
                    if expr.truth(variables)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Binary(Binary::HasKey, sides) => has_key(&sides[0], &sides[1], variables),
            Self::Binary(binary, sides) => binary.holds(&*sides[0].value(variables)?, &*sides[1].value(variables)?),
            Self::IsEmpty(expr) => is_empty(expr, variables),
            Self::Matches(expr, regex) => Ok(regex.is_match(string(&*expr.value(variables)?, "matches")?)),
            Self::Literal(_) | Self::Path(_) | Self::List(_) => match &*self.value(variables)? {
                Value::Bool(truth) => Ok(*truth),
                other => Err(EvalError::Mismatch(format!("{self} is {}, not true or false", kind(other)))),
            },
        }
    }

    fn value<'v>(&'v self, variables: Variables<'v>) -> Result<Cow<'v, Value>, EvalError> {
        match self {
            Self::Literal(value) => Ok(Cow::Borrowed(value)),
            Self::Path(steps) => look_up(steps, variables).map(Cow::Borrowed),
            Self::List(items) => {
                let items: Result<_, _> = items.iter().map(|item| item.value(variables).map(Cow::into_owned)).collect();
                Ok(Cow::Owned(Value::Array(items?)))
            }
            _ => self.truth(variables).map(|truth| Cow::Owned(Value::Bool(truth))),
        }
    }

    /// The value, or none where the expression is a variable that is missing or null.
    fn optional<'v>(&'v self, variables: Variables<'v>) -> Result<Option<Cow<'v, Value>>, EvalError> {
        match self.value(variables) {
            Ok(value) if value.is_null() => Ok(None),
            Err(EvalError::Missing(_)) if matches!(self, Self::Path(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    fn collect_variables<'v>(&'v self, found: &mut BTreeSet<&'v str>) {
        match self {
            Self::Literal(_) => {}
            Self::Path(steps) => found.extend(steps.first().map(String::as_str)),
            Self::List(exprs) | Self::All(exprs) | Self::Any(exprs) => {
                exprs.iter().for_each(|expr| expr.collect_variables(found));
            }
            Self::Binary(_, sides) => sides.iter().for_each(|expr| expr.collect_variables(found)),
            Self::Not(expr) | Self::IsEmpty(expr) | Self::Matches(expr, _) => expr.collect_variables(found),
        }
    }
}

/// Names an expression in an error.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => write!(f, "`{value}`"),
            Self::Path(steps) => write!(f, "`{}`", steps.join(".")),
            _ => f.write_str("the expression"),
        }
    }
}

/// The variable, if it is there.
fn find<'v>(steps: &[String], variables: Variables<'v>) -> Option<&'v Value> {
    let (first, rest) = steps.split_first()?;
    let first = match variables.arguments {
        Some(arguments) if first == "args" => arguments,
        _ => member(variables.known, first)?,
    };
    rest.iter().try_fold(first, |value, step| member(value, step))
}

/// A member of an object. Where there are few they are looked through: the answer is the same, and a hash takes longer than
/// a rule has.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    match members.len() {
        0..=12 => members.iter().find(|(key, _)| *key == name).map(|(_, value)| value),
        _ => members.get(name),
    }
}

fn look_up<'v>(steps: &[String], variables: Variables<'v>) -> Result<&'v Value, EvalError> {
    find(steps, variables).ok_or_else(|| not_found(steps, variables))
}

/// Why a variable is not there: at the first step that leads nowhere.
fn not_found(steps: &[String], variables: Variables<'_>) -> EvalError {
    let path = |count: usize| steps[..count].join(".");
    let taken = (1..steps.len()).take_while(|count| find(&steps[..*count], variables).is_some()).last().unwrap_or(0);
    match find(&steps[..taken], variables) {
        Some(Value::Object(_) | Value::Null) | None => EvalError::Missing(path(taken + 1)),
        Some(other) => {
            EvalError::Mismatch(format!("`{}` is {} and has no `{}`", path(taken), kind(other), steps[taken]))
        }
    }
}

impl Binary {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, EvalError> {
        match self {
            Self::Equal => equal(left, right),
            Self::NotEqual => equal(left, right).map(|equal| !equal),
            Self::Less => order(left, right).map(Ordering::is_lt),
            Self::LessOrEqual => order(left, right).map(Ordering::is_le),
            Self::Greater => order(left, right).map(Ordering::is_gt),
            Self::GreaterOrEqual => order(left, right).map(Ordering::is_ge),
            Self::In => match right {
                Value::Array(items) => Ok(items.iter().any(|item| same(item, left))),
                other => Err(EvalError::Mismatch(format!("`in` wants a list on its right, not {}", kind(other)))),
            },
            Self::Contains => match left {
                Value::Array(items) => Ok(items.iter().any(|item| same(item, right))),
                _ => Ok(string(left, "contains")?.contains(string(right, "contains")?)),
            },
            Self::HasKey => match left {
                Value::Object(members) => Ok(members.contains_key(string(right, "has_key")?)),
                other => Err(EvalError::Mismatch(format!("`has_key` wants an object, not {}", kind(other)))),
            },
            Self::StartsWith => Ok(string(left, "starts_with")?.starts_with(string(right, "starts_with")?)),
            Self::EndsWith => Ok(string(left, "ends_with")?.ends_with(string(right, "ends_with")?)),
        }
    }
}

fn has_key(object: &Expr, key: &Expr, variables: Variables<'_>) -> Result<bool, EvalError> {
    let key = key.value(variables)?;
    match object.optional(variables)? {
        None => Ok(false),
        Some(object) => Binary::HasKey.holds(&object, &key),
    }
}

fn is_empty(expr: &Expr, variables: Variables<'_>) -> Result<bool, EvalError> {
    match expr.optional(variables)?.as_deref() {
        None => Ok(true),
        Some(Value::String(text)) => Ok(text.is_empty()),
        Some(Value::Array(items)) => Ok(items.is_empty()),
        Some(Value::Object(members)) => Ok(members.is_empty()),
        Some(other) => {
            Err(EvalError::Mismatch(format!("`is_empty` wants a string, a list or an object, not {}", kind(other))))
        }
    }
}

fn equal(left: &Value, right: &Value) -> Result<bool, EvalError> {
    if kind(left) != kind(right) && !left.is_null() && !right.is_null() {
        return Err(EvalError::Mismatch(format!("cannot compare {} with {}", kind(left), kind(right))));
    }
    Ok(same(left, right))
}

/// Equality with `1` equal to `1.0`, also inside lists and objects.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right),
        (Value::String(left), Value::String(right)) => order_words(left, right),
        _ => None,
    };
    order.ok_or_else(|| {
        EvalError::Mismatch(format!(
            "`{left}` and `{right}` have no order: compare two numbers, risks, classes or levels"
        ))
    })
}

fn order_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn order_words(left: &str, right: &str) -> Option<Ordering> {
    fn on<T: Ord>(scale: impl Fn(&str) -> Option<T>, left: &str, right: &str) -> Option<Ordering> {
        Some(scale(left)?.cmp(&scale(right)?))
    }
    // The level `custom` stands beside the others, neither above nor below.
    let ladder = |word: &str| Level::parse(word).filter(|level| Level::LADDER.contains(level));
    on(Risk::parse, left, right).or_else(|| on(SafetyClass::parse, left, right)).or_else(|| on(ladder, left, right))
}

fn string<'v>(value: &'v Value, wanted_by: &str) -> Result<&'v str, EvalError> {
    value.as_str().ok_or_else(|| EvalError::Mismatch(format!("`{wanted_by}` wants a string, not {}", kind(value))))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'t> {
    /// A keyword, a function or a variable with its path.
    Word(&'t str),
    Symbol(&'static str),
    String(&'t str),
    Number(Number),
}

/// Shows a token in an error.
impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Symbol(symbol) => write!(f, "`{symbol}`"),
            Self::String(text) => write!(f, "the string `{text}`"),
            Self::Number(number) => write!(f, "the number `{number}`"),
        }
    }
}

/// Longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 14] = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ","];

fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, ConditionError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, length) = if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else if matches!(c, '"' | '\'') {
            let inner = rest[1..].split_once(c).ok_or_else(|| error(at, "the string has no closing quote".into()))?.0;
            (Token::String(inner), inner.len() + 2)
        } else if c.is_ascii_digit() || c == '-' {
            let length = number_length(rest);
            (Token::Number(number(&rest[..length]).ok_or_else(|| bad_number(at, &rest[..length]))?), length)
        } else if c.is_ascii_alphabetic() || c == '_' {
            let word =
                rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).next().unwrap_or(rest);
            (Token::Word(word), word.len())
        } else {
            let hint = if c == '=' { "; equality is `==`" } else { "" };
            return Err(error(at, format!("unexpected character `{}`{hint}", c.escape_debug())));
        };
        found.push((at, token));
        at += length;
    }
    Ok(found)
}

/// Takes in everything that looks like part of a number, so that `1.2.3` is one mistake and not two tokens.
fn number_length(text: &str) -> usize {
    let mut before = ' ';
    text.find(|c: char| {
        let part =
            c.is_ascii_alphanumeric() || c == '.' || (matches!(c, '+' | '-') && matches!(before, ' ' | 'e' | 'E'));
        before = c;
        !part
    })
    .unwrap_or(text.len())
}

fn number(text: &str) -> Option<Number> {
    // From 2^53 on neighbours share a double, and `==` would say yes to both.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value: f64 = text.parse().ok().filter(|value: &f64| value.abs() < EXACT)?;
    text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(value))
}

fn bad_number(offset: usize, text: &str) -> ConditionError {
    error(offset, format!("`{text}` is not a number, or too large to be exact"))
}

fn error(offset: usize, message: String) -> ConditionError {
    ConditionError { message, offset }
}

struct Parser<'t> {
    tokens: Vec<(usize, Token<'t>)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn any(&mut self) -> Result<Expr, ConditionError> {
        let mut terms = vec![self.all()?];
        while self.take("or") || self.take("||") {
            terms.push(self.all()?);
        }
        Ok(single(terms, Expr::Any))
    }

    fn all(&mut self) -> Result<Expr, ConditionError> {
        let mut terms = vec![self.not()?];
        while self.take("and") || self.take("&&") {
            terms.push(self.not()?);
        }
        Ok(single(terms, Expr::All))
    }

    fn not(&mut self) -> Result<Expr, ConditionError> {
        if self.take("not") || self.take("!") {
            return Ok(Expr::Not(Box::new(self.deeper(Self::not)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr, ConditionError> {
        let left = self.operand()?;
        let Some(operator) = self.operator() else { return Ok(left) };
        let right = self.operand()?;
        if self.peek_operator().is_some() {
            return Err(self.error("comparisons do not chain; join two with `and`".into()));
        }
        Ok(Expr::Binary(operator, Box::new([left, right])))
    }

    fn operand(&mut self) -> Result<Expr, ConditionError> {
        let offset = self.offset();
        let Some(token) = self.peek().cloned() else {
            return Err(self.error("expected a value, found the end".into()));
        };
        self.at += 1;
        match token {
            Token::String(text) => Ok(Expr::Literal(text.into())),
            Token::Number(number) => Ok(Expr::Literal(Value::Number(number))),
            Token::Word("true") => Ok(Expr::Literal(true.into())),
            Token::Word("false") => Ok(Expr::Literal(false.into())),
            Token::Word("null") => Ok(Expr::Literal(Value::Null)),
            Token::Symbol("(") => {
                let inner = self.deeper(Self::any)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => self.items("]").map(Expr::List),
            Token::Word(name) if self.take("(") => self.call(name, offset),
            Token::Word(path) if !matches!(path, "and" | "or" | "not" | "in") => variable(path, offset),
            other => Err(error(offset, format!("expected a value, found {other}"))),
        }
    }

    fn call(&mut self, name: &str, offset: usize) -> Result<Expr, ConditionError> {
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let known = FUNCTIONS.map(|(known, _)| known);
            return Err(error(offset, format!("there is no function `{name}`{}", did_you_mean(name, &known))));
        };
        let arguments = self.items(")")?;
        let given = arguments.len();
        let wants =
            |count: usize| move |_| error(offset, format!("`{name}` takes {count} value(s), and {given} are given"));
        match function {
            Function::Binary(binary) => {
                let sides = <[Expr; 2]>::try_from(arguments).map_err(wants(2))?;
                Ok(Expr::Binary(*binary, Box::new(sides)))
            }
            Function::IsEmpty => {
                let [value] = <[Expr; 1]>::try_from(arguments).map_err(wants(1))?;
                Ok(Expr::IsEmpty(Box::new(value)))
            }
            Function::Matches => {
                let [value, pattern] = <[Expr; 2]>::try_from(arguments).map_err(wants(2))?;
                let Expr::Literal(Value::String(pattern)) = pattern else {
                    return Err(error(offset, "the second value of `matches` must be a string written out".into()));
                };
                Ok(Expr::Matches(Box::new(value), compile(&pattern, offset)?))
            }
        }
    }

    /// Values with commas between them, up to the closing bracket.
    fn items(&mut self, close: &'static str) -> Result<Vec<Expr>, ConditionError> {
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(self.deeper(Self::any)?);
            if self.take(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn deeper<T>(&mut self, read: fn(&mut Self) -> Result<T, ConditionError>) -> Result<T, ConditionError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("the condition nests deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let inner = read(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn peek(&self) -> Option<&Token<'t>> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |(offset, _)| *offset)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(t) | Token::Symbol(t)) if *t == text);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), ConditionError> {
        if self.take(symbol) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".into(), ToString::to_string);
        Err(self.error(format!("expected `{symbol}`, found {found}")))
    }

    fn peek_operator(&self) -> Option<Binary> {
        let (Token::Word(text) | Token::Symbol(text)) = self.peek()? else { return None };
        OPERATORS.iter().find(|(name, _)| name == text).map(|(_, operator)| *operator)
    }

    fn operator(&mut self) -> Option<Binary> {
        let operator = self.peek_operator()?;
        self.at += 1;
        Some(operator)
    }

    fn error(&self, message: String) -> ConditionError {
        error(self.offset(), message)
    }
}

fn single(mut terms: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    match terms.len() {
        1 => terms.remove(0),
        _ => join(terms),
    }
}

fn variable(path: &str, offset: usize) -> Result<Expr, ConditionError> {
    let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
    if steps.iter().any(String::is_empty) {
        return Err(error(offset, format!("`{path}` is not a variable: a name is missing beside a dot")));
    }
    let first = &*steps[0];
    if !VARIABLES.contains(&first) {
        return Err(error(offset, format!("there is no variable `{first}`{}", did_you_mean(first, &VARIABLES))));
    }
    Ok(Expr::Path(steps))
}

fn did_you_mean(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

fn compile(pattern: &str, offset: usize) -> Result<Regex, ConditionError> {
    RegexBuilder::new(pattern).size_limit(MAX_REGEX).build().map_err(|cause| {
        // The last line of the library's message says what is wrong; those before it draw the place.
        let cause = cause.to_string();
        let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ");
        error(offset, format!("`{pattern}` is not a regular expression: {cause}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn variables() -> Value {
        json!({
            "agent": { "name": "coder", "level": "standard", "roles": ["dev", "release"] },
            "args": { "path": "docs/a.md", "count": 3, "ratio": 0.5, "force": true, "nothing": null, "tags": [], "opts": {"k": [1]}, "alike": {"k": [1.0]}, "unlike": {"k": [2]}, "more": {"k": [1], "l": 1},
                      "large": 9_007_199_254_740_993_i64, "less": 9_007_199_254_740_992_i64 },
            "tool": "write",
            "action": "code:write",
            "class": "write",
            "risk": "medium",
        })
    }

    fn check(condition: &str, expected: Result<bool, &str>) {
        let got = Condition::parse(condition).unwrap_or_else(|e| panic!("{condition}: {e}")).eval(&variables());
        assert_eq!(got.map_err(|e| e.to_string()), expected.map_err(str::to_owned), "{condition}");
    }

    fn check_parse(condition: &str, offset: usize, message: &str) {
        let got = Condition::parse(condition).err();
        assert_eq!(got, Some(ConditionError { message: message.into(), offset }), "{condition}");
    }

    /// What a condition begins with rules out what does not fit it, and nothing else.
    #[test]
    fn a_glance_rules_out_a_text_that_does_not_fit() {
        let check = |condition: &str, fits: &str, differs: &str| {
            let condition = Condition::parse(condition).unwrap();
            let (path, glance) = condition.glance().unwrap();
            assert_eq!(path, ["args", "path"]);
            let rules_out = |text: &str| glance.rules_out(Some(&text.into()));
            assert_eq!((rules_out(fits), rules_out(differs)), (false, true), "{condition:?}");
            assert!(!glance.rules_out(None) && !glance.rules_out(Some(&Value::Null)), "{condition:?}");
        };
        check("args.path == 'a'", "a", "b");
        check("starts_with(args.path, 'a/')", "a/b", "b/a/");
        check("ends_with(args.path, '/a')", "b/a", "/a/b");
        check("contains(args.path, 'a')", "bab", "b");
        check("args.path == 'a' and args.count > 1", "a", "b");
        let unseen = |condition: &str| assert_eq!(Condition::parse(condition).unwrap().glance(), None, "{condition}");
        unseen("args.path == 'a' or args.count > 1");
        unseen("not args.path == 'a'");
        unseen("args.path == 1");
        unseen("'a' == args.path");
        unseen("args.path");
        let less = Condition::parse("args.path < 'high'").unwrap();
        assert!(!less.glance().unwrap().1.rules_out(Some(&"low".into())));
    }

    #[test]
    fn a_variable_is_looked_up_where_it_is_kept() {
        let (known, arguments) = (json!({ "tool": "t", "args": null }), json!({ "path": "a" }));
        let variables = Variables { known: &known, arguments: Some(&arguments) };
        let get = |path: &str| variables.get(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!((get("args.path"), get("tool"), get("args.other")), (Some(&"a".into()), Some(&"t".into()), None));
    }

    /// However many members there are beside it.
    #[test]
    fn a_member_is_found_among_few_and_many() {
        for others in [0, 11, 12, 13, 40] {
            let mut args: serde_json::Map<String, Value> =
                (0..others).map(|number| (format!("other{number}"), Value::Null)).collect();
            args.insert("path".into(), "a".into());
            let variables = json!({ "args": args });
            let says = |text: &str| Condition::parse(text).unwrap().eval(&variables);
            assert_eq!(says("args.path == 'a'"), Ok(true), "{others}");
            assert_eq!(says("args.path == 'b'"), Ok(false), "{others}");
            assert_eq!(says("args.missing == 'a'"), Err(EvalError::Missing("args.missing".into())), "{others}");
        }
    }

    #[test]
    fn literals_and_variables() {
        check("true", Ok(true));
        check("false", Ok(false));
        check("args.force", Ok(true));
        check("tool == 'write'", Ok(true));
        check("agent.name == \"coder\"", Ok(true));
        check("args.count == 3", Ok(true));
        check("args.count == 3.0", Ok(true));
        check("args.count == 30e-1", Ok(true));
        check("args.count != -3", Ok(true));
        check("args.nothing == null", Ok(true));
        check("args.path == null", Ok(false));
        check("null != args.path", Ok(true));
        check("args.tags == []", Ok(true));
        check("args.opts.k == [1.0]", Ok(true));
        check("args.opts == args.opts", Ok(true));
        check("args.opts == args.alike", Ok(true));
        check("args.opts == args.unlike", Ok(false));
        check("args.opts == args.more", Ok(false));
        check("args.more == args.opts", Ok(false));
        check("agent.roles == ['dev', 'ops']", Ok(false));
        check("'it\\' == 'it\\'", Ok(true));
        check("\"it's\" == 'x'", Ok(false));
    }

    #[test]
    fn numbers_have_an_order() {
        check("args.count < 4", Ok(true));
        check("args.count <= 3", Ok(true));
        check("args.count > 3", Ok(false));
        check("args.count >= 3", Ok(true));
        check("args.ratio < args.count", Ok(true));
        // As floating point they would be the same.
        check("args.large > args.less", Ok(true));
        check("args.large == args.less", Ok(false));
    }

    #[test]
    fn words_of_a_scale_have_its_order_and_not_the_alphabets() {
        check("'critical' <= 'medium'", Ok(false));
        check("risk >= 'high'", Ok(false));
        check("risk < 'high'", Ok(true));
        check("class < 'network'", Ok(true));
        check("agent.level > 'restricted'", Ok(true));
        check(
            "agent.level > 'custom'",
            Err("`\"standard\"` and `\"custom\"` have no order: compare two numbers, risks, classes or levels"),
        );
        check(
            "risk < 'hihg'",
            Err("`\"medium\"` and `\"hihg\"` have no order: compare two numbers, risks, classes or levels"),
        );
        check(
            "risk < class",
            Err("`\"medium\"` and `\"write\"` have no order: compare two numbers, risks, classes or levels"),
        );
        check("args.count < '4'", Err("`3` and `\"4\"` have no order: compare two numbers, risks, classes or levels"));
    }

    #[test]
    fn logic() {
        check("true and false", Ok(false));
        check("true && true", Ok(true));
        check("false or true", Ok(true));
        check("false || false", Ok(false));
        check("not false", Ok(true));
        check("!args.force", Ok(false));
        check("not not true", Ok(true));
        check("true or false and false", Ok(true));
        check("(true or false) and false", Ok(false));
        check("not false and false", Ok(false));
        check("not tool == 'read'", Ok(true));
        check("(1 < 2) == true", Ok(true));
    }

    #[test]
    fn logic_goes_from_left_to_right_and_stops() {
        check("false and args.absent", Ok(false));
        check("true or args.absent", Ok(true));
        check("args.absent and false", Err("`args.absent` is not set"));
        check("args.absent or true", Err("`args.absent` is not set"));
        check("true and args.absent", Err("`args.absent` is not set"));
    }

    #[test]
    fn membership() {
        check("'dev' in agent.roles", Ok(true));
        check("'ops' in agent.roles", Ok(false));
        check("tool in ['read', 'write']", Ok(true));
        check("1 in [1.0]", Ok(true));
        check("1 in ['1']", Ok(false));
        check("tool in []", Ok(false));
        check("not tool in ['read']", Ok(true));
        check("'d' in 'dev'", Err("`in` wants a list on its right, not a string"));
        check("contains(agent.roles, 'release')", Ok(true));
        check("contains(args.path, '/a.')", Ok(true));
        check("contains(args.path, 1)", Err("`contains` wants a string, not a number"));
        check("contains(args.opts, 'k')", Err("`contains` wants a string, not an object"));
    }

    #[test]
    fn strings() {
        check("starts_with(args.path, 'docs/')", Ok(true));
        check("starts_with(args.path, 'src/')", Ok(false));
        check("ends_with(args.path, '.md')", Ok(true));
        check("ends_with(args.path, 'docs')", Ok(false));
        check(r"matches(args.path, '^docs/\w+\.md$')", Ok(true));
        check("matches(args.path, 'A')", Ok(false));
        check("matches(args.path, 's/a')", Ok(true));
        check("matches(args.count, '3')", Err("`matches` wants a string, not a number"));
        check("starts_with(args.nothing, '')", Err("`starts_with` wants a string, not null"));
    }

    #[test]
    fn a_missing_variable_is_an_error_but_where_presence_is_asked() {
        check("args.absent == null", Err("`args.absent` is not set"));
        check("not (args.absent == 'x')", Err("`args.absent` is not set"));
        check("args.absent.deeper == 1", Err("`args.absent` is not set"));
        check("args.nothing.deeper == 1", Err("`args.nothing.deeper` is not set"));
        check("args.path.length == 9", Err("`args.path` is a string and has no `length`"));
        check("labels == []", Err("`labels` is not set"));
        check("has_key(args, 'path')", Ok(true));
        check("has_key(args, 'absent')", Ok(false));
        check("has_key(args.absent, 'k')", Ok(false));
        check("has_key(args.nothing, 'k')", Ok(false));
        check("has_key(args.path, 'k')", Err("`has_key` wants an object, not a string"));
        check("has_key(args.path.deeper, 'k')", Err("`args.path` is a string and has no `deeper`"));
        check("has_key(args, args.absent)", Err("`args.absent` is not set"));
        check("is_empty(args.absent)", Ok(true));
        check("is_empty(args.nothing)", Ok(true));
        check("is_empty(args.tags)", Ok(true));
        check("is_empty('')", Ok(true));
        check("is_empty(args.opts)", Ok(false));
        check("is_empty(agent.roles)", Ok(false));
        check("is_empty(args.count)", Err("`is_empty` wants a string, a list or an object, not a number"));
        check("is_empty([args.absent])", Err("`args.absent` is not set"));
    }

    #[test]
    fn a_mismatch_is_an_error_and_not_a_no() {
        check("args.count == '3'", Err("cannot compare a number with a string"));
        check("not (args.count == '3')", Err("cannot compare a number with a string"));
        check("args.count != '3'", Err("cannot compare a number with a string"));
        check("args.force == 'true'", Err("cannot compare true or false with a string"));
        check("'yes'", Err("`\"yes\"` is a string, not true or false"));
        check("args.count", Err("`args.count` is a number, not true or false"));
        check("not args.path", Err("`args.path` is a string, not true or false"));
        check("args.count and true", Err("`args.count` is a number, not true or false"));
        check("[true]", Err("the expression is a list, not true or false"));
    }

    #[test]
    fn a_condition_that_cannot_be_read_says_where_and_why() {
        check_parse("", 0, "expected a value, found the end");
        check_parse("true and", 8, "expected a value, found the end");
        check_parse("true false", 5, "expected an operator or the end, found `false`");
        check_parse("tool = 'x'", 5, "unexpected character `=`; equality is `==`");
        check_parse("tool == 'x", 8, "the string has no closing quote");
        check_parse("(true", 5, "expected `)`, found the end");
        check_parse("[1 2] == 3", 3, "expected `,`, found the number `2`");
        check_parse("1 < 2 < 3", 6, "comparisons do not chain; join two with `and`");
        check_parse("tool == 'a' in ['b']", 12, "comparisons do not chain; join two with `and`");
        check_parse("and true", 0, "expected a value, found `and`");
        check_parse("args. == 1", 0, "`args.` is not a variable: a name is missing beside a dot");
        check_parse("agnet.name == 'x'", 0, "there is no variable `agnet`; did you mean `agent`?");
        check_parse(
            "zzz == 'x'",
            0,
            "there is no variable `zzz`; there are action, agent, args, class, labels, risk, tool",
        );
        check_parse(
            "true and startswith(tool, 'x')",
            9,
            "there is no function `startswith`; did you mean `starts_with`?",
        );
        check_parse("is_empty()", 0, "`is_empty` takes 1 value(s), and 0 are given");
        check_parse("contains(tool)", 0, "`contains` takes 2 value(s), and 1 are given");
        check_parse("contains(tool, 'a', 'b')", 0, "`contains` takes 2 value(s), and 3 are given");
        check_parse("1.2.3 == 1", 0, "`1.2.3` is not a number, or too large to be exact");
        check_parse(
            "args.count == 9007199254740993",
            14,
            "`9007199254740993` is not a number, or too large to be exact",
        );
        check_parse("args.count == -inf", 14, "`-inf` is not a number, or too large to be exact");
        check_parse("tool == ‘x’", 8, "unexpected character `‘`");
        check_parse("tool & true", 5, "unexpected character `&`");
    }

    #[test]
    fn a_regular_expression_is_compiled_when_the_condition_is_read() {
        check_parse("matches(tool, '(')", 0, "`(` is not a regular expression: unclosed group");
        check_parse("matches(tool, args.path)", 0, "the second value of `matches` must be a string written out");
        let huge = Condition::parse(r"matches(tool, '\w{100}')").unwrap_err().message;
        assert!(huge.contains("size limit of 1048576 bytes"), "{huge}");
    }

    #[test]
    fn length_and_depth_are_bounded() {
        check_parse("3-1 == 2", 1, "expected an operator or the end, found the number `-1`");
        let blank = format!("true{}", " ".repeat(MAX_LENGTH - 4));
        assert!(Condition::parse(&blank).is_ok());
        let long = format!("tool == '{}'", "x".repeat(MAX_LENGTH));
        check_parse(&long, MAX_LENGTH, "the condition is longer than 4096 bytes");
        let nested = |depth: usize| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
        check(&nested(32), Ok(true));
        check_parse(&nested(33), 33, "the condition nests deeper than 32 levels");
        check_parse(&"!".repeat(4000), 33, "the condition nests deeper than 32 levels");
        check_parse(&"[".repeat(4000), 33, "the condition nests deeper than 32 levels");
        check(&["true"; 450].join(" and "), Ok(true));
        check(&["(not false)"; 200].join(" and "), Ok(true));
    }

    #[test]
    fn the_variables_of_a_condition_are_known() {
        let condition =
            "tool in [args.a, 'x'] and not has_key(agent.b, class) or is_empty(labels) && matches(risk, 'a')";
        let condition = Condition::parse(condition).unwrap();
        assert_eq!(condition.variables(), ["agent", "args", "class", "labels", "risk", "tool"].into());
        assert_eq!(Condition::parse("true").unwrap().variables(), [].into());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = Condition::parse(&text);
        }

        #[test]
        fn no_words_make_it_panic(words in prop::collection::vec(
            prop::sample::select(vec![
                "and", "or", "not", "!", "&&", "||", "(", ")", "[", "]", ",", "==", "<", "in", "true", "null", "1",
                "-2.5", "'x'", "args.path", "args.none", "tool", "risk", "contains", "matches", "is_empty", "has_key",
            ]),
            0..16,
        )) {
            if let Ok(condition) = Condition::parse(&words.join(" ")) {
                let _ = condition.eval(&variables());
            }
        }
    }
}
