//! The backend that refuses everything: what stands where nothing is configured.

use std::sync::Arc;

use crate::{
    room::{Backend, Missing, Probed, Room, RoomError},
    spec::{RoomSpec, Wall},
};

const WHY: &str = "nothing runs in `deny_all`";
const REMEDY: &str = "Give the category a backend under `sandboxing` in the config, such as `subprocess`.";

/// Opens no room, ever.
#[derive(Debug, Clone, Copy)]
pub struct DenyAll;

impl Backend for DenyAll {
    fn name(&self) -> &'static str {
        "deny_all"
    }

    fn probe(&self) -> Vec<Probed> {
        let missing = Missing { why: WHY.into(), remedy: REMEDY.into() };
        Wall::ALL.into_iter().map(|wall| Probed { wall, found: Err(missing.clone()) }).collect()
    }

    fn open(&self, _: &RoomSpec, _: &str) -> Result<Arc<dyn Room>, RoomError> {
        Err(RoomError::TooWeak { backend: self.name(), wall: Wall::Files, why: WHY.into(), remedy: REMEDY.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_opened() {
        let fault = toolgate_contract::Fault::from(DenyAll.open(&RoomSpec::bare(), "anyone").err().expect("refused"));
        assert_eq!(fault.code, "wall_missing");
        assert!(DenyAll.probe().iter().all(|probed| probed.found.is_err()));
    }
}
