//! YAML in, typed text out. The only file that knows which YAML library is used.
//!
//! The budget is small on purpose: a config is a page, and whatever needs more is an attack or an accident. Anchors
//! and aliases are not read at all, so that every rule has one line and that line is where it is written.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_saphyr::{Error, Location, MergeKeyPolicy, Spanned, budget::BudgetBreach};
use toolgate_contract::nearest;

/// The largest config there is, in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

/// Where something is written. Lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) line: u64,
    pub(super) column: u64,
    /// How many characters it is long.
    pub(super) width: usize,
}

/// A value and where it is written.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) mark: Mark,
}

/// A mapping whose keys are the user's own words, in the order they are written.
#[derive(Debug)]
pub(super) struct Entries<T>(pub(super) Vec<(At<String>, T)>);

/// Where the keys are. A typed struct knows where its values are written, but not its keys.
#[derive(Debug, Default)]
pub(super) struct Outline(Vec<(At<String>, Outline)>);

/// A text that could not be read.
#[derive(Debug, PartialEq)]
pub(super) struct Unreadable {
    pub(super) mark: Mark,
    pub(super) message: String,
    pub(super) remedy: String,
}

/// Reads one document; a file with nothing but comments is an empty one.
pub(super) fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, Unreadable> {
    if text.len() > MAX_BYTES {
        return Err(Unreadable {
            mark: Mark::default(),
            message: format!("the config has {} bytes, more than {MAX_BYTES}", text.len()),
            remedy: "Write a shorter one.".into(),
        });
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_nodes: 50_000,
        },
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Option<T>>(text, options)
        .map(Option::unwrap_or_default)
        .map_err(|error| explain(&error, text))
}

impl Outline {
    /// The outline of a text that was read before.
    pub(super) fn of(text: &str) -> Self {
        parse(text).unwrap_or_default()
    }

    /// Is there such a key at the top?
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key.value == name)
    }

    /// Where the key at the end of this path is written.
    pub(super) fn key(&self, path: &[&str]) -> Mark {
        let mut mark = Mark::default();
        let mut here = self;
        for name in path {
            let Some((key, below)) = here.0.iter().find(|(key, _)| key.value == *name) else {
                return mark;
            };
            (mark, here) = (key.mark, below);
        }
        mark
    }
}

impl From<Location> for Mark {
    fn from(location: Location) -> Self {
        let width = usize::try_from(location.span().len()).unwrap_or(usize::MAX);
        Self { line: location.line(), column: location.column(), width }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { value: spanned.value, mark: spanned.referenced.into() })
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OutlineVisitor;

