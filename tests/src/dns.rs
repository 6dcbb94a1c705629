//! A name server that says what a test wants, and later something else.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// What is answered to each name, one list for each look-up; the last list is repeated. An entry is an address, or a
/// name the asked one is another word for. The name `*` stands for every name that is not listed.
pub type Names = BTreeMap<String, Vec<Vec<String>>>;

/// A question that was asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Question {
    /// The name, in lower case and without a dot at its end.
    pub name: String,
    /// The type: 1 for A, 28 for AAAA.
    pub kind: u16,
}

/// The names of one server and what was asked.
#[derive(Debug, Default)]
pub struct Zone {
    names: Names,
    asked: Vec<Question>,
}

/// Shared by the server and whoever tells it what to say.
pub type SharedZone = Arc<Mutex<Zone>>;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
/// How far names may lead to other names.
const ALIASES: usize = 8;

impl Zone {
    /// Forgets everything and answers with these from now on.
    pub fn set(&mut self, names: Names) {
        *self = Self { names, asked: Vec::new() };
    }

    /// What was asked so far.
    pub fn asked(&self) -> &[Question] {
        &self.asked
    }

    /// The answer to one packet; none where it is no question.
    pub fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (question, end) = read_question(packet)?;
        let records = self.records(&question);
        let code = if records.is_none() { 3 } else { 0 };
        let records = records.unwrap_or_default();
        self.asked.push(question);
        let mut answer = Vec::with_capacity(512);
        answer.extend(packet.get(..2)?);
        // An answer, recursion wanted and available, and its code.
        answer.extend([0x81, 0x80 | code, 0, 1]);
        answer.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
        answer.extend([0; 4]);
        answer.extend(packet.get(12..end)?);
        for (name, data) in records {
            write_record(&mut answer, &name, &data)?;
        }
        Some(answer)
    }

    /// The records for a question; none where the name does not exist.
    fn records(&self, question: &Question) -> Option<Vec<(String, Data)>> {
        let mut records = Vec::new();
        let mut name = question.name.clone();
        for _ in 0..ALIASES {
            let earlier = self.asked.iter().filter(|asked| **asked == *question).count();
            let lists = self.names.get(&name).or_else(|| self.names.get("*"))?;
            let list = lists.get(earlier).or(lists.last())?;
            let data: Vec<Data> = list.iter().map(|word| Data::read(word)).collect();
            let alias = data.iter().find_map(|data| match data {
                Data::Alias(other) => Some(other.clone()),
                _ => None,
            });
            records.extend(
                data.into_iter()
                    .filter(|data| [question.kind, CNAME].contains(&data.kind()))
                    .map(|data| (name.clone(), data)),
            );
            match alias {
                Some(other) => name = other,
                None => return Some(records),
            }
        }
        Some(records)
    }
}

/// Answers whoever asks at this socket, until the process ends.
pub fn serve(socket: &UdpSocket, zone: &SharedZone) {
    let mut packet = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut packet) {
        let answer = zone.lock().unwrap_or_else(PoisonError::into_inner).answer(&packet[..length]);
        if let Some(answer) = answer {
            // Whoever no longer listens is not told.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// What a record holds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Data {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Alias(String),
}

impl Data {
    fn read(word: &str) -> Self {
        match word.parse() {
            Ok(IpAddr::V4(address)) => Self::V4(address),
            Ok(IpAddr::V6(address)) => Self::V6(address),
            Err(_) => Self::Alias(word.to_owned()),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::V4(_) => A,
            Self::V6(_) => AAAA,
            Self::Alias(_) => CNAME,
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::V4(address) => Some(address.octets().to_vec()),
            Self::V6(address) => Some(address.octets().to_vec()),
            Self::Alias(name) => name_bytes(name),
        }
    }
}

/// The first question of a packet, and where it ends.
fn read_question(packet: &[u8]) -> Option<(Question, usize)> {
    let is_question = packet.get(2)? & 0x80 == 0;
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        match length {
            0 => break,
            1..=63 => labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).to_ascii_lowercase()),
            // A question has nothing before it that it could point to.
            _ => return None,
        }
        at += length;
    }
    let kind = u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?);
    packet.get(at + 2..at + 4)?;
    is_question.then_some((Question { name: labels.join("."), kind }, at + 4))
}

