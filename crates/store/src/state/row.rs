//! How values lie in columns: words as text, times and counts as numbers, what has parts as JSON.

use std::io;

use rusqlite::{
    Row, ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Type, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};

/// What stands in the way of a change or a look.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Chance(#[from] getrandom::Error),
}

/// A value with parts.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(Into::into).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(|error| FromSqlError::Other(error.into()))
    }
}

/// A value with parts from a column that has one.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, Json<T>>(column).map(|value| value.0)
}

/// A value with parts from a column that may be empty.
pub(super) fn maybe_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Json<T>>>(column).map(|value| value.map(|value| value.0))
}

/// A word of a closed set.
pub(super) fn word<T>(row: &Row<'_>, column: &str, parse: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| {
        let why = format!("column `{column}` holds `{text}`");
        rusqlite::Error::FromSqlConversionFailure(
            row.as_ref().column_index(column).unwrap_or(0),
            Type::Text,
            why.into(),
        )
    })
}

/// A name.
pub(super) fn name<T: for<'a> From<&'a str>>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get_ref(column).and_then(|text| Ok(text.as_str()?.into()))
}

/// Random digits after a prefix.
pub(super) fn fresh_id(prefix: &str) -> Result<String, Trouble> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{prefix}{}", crate::keys::hex(&bytes)))
}
