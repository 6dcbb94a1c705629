//! The parameters of a request, as they are written: put together from where they are, because most of a call of another
//! server's tool would be copied otherwise.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};

use super::handshake::{CAPABILITIES, Era, INFO, MODERN, VERSION, Who};

/// Parameters of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params<'a> {
    /// What is asked.
    pub(crate) own: &'a Map<String, Value>,
    /// What is brought along the second time.
    pub(crate) brought: &'a Map<String, Value>,
    /// How the server wants them, and what whoever asks can do, where that is said.
    pub(crate) says: Option<(Era, &'a Value)>,
    /// Under which the server tells how far it is.
    pub(crate) progress: Option<u64>,
}

const META: &str = "_meta";

impl<'a> Params<'a> {
    fn meta(&self) -> Meta<'a> {
        let says = self.says.and_then(|(era, can)| (era == Era::Modern).then_some(can));
        Meta { own: self.own.get(META).and_then(Value::as_object), says, progress: self.progress }
    }
}

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let own = self.own.iter().filter(|(key, _)| *key != META && !self.brought.contains_key(*key));
        for (key, value) in own.chain(self.brought) {
            map.serialize_entry(key, value)?;
        }
        let meta = self.meta();
        if meta.own.is_some() || meta.says.is_some() || meta.progress.is_some() {
            map.serialize_entry(META, &meta)?;
        }
        map.end()
    }
}

struct Meta<'a> {
    own: Option<&'a Map<String, Value>>,
    says: Option<&'a Value>,
    progress: Option<u64>,
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const PROGRESS: &str = "progressToken";
        let is_ours = |key: &str| match key {
            VERSION | CAPABILITIES | INFO => self.says.is_some(),
            PROGRESS => self.progress.is_some(),
            _ => false,
        };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.own.into_iter().flatten().filter(|(key, _)| !is_ours(key)) {
            map.serialize_entry(key, value)?;
        }
        if let Some(can) = self.says {
            map.serialize_entry(VERSION, MODERN)?;
            map.serialize_entry(CAPABILITIES, can)?;
            map.serialize_entry(INFO, &Who::US)?;
        }
        if let Some(progress) = self.progress {
            map.serialize_entry(PROGRESS, &progress)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn they_are_written_as_they_would_be_put_together() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let own = map(
            json!({ "name": "t", "requestState": "old", "_meta": { "x": 1, "progressToken": "theirs", VERSION: "0" } }),
        );
        let brought = map(json!({ "requestState": "new" }));
        let can = json!({ "roots": {} });
        for (says, progress) in [
            (None, None),
            (Some((Era::Modern, &can)), None),
            (Some((Era::Modern, &can)), Some(7)),
            (Some((Era::Legacy("2025-11-25"), &can)), Some(7)),
        ] {
            let written = json!(Params { own: &own, brought: &brought, says, progress });
            let mut whole = own.clone();
            whole.append(&mut brought.clone());
            if let Some((era, can)) = says {
                whole = era.params(whole, can);
            }
            if let Some(progress) = progress {
                whole["_meta"]["progressToken"] = json!(progress);
            }
            assert_eq!(written, Value::Object(whole));
        }
        let (bare, nothing) = (map(json!({ "name": "t" })), Map::new());
        let written = json!(Params { own: &bare, brought: &nothing, says: None, progress: None });
        assert_eq!(written, json!({ "name": "t" }));
    }
}
