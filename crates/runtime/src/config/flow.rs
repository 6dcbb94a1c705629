//! What is said about where the words of a call come from: the mode, and single arguments of single tools.

use serde_json::Value;
use toolgate_gate::{Accepted, FlowMode, OriginWanted, Pattern, Policy, Sink};

use super::{
    check::Check,
    file::{FlowFile, PatternFile, SinkFile},
    findings::{Findings, Said, Spot},
    load::{At, Mark, WordOr, instead},
    tighten::refuse,
};

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct FlowLayer {
    mode: Option<Said<FlowMode>>,
    sinks: Vec<SinkRule>,
    /// The arguments it names, for the day the catalog is known.
    pub(super) arguments: Vec<Argument>,
}

/// A rule, and where its parts are written.
#[derive(Debug)]
struct SinkRule {
    sink: Sink,
    from: Spot,
    accepts: Option<Spot>,
}

/// An argument of a tool.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    tool: String,
    path: Said<String>,
}

pub(super) fn check(cx: &mut Check<'_>, given: Option<&At<WordOr<FlowFile>>>) -> FlowLayer {
    let Some(given) = given else { return FlowLayer::default() };
    match &given.value {
        WordOr::Word(word) => {
            let word = At { value: word.clone(), mark: given.mark };
            FlowLayer { mode: cx.dimension("information_flow", Some(&word)), ..FlowLayer::default() }
        }
        WordOr::Mapping(block) => {
            let mut layer = FlowLayer { mode: cx.dimension("mode", block.mode.as_ref()), ..FlowLayer::default() };
            for sink in block.sinks.as_deref().unwrap_or_default() {
                let Some((rule, argument)) = check_sink(cx, &sink.value, sink.mark) else { continue };
                let is_same = |known: &SinkRule| is_same(&known.sink, &rule.sink);
                if layer.sinks.iter().any(is_same) {
                    let message = format!("argument `{}` of `{}` has two rules", rule.sink.argument, rule.sink.tool);
                    cx.error(argument.path.spot.mark, message, "Keep one of the two.");
                    continue;
                }
                layer.sinks.push(rule);
                layer.arguments.push(argument);
            }
            layer
        }
    }
}

fn check_sink(cx: &mut Check<'_>, file: &SinkFile, mark: Mark) -> Option<(SinkRule, Argument)> {
    let parts = [("tool", &file.tool), ("argument", &file.argument), ("from", &file.from)];
    if let Some((key, _)) = parts.iter().find(|(_, part)| part.is_none()) {
        cx.error(mark, format!("a sink has no `{key}`"), "Write `tool`, `argument` and `from` for every sink.");
        return None;
    }
    let tool = cx.mention(file.tool.as_ref()?);
    let argument = cx.said(file.argument.as_ref()?);
    if argument.value.split('.').any(str::is_empty) {
        let remedy = "Write names with dots between them, such as `url` or `headers.*`.";
        cx.error(argument.spot.mark, format!("`{}` is no argument", argument.value), remedy);
        return None;
    }
    let from: Said<OriginWanted> = cx.dimension("from", file.from.as_ref())?;
    let accepted = file.accepts.as_deref().unwrap_or_default();
    let accepts = accepted.iter().map(|entry| check_accepted(cx, entry)).collect::<Option<Vec<_>>>()?;
    let sink = Sink {
        tool: tool.value.clone(),
        argument: argument.value.clone(),
        because: file.because.as_ref().map(|because| because.value.clone()),
        accepts,
        from: cx.findings.sourced(from.clone()),
    };
    let accepts = accepted.first().map(|first| cx.spot(first.mark));
    Some((SinkRule { sink, from: from.spot, accepts }, Argument { tool: tool.value, path: argument }))
}

fn check_accepted(cx: &mut Check<'_>, entry: &At<WordOr<PatternFile>>) -> Option<Accepted> {
    let pattern = match &entry.value {
        WordOr::Word(word) => return Some(Accepted::Exactly(word.clone())),
        WordOr::Mapping(PatternFile { pattern: Some(pattern) }) => pattern,
        WordOr::Mapping(_) => {
            cx.error(entry.mark, "this accepts nothing", "Write a value, or `{ pattern: \"..\" }`.");
            return None;
        }
    };
    match Pattern::parse(&pattern.value) {
        Ok(pattern) => Some(Accepted::Like(pattern)),
        Err(why) => {
            let remedy = "Write a regular expression for the whole value, such as `T-[0-9]+`.";
            cx.error(pattern.mark, format!("the pattern cannot be read: {why}"), remedy);
            None
        }
    }
}

impl FlowLayer {
    /// Puts a trusted file on top: of one argument the later rule holds.
    pub(super) fn apply(self, policy: &mut Policy, findings: &Findings) {
        if let Some(mode) = self.mode {
            policy.flow = findings.sourced(mode);
        }
        for rule in self.sinks {
            put(policy, rule.sink);
        }
    }

