//! A second opinion: another parser, by another author, reads the same script.
//!
//! Two parsers seldom have the same mistake. Where they see different commands, nobody knows which of them the shell
//! would run.

use rable::{Node, NodeKind};

/// The simple commands outside of substitutions, each as its words in the script's own spelling; none if the script
/// cannot be parsed. A declaration and its operands are words like any other.
pub(super) fn commands(script: &str) -> Option<Vec<Vec<String>>> {
    let mut found = Vec::new();
    let mut left: Vec<Node> = rable::parse(script, false).ok()?;
    left.reverse();
    while let Some(node) = left.pop() {
        let mut next: Vec<Node> = Vec::new();
        match node.kind {
            NodeKind::Command { assignments, words, .. } => {
                let words: Vec<String> = assignments.into_iter().chain(words).filter_map(spelling).collect();
                if !words.is_empty() {
                    found.push(words);
                }
            }
            NodeKind::Pipeline { commands, .. } => next = commands,
            NodeKind::List { items } => next = items.into_iter().map(|item| item.command).collect(),
            NodeKind::If { condition, then_body, else_body, .. } => {
                next = vec![*condition, *then_body];
                next.extend(else_body.map(|body| *body));
            }
            NodeKind::While { condition, body, .. } | NodeKind::Until { condition, body, .. } => {
                next = vec![*condition, *body];
            }
            NodeKind::For { body, .. }
            | NodeKind::ForArith { body, .. }
            | NodeKind::Select { body, .. }
            | NodeKind::Function { body, .. }
            | NodeKind::Subshell { body, .. }
            | NodeKind::BraceGroup { body, .. } => next = vec![*body],
            NodeKind::Coproc { command: body, .. }
            | NodeKind::Negation { pipeline: body }
            | NodeKind::Time { pipeline: body, .. } => next = vec![*body],
            NodeKind::Case { patterns, .. } => next = patterns.into_iter().filter_map(|case| case.body).collect(),
            _ => {}
        }
        left.extend(next.into_iter().rev());
    }
    Some(found)
}

fn spelling(word: Node) -> Option<String> {
    match word.kind {
        NodeKind::Word { value, .. } => Some(plain(&value)),
        _ => None,
    }
}

/// A spelling without what the parsers may drop or keep as they like: line continuations, and the layout inside
/// substitutions, which are compared by themselves.
pub(super) fn plain(spelling: &str) -> String {
    spelling.replace("\\\n", "").chars().filter(|c| !c.is_whitespace() && *c != ';').collect()
}
