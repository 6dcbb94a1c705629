//! Numbers that tell of a person: payment cards, accounts and national ids.
//!
//! Each has a form, and all but one a check that a number made by chance seldom passes. Where the form alone is a plain
//! number, a word before it has to say what it is.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::Secret;

/// The names of the rules, which are what the markers say.
pub(super) const RULES: &[&str] = &[
    "card", "iban", "us_ssn", "es_dni", "it_cf", "fr_nir", "nl_bsn", "de_tin", "be_nrn", "pl_pesel", "fi_hetu",
    "se_pnr",
];

/// What is told of such a number.
pub(super) const KIND: &str = "personal data";

/// Every such number in a text.
pub(super) fn find(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    for Form { rule, pattern, check, labels } in FORMS.iter() {
        let Some(pattern) = pattern else { continue };
        let hits = pattern.find_iter(text).map(|hit| hit.range()).filter(|span| stands_alone(text, span));
        let valid = hits.filter(|span| check(&bare(&text[span.clone()])));
        let told = valid.filter(|span| labels.is_empty() || is_labelled(text, span.start, labels));
        found.extend(told.map(|span| Secret { rule, span, kind: KIND }));
    }
    found
}

/// How one kind of number looks.
struct Form {
    rule: &'static str,
    pattern: Option<Regex>,
    /// Over the letters and digits alone, in capitals.
    check: fn(&str) -> bool,
    /// One of these has to stand before it, unless there is none.
    labels: &'static [&'static str],
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let form = |rule, pattern: &str, check, labels| Form { rule, pattern: Regex::new(pattern).ok(), check, labels };
    vec![
        form(
            "card",
            r"\d{4}([ -]?)\d{4}[ -]?\d{4}[ -]?\d{1,7}|\d{4}[ -]?\d{6}[ -]?\d{4,5}",
            is_card as fn(&str) -> bool,
            &[] as &[&str],
        ),
        form("iban", r"[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,4})?", is_iban, &[]),
        form("us_ssn", r"\d{3}[- ]?\d{2}[- ]?\d{4}", is_ssn, &["ssn", "social security"]),
        form("es_dni", r"(?:\d{8}|[XYZxyz]-?\d{7})-?[A-HJ-NP-TV-Za-hj-np-tv-z]", is_dni, &[]),
        form("it_cf", r"[A-Za-z]{6}\d{2}[A-EHLMPR-Ta-ehlmpr-t]\d{2}[A-Za-z]\d{3}[A-Za-z]", is_codice_fiscale, &[]),
        form("fr_nir", r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}", is_nir, &[]),
        form("nl_bsn", r"\d{9}|\d{4}\.\d{2}\.\d{3}", is_bsn, &["bsn", "burgerservice", "sofinummer"]),
        form("de_tin", r"\d{2} ?\d{3} ?\d{3} ?\d{3}", is_steuer_id, &["steuer", "idnr", "tax id", "tin"]),
        form("be_nrn", r"\d{2}\.(?:0\d|1[0-2])\.[0-3]\d-\d{3}\.\d{2}", is_rijksregister, &[]),
        form("pl_pesel", r"\d{11}", is_pesel, &["pesel"]),
        form("fi_hetu", r"[0-3]\d[01]\d{3}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", is_hetu, &[]),
        form("se_pnr", r"(?:19|20)?\d{2}[01]\d[0-3]\d[-+]\d{4}", is_personnummer, &[]),
    ]
});

/// Neither before nor after it goes on.
fn stands_alone(text: &str, span: &Range<usize>) -> bool {
    let joined = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let before = span.start.checked_sub(1).and_then(|at| bytes.get(at));
    // A digit that a point or a dash joins is part of a longer number.
    let longer = |joint: Option<&u8>, next: Option<&u8>| {
        matches!(joint, Some(b'.' | b'-' | b',')) && next.is_some_and(u8::is_ascii_digit)
    };
    let further = span.start.checked_sub(2).and_then(|at| bytes.get(at));
    !joined(before)
        && !joined(bytes.get(span.end))
        && !longer(before, further)
        && !longer(bytes.get(span.end), bytes.get(span.end + 1))
}

