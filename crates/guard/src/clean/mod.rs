//! What comes back from a tool, made fit to be read by a model: terminal escapes and characters nobody sees are taken
//! out, and what they hid is told. [`result`] does all there is to do about a whole result.

pub mod escape;
mod finding;
pub mod hidden;
pub mod result;

use std::borrow::Cow;

pub use finding::{Finding, Findings, Kind};

/// The text as a person would have it before them, and what was taken out of it.
///
/// Linear in the text, and text without anything hidden is given back as it is. Cleaning what was cleaned changes nothing.
pub fn clean(text: &str) -> (Cow<'_, str>, Findings) {
    let mut findings = Findings::default();
    let clean = match escape::clean(text, &mut findings) {
        Cow::Borrowed(plain) => hidden::clean(plain, &mut findings),
        Cow::Owned(plain) => Cow::Owned(hidden::clean(&plain, &mut findings).into_owned()),
    };
    (clean, findings)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text made of what matters here: controls, introducers, joiners, tags, emoji, letters of several scripts.
    fn hostile() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            4 => prop::char::range(' ', '~'),
            3 => prop::sample::select("\u{1b}\u{7}\u{9c}\u{9b}\u{9d}\u{90}\u{98}\\[]PX^_;8m\r\n\t\u{8}\u{18}".chars().collect::<Vec<_>>()),
            3 => prop::sample::select("\u{200b}\u{200c}\u{200d}\u{202e}\u{2066}\u{fe0f}\u{e0061}\u{e007f}\u{1f3f4}\u{1f468}\u{94d}\u{928}\u{6cc}\u{feff}\u{e0101}\u{4e00}\u{2028}".chars().collect::<Vec<_>>()),
            1 => any::<char>(),
        ];
        prop::collection::vec(c, 0..120).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn no_control_survives_and_twice_is_once(text in hostile()) {
            let (once, _) = clean(&text);
            prop_assert!(once.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{once:?}");
            let (twice, _) = clean(&once);
            prop_assert_eq!(&once, &twice);
        }

        #[test]
        fn what_is_plain_is_given_back_as_it_is(text in "[ -~\n\t]{0,200}") {
            let (cleaned, findings) = clean(&text);
            prop_assert!(matches!(cleaned, Cow::Borrowed(_)) && findings.is_empty());
            prop_assert_eq!(cleaned, text.as_str());
        }
    }
}
