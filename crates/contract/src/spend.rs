//! What agents use up, and how much of it they may.

use serde::{Deserialize, Serialize};

crate::scale! {
    /// What is counted.
    Meter {
        /// Calls.
        Calls = "calls",
        /// Bytes sent out.
        BytesOut = "bytes_out",
        /// Money, in the unit of the policy.
        Units = "units",
        /// Time, in milliseconds.
        WallMs = "wall_ms",
    }
}

/// An amount on each meter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Calls.
    pub calls: u64,
    /// Bytes sent out.
    pub bytes_out: u64,
    /// Money, in the unit of the policy.
    pub units: u64,
    /// Time, in milliseconds.
    pub wall_ms: u64,
}

impl Cost {
    /// What one meter shows.
    pub fn on(&self, meter: Meter) -> u64 {
        match meter {
            Meter::Calls => self.calls,
            Meter::BytesOut => self.bytes_out,
            Meter::Units => self.units,
            Meter::WallMs => self.wall_ms,
        }
    }

    /// Both together. A meter that is full stays full.
    #[must_use]
    pub fn plus(&self, other: &Cost) -> Cost {
        Cost {
            calls: self.calls.saturating_add(other.calls),
            bytes_out: self.bytes_out.saturating_add(other.bytes_out),
            units: self.units.saturating_add(other.units),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
        }
    }
}

crate::scale! {
    /// Over what it is counted.
    Window {
        /// One task of an agent.
        Task = "task",
        /// One day of an agent, in UTC.
        Day = "day",
        /// All of an agent's time.
        Ever = "ever",
    }
}

/// What was used up in each window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// By the task; nothing where there is none.
    pub task: Cost,
    /// On the day.
    pub day: Cost,
    /// Ever.
    pub ever: Cost,
}

impl Totals {
    /// One window.
    pub fn of(&self, window: Window) -> &Cost {
        match window {
            Window::Task => &self.task,
            Window::Day => &self.day,
            Window::Ever => &self.ever,
        }
    }
}

/// The most one meter may show in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The window.
    pub window: Window,
    /// The meter.
    pub meter: Meter,
    /// The most it may show.
    pub most: u64,
}

/// A limit that would have been passed. Nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exceeded {
    /// Which.
    pub limit: Limit,
    /// What the meter shows.
    pub spent: u64,
    /// What it would have shown.
    pub wanted: u64,
}