        impl<'de> Visitor<'de> for OutlineVisitor {
            type Value = Outline;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(Outline(keys))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Outline, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Outline::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Outline, E> {
                Ok(Outline::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Outline, E> {
                Ok(Outline::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Outline, E> {
                Ok(Outline::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Outline, E> {
                Ok(Outline::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Outline, E> {
                Ok(Outline::default())
            }

            fn visit_unit<E>(self) -> Result<Outline, E> {
                Ok(Outline::default())
            }
        }

        deserializer.deserialize_any(OutlineVisitor)
    }
}

/// Says in the user's words what the library says in its own.
fn explain(error: &Error, text: &str) -> Unreadable {
    let mark = error.location().map(Mark::from).unwrap_or_default();
    let (message, remedy) = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{field}`"), instead(field, expected.iter().copied()))
        }
        Error::DuplicateMappingKey { key, .. } => (
            key.as_ref().map_or("a key is written twice".into(), |key| format!("key `{key}` is written twice")),
            "Keep one of the two.".into(),
        ),
        Error::Unexpected { expected: "mapping start", .. } => {
            ("a mapping is expected here".into(), "Write `key: value`, one a line, or `{}` for nothing.".into())
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            ("a list is expected here".into(), "Write `[one, two]`, or `- one` on lines of their own.".into())
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            ("one word is expected here, not a list or a mapping".into(), "Write a single value.".into())
        }
        Error::InvalidScalar { ty, .. } => {
            let kind = if *ty == "floating point" { "a number" } else { "a whole number" };
            let given = token(text, mark).map_or(String::new(), |given| format!(", not `{given}`"));
            (format!("{kind} is expected here{given}"), "Write a number of 0 or more, without quotes.".into())
        }
        Error::InvalidBooleanStrict { .. } => {
            ("this is neither `true` nor `false`".into(), "Write `true` or `false`.".into())
        }
        Error::NullIntoString { .. } => ("a value is missing here".into(), "Write a value, or remove the line.".into()),
        Error::MultipleDocuments { .. } => (
            "a second YAML document begins here".into(),
            "Keep one document a file: remove the line `---` and what follows.".into(),
        ),
        Error::Budget { breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. }, .. }
        | Error::MergeKeyNotAllowed { .. }
        | Error::UnknownAnchor { .. } => (
            "anchors, aliases and merge keys are not read in a config".into(),
            "Write the value out in each place it is used.".into(),
        ),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { .. } => {
            ("the config holds more values than any config needs".into(), "Write a shorter one.".into())
        }
        Error::UnsupportedTag { tag, .. } => {
            (format!("tag `{tag}` means nothing in a config"), "Remove the tag.".into())
        }
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            (format!("{expected} is expected here"), format!("Write {expected}."))
        }
        Error::Message { msg, .. } | Error::ExternalMessage { msg, .. } => not_yaml(msg),
        other => not_yaml(&other.to_string()),
    };
    Unreadable { mark, message, remedy }
}

fn not_yaml(detail: &str) -> (String, String) {
    if detail.contains("recursion limit") {
        return too_deep();
    }
    let remedy = if detail.contains("tab") {
        "Indent with spaces; YAML does not take tabs."
    } else {
        "Check indentation, quotes and brackets of this line and the one before."
    };
    (format!("this is not YAML: {detail}"), remedy.into())
}

fn too_deep() -> (String, String) {
    ("the config is nested too deeply".into(), "Remove brackets or indentation.".into())
}

/// The text at a mark, where it lies on one line.
fn token(text: &str, mark: Mark) -> Option<String> {
    let line = text.lines().nth(usize::try_from(mark.line.checked_sub(1)?).ok()?)?;
    let token: String =
        line.chars().skip(usize::try_from(mark.column.checked_sub(1)?).ok()?).take(mark.width).collect();
    (!token.is_empty()).then_some(token)
}

/// The nearest of the words that would have been right, or all of them. Nothing is near to a word as long as a page.
pub(super) fn instead<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let close = if given.len() > 100 || known.len() < 3 { None } else { nearest(given, known.iter().copied()) };
    match (close, known.as_slice()) {
        (Some(word), _) => format!("Write `{word}`."),
        (None, []) => "Remove it.".into(),
        (None, [only]) => format!("Write `{only}`."),
        (None, [most @ .., last]) => format!("Write `{}` or `{last}`.", most.join("`, `")),
    }
}

/// A value that is one word, or a mapping with keys of its own.
#[derive(Debug)]
pub(super) enum WordOr<M> {
    Word(String),
    Mapping(M),
}

impl<'de, M: Deserialize<'de>> Deserialize<'de> for WordOr<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrVisitor<M>(PhantomData<M>);

        // Numbers and booleans are taken as words: whoever reads the word has the better message.
        impl<'de, M: Deserialize<'de>> Visitor<'de> for WordOrVisitor<M> {
            type Value = WordOr<M>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a single value or a mapping")
            }

            fn visit_str<E>(self, word: &str) -> Result<Self::Value, E> {
                Ok(WordOr::Word(word.to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(WordOr::Word(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(WordOr::Word(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(WordOr::Word(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(WordOr::Word(value.to_string()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                M::deserialize(MapAccessDeserializer::new(map)).map(WordOr::Mapping)
            }
        }

        deserializer.deserialize_any(WordOrVisitor(PhantomData))
    }
}

/// A list of words, or a mapping from words to something.
#[derive(Debug)]
pub(super) enum ListOr<T> {
    List(Vec<At<String>>),
    Mapping(Entries<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ListOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListOrVisitor<T> {
            type Value = ListOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or a mapping")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(ListOr::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Entries::deserialize(MapAccessDeserializer::new(map)).map(ListOr::Mapping)
            }
        }

        deserializer.deserialize_any(ListOrVisitor(PhantomData))
    }
}
