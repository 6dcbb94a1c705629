//! How a value is spelled under RFC 8785: no spaces, members sorted, numbers as JavaScript prints them.
//!
//! Every record, definition and approval is spelled before it is hashed, so this is on the road of every call. All
//! output goes into one buffer. Each object remembers where its members begin, and only an object whose members
//! turn out not to be in order is put together again when it ends.

use std::{
    cell::Cell,
    cmp::Ordering,
    io::{self, Write},
    mem,
    ops::Range,
};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// The canonical spelling of a value. Not-a-number has no spelling in JSON and becomes null.
pub(crate) fn spell(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    thread_local! {
        /// What spelled the last value here: its buffers have the room that most records take.
        static LAST: Cell<Speller> = Cell::default();
    }
    let mut speller = LAST.take();
    value.serialize(&mut Serializer::with_formatter(io::sink(), &mut speller))?;
    let spelled = speller.out.clone();
    if spelled.len() <= KEPT {
        speller.out.clear();
        LAST.set(speller);
    }
    Ok(spelled)
}

/// How much of a buffer is kept for the next value.
const KEPT: usize = 16 * 1024;

/// Integers a double holds exactly. Beyond them RFC 8785 spells the nearest double.
const EXACT: u64 = 1 << 53;

#[derive(Default)]
struct Speller {
    out: Vec<u8>,
    /// The objects we are in: where each begins in `out`, and where its members begin in `members`.
    objects: Vec<(usize, usize)>,
    members: Vec<Member>,
    /// An object that is put together again, and the order of its members.
    object: Vec<u8>,
    sorted: Vec<Member>,
}

/// Where a member stands in the output.
#[derive(Clone)]
struct Member {
    /// Its key, with quotes.
    key: Range<usize>,
    /// How a key that is plain ASCII without escapes begins, to be compared at once; none of any other.
    head: Option<u64>,
    /// Where its value ends.
    end: usize,
}

impl Speller {
    fn number(&mut self, value: f64) -> io::Result<()> {
        self.out.write_all(ryu_js::Buffer::new().format(value).as_bytes())
    }

    /// Puts the members of the innermost object in order, if they are not.
    fn sort(&mut self, begin: usize, first: usize) -> io::Result<()> {
        let members = self.members.get(first..).unwrap_or_default();
        if members.is_sorted_by(|a, b| self.order(a, b) == Ordering::Less) {
            return Ok(());
        }
        let (mut sorted, mut object) = (mem::take(&mut self.sorted), mem::take(&mut self.object));
        sorted.extend_from_slice(members);
        sorted.sort_unstable_by(|a, b| self.order(a, b));
        if !sorted.is_sorted_by(|a, b| self.order(a, b) == Ordering::Less) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "two members of an object have the same name"));
        }
        for (i, member) in sorted.iter().enumerate() {
            if i > 0 {
                object.push(b',');
            }
            object.extend_from_slice(self.out.get(member.key.start..member.end).unwrap_or_default());
        }
        self.out.truncate(begin);
        self.out.append(&mut object);
        sorted.clear();
        (self.sorted, self.object) = (sorted, object);
        Ok(())
    }

    /// The order of two keys: by UTF-16 code units, which for plain ones is the order of the bytes.
    fn order(&self, a: &Member, b: &Member) -> Ordering {
        if let (Some(head), Some(other)) = (a.head, b.head) {
            // Without the closing quote: it must not be compared with a letter.
            let open = |member: &Member| self.out.get(member.key.start..member.key.end.saturating_sub(1));
            return head.cmp(&other).then_with(|| open(a).cmp(&open(b)));
        }
        let units = |member: &Member| -> Vec<u16> {
            let key = self.out.get(member.key.clone()).unwrap_or_default();
            serde_json::from_slice::<String>(key).unwrap_or_default().encode_utf16().collect()
        };
        units(a).cmp(&units(b))
    }
}

/// How a key with its quotes begins, if it is plain. In one that ends before, nothing stands behind: no plain key has it.
fn head(key: &[u8]) -> Option<u64> {
    let open = key.get(1..key.len().saturating_sub(1))?;
    if !open.iter().all(|byte| byte.is_ascii() && *byte != b'\\') {
        return None;
    }
    let mut first = [0; size_of::<u64>()];
    first.iter_mut().zip(open).for_each(|(to, from)| *to = *from);
    Some(u64::from_be_bytes(first))
}

