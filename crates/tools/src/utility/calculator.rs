//! `calculator`: the value of an arithmetic expression.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, json};
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, SafetyClass, ToolDef, nearest};

use super::number::number;
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "calculator".into(),
            summary: "Work out an arithmetic expression.".into(),
            description: "Evaluates `expression` with double precision and returns the number. Operators: `+ - * /`, `%` \
                (remainder, with the sign of the left side) and `^` (power, right to left; `-2^2` is -4). Parentheses \
                nest; a minus may stand before anything. Functions: sqrt, abs, round, floor, ceil, min, max. Constants: \
                pi, e. There is no implied multiplication: write `2*pi`, not `2pi`."
                .into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(5),
            examples: vec![
                Example { title: "Precedence".into(), arguments: json!({ "expression": "-(2+3)*4/8" }) },
                Example { title: "Functions".into(), arguments: json!({ "expression": "sqrt(2)*max(1, 2, 3)^2" }) },
            ],
            failures: vec![
                FailureMode {
                    code: BAD_EXPRESSION.into(),
                    when: "The expression cannot be read. The message says where and what was expected.".into(),
                },
                FailureMode { code: DIVISION_BY_ZERO.into(), when: "The right side of `/` or `%` is zero.".into() },
                FailureMode {
                    code: NOT_FINITE.into(),
                    when: "A result is too large for a double, or no real number, such as `sqrt(-1)`.".into(),
                },
                FailureMode { code: TOO_DEEP.into(), when: "Too many parentheses or signs inside each other.".into() },
                FailureMode { code: TOO_LONG.into(), when: "The expression is longer than 64 KB.".into() },
            ],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

const BAD_EXPRESSION: &str = "bad_expression";
const DIVISION_BY_ZERO: &str = "division_by_zero";
const NOT_FINITE: &str = "not_finite";
const TOO_DEEP: &str = "too_deep";
const TOO_LONG: &str = "too_long";

const MAX_LENGTH: usize = 64 * 1024;
/// How far the parser recurses. Nobody writes a tenth of it by hand, and it fits the smallest stack.
const MAX_DEPTH: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The expression. Example: `-(2+3)*4/8`.
    expression: String,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<Number>, Fault> {
    let text = &*input.expression;
    if text.len() > MAX_LENGTH {
        return Err(Fault::failed(
            TOO_LONG,
            format!("the expression has {} bytes, and {MAX_LENGTH} are allowed", text.len()),
            "Work it out in parts.",
        ));
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.expression(Binding::Loosest)?;
    match parser.peek() {
        None => number(value).map(Answer::new).ok_or_else(|| not_finite("the result")),
        Some(_) => Err(parser.expected("an operator or the end")),
    }
}

/// How tightly an operator holds its operands, loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Loosest,
    Sum,
    Product,
    Sign,
    Power,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

impl Operator {
    /// The signs that word processors put in place of the plain ones are taken for what they look like.
    fn of(c: char) -> Option<Self> {
        Some(match c {
            '+' => Self::Add,
            '-' | '−' => Self::Subtract,
            '*' | '×' => Self::Multiply,
            '/' | '÷' => Self::Divide,
            '%' => Self::Remainder,
            '^' => Self::Power,
            _ => return None,
        })
    }

    fn binding(self) -> Binding {
        match self {
            Self::Add | Self::Subtract => Binding::Sum,
            Self::Multiply | Self::Divide | Self::Remainder => Binding::Product,
            Self::Power => Binding::Power,
        }
    }

    fn apply(self, left: f64, right: f64) -> Result<f64, Fault> {
        let value = match self {
            Self::Divide | Self::Remainder if right == 0.0 => {
                return Err(Fault::failed(
                    DIVISION_BY_ZERO,
                    format!("`{left}` is divided by zero"),
                    "Check the right side of `/` or `%`.",
                ));
            }
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
            Self::Power => left.powf(right),
        };
        finite(value, || format!("`{left} {} {right}`", self.sign()))
    }

    fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
            Self::Power => '^',
        }
    }
}

