//! What process rooms are like: the settings of the block `sandboxing.subprocess`.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use toolgate_sandbox::{Lifecycle, RoomLimits, TierChoice, Wall};

/// What rooms are like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomSettings {
    /// Who shares a room, and how long it lives.
    pub lifecycle: Lifecycle,
    /// How much of the machine a room may use.
    pub limits: RoomLimits,
    /// Which kinds of room will do.
    pub tier: TierChoice,
    /// Walls the operator does without where the machine has none.
    pub accepted_gaps: BTreeSet<Wall>,
    /// Directories put before the fixed ones in `PATH`; they are seen in the room.
    pub path_prefixes: Vec<PathBuf>,
    /// Further directories that are seen in the room, read-only.
    pub visible: Vec<PathBuf>,
    /// The longest a program may run, whatever the call asks for.
    pub timeout: Duration,
}

impl Default for RoomSettings {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            limits: RoomLimits::default(),
            tier: TierChoice::Best,
            accepted_gaps: BTreeSet::new(),
            path_prefixes: Vec::new(),
            visible: Vec::new(),
            timeout: Duration::from_secs(600),
        }
    }
}
