//! How often something may be tried: a bucket that fills again by itself.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How many at once, and how soon one more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) burst: u32,
    pub(crate) every: Duration,
}

/// Buckets by key.
#[derive(Debug)]
pub(crate) struct Pace<K> {
    rate: Rate,
    /// When each bucket would be full again.
    full_at: Mutex<HashMap<K, Instant>>,
}

/// More keys than this are not kept apart: buckets that are full again are dropped first.
const MOST_KEYS: usize = 10_000;

impl<K: Hash + Eq> Pace<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, full_at: Mutex::new(HashMap::new()) }
    }

    /// Takes one from the bucket, or says how long to wait for it.
    pub(crate) fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let Rate { burst, every } = self.rate;
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() >= MOST_KEYS {
            full_at.retain(|_, at| *at > now);
        }
        let at = full_at.entry(key).or_insert(now);
        let next = (*at).max(now) + every;
        let most = now + every * burst;
        if next > most {
            return Err(next - most);
        }
        *at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_at_a_time_for_each_key() {
        let start = Instant::now();
        let pace = Pace::new(Rate { burst: 2, every: Duration::from_secs(10) });
        let check = |key: &'static str, after: u64, expected: Result<(), u64>| {
            let took = pace.take(key, start + Duration::from_secs(after));
            assert_eq!(took.map_err(|wait| wait.as_secs()), expected, "{key} after {after} s");
        };
        check("a", 0, Ok(()));
        check("a", 0, Ok(()));
        check("a", 0, Err(10));
        check("b", 0, Ok(()));
        check("a", 4, Err(6));
        check("a", 10, Ok(()));
        check("a", 10, Err(10));
        check("a", 1_000, Ok(()));
        check("a", 1_000, Ok(()));
        check("a", 1_000, Err(10));
    }
}