fn finite(value: f64, what: impl FnOnce() -> String) -> Result<f64, Fault> {
    if value.is_finite() { Ok(value) } else { Err(not_finite(&what())) }
}

fn not_finite(what: &str) -> Fault {
    Fault::failed(NOT_FINITE, format!("{what} is too large, or no real number"), "Use smaller or other numbers.")
}

/// Reads and evaluates in one pass: an operand, then operators as long as they bind tightly enough.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

const OPERAND: &str = "a number, `(`, `-`, a function or a constant";

impl<'t> Parser<'t> {
    fn expression(&mut self, looser_than: Binding) -> Result<f64, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::failed(
                TOO_DEEP,
                format!("the expression nests deeper than {MAX_DEPTH} levels"),
                "Work it out in parts.",
            ));
        }
        self.depth += 1;
        let mut value = self.operand()?;
        while let Some(operator) = self.peek().and_then(Operator::of) {
            if operator.binding() <= looser_than {
                break;
            }
            self.take();
            // A power takes a power on its right, every other operator leaves an equal one to the loop.
            let right_binding = match operator {
                Operator::Power => Binding::Sign,
                other => other.binding(),
            };
            let right = self.expression(right_binding)?;
            value = operator.apply(value, right)?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn operand(&mut self) -> Result<f64, Fault> {
        match self.peek() {
            Some('(') => {
                self.take();
                let value = self.expression(Binding::Loosest)?;
                self.close("an operator or `)`")?;
                Ok(value)
            }
            Some('-' | '−') => {
                self.take();
                Ok(-self.expression(Binding::Sign)?)
            }
            Some('+') => {
                self.take();
                self.expression(Binding::Sign)
            }
            Some('0'..='9' | '.') => self.number(),
            Some(c) if c.is_alphabetic() => self.name(),
            _ => Err(self.expected(OPERAND)),
        }
    }

    fn number(&mut self) -> Result<f64, Fault> {
        let start = self.at;
        self.digits();
        if self.rest().starts_with('.') {
            self.at += 1;
            self.digits();
        }
        let exponent = self.rest().strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
        if let Some(exponent) = exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            self.at = self.text.len() - exponent.len();
            self.digits();
        }
        let written = &self.text[start..self.at];
        match written.parse() {
            Ok(value) => finite(value, || format!("`{written}`")),
            Err(_) => {
                self.at = start;
                Err(self.expected(OPERAND))
            }
        }
    }

    fn digits(&mut self) {
        let rest = self.rest();
        self.at += rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    }

    fn name(&mut self) -> Result<f64, Fault> {
        let start = self.at;
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())];
        self.at += name.len();
        match name {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            _ => {}
        }
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            return Err(unknown_name(name, self.position(start)));
        };
        if self.peek() != Some('(') {
            return Err(self.expected("`(` after a function"));
        }
        self.take();
        let mut value = self.expression(Binding::Loosest)?;
        match function {
            Function::One(function) => value = function(value),
            Function::Many(function) => {
                while self.peek() == Some(',') {
                    self.take();
                    value = function(value, self.expression(Binding::Loosest)?);
                }
            }
        }
        self.close("an operator, or `)` after the last value")?;
        finite(value, || format!("`{name}`"))
    }

    fn close(&mut self, expected: &str) -> Result<(), Fault> {
        if self.peek() != Some(')') {
            return Err(self.expected(expected));
        }
        self.take();
        Ok(())
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character that is not white space, which is skipped for good.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn position(&self, at: usize) -> usize {
        self.text[..at].chars().count() + 1
    }

    fn expected(&mut self, what: &str) -> Fault {
        let found = match self.peek() {
            Some(c) => format!("`{}`", c.escape_debug()),
            None => "the end".into(),
        };
        bad_expression(format!("expected {what} at character {}, found {found}", self.position(self.at)))
    }
}

enum Function {
    One(fn(f64) -> f64),
    Many(fn(f64, f64) -> f64),
}

