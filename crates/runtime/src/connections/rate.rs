//! So many requests a minute, in whichever minute one looks.

use std::{collections::VecDeque, time::Duration};

use jiff::Timestamp;

const MINUTE_MS: i64 = 60_000;

/// The requests of the last minute. One process counts its own.
#[derive(Debug)]
pub(super) struct Rate {
    most: usize,
    /// When each was made, in milliseconds, oldest first.
    made: VecDeque<i64>,
}

impl Rate {
    pub(super) fn new(most: u32) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), made: VecDeque::new() }
    }

    /// Counts a request made now, or says how long to wait. One that is refused is not counted.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let now = now.as_millisecond();
        // What lies in the future was made before the clock was set back; it counts as made now.
        self.made.iter_mut().for_each(|made| *made = now.min(*made));
        while self.made.front().is_some_and(|made| now - made >= MINUTE_MS) {
            self.made.pop_front();
        }
        match self.made.front() {
            Some(oldest) if self.made.len() >= self.most => {
                let wait = u64::try_from(oldest + MINUTE_MS - now).unwrap_or(0);
                Err(Duration::from_millis(wait))
            }
            _ => {
                self.made.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests at these seconds: made, or how many milliseconds to wait.
    fn check(most: u32, at: &[(i64, Result<(), u64>)]) {
        let mut rate = Rate::new(most);
        for (second, expected) in at {
            let taken = rate.take(Timestamp::from_second(*second).unwrap());
            assert_eq!(taken, expected.map_err(Duration::from_millis), "at {second}");
        }
    }

    #[test]
    fn no_minute_has_more() {
        check(2, &[(0, Ok(())), (30, Ok(())), (59, Err(1_000)), (60, Ok(())), (61, Err(29_000)), (90, Ok(()))]);
    }

    #[test]
    fn what_is_refused_does_not_count() {
        check(1, &[(0, Ok(())), (1, Err(59_000)), (59, Err(1_000)), (60, Ok(()))]);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nobody_for_long() {
        check(1, &[(10_000, Ok(())), (100, Err(60_000)), (160, Ok(()))]);
    }
}
