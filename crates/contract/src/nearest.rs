//! "Did you mean": the closest known word, when one is close enough to be worth saying.

/// The candidate closest to `given`, or none when all are too far off to help.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(given, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.72)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_likely_word_and_stays_silent_otherwise() {
        let words = ["read", "write", "grep", "generate_uuid"];
        assert_eq!(nearest("raed", words).as_deref(), Some("read"));
        assert_eq!(nearest("generate_uid", words).as_deref(), Some("generate_uuid"));
        assert_eq!(nearest("xyzzy", words), None);
    }
}