    /// Takes what is tighter from a file nobody vouches for. A rule stands in for the mode, so one that lets pass what the
    /// mode would ask about is looser, and so is one with exceptions.
    pub(super) fn tighten(self, policy: &mut Policy, findings: &mut Findings) {
        if let Some(mode) = self.mode {
            match mode.value < policy.flow.value {
                true => refuse(mode.spot, &format!("`information_flow: {}`", mode.value), findings),
                false => policy.flow = findings.sourced(mode),
            }
        }
        for SinkRule { sink, from, accepts } in self.sinks {
            let held = policy.sinks.iter().find(|known| is_same(known, &sink)).map(|known| known.from.value);
            let least = held.unwrap_or(OriginWanted::Trusted);
            if sink.from.value < least {
                refuse(from, &format!("`from: {}` where `{least}` holds", sink.from.value), findings);
            } else if let Some(spot) = accepts {
                refuse(spot, "a value that is accepted wherever it comes from", findings);
            } else if sink.from.value > OriginWanted::Any {
                put(policy, sink);
            }
        }
    }
}

fn is_same(a: &Sink, b: &Sink) -> bool {
    a.tool == b.tool && a.argument == b.argument
}

fn put(policy: &mut Policy, sink: Sink) {
    match policy.sinks.iter_mut().find(|known| is_same(known, &sink)) {
        Some(known) => *known = sink,
        None => policy.sinks.push(sink),
    }
}

/// Says of each argument that its tool does not have it. Of unknown tools nothing is said here.
pub(super) fn unknown<'a>(
    arguments: &[Argument],
    schema_of: impl Fn(&str) -> Option<&'a Value>,
    findings: &mut Findings,
) {
    for Argument { tool, path } in arguments {
        let Some(schema) = schema_of(tool) else { continue };
        if let Err(known) = find(schema, &path.value) {
            let remedy = instead(&path.value, known.iter().map(String::as_str));
            findings.error(path.spot, format!("`{tool}` has no argument `{}`", path.value), remedy);
        }
    }
}

/// Is there such a place in a schema? If not, the places there are where the path goes astray.
fn find(schema: &Value, path: &str) -> Result<(), Vec<String>> {
    let mut here = vec![schema];
    let mut walked: Vec<&str> = Vec::new();
    for part in path.split('.') {
        here = here.into_iter().flat_map(|place| ways(schema, place)).collect();
        let next: Vec<&Value> = here.iter().flat_map(|place| below(place, part)).collect();
        if next.is_empty() {
            let names = here.iter().filter_map(|place| place.get("properties")?.as_object());
            let whole = |name: &String| walked.iter().copied().chain([name.as_str()]).collect::<Vec<_>>().join(".");
            return Err(names.flat_map(|fields| fields.keys()).map(whole).collect());
        }
        walked.push(part);
        here = next;
    }
    Ok(())
}

/// What a place of a schema may be: where its references lead, and its alternatives.
fn ways<'a>(root: &'a Value, place: &'a Value) -> Vec<&'a Value> {
    const MOST: usize = 64;
    let (mut found, mut left) = (Vec::new(), vec![place]);
    while let Some(place) = left.pop().filter(|_| found.len() < MOST) {
        found.push(place);
        let to = place.get("$ref").and_then(Value::as_str).and_then(|to| root.pointer(to.strip_prefix('#')?));
        left.extend(to);
        let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| place.get(key)?.as_array());
        left.extend(lists.flatten());
    }
    found
}

/// The places below this one that a part of a path names.
fn below<'a>(place: &'a Value, part: &str) -> Vec<&'a Value> {
    let fields = place.get("properties").and_then(Value::as_object);
    let elements = place.get("items").into_iter().filter(|_| part == "*" || part.parse::<usize>().is_ok());
    // Where other names may be given, or nothing is said, any name is right.
    let others = place.get("additionalProperties").filter(|others| **others != Value::Bool(false));
    let anything = place.as_bool() == Some(true) || place.as_object().is_some_and(serde_json::Map::is_empty);
    let named = fields.into_iter().flatten().filter(|(name, _)| part == "*" || *name == part).map(|(_, place)| place);
    named.chain(elements).chain(others).chain(anything.then_some(place)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_argument_is_found_in_the_schema_or_the_ones_there_are_are_told() {
        let schema = json!({
            "properties": {
                "url": { "type": "string" },
                "headers": { "type": "object", "additionalProperties": { "type": "string" } },
                "to": { "anyOf": [{ "$ref": "#/$defs/People" }, { "type": "null" }] },
                "json": true,
            },
            "additionalProperties": false,
            "$defs": { "People": { "type": "array", "items": { "properties": { "mail": {}, "name": {} } } } },
        });
        let check = |path: &str, expected: Result<(), &[&str]>| {
            let found = find(&schema, path);
            assert_eq!(found.map_err(|known| known.join(" ")), expected.map_err(|known| known.join(" ")), "{path}");
        };
        for path in ["url", "headers", "headers.*", "headers.X-Any", "to.*.mail", "to.0.name", "json.a.b", "*"] {
            check(path, Ok(()));
        }
        check("urls", Err(&["headers", "json", "to", "url"]));
        check("to.*.phone", Err(&["to.*.mail", "to.*.name"]));
        check("to.mail", Err(&[]));
        check("url.x", Err(&[]));
    }
}
