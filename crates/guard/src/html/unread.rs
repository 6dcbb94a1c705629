//! What of a page is not read: what its reader does not get to see.
//!
//! Every reading of a page leaves out what is marked here, so whatever else turns out to be hidden is marked here, too.

use super::{
    hidden::{Sheets, is_hidden},
    tree::{NodeId, Tree},
};

/// For every node: is it left out, with all it holds? And those that are left out because they are hidden.
pub(super) fn marks(tree: &Tree) -> (Vec<bool>, Vec<NodeId>) {
    let sheets = Sheets::of(tree);
    let mut hidden = Vec::new();
    let marks = tree
        .ids()
        .map(|id| {
            let Some(element) = tree.element(id) else { return false };
            let is_noise = !element.is_html() || is_noise(element.name());
            let is_hidden = !is_noise && is_hidden(tree, id, element, &sheets);
            if is_hidden {
                hidden.push(id);
            }
            is_noise || is_hidden
        })
        .collect();
    (marks, hidden)
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