const FUNCTIONS: [(&str, Function); 7] = [
    ("abs", Function::One(f64::abs)),
    ("ceil", Function::One(f64::ceil)),
    ("floor", Function::One(f64::floor)),
    ("max", Function::Many(f64::max)),
    ("min", Function::Many(f64::min)),
    ("round", Function::One(f64::round)),
    ("sqrt", Function::One(f64::sqrt)),
];

fn unknown_name(name: &str, position: usize) -> Fault {
    let mut known = FUNCTIONS.map(|(name, _)| name).to_vec();
    known.extend(["pi", "e"]);
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; there are {}", known.join(", ")),
    };
    let shown: String = name.chars().take(40).collect();
    bad_expression(format!("there is no `{shown}` (at character {position}){hint}"))
}

fn bad_expression(message: String) -> Fault {
    Fault::failed(BAD_EXPRESSION, message, "Use numbers, `+ - * / % ^`, parentheses and the functions that there are.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::{call, outcome};
    use proptest::prelude::*;
    use serde_json::Value;

    fn check(expression: &str, expected: Value) {
        assert_eq!(outcome(tool, json!({ "expression": expression })), Ok(expected), "{expression}");
    }

    fn check_fault(expression: &str, code: &str, message: &str) {
        let expected = Err((code.to_owned(), message.to_owned()));
        assert_eq!(outcome(tool, json!({ "expression": expression })), expected, "{expression}");
    }

    #[test]
    fn arithmetic() {
        check("1+2", json!(3));
        check("-(2+3)*4/8", json!(-2.5));
        check("2+3*4", json!(14));
        check("(2+3)*4", json!(20));
        check("10-2-3", json!(5));
        check("64/4/2", json!(8));
        check("7%4", json!(3));
        check("-7%4", json!(-3));
        check("1/4", json!(0.25));
        check("0*-1", json!(0));
        check("  1 +\t2\n", json!(3));
    }

    #[test]
    fn signs_and_powers() {
        check("-1+2", json!(1));
        check("2--3", json!(5));
        check("2*-3", json!(-6));
        check("+-+4", json!(-4));
        check("-2^2", json!(-4));
        check("(-2)^2", json!(4));
        check("2^3^2", json!(512));
        check("2^-1", json!(0.5));
        check("2^-1^2", json!(0.5));
        check("2*3^2", json!(18));
        check("5 − 7 × 2 ÷ 4", json!(1.5));
    }

    #[test]
    fn spellings_of_numbers() {
        check(".5", json!(0.5));
        check("5.", json!(5));
        check("1e3", json!(1000));
        check("1.5E-1", json!(0.15));
        check("2e+2", json!(200));
        check("9007199254740991", json!(9_007_199_254_740_991_i64));
    }

    #[test]
    fn functions_and_constants() {
        check("sqrt(16)", json!(4));
        check("abs(-2.5)", json!(2.5));
        check("round(2.5)", json!(3));
        check("floor(-2.5)", json!(-3));
        check("ceil(2.1)", json!(3));
        check("min(3, 1, 2)", json!(1));
        check("max(1)", json!(1));
        check("max ( 1 , (2+3) )", json!(5));
        check("floor(pi)", json!(3));
        check("floor(e*100)", json!(271));
        check("-sqrt(4)^2", json!(-4));
    }

    #[test]
    fn what_cannot_be_read_is_located() {
        check_fault("", "bad_expression", &format!("expected {OPERAND} at character 1, found the end"));
        check_fault("2 3", "bad_expression", "expected an operator or the end at character 3, found `3`");
        check_fault("2 x 3", "bad_expression", "expected an operator or the end at character 3, found `x`");
        check_fault("1.2.3", "bad_expression", "expected an operator or the end at character 4, found `.`");
        check_fault("2pi", "bad_expression", "expected an operator or the end at character 2, found `p`");
        check_fault("1e", "bad_expression", "expected an operator or the end at character 2, found `e`");
        check_fault("2(3)", "bad_expression", "expected an operator or the end at character 2, found `(`");
        check_fault("(1", "bad_expression", "expected an operator or `)` at character 3, found the end");
        check_fault("1)", "bad_expression", "expected an operator or the end at character 2, found `)`");
        check_fault("2 ** 3", "bad_expression", &format!("expected {OPERAND} at character 4, found `*`"));
        check_fault("1+", "bad_expression", &format!("expected {OPERAND} at character 3, found the end"));
        check_fault("()", "bad_expression", &format!("expected {OPERAND} at character 2, found `)`"));
        check_fault(".", "bad_expression", &format!("expected {OPERAND} at character 1, found `.`"));
        check_fault("1,000", "bad_expression", "expected an operator or the end at character 2, found `,`");
        check_fault("−−$", "bad_expression", &format!("expected {OPERAND} at character 3, found `$`"));
        check_fault("sqrt 4", "bad_expression", "expected `(` after a function at character 6, found `4`");
        check_fault(
            "sqrt(1, 2)",
            "bad_expression",
            "expected an operator, or `)` after the last value at character 7, found `,`",
        );
        check_fault("1+sqr(4)", "bad_expression", "there is no `sqr` (at character 3); did you mean `sqrt`?");
        check_fault("abc", "bad_expression", "there is no `abc` (at character 1); did you mean `abs`?");
        check_fault(
            "x",
            "bad_expression",
            "there is no `x` (at character 1); there are abs, ceil, floor, max, min, round, sqrt, pi, e",
        );
    }

    #[test]
    fn what_has_no_finite_value() {
        check_fault("1/0", "division_by_zero", "`1` is divided by zero");
        check_fault("5%(2-2)", "division_by_zero", "`5` is divided by zero");
        check_fault("1/-0", "division_by_zero", "`1` is divided by zero");
        check_fault("10^400", "not_finite", "`10 ^ 400` is too large, or no real number");
        check_fault("1e400", "not_finite", "`1e400` is too large, or no real number");
        check_fault("sqrt(-1)", "not_finite", "`sqrt` is too large, or no real number");
        check_fault("(-8)^(1/3)", "not_finite", "`-8 ^ 0.3333333333333333` is too large, or no real number");
        check_fault("0^-1", "not_finite", "`0 ^ -1` is too large, or no real number");
        check_fault("1 - 0*(1e308/.1)", "not_finite", &format!("`{} / 0.1` is too large, or no real number", 1e308));
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = "the expression nests deeper than 200 levels";
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        check(&nested(199), json!(1));
        check_fault(&nested(200), "too_deep", deep);
        check_fault(&nested(10_000), "too_deep", deep);
        check_fault(&"-".repeat(10_000), "too_deep", deep);
        check_fault(&"2^".repeat(10_000), "too_deep", deep);
        check_fault(&"abs(".repeat(10_000), "too_deep", deep);
        check(&vec!["1"; 20_000].join("+"), json!(20_000));
        check_fault(&"1".repeat(65_537), "too_long", "the expression has 65537 bytes, and 65536 are allowed");
    }

    #[test]
    fn the_text_is_the_number_alone() {
        assert_eq!(call(tool, json!({ "expression": "6/2" })).unwrap().text, "3");
        assert_eq!(call(tool, json!({ "expression": "5/2" })).unwrap().text, "2.5");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = outcome(tool, json!({ "expression": text }));
        }

        #[test]
        fn no_expression_makes_it_panic(text in r"[0-9.eE+\-*/%^(), sqrtmax−]{0,40}") {
            let _ = outcome(tool, json!({ "expression": text }));
        }

        #[test]
        fn sums_and_products_are_those_of_doubles(a in -1e6..1e6, b in -1e6..1e6, c in -1e6..1e6) {
            let value = outcome(tool, json!({ "expression": format!("{a} - {b} * {c}") }));
            prop_assert_eq!(value.map(|v| v.as_f64()), Ok(Some(a - b * c)));
        }
    }
}
