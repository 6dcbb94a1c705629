//! Lists in pages, and windows of time.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value, json};
use toolgate_contract::Fault;

use super::answer::{Answered, Data};

/// Rows on a page, where nobody says how many, and at most.
pub(crate) const USUAL: usize = 50;
pub(crate) const MOST: usize = 1_000;
/// A page ends where it has so many bytes; the row that passes them is on it.
const MOST_BYTES: usize = 512 * 1024;
/// Rows that may have come in between two pages of a list with the newest first.
const NEW: usize = 1_000;

/// A row of a list, and the key it is known by.
pub(crate) type Row = (String, Value);

/// The page that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paging {
    tool: String,
    limit: usize,
    after: Option<Place>,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// Of which list.
    tool: String,
    /// How many rows came before.
    seen: usize,
    /// The last of them.
    last: String,
}

impl Place {
    fn cursor(&self) -> String {
        // Only a map with keys that are no text cannot be written.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn read(cursor: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
    }
}

/// What the schema of a list has besides.
pub(crate) fn properties() -> Map<String, Value> {
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL, "description": "At most so many.",
    });
    let cursor = json!({
        "type": "string", "minLength": 1, "maxLength": 2_000,
        "description": "Where to go on: `next_cursor` of the page before.",
    });
    Map::from_iter([("limit".to_owned(), limit), ("cursor".to_owned(), cursor)])
}

impl Paging {
    pub(crate) fn read(tool: &str, limit: Option<&Value>, cursor: Option<&Value>) -> Result<Self, Fault> {
        // The schema has seen to the bounds.
        let limit = limit.and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL);
        let after = match cursor.and_then(Value::as_str) {
            None => None,
            Some(cursor) => Some(Place::read(cursor).filter(|place| place.tool == tool).ok_or_else(bad_cursor)?),
        };
        Ok(Self { tool: tool.to_owned(), limit: limit.clamp(1, MOST), after })
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of the last row of the page before, for lists whose rows have one.
    pub(crate) fn number(&self) -> Result<Option<u64>, Fault> {
        self.after.as_ref().map(|place| place.last.parse().map_err(|_| bad_cursor())).transpose()
    }

    /// So many rows of a list with the newest first hold this page, and whether there is another one.
    pub(crate) fn depth(&self) -> u32 {
        let before = self.after.as_ref().map_or(0, |place| place.seen.saturating_add(NEW));
        u32::try_from(before.saturating_add(self.limit).saturating_add(1)).unwrap_or(u32::MAX)
    }

    /// The page of a list that is all there. Each row has a key of its own.
    pub(crate) fn of(&self, mut rows: Vec<Row>) -> Answered {
        if let Some(place) = &self.after {
            let last = rows.iter().position(|(key, _)| *key == place.last).ok_or_else(bad_cursor)?;
            rows.drain(..=last);
        }
        Ok(self.cut(rows, None))
    }

    /// The page of a list that was read from where the last page ended. `more` is where reading stopped, if it was before
    /// the end of the list.
    pub(crate) fn of_part(&self, rows: Vec<Row>, more: Option<u64>) -> Data {
        self.cut(rows, more.map(|more| more.to_string()))
    }

    fn cut(&self, rows: Vec<Row>, more: Option<String>) -> Data {
        let (mut data, mut bytes, mut last, mut next) = (Vec::new(), 0, None, more);
        for (key, row) in rows {
            if data.len() >= self.limit || bytes >= MOST_BYTES {
                next = last;
                break;
            }
            bytes += row.to_string().len();
            data.push(row);
            last = Some(key);
        }
        let seen = self.after.as_ref().map_or(0, |place| place.seen).saturating_add(data.len());
        let next = next.map(|last| Place { tool: self.tool.clone(), seen, last }.cursor());
        let pagination = json!({ "limit": self.limit, "count": data.len(), "next_cursor": next });
        Data { data: Value::Array(data), pagination: Some(pagination) }
    }
}

fn bad_cursor() -> Fault {
    let message = "the cursor is none of this list, or the list has changed too much since";
    Fault::failed("bad_cursor", message, "Start again without a cursor.")
}

/// A moment as it is written: ISO 8601, with its offset from UTC. A local time names no moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Timestamp);

