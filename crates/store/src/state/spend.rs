//! What agents use up.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use toolgate_contract::{AgentName, Cost, Exceeded, Limit, Totals, Window};

use super::{Account, row::Trouble};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The largest number a column holds. A meter that is full stays full.
const FULL: u64 = i64::MAX as u64;

/// Counts a cost unless a limit would be passed. The transaction keeps others out between the look and the change.
pub(super) fn try_add(
    tx: &Transaction<'_>,
    account: &Account,
    cost: &Cost,
    limits: &[Limit],
    now_ms: u64,
) -> Result<Result<Totals, Exceeded>, Trouble> {
    let before = totals(tx, account, now_ms)?;
    for &limit in limits {
        if limit.window == Window::Task && account.task.is_none() {
            continue;
        }
        let total = before.of(limit.window);
        let [spent, wanted] = [total, &total.plus(cost)].map(|total| total.on(limit.meter));
        if wanted > limit.most {
            return Ok(Err(Exceeded { limit, spent, wanted }));
        }
    }
    add(tx, account, cost, now_ms).map(Ok)
}

pub(super) fn add(tx: &Transaction<'_>, account: &Account, cost: &Cost, now_ms: u64) -> Result<Totals, Trouble> {
    let before = totals(tx, account, now_ms)?;
    for (window, name) in windows(account, now_ms) {
        set(tx, &account.agent, window, &name, &before.of(window).plus(cost))?;
    }
    totals(tx, account, now_ms)
}

pub(super) fn totals(tx: &Transaction<'_>, account: &Account, now_ms: u64) -> Result<Totals, Trouble> {
    let mut totals = Totals::default();
    for (window, name) in windows(account, now_ms) {
        let sql = "SELECT * FROM spend WHERE agent = ?1 AND over = ?2 AND name = ?3";
        let found = tx.query_row(sql, params![&*account.agent.0, window.as_str(), name], cost).optional()?;
        let found = found.unwrap_or_default();
        match window {
            Window::Task => totals.task = found,
            Window::Day => totals.day = found,
            Window::Ever => totals.ever = found,
        }
    }
    Ok(totals)
}

/// The windows a cost falls into, by name.
fn windows(account: &Account, now_ms: u64) -> Vec<(Window, String)> {
    let task = account.task.clone().map(|task| (Window::Task, task));
    let rest = [(Window::Day, (now_ms / DAY_MS).to_string()), (Window::Ever, String::new())];
    task.into_iter().chain(rest).collect()
}

fn set(tx: &Transaction<'_>, agent: &AgentName, window: Window, name: &str, cost: &Cost) -> Result<(), Trouble> {
    let [calls, bytes_out, units, wall_ms] =
        [cost.calls, cost.bytes_out, cost.units, cost.wall_ms].map(|value| value.min(FULL));
    tx.execute(
        "INSERT OR REPLACE INTO spend VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![&*agent.0, window.as_str(), name, calls, bytes_out, units, wall_ms],
    )?;
    Ok(())
}

fn cost(row: &Row<'_>) -> rusqlite::Result<Cost> {
    Ok(Cost {
        calls: row.get("calls")?,
        bytes_out: row.get("bytes_out")?,
        units: row.get("units")?,
        wall_ms: row.get("wall_ms")?,
    })
}
