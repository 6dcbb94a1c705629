//! Remarks: what another server says while a call of its tool is under way, for whoever made the call.
//!
//! It is somebody else's word like any answer, so it goes the same way through the cleaning. There may be any number of
//! them and of any size, so both are bounded: what is too much is not told.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde_json::Value;
use toolgate_contract::Caps;
use toolgate_tools::{Listener, Output, Remark};

use crate::{catalog::Entry, clean::clean, house::House};

/// Remarks that are told at once, and of one second after that.
const AT_ONCE: f64 = 50.0;
const A_SECOND: f64 = 20.0;
/// Bytes of one of them.
const MOST: usize = 8 * 1024;
/// Letters of the name of who says it.
const LONGEST_NAME: usize = 100;

/// The listener, as a tool of somebody else may tell it something.
pub(crate) fn heard(house: &House, entry: &Entry, listener: Listener) -> Listener {
    let source =
        entry.origin.as_ref().map_or_else(|| entry.tool.def.name.to_string(), |origin| format!("mcp:{origin}"));
    let (broker, redactor) = (house.connections.broker().clone(), house.redactor.clone());
    let Listener { least, hear } = listener;
    let left = Mutex::new(Bucket::full(Instant::now()));
    let fit = move |remark: Remark| {
        let there_is_one = left.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        if !there_is_one || remark.data.to_string().len() > MOST {
            return;
        }
        // The name is cleaned with what is said.
        let said = Value::from(vec![Value::from(remark.logger), remark.data]);
        let said = Output { structured: broker.redact_value(said), text: String::new(), truncated: None };
        let Value::Array(said) = clean(said, &Caps::DEFAULT, Some(&source), &redactor).structured else { return };
        let [logger, data] = <[Value; 2]>::try_from(said).unwrap_or_default();
        let logger = logger.as_str().map(|name| name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect());
        hear(Remark { weight: remark.weight, logger, data });
    };
    Listener { least, hear: Arc::new(fit) }
}

/// How many may still be told.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { left: AT_ONCE, at: now }
    }

    /// Takes one, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * A_SECOND).min(AT_ONCE);
        self.at = now;
        let there_is_one = self.left >= 1.0;
        if there_is_one {
            self.left -= 1.0;
        }
        there_is_one
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_told_up_to_a_bound_and_so_many_a_second_after_that() {
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        let taken = |bucket: &mut Bucket, at: Duration| (0..1_000).filter(|_| bucket.take(start + at)).count();
        assert_eq!(taken(&mut bucket, Duration::ZERO), 50);
        assert_eq!(taken(&mut bucket, Duration::from_secs(1)), 20);
        assert_eq!(taken(&mut bucket, Duration::from_secs(3600)), 50);
    }
}
