//! The name server of a room: bytes of a question in, bytes of an answer out.
//!
//! It asks nobody. A name that some rule names gets a synthetic address that means that name in that room and nothing
//! anywhere else; the real one is looked up when somebody connects, outside the room. So a question carries nothing
//! out, and an answer that was pinned, cached or forged in the room changes nothing about who is dialled.

use std::{
    collections::{HashMap, HashSet},
    net::Ipv4Addr,
};

use toolgate_guard::host_name::HostName;

use crate::{event::Reason, rule::Rules};

/// The names of one room, each with its synthetic address.
#[derive(Debug)]
pub(crate) struct Names {
    rules: Rules,
    /// The name at place `n` has the `n`th address of the block.
    bound: Vec<HostName>,
    place: HashMap<HostName, u16>,
    told: HashSet<String>,
}

/// `198.18.0.0/15` is for measuring devices: nobody is reached by it, so nobody is shadowed by it.
const BLOCK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// How many names a room may use. A wildcard rule lets the room choose them, so that there has to be an end.
const MAX_BOUND: u16 = 4096;
/// How many refused names are told.
const MAX_TOLD: usize = 256;
/// Seconds an answer may be kept. The address stays the same as long as the room lives; short, so that nothing outside
/// the room that overheard it believes in it for long.
const TTL: u32 = 5;

impl Names {
    /// No name has an address yet.
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, bound: Vec::new(), place: HashMap::new(), told: HashSet::new() }
    }

    /// Which name does this synthetic address stand for?
    pub(crate) fn name_at(&self, address: Ipv4Addr) -> Option<&HostName> {
        let place = u32::from(address).checked_sub(u32::from(BLOCK))?.checked_sub(1)?;
        self.bound.get(usize::try_from(place).ok()?)
    }

    fn bind(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        let next = u16::try_from(self.bound.len()).ok()?;
        let place = match self.place.get(name) {
            Some(place) => *place,
            None if next == MAX_BOUND => return None,
            None => {
                self.bound.push(name.clone());
                self.place.insert(name.clone(), next);
                next
            }
        };
        Some(Ipv4Addr::from(u32::from(BLOCK) + 1 + u32::from(place)))
    }

    /// A room that asks for one refused name a thousand times is told on once.
    fn tell(&mut self, name: String, reason: Reason) -> Option<(String, Reason)> {
        (self.told.len() < MAX_TOLD && self.told.insert(name.clone())).then_some((name, reason))
    }
}

/// What goes back, and whom the question was about if that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The message, without the length that goes before it over TCP.
    pub(crate) bytes: Vec<u8>,
    /// The refused name, escaped, and why, the first time it is asked for.
    pub(crate) refused: Option<(String, Reason)>,
}

/// Answers one message. `None`: it is no question, and saying anything could start a loop.
pub(crate) fn answer(message: &[u8], names: &mut Names) -> Option<Reply> {
    let header = Header::read(message)?;
    let question = match header.check().and_then(|()| Question::read(&message[Header::LENGTH..])) {
        Ok(question) => question,
        Err(code) => return Some(Reply { bytes: header.reply(code, &[], None), refused: None }),
    };
    let (code, address, refused) = decide(&question, names);
    Some(Reply { bytes: header.reply(code, question.bytes, address), refused })
}

/// Only addresses are told, and of those only IPv4 ones: the room speaks nothing else. Other types could carry text in
/// both directions.
fn decide(question: &Question<'_>, names: &mut Names) -> (u8, Option<Ipv4Addr>, Option<(String, Reason)>) {
    if question.class != CLASS_IN || !matches!(question.kind, TYPE_A | TYPE_AAAA) {
        return (REFUSED, None, None);
    }
    let Some(name) = question.name().filter(|name| names.rules.knows(name)) else {
        let refused = names.tell(question.shown(), Reason::NotAllowed);
        return (NXDOMAIN, None, refused);
    };
    if question.kind == TYPE_AAAA {
        return (NOERROR, None, None);
    }
    match names.bind(&name) {
        Some(address) => (NOERROR, Some(address), None),
        None => (SERVFAIL, None, names.tell(name.to_string(), Reason::TooMany)),
    }
}

