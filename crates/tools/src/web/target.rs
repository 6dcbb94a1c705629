//! To whom a call would talk.

use toolgate_contract::{Effect, EffectKind};
use toolgate_guard::url::WebUrl;

use crate::files::text::brief;

/// Talking to the host of this URL.
///
/// What is no URL is named as it is written: the client refuses it, and until then a person sees what was asked for.
pub(super) fn talks_to(url: &str) -> Effect {
    Effect::on(EffectKind::Network, target(url))
}

/// Changing something at the host of this URL.
pub(super) fn writes_to(url: &str) -> Effect {
    Effect::on(EffectKind::ExternalMessage, target(url))
}

fn target(url: &str) -> String {
    match WebUrl::read(url) {
        Ok(url) => format!("{}:{}", url.host(), url.port()),
        Err(_) => brief(url).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(talks_to(url), Effect::on(EffectKind::Network, expected), "{url}");
        assert_eq!(writes_to(url), Effect::on(EffectKind::ExternalMessage, expected), "{url}");
    }

    #[test]
    fn the_host_is_named_in_its_one_spelling_with_its_port() {
        check("https://Example.COM/a?b#c", "example.com:443");
        check("http://example.com", "example.com:80");
        check("https://example.com.:8443/", "example.com:8443");
        check("https://bücher.example/", "xn--bcher-kva.example:443");
        check("http://[2606:4700::1]/", "[2606:4700::1]:80");
        check("http://93.184.216.34/", "93.184.216.34:80");
    }

    #[test]
    fn what_is_no_url_is_named_as_it_is_written() {
        check("file:///etc/passwd", "file:///etc/passwd");
        check("https://user:pw@example.com/", "https://user:pw@example.com/");
        check("http://0x7f.1/", "http://0x7f.1/");
        check("", "");
        check(&"x".repeat(300), &format!("{}...", "x".repeat(197)));
    }
}