fn write_record(answer: &mut Vec<u8>, name: &str, data: &Data) -> Option<()> {
    let bytes = data.bytes()?;
    answer.extend(name_bytes(name)?);
    answer.extend(data.kind().to_be_bytes());
    // Class IN, and an answer that may not be kept.
    answer.extend([0, 1, 0, 0, 0, 0]);
    answer.extend(u16::try_from(bytes.len()).ok()?.to_be_bytes());
    answer.extend(bytes);
    Some(())
}

fn name_bytes(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).ok().filter(|length| *length < 64)?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let lists = |lists: &[&[&str]]| {
            lists.iter().map(|list| list.iter().map(|word| (*word).to_owned()).collect()).collect::<Vec<_>>()
        };
        let names = [
            ("turning.example", lists(&[&["8.8.4.4", "2600::1"], &["10.0.0.1"]])),
            ("alias.example", lists(&[&["turning.example"]])),
            ("empty.example", lists(&[&[]])),
        ];
        let mut zone = Zone::default();
        zone.set(names.into_iter().map(|(name, lists)| (name.to_owned(), lists)).collect());
        zone
    }

    fn ask(name: &str, kind: u16) -> Vec<u8> {
        let mut packet = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend(name_bytes(name).unwrap());
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1]);
        packet
    }

    /// The code of the answer, how many records it has, and the bytes after the question.
    fn check(zone: &mut Zone, name: &str, kind: u16, code: u8, records: &[(&str, Data)]) {
        let question = ask(name, kind);
        let answer = zone.answer(&question).unwrap();
        let mut expected = vec![7, 9, 0x81, 0x80 | code, 0, 1, 0, u8::try_from(records.len()).unwrap(), 0, 0, 0, 0];
        expected.extend(&question[12..]);
        for (name, data) in records {
            write_record(&mut expected, name, data).unwrap();
        }
        assert_eq!(answer, expected);
    }

    #[test]
    fn each_look_up_of_a_type_gets_the_next_list_and_the_last_one_stays() {
        let mut zone = zone();
        let v4 = |text: &str| Data::V4(text.parse().unwrap());
        check(&mut zone, "turning.example", A, 0, &[("turning.example", v4("8.8.4.4"))]);
        check(&mut zone, "TURNING.example", AAAA, 0, &[("turning.example", Data::V6("2600::1".parse().unwrap()))]);
        for _ in 0..2 {
            check(&mut zone, "turning.example", A, 0, &[("turning.example", v4("10.0.0.1"))]);
            check(&mut zone, "turning.example", AAAA, 0, &[]);
        }
        assert_eq!(zone.asked().len(), 6);
    }

    #[test]
    fn aliases_are_followed() {
        let records = [
            ("alias.example", Data::Alias("turning.example".into())),
            ("turning.example", Data::V4("8.8.4.4".parse().unwrap())),
        ];
        check(&mut zone(), "alias.example", A, 0, &records);
    }

    #[test]
    fn a_name_without_addresses_is_not_a_name_that_is_missing() {
        check(&mut zone(), "empty.example", A, 0, &[]);
        check(&mut zone(), "missing.example", A, 3, &[]);
        let mut everything = Zone::default();
        everything.set([("*".to_owned(), vec![vec!["8.8.8.8".to_owned()]])].into());
        check(&mut everything, "missing.example", A, 0, &[("missing.example", Data::V4(Ipv4Addr::new(8, 8, 8, 8)))]);
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let mut answered = ask("turning.example", A);
        answered[2] |= 0x80;
        let whole = ask("turning.example", A);
        let broken = [answered, [&whole[..12], &[0xc0, 12]].concat(), whole[..whole.len() - 1].to_vec(), Vec::new()];
        for packet in broken {
            assert_eq!(zone().answer(&packet), None, "{packet:?}");
        }
    }
}