pub(crate) const NOERROR: u8 = 0;
const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
pub(crate) const NXDOMAIN: u8 = 3;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;

pub(crate) const TYPE_A: u16 = 1;
pub(crate) const TYPE_AAAA: u16 = 28;
pub(crate) const CLASS_IN: u16 = 1;

struct Header {
    id: [u8; 2],
    flags: u8,
    counts: [u16; 4],
}

impl Header {
    const LENGTH: usize = 12;
    /// This is an answer.
    const QR: u8 = 0x80;
    const OPCODE: u8 = 0x78;
    const RECURSION_DESIRED: u8 = 0x01;
    const RECURSION_AVAILABLE: u8 = 0x80;

    fn read(message: &[u8]) -> Option<Self> {
        let [a, b, flags, _, counts @ ..] = message.first_chunk::<{ Self::LENGTH }>()?;
        let count = |at: usize| u16::from_be_bytes([counts[at], counts[at + 1]]);
        let header = Self { id: [*a, *b], flags: *flags, counts: [count(0), count(2), count(4), count(6)] };
        (flags & Self::QR == 0).then_some(header)
    }

    /// One question and nothing answered yet. What comes in the additional section (EDNS) is not looked at.
    fn check(&self) -> Result<(), u8> {
        match self.counts {
            _ if self.flags & Self::OPCODE != 0 => Err(NOTIMP),
            [1, 0, 0, _] => Ok(()),
            _ => Err(FORMERR),
        }
    }

    /// The question is given back byte for byte: some clients check that the capitals are theirs.
    fn reply(&self, code: u8, question: &[u8], address: Option<Ipv4Addr>) -> Vec<u8> {
        const NAME_OF_THE_QUESTION: u16 = 0xc000 | Header::LENGTH as u16;
        let kept = self.flags & (Self::OPCODE | Self::RECURSION_DESIRED);
        let mut reply = Vec::with_capacity(Self::LENGTH + question.len() + 16);
        reply.extend(self.id);
        reply.extend([Self::QR | kept, Self::RECURSION_AVAILABLE | code]);
        reply.extend(u16::from(!question.is_empty()).to_be_bytes());
        reply.extend(u16::from(address.is_some()).to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(question);
        if let Some(address) = address {
            for word in [NAME_OF_THE_QUESTION, TYPE_A, CLASS_IN] {
                reply.extend(word.to_be_bytes());
            }
            reply.extend(TTL.to_be_bytes());
            reply.extend([0, 4]);
            reply.extend(address.octets());
        }
        reply
    }
}

/// A question, as a room asks it or as a server gives it back.
pub(crate) struct Question<'a> {
    pub(crate) bytes: &'a [u8],
    labels: Vec<&'a [u8]>,
    kind: u16,
    class: u16,
}

impl<'a> Question<'a> {
    /// The longest name on the wire, its lengths counted.
    const MAX_NAME: usize = 255;
    const MAX_LABEL: u8 = 63;