impl Moment {
    /// Milliseconds since 1970.
    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.0.as_millisecond()).unwrap_or(0)
    }

    pub(crate) fn from_ms(ms: u64) -> Self {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Self(Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|error| D::Error::custom(format!("no moment with a time zone: {error}")))
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "maxLength": 64 })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A window of time, each end of which may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: Option<u64>,
    pub(crate) until: Option<u64>,
}

impl Window {
    pub(crate) fn of(since: Option<Moment>, until: Option<Moment>) -> Result<Self, Fault> {
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            let message = format!("the window ends at {until}, and begins at {since}");
            return Err(Fault::failed("bad_window", message, "Choose a `since` that is before `until`."));
        }
        Ok(Self { since: since.map(Moment::ms), until: until.map(Moment::ms) })
    }

    pub(crate) fn has(&self, at_ms: u64) -> bool {
        self.since.is_none_or(|since| at_ms >= since) && self.until.is_none_or(|until| at_ms <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Vec<Row> {
        names.iter().map(|name| ((*name).to_owned(), json!(name))).collect()
    }

    fn page(limit: u64, cursor: Option<&Value>, names: &[&str]) -> Result<(Value, Value), String> {
        let paging = Paging::read("list", Some(&json!(limit)), cursor).map_err(|fault| fault.code.into_owned())?;
        let page = paging.of(rows(names)).map_err(|fault| fault.code.into_owned())?;
        Ok((page.data, page.pagination.unwrap()["next_cursor"].clone()))
    }

    #[test]
    fn a_list_is_walked_to_its_end_also_when_rows_come_in_between() {
        let (first, next) = page(2, None, &["c", "b", "a"]).unwrap();
        assert_eq!(first, json!(["c", "b"]));
        assert_eq!(page(2, Some(&next), &["d", "c", "b", "a"]).unwrap(), (json!(["a"]), json!(null)));
        assert_eq!(page(3, None, &["c", "b", "a"]).unwrap(), (json!(["c", "b", "a"]), json!(null)));
        assert_eq!(page(3, None, &[]).unwrap(), (json!([]), json!(null)));
        assert_eq!(page(2, Some(&next), &["c"]), Err("bad_cursor".to_owned()));
    }

    #[test]
    fn a_cursor_of_another_list_or_of_nobody_is_refused() {
        let (_, next) = page(1, None, &["b", "a"]).unwrap();
        let other = Paging::read("other", None, Some(&next)).unwrap_err();
        assert_eq!(&*other.code, "bad_cursor");
        for bad in ["", "AAAA", "e30", "\u{200b}"] {
            assert_eq!(page(1, Some(&json!(bad)), &["b", "a"]), Err("bad_cursor".to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn a_page_is_never_larger_than_a_program_can_take() {
        let large = "x".repeat(MOST_BYTES / 2 + 1);
        let rows = || (0..5).map(|n| (n.to_string(), json!(large))).collect::<Vec<_>>();
        let paging = Paging::read("list", Some(&json!(1_000)), None).unwrap();
        let page = paging.of(rows()).unwrap();
        assert_eq!(page.data.as_array().map(Vec::len), Some(2));
        let next = page.pagination.unwrap()["next_cursor"].clone();
        let paging = Paging::read("list", Some(&json!(1_000)), Some(&next)).unwrap();
        assert_eq!(paging.of(rows()).unwrap().data.as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_moment_has_a_time_zone() {
        let check = |text: &str, expected: Option<u64>| {
            let read = serde_json::from_value::<Moment>(json!(text)).ok().map(Moment::ms);
            assert_eq!(read, expected, "{text}");
        };
        check("1970-01-01T00:00:01Z", Some(1_000));
        check("1970-01-01T01:00:01+01:00", Some(1_000));
        check("1970-01-01T00:00:01", None);
        check("1970-01-01", None);
        check("now", None);
        check("0", None);
    }

    #[test]
    fn a_window_begins_before_it_ends() {
        let at = |ms| Some(Moment::from_ms(ms));
        assert_eq!(Window::of(at(1), at(2)), Ok(Window { since: Some(1), until: Some(2) }));
        assert_eq!(Window::of(None, None), Ok(Window { since: None, until: None }));
        for (since, until) in [(2, 2), (3, 2)] {
            assert_eq!(&*Window::of(at(since), at(until)).unwrap_err().code, "bad_window");
        }
    }
}
