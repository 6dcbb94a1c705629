//! What of a page is not read: what its reader does not get to see.
//!
//! Every reading of a page leaves out what is marked here, so whatever else turns out to be hidden is marked here, too.

use super::tree::Tree;

/// For every node: is it left out, with all it holds?
pub(super) fn marks(tree: &Tree) -> Vec<bool> {
    tree.ids()
        .map(|id| tree.element(id).is_some_and(|element| !element.is_html() || is_noise(element.name())))
        .collect()
}

/// Elements whose text is for programs, or for those whose browser cannot show them.
fn is_noise(name: &str) -> bool {
    matches!(
        name,
        "applet"
            | "audio"
            | "canvas"
            | "datalist"
            | "embed"
            | "head"
            | "iframe"
            | "noembed"
            | "noframes"
            | "noscript"
            | "object"
            | "script"
            | "style"
            | "template"
            | "title"
            | "video"
    )
}