/// The letters and digits, in capitals.
fn bare(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

fn is_labelled(text: &str, at: usize, labels: &[&str]) -> bool {
    let before = text[text.floor_char_boundary(at.saturating_sub(40))..at].to_ascii_lowercase();
    labels.iter().any(|label| before.contains(label))
}

fn digits(text: &str) -> Option<Vec<u64>> {
    text.chars().map(|c| c.to_digit(10).map(u64::from)).collect()
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The check of cards: every second digit from the right is doubled.
fn luhn(text: &str) -> bool {
    let Some(digits) = digits(text) else { return false };
    let sum: u64 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            0 => *digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// A number that an issuer gives out, with the right check digit.
fn is_card(card: &str) -> bool {
    let begins = |length: usize| card.get(..length).and_then(number).unwrap_or(0);
    let (two, three, four) = (begins(2), begins(3), begins(4));
    let issued = match card.len() {
        13 => card.starts_with('4'),
        14 => matches!(three, 300..=305) || matches!(two, 36 | 38 | 39),
        15 => matches!(two, 34 | 37),
        16 => {
            card.starts_with('4')
                || matches!(two, 51..=55 | 62 | 65)
                || matches!(three, 644..=649)
                || matches!(four, 2221..=2720 | 2200..=2204 | 3528..=3589 | 6011)
        }
        17..=19 => (card.starts_with('4') && card.len() == 19) || matches!(two, 62 | 65) || four == 6011,
        _ => false,
    };
    // One digit again and again is no number of anybody.
    issued && luhn(card) && card.bytes().skip(1).any(|digit| digit != card.as_bytes()[1])
}

/// How long the numbers of each country are.
const IBAN_LENGTHS: &[(&str, usize)] = &[
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NL", 18),
    ("NO", 15),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("SA", 24),
    ("SC", 31),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("TN", 24),
    ("TR", 26),
    ("UA", 29),
    ("VA", 22),
    ("VG", 24),
    ("XK", 20),
];

/// The first four signs behind the rest, letters as two digits, and the whole leaves one when divided by 97.
fn is_iban(iban: &str) -> bool {
    let (country, rest) = (&iban[..2], &iban[4..]);
    let length = IBAN_LENGTHS.iter().find(|(known, _)| *known == country).map(|(_, length)| *length);
    let moved = rest.chars().chain(iban[..4].chars());
    let left = moved.filter_map(|c| c.to_digit(36)).fold(0, |left, value| match value {
        0..=9 => (left * 10 + value) % 97,
        _ => (left * 100 + value) % 97,
    });
    length == Some(iban.len()) && left == 1
}

/// There is no check digit, only numbers that are never given out.
fn is_ssn(ssn: &str) -> bool {
    let (Some(area), Some(group), Some(serial)) = (number(&ssn[..3]), number(&ssn[3..5]), number(&ssn[5..])) else {
        return false;
    };
    !matches!(area, 0 | 666 | 900..) && group > 0 && serial > 0
}

fn is_dni(dni: &str) -> bool {
    let (body, letter) = dni.split_at(dni.len() - 1);
    let body = body.replacen('X', "0", 1).replacen('Y', "1", 1).replacen('Z', "2", 1);
    let expected = number(&body).and_then(|body| b"TRWAGMYFPDXBNJZSQVHLCKE".get(usize::try_from(body % 23).ok()?));
    expected.copied() == letter.bytes().next()
}

fn is_codice_fiscale(code: &str) -> bool {
    // What a sign at an odd place is worth; at an even place a letter is worth its place in the alphabet.
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let place = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' };
    let worth = |(at, byte): (usize, u8)| match at % 2 {
        0 => ODD[usize::from(place(byte))],
        _ => u32::from(place(byte)),
    };
    let (body, check) = code.split_at(code.len() - 1);
    let sum: u32 = body.bytes().enumerate().map(worth).sum();
    check.bytes().next().map(|byte| u32::from(place(byte))) == Some(sum % 26)
}

fn is_nir(nir: &str) -> bool {
    let (body, key) = nir.split_at(nir.len() - 2);
    // The two parts of Corsica have a letter each.
    let body = body.replace("2A", "19").replace("2B", "18");
    number(&body).zip(number(key)).is_some_and(|(body, key)| 97 - body % 97 == key)
}

fn is_bsn(bsn: &str) -> bool {
    let Some(digits) = digits(bsn).filter(|digits| digits.len() == 9) else { return false };
    let sum: u64 = digits[..8].iter().zip([9, 8, 7, 6, 5, 4, 3, 2]).map(|(digit, weight)| digit * weight).sum();
    sum % 11 == digits[8] && sum > 0
}

fn is_steuer_id(id: &str) -> bool {
    let Some(digits) = digits(id).filter(|digits| digits.len() == 11 && digits[0] != 0) else { return false };
    let product = digits[..10].iter().fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == digits[10]
}

/// Who was born in this century has a two before the number.
fn is_rijksregister(id: &str) -> bool {
    let (body, key) = id.split_at(id.len() - 2);
    let fits = |body: &str| number(body).zip(number(key)).is_some_and(|(body, key)| 97 - body % 97 == key);
    fits(body) || fits(&format!("2{body}"))
}

fn is_pesel(id: &str) -> bool {
    let Some(digits) = digits(id) else { return false };
    let sum: u64 = digits.iter().zip([1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).map(|(digit, weight)| digit * weight).sum();
    sum > 0 && sum.is_multiple_of(10)
}

fn is_hetu(id: &str) -> bool {
    // The sign between tells the century; a dash and a plus are not among the letters and digits.
    let day = &id[..6];
    let (Some(serial), Some(check)) = (id.get(id.len() - 4..id.len() - 1), id.bytes().last()) else { return false };
    let expected = number(&format!("{day}{serial}"))
        .and_then(|number| b"0123456789ABCDEFHJKLMNPRSTUVWXY".get(usize::try_from(number % 31).ok()?));
    expected == Some(&check) && matches!(number(&day[2..4]), Some(1..=12))
}

fn is_personnummer(id: &str) -> bool {
    let last = &id[id.len() - 10..];
    luhn(last) && matches!(number(&last[2..4]), Some(1..=12)) && matches!(number(&last[4..6]), Some(1..=31))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let mut found: Vec<(&str, &str)> = find(text).iter().map(|it| (it.rule, &text[it.span.clone()])).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn cards_are_found_by_issuer_and_check_digit() {
        check("pay with 4242 4242 4242 4242 now", &[("card", "4242 4242 4242 4242")]);
        check("5555-5555-5555-4444", &[("card", "5555-5555-5555-4444")]);
        check("378282246310005, 6011111111111117", &[("card", "378282246310005"), ("card", "6011111111111117")]);
        check("30569309025904 3530111333300000", &[("card", "30569309025904"), ("card", "3530111333300000")]);
        for none in [
            "4242 4242 4242 4241",
            "1234567812345670",
            "0000 0000 0000 0000",
            "a4242424242424242",
            "42424242424242424242",
            "0.4242424242424242",
            "1700000000000000",
        ] {
            check(none, &[]);
        }
    }

    #[test]
    fn accounts_are_found_by_country_length_and_remainder() {
        check("IBAN DE89 3704 0044 0532 0130 00.", &[("iban", "DE89 3704 0044 0532 0130 00")]);
        check("GB82WEST12345698765432", &[("iban", "GB82WEST12345698765432")]);
        check("NL91ABNA0417164300", &[("iban", "NL91ABNA0417164300")]);
        check("DE89 3704 0044 0532 0130 01", &[]);
        check("XX89370400440532013000", &[]);
    }

    #[test]
    fn national_ids_are_found_by_their_checks() {
        check("DNI 12345678Z", &[("es_dni", "12345678Z")]);
        check("NIE X1234567L", &[("es_dni", "X1234567L")]);
        check("DNI 12345678A", &[]);
        check("RSSMRA85T10A562S", &[("it_cf", "RSSMRA85T10A562S")]);
        check("RSSMRA85T10A562T", &[]);
        check("1 84 12 76 451 089 46", &[("fr_nir", "1 84 12 76 451 089 46")]);
        check("1 84 12 76 451 089 47", &[]);
        check("85.07.30-033.28", &[("be_nrn", "85.07.30-033.28")]);
        check("85.07.30-033.29", &[]);
        check("131052-308T", &[("fi_hetu", "131052-308T")]);
        check("131052-308U", &[]);
        check("811228-9874", &[("se_pnr", "811228-9874")]);
        check("811228-9875", &[]);
    }

    #[test]
    fn a_plain_number_is_one_only_where_a_word_says_so() {
        check("SSN: 219-09-9999", &[("us_ssn", "219-09-9999")]);
        check("219-09-9999", &[]);
        check("ssn 666-09-9999, ssn 900-09-9999, ssn 219-00-9999", &[]);
        check("BSN 111222333", &[("nl_bsn", "111222333")]);
        check("111222333", &[]);
        check("Steuer-ID 86095742719", &[("de_tin", "86095742719")]);
        check("Steuer-ID 86095742718", &[]);
        check("PESEL 44051401359", &[("pl_pesel", "44051401359")]);
        check("44051401359", &[]);
    }

    #[test]
    fn every_form_can_be_read_and_has_a_name() {
        assert!(FORMS.iter().all(|form| form.pattern.is_some()));
        assert_eq!(FORMS.iter().map(|form| form.rule).collect::<Vec<_>>(), RULES);
    }
}
