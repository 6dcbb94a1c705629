//! How much of its tools an agent is shown before it asks: the block `disclosure`.

use std::collections::BTreeSet;

use toolgate_contract::scale;

use super::{
    check::Check,
    file::DisclosureFile,
    findings::{Findings, Said},
};

scale! {
    /// When an agent is shown its tools little by little.
    Disclosing {
        /// Where it has many.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never: it is shown all there are.
        Off = "off",
    }
}

/// How much an agent is shown before it asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisclosureSettings {
    /// When.
    pub mode: Disclosing,
    /// Tokens for a line of each tool.
    pub l1_token_budget: usize,
    /// Tokens for the tools an agent has loaded.
    pub l2_token_budget: usize,
    /// Whether tools that were not used for long are put away when the budget is nearly used up.
    pub auto_unload: bool,
    /// How much of the budget is nearly all of it.
    pub unload_threshold_percent: u8,
    /// Tools that are shown whole from the beginning.
    pub pinned: BTreeSet<String>,
}

impl Default for DisclosureSettings {
    fn default() -> Self {
        Self {
            mode: Disclosing::Auto,
            l1_token_budget: 3_000,
            l2_token_budget: 15_000,
            auto_unload: true,
            unload_threshold_percent: 80,
            pinned: PINNED.map(str::to_owned).into(),
        }
    }
}

/// What nearly every task takes.
const PINNED: [&str; 15] = [
    "bash",
    "delete",
    "edit",
    "fetch_url",
    "find",
    "git_commit",
    "git_diff",
    "git_log",
    "git_status",
    "grep",
    "ls",
    "read",
    "shell",
    "web_search",
    "write",
];

/// The block of one file.
#[derive(Debug, Default)]
pub(super) struct DisclosureLayer {
    mode: Option<Said<Disclosing>>,
    l1_token_budget: Option<Said<u64>>,
    l2_token_budget: Option<Said<u64>>,
    auto_unload: Option<bool>,
    unload_threshold_percent: Option<Said<u64>>,
    pinned: Option<BTreeSet<String>>,
}

impl DisclosureLayer {
    /// Puts a trusted file's words in place of earlier ones.
    pub(super) fn apply(self, settings: &mut DisclosureSettings, findings: &mut Findings) {
        let Self { mode, l1_token_budget, l2_token_budget, auto_unload, unload_threshold_percent, pinned } = self;
        let spot = l2_token_budget.as_ref().or(l1_token_budget.as_ref()).map(|said| said.spot);
        settings.mode = mode.map_or(settings.mode, |said| said.value);
        let budget = |said: Option<Said<u64>>, usual| said.and_then(|said| said.value.try_into().ok()).unwrap_or(usual);
        settings.l1_token_budget = budget(l1_token_budget, settings.l1_token_budget);
        settings.l2_token_budget = budget(l2_token_budget, settings.l2_token_budget);
        settings.auto_unload = auto_unload.unwrap_or(settings.auto_unload);
        if let Some(percent) = unload_threshold_percent.and_then(|said| u8::try_from(said.value).ok()) {
            settings.unload_threshold_percent = percent;
        }
        if let Some(pinned) = pinned {
            settings.pinned = pinned;
        }
        if let Some(spot) = spot.filter(|_| settings.l2_token_budget < settings.l1_token_budget) {
            let message = format!(
                "`l2_token_budget` is {}, less than `l1_token_budget`, {}",
                settings.l2_token_budget, settings.l1_token_budget
            );
            findings.error(spot, message, "Give what is loaded at least as much as the list.");
        }
    }
}

/// Checks the block.
pub(super) fn check(cx: &mut Check<'_>, block: &DisclosureFile) -> DisclosureLayer {
    DisclosureLayer {
        mode: cx.dimension("mode", block.mode.as_ref()),
        l1_token_budget: cx.whole("l1_token_budget", block.l1_token_budget.as_ref(), 500..=20_000),
        l2_token_budget: cx.whole("l2_token_budget", block.l2_token_budget.as_ref(), 1_000..=100_000),
        auto_unload: block.auto_unload_on_budget_pressure.as_ref().map(|on| on.value),
        unload_threshold_percent: cx.whole(
            "unload_threshold_percent",
            block.unload_threshold_percent.as_ref(),
            50..=99,
        ),
        pinned: block.pinned.as_ref().map(|names| names.iter().map(|name| cx.mention(name).value).collect()),
    }
}