    /// There is nothing before the first name that it could point back to, so that a pointer in it is a loop or a trick.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, u8> {
        let mut labels = Vec::new();
        let mut at = 0;
        loop {
            match *bytes.get(at).ok_or(FORMERR)? {
                0 => break,
                length if length > Self::MAX_LABEL => return Err(FORMERR),
                length => {
                    let end = at + 1 + usize::from(length);
                    labels.push(bytes.get(at + 1..end).ok_or(FORMERR)?);
                    at = end;
                }
            }
            if at >= Self::MAX_NAME {
                return Err(FORMERR);
            }
        }
        let end = at + 5;
        let [a, b, c, d] = *bytes.get(at + 1..end).and_then(|rest| rest.first_chunk()).ok_or(FORMERR)?;
        let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Ok(Self { bytes: &bytes[..end], labels, kind, class })
    }

    /// A dot inside a label is no dot between two, so that labels are checked before they are joined.
    fn name(&self) -> Option<HostName> {
        let labels: Vec<&str> =
            self.labels.iter().map(|label| std::str::from_utf8(label)).collect::<Result<_, _>>().ok()?;
        if labels.iter().any(|label| label.contains('.')) {
            return None;
        }
        HostName::parse(&labels.join(".")).ok()
    }

    /// As people read it.
    fn shown(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|label| label.escape_ascii().to_string()).collect();
        labels.join(".").to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(rules: &[&str]) -> Names {
        Names::new(Rules::parse(&rules.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap())
    }

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        message
    }

    /// The answer to a question about `name`, as code and address.
    #[track_caller]
    fn ask(names: &mut Names, name: &str, kind: u16) -> (u8, Option<Ipv4Addr>) {
        let asked = query(name, kind);
        let reply = answer(&asked, names).unwrap().bytes;
        assert_eq!(reply[..2], asked[..2], "the id is the question's");
        assert_eq!(reply[2], 0x81, "an answer, recursion desired as asked");
        assert_eq!(reply[3] & 0xf0, 0x80);
        assert_eq!(reply[12..asked.len()], asked[12..], "the question comes back as it was");
        let code = reply[3] & 0x0f;
        let rest = &reply[asked.len()..];
        if rest.is_empty() {
            assert_eq!(reply[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
            return (code, None);
        }
        assert_eq!(reply[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(rest[..12], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        (code, Some(Ipv4Addr::from(*rest[12..].first_chunk::<4>().unwrap())))
    }

    #[test]
    fn an_allowed_name_has_one_synthetic_address_as_long_as_the_room_lives() {
        let mut names = names(&["allowed.com:443", "*.wild.org:80"]);
        let first = Ipv4Addr::new(198, 18, 0, 1);
        let second = Ipv4Addr::new(198, 18, 0, 2);
        assert_eq!(ask(&mut names, "allowed.com", TYPE_A), (NOERROR, Some(first)));
        assert_eq!(ask(&mut names, "a.wild.org", TYPE_A), (NOERROR, Some(second)));
        assert_eq!(ask(&mut names, "AlloWED.cOm", TYPE_A), (NOERROR, Some(first)));
        assert_eq!(names.name_at(first).unwrap().as_str(), "allowed.com");
        assert_eq!(names.name_at(second).unwrap().as_str(), "a.wild.org");
        assert_eq!(names.name_at(Ipv4Addr::new(198, 18, 0, 0)), None);
        assert_eq!(names.name_at(Ipv4Addr::new(198, 18, 0, 3)), None);
        assert_eq!(names.name_at(Ipv4Addr::new(1, 1, 1, 1)), None);
        assert_eq!(names.name_at(Ipv4Addr::BROADCAST), None);
    }

    #[test]
    fn what_is_not_allowed_does_not_exist() {
        let mut names = names(&["allowed.com:443", "*.wild.org:80", "10.0.0.1:80"]);
        for name in
            ["evil.com", "allowed.com.evil.com", "secret.allowed.com", "wild.org", "10.0.0.1", "", "x y.wild.org"]
        {
            assert_eq!(ask(&mut names, name, TYPE_A), (NXDOMAIN, None), "{name}");
            assert_eq!(ask(&mut names, name, TYPE_AAAA), (NXDOMAIN, None), "{name}");
        }
        assert!(names.bound.is_empty());
    }

    #[test]
    fn there_is_no_ipv6_and_no_other_type() {
        let mut names = names(&["allowed.com:443"]);
        assert_eq!(ask(&mut names, "allowed.com", TYPE_AAAA), (NOERROR, None));
        for kind in [0, 2, 5, 6, 12, 15, 16, 33, 41, 64, 65, 251, 252, 255, u16::MAX] {
            assert_eq!(ask(&mut names, "allowed.com", kind), (REFUSED, None), "{kind}");
            assert_eq!(ask(&mut names, "data.evil.com", kind), (REFUSED, None), "{kind}");
        }
    }

    #[test]
    fn a_refused_name_is_told_once_and_not_without_end() {
        let mut names = names(&["allowed.com:443"]);
        let mut told = |name: &str| {
            let (name, reason) = answer(&query(name, TYPE_A), &mut names).unwrap().refused?;
            assert_eq!(reason, Reason::NotAllowed);
            Some(name)
        };
        assert_eq!(told("Evil.com"), Some("evil.com".into()));
        assert_eq!(told("evil.com"), None);
        assert_eq!(told("allowed.com"), None);
        assert_eq!(told("a\nb.com"), Some("a\\nb.com".into()));
        let all = (0..1_000).filter_map(|n| told(&format!("{n}.evil.com"))).count();
        assert_eq!(all, MAX_TOLD - 2);
    }

    #[test]
    fn names_under_a_wildcard_run_out() {
        let mut names = names(&["*.wild.org:80"]);
        for n in 0..MAX_BOUND {
            assert_eq!(ask(&mut names, &format!("n{n}.wild.org"), TYPE_A).0, NOERROR);
        }
        assert_eq!(ask(&mut names, "one-more.wild.org", TYPE_A), (SERVFAIL, None));
        assert_eq!(ask(&mut names, "n7.wild.org", TYPE_A), (NOERROR, Some(Ipv4Addr::new(198, 18, 0, 8))));
    }

    /// The code of an answer that does not repeat the question; `None` for silence.
    fn code(message: &[u8]) -> Option<u8> {
        let reply = answer(message, &mut names(&["allowed.com:443"]))?.bytes;
        assert_eq!(reply[4..], [0; 8]);
        Some(reply[3] & 0x0f)
    }

    #[test]
    fn messages_that_are_no_question_get_silence() {
        assert_eq!(code(&[]), None);
        assert_eq!(code(&[0; 11]), None);
        let mut answer = query("allowed.com", TYPE_A);
        answer[2] |= 0x80;
        assert_eq!(code(&answer), None);
    }

    #[test]
    fn malformed_questions_are_told_so() {
        let ok = query("allowed.com", TYPE_A);
        let changed = |at: usize, to: u8| {
            let mut message = ok.clone();
            message[at] = to;
            message
        };
        assert_eq!(code(&changed(5, 0)), Some(FORMERR), "no question");
        assert_eq!(code(&changed(5, 2)), Some(FORMERR), "two questions");
        assert_eq!(code(&changed(7, 1)), Some(FORMERR), "an answer in a question");
        assert_eq!(code(&changed(9, 1)), Some(FORMERR), "an authority in a question");
        assert_eq!(code(&changed(2, 0x28)), Some(NOTIMP), "an update");
        assert_eq!(code(&changed(12, 0x40)), Some(FORMERR), "a label of a kind that is not used");
        assert_eq!(code(&ok[..ok.len() - 1]), Some(FORMERR), "cut in the class");
        assert_eq!(code(&ok[..12]), Some(FORMERR), "no bytes of a question");
        let mut looped = ok[..12].to_vec();
        looped.extend([0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(code(&looped), Some(FORMERR), "a name that points at itself");
        for length in [64, 128, 192, 240] {
            assert_eq!(code(&query(&"a".repeat(length), TYPE_A)), Some(FORMERR), "a label of {length}");
        }
        let long = "a.".repeat(127);
        assert_eq!(code(&query(&format!("{long}bb"), TYPE_A)), Some(FORMERR), "a name that is too long");
    }

    #[test]
    fn a_dot_inside_a_label_is_no_dot_between_two() {
        let mut names = names(&["allowed.com:443"]);
        let mut message = query("", TYPE_A)[..12].to_vec();
        message.push(11);
        message.extend(b"allowed.com\0\0\x01\0\x01");
        let reply = answer(&message, &mut names).unwrap();
        assert_eq!(reply.bytes[3] & 0x0f, NXDOMAIN);
        assert!(names.bound.is_empty());
    }

    #[test]
    fn another_class_is_refused() {
        let mut message = query("allowed.com", TYPE_A);
        *message.last_mut().unwrap() = 3;
        assert_eq!(answer(&message, &mut names(&["allowed.com:443"])).unwrap().bytes[3] & 0x0f, REFUSED);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut message in proptest::collection::vec(any::<u8>(), 0..600), is_shaped: bool) {
            if is_shaped && message.len() > 12 {
                message[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            let mut names = names(&["*.wild.org:80"]);
            if let Some(reply) = answer(&message, &mut names) {
                prop_assert!(reply.bytes[2] & 0x80 != 0);
                prop_assert!(names.bound.is_empty());
            }
        }
    }
}