macro_rules! integers {
    ($($name:ident $type:ty,)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W, value: $type) -> io::Result<()> {
            self.write_i64(writer, value.into())
        })*
    };
}

impl Formatter for &mut Speller {
    fn write_null<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b"null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        CompactFormatter.write_bool(&mut self.out, value)
    }

    integers! { write_i8 i8, write_i16 i16, write_i32 i32, write_u8 u8, write_u16 u16, write_u32 u32, }

    fn write_i64<W: ?Sized + Write>(&mut self, _: &mut W, value: i64) -> io::Result<()> {
        match value.unsigned_abs() {
            ..=EXACT => CompactFormatter.write_i64(&mut self.out, value),
            _ => self.number(value as f64),
        }
    }

    fn write_u64<W: ?Sized + Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        match value {
            ..=EXACT => CompactFormatter.write_u64(&mut self.out, value),
            _ => self.number(value as f64),
        }
    }

    fn write_i128<W: ?Sized + Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        self.number(value as f64)
    }

    fn write_u128<W: ?Sized + Write>(&mut self, _: &mut W, value: u128) -> io::Result<()> {
        self.number(value as f64)
    }

    fn write_f32<W: ?Sized + Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.number(value.into())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.number(value)
    }

    fn write_number_str<W: ?Sized + Write>(&mut self, _: &mut W, value: &str) -> io::Result<()> {
        self.number(value.parse().map_err(|_| io::ErrorKind::InvalidData)?)
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b"\"")
    }

    fn end_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b"\"")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.out.write_all(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(&mut self.out, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        CompactFormatter.begin_array_value(&mut self.out, first)
    }

    fn end_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.push(b'{');
        self.objects.push((self.out.len(), self.members.len()));
        Ok(())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        if !first {
            self.out.push(b',');
        }
        let start = self.out.len();
        self.members.push(Member { key: start..start, head: None, end: start });
        Ok(())
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some(member) = self.members.last_mut() {
            member.key.end = self.out.len();
            member.head = head(self.out.get(member.key.clone()).unwrap_or_default());
        }
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.out.write_all(b":")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        // The members of objects inside this one are gone by now.
        if let Some(member) = self.members.last_mut() {
            member.end = self.out.len();
        }
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some((begin, first)) = self.objects.pop() {
            self.sort(begin, first)?;
            self.members.truncate(first);
        }
        self.out.write_all(b"}")
    }

    /// A raw value keeps its own spelling, which nobody has checked.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, _: &mut W, _: &str) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "a raw JSON value has no canonical spelling"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn check(value: &impl Serialize, expected: &str) {
        assert_eq!(String::from_utf8(spell(value).unwrap()).unwrap(), expected);
    }

    #[test]
    fn numbers_are_spelled_as_javascript_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (1e20, "100000000000000000000"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000_001, "0.000001"),
            (0.000_001_5, "0.0000015"),
            (1e-7, "1e-7"),
            (-1.25e-9, "-1.25e-9"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            check(&value, expected);
        }
        check(&u64::MAX, "18446744073709552000");
        check(&i64::MIN, "-9223372036854776000");
        check(&EXACT, "9007199254740992");
        check(&u128::MAX, "3.402823669209385e+38");
    }

    #[test]
    fn members_are_sorted_by_utf16_in_objects_at_every_depth() {
        #[derive(Serialize)]
        struct Outer {
            b: Value,
            a: BTreeMap<&'static str, u8>,
        }
        let names = BTreeMap::from([("\u{e000}", 1), ("\u{1f600}", 2), ("\n", 3), ("ab", 4), ("a", 5), ("a!", 6)]);
        check(
            &Outer { b: json!([{ "y": [], "x": {} }]), a: names },
            "{\"a\":{\"\\n\":3,\"a\":5,\"a!\":6,\"ab\":4,\"\u{1f600}\":2,\"\u{e000}\":1},\"b\":[{\"x\":{},\"y\":[]}]}",
        );
    }

    #[test]
    fn two_members_with_one_name_have_no_spelling() {
        #[derive(Serialize)]
        struct Twice {
            a: u8,
            #[serde(flatten)]
            more: BTreeMap<&'static str, u8>,
        }
        assert!(spell(&Twice { a: 1, more: BTreeMap::from([("a", 2)]) }).is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}|[ab]{7,10}", inner, 0..8).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_another_implementation(value in values()) {
            prop_assert_eq!(spell(&value).unwrap(), serde_json_canonicalizer::to_vec(&value).unwrap());
        }
    }
}
