//! The spelling of a record.
//!
//! A body is one canonical JSON object. What comes from the call is spelled by whoever calls, on its own thread; the
//! sequence number and the hash of the record before are known only to the one who holds the lock, and are put in
//! between. The keys are chosen so that those two have their place at the seams:
//!
//! `{at_ms, call, kind, note, outcome, ` **prev** `, raw, record, ` **seq** `, v}`

use serde_json::Value;
use toolgate_contract::{Digest, End, Intent, Note, canonical_json};

use crate::{
    StoreError,
    keys::{Seal, Signer},
};

/// The version of the spelling.
pub(crate) const VERSION: u64 = 1;

/// Who writes.
const PROGRAM: &str = concat!("toolgate ", env!("CARGO_PKG_VERSION"));

/// The last record of a log: how many there are, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) seq: u64,
    pub(crate) hash: Digest,
}

impl Tail {
    /// Before the first record.
    pub(crate) const NONE: Tail = Tail { seq: 0, hash: Digest([0; 32]) };
}

/// A body without its place in the chain.
#[derive(Debug)]
pub(crate) struct Draft {
    before_prev: Vec<u8>,
    before_seq: Vec<u8>,
}

impl Draft {
    pub(crate) fn intent(intent: &Intent) -> Result<Self, StoreError> {
        let call = spell(&intent.record.call)?;
        Ok(Self {
            before_prev: [start(intent.at_ms).as_slice(), b",\"call\":", &call, b",\"kind\":\"intent\""].concat(),
            before_seq: [b",\"record\":".as_slice(), &spell(&intent.record)?].concat(),
        })
    }

    /// An end without an intent also says what was asked. `sealed` is the raw result, encrypted, and its plain length.
    pub(crate) fn end(end: &End, sealed: Option<(&[u8], usize)>) -> Result<Self, StoreError> {
        let call = spell(&end.record.call)?;
        let before_prev = [
            start(end.at_ms).as_slice(),
            b",\"call\":",
            &call,
            b",\"kind\":\"end\",\"outcome\":",
            &spell(&end.outcome)?,
        ]
        .concat();
        let mut before_seq = match sealed {
            Some((sealed, plain)) => {
                format!(",\"raw\":{{\"bytes\":{plain},\"sha256\":\"{}\"}}", Digest::of(sealed)).into_bytes()
            }
            None => b",\"raw\":null".to_vec(),
        };
        if !end.begun {
            before_seq.extend_from_slice(b",\"record\":");
            before_seq.append(&mut spell(&end.record)?);
        }
        Ok(Self { before_prev, before_seq })
    }

    /// Something that is no call.
    pub(crate) fn note(note: &Note) -> Result<Self, StoreError> {
        let said = spell(note)?;
        Ok(Self {
            before_prev: [start(note.at_ms).as_slice(), b",\"kind\":\"note\",\"note\":", &said].concat(),
            before_seq: Vec::new(),
        })
    }

    /// Which program writes from here on. The first record of a log is one.
    pub(crate) fn opened(at_ms: u64, key: &str) -> Self {
        let engine = rusqlite::version_number();
        let names = format!(",\"engine\":{engine},\"key\":\"{key}\",\"kind\":\"opened\"");
        Self {
            before_prev: [start(at_ms), names.into_bytes()].concat(),
            before_seq: format!(",\"program\":\"{PROGRAM}\"").into_bytes(),
        }
    }

    /// A signature over all records so far.
    pub(crate) fn checkpoint(at_ms: u64, signer: &Signer, tail: Tail) -> Self {
        let key = signer.id();
        let seal = signer.sign(Seal::Checkpoint, tail.seq, &tail.hash);
        Self {
            before_prev: [start(at_ms), format!(",\"key\":\"{key}\",\"kind\":\"checkpoint\"").into_bytes()].concat(),
            before_seq: format!(",\"seal\":\"{seal}\"").into_bytes(),
        }
    }

    /// The whole body: this, after `tail`.
    pub(crate) fn body(&self, tail: Tail, body: &mut Vec<u8>) {
        let seq = tail.seq + 1;
        body.clear();
        body.extend_from_slice(&self.before_prev);
        body.extend_from_slice(format!(",\"prev\":\"{}\"", tail.hash).as_bytes());
        body.extend_from_slice(&self.before_seq);
        body.extend_from_slice(format!(",\"seq\":{seq},\"v\":{VERSION}}}").as_bytes());
    }

    /// How much memory it takes.
    pub(crate) fn len(&self) -> usize {
        self.before_prev.len() + self.before_seq.len()
    }
}

/// Does this record say that a program like this one writes?
pub(crate) fn is_opened_by_us(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|said: Value| {
        said["kind"] == "opened" && said["program"] == PROGRAM && said["engine"] == rusqlite::version_number()
    })
}

/// Is this record a signature over those before it?
pub(crate) fn is_checkpoint(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|said: Value| said["kind"] == "checkpoint")
}

fn start(at_ms: u64) -> Vec<u8> {
    format!("{{\"at_ms\":{at_ms}").into_bytes()
}

fn spell(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    canonical_json(value).map_err(StoreError::unwritable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(draft: &Draft) -> Value {
        let mut body = Vec::new();
        draft.body(Tail { seq: 6, hash: Digest::of(b"six") }, &mut body);
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(canonical_json(&value).unwrap(), body, "it is spelled as it should be");
        assert_eq!((&value["seq"], &value["prev"]), (&7.into(), &Digest::of(b"six").to_string().into()));
        value
    }

    #[test]
    fn another_program_or_engine_is_somebody_else() {
        let ours = said(&Draft::opened(1, "key"));
        let check = |value: &Value, expected: bool| {
            assert_eq!(is_opened_by_us(&serde_json::to_vec(value).unwrap()), expected, "{value}");
        };
        check(&ours, true);
        for (field, value) in
            [("program", "toolgate 0.0.1".into()), ("engine", 3_000_000.into()), ("kind", "end".into())]
        {
            let mut other = ours.clone();
            other[field] = value;
            check(&other, false);
        }
    }
}
