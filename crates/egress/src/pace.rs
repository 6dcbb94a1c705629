//! How often one host is asked.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use toolgate_contract::Fault;

/// How often one host may be asked, and how long a request waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaceTerms {
    /// Requests in a minute, over time.
    pub per_minute: u32,
    /// Requests that may come at once after a rest.
    pub at_once: u32,
    /// How long a request waits for its turn at most; longer waits are refused at once.
    pub wait: Duration,
}

impl Default for PaceTerms {
    fn default() -> Self {
        Self { per_minute: 600, at_once: 50, wait: Duration::from_secs(5) }
    }
}

/// Hosts that are remembered. A host that has rested long enough is forgotten first.
const MAX_HOSTS: usize = 4096;

/// Keeps the pace of every host. Hosts are told apart by whatever text the caller gives.
#[derive(Debug)]
pub struct Pace {
    gap: Duration,
    burst: Duration,
    wait: Duration,
    /// When the next request of a host would be due if requests came evenly.
    due: Mutex<HashMap<String, Instant>>,
}

impl Pace {
    /// Nobody was asked yet.
    pub fn new(terms: PaceTerms) -> Self {
        let gap = Duration::from_secs(60) / terms.per_minute.max(1);
        Self { gap, burst: gap * terms.at_once.saturating_sub(1), wait: terms.wait, due: Mutex::default() }
    }

    /// Waits for the turn of one more request to this host.
    pub async fn wait(&self, host: &str) -> Result<(), Fault> {
        let now = Instant::now();
        let turn = self.reserve(host, now).map_err(|too_long| {
            Fault::failed(
                "rate_limited",
                format!("`{host}` is asked too often: the next turn is in {:.1} s", too_long.as_secs_f64()),
                "Wait that long, and ask this host less often.",
            )
            .retryable()
        })?;
        // Who sleeps until now sleeps a millisecond.
        if turn > now {
            sleep_until(turn).await;
        }
        Ok(())
    }

    /// When the next request to this host may be sent, which then is reserved; or how long that would be, if it is
    /// too long.
    fn reserve(&self, host: &str, now: Instant) -> Result<Instant, Duration> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.len() >= MAX_HOSTS && !due.contains_key(host) {
            due.retain(|_, due| *due > now);
        }
        // Where so many hosts are still busy, all the others share one pace.
        let host = if due.len() >= MAX_HOSTS && !due.contains_key(host) { "" } else { host };
        let next = due.get(host).copied().unwrap_or(now).max(now);
        // A host that has rested is owed a burst: it may be ahead of an even pace by that much.
        let wait = next.saturating_duration_since(now).saturating_sub(self.burst);
        if wait > self.wait {
            return Err(wait);
        }
        due.insert(host.to_owned(), next + self.gap);
        Ok(now + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace::new(PaceTerms { per_minute: 60, at_once: 3, wait: Duration::from_millis(1500) })
    }

    /// When each of these requests is sent, in milliseconds after the first; `None` where it is refused.
    #[track_caller]
    fn check(asked_at: &[u64], expected: &[Option<u64>]) {
        let (pace, start) = (pace(), Instant::now());
        let sent: Vec<Option<u64>> = asked_at
            .iter()
            .map(|at| pace.reserve("a.example", start + Duration::from_millis(*at)).ok())
            .map(|turn| turn.map(|turn| (turn - start).as_millis() as u64))
            .collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_burst_passes_then_requests_wait_and_then_they_are_refused() {
        check(&[0, 0, 0, 0, 0], &[Some(0), Some(0), Some(0), Some(1000), None]);
    }

    #[test]
    fn a_refused_request_takes_no_turn() {
        check(&[0, 0, 0, 0, 0, 0, 500], &[Some(0), Some(0), Some(0), Some(1000), None, None, Some(2000)]);
    }

    #[test]
    fn an_even_pace_never_waits_and_rest_brings_the_burst_back() {
        check(&[0, 1000, 2000, 3000], &[Some(0), Some(1000), Some(2000), Some(3000)]);
        check(
            &[0, 0, 0, 60_000, 60_000, 60_000],
            &[Some(0), Some(0), Some(0), Some(60_000), Some(60_000), Some(60_000)],
        );
    }

    #[test]
    fn hosts_do_not_wait_for_each_other() {
        let (pace, now) = (pace(), Instant::now());
        for _ in 0..4 {
            pace.reserve("a.example", now).unwrap();
        }
        assert_eq!(pace.reserve("a.example", now), Err(2 * SECOND));
        assert_eq!(pace.reserve("b.example", now), Ok(now));
    }

    #[test]
    fn hosts_are_not_remembered_without_end_and_nobody_gets_more_by_that() {
        let (pace, now) = (pace(), Instant::now());
        for n in 0..2 * MAX_HOSTS {
            let _ = pace.reserve(&format!("n{n}.example"), now);
        }
        assert!(pace.due.lock().unwrap().len() <= MAX_HOSTS + 1);
        assert!(pace.reserve("one-more.example", now).is_err());
        assert_eq!(pace.reserve("one-more.example", now + 60 * SECOND), Ok(now + 60 * SECOND));
        assert_eq!(pace.due.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_fault_says_how_long() {
        let pace = pace();
        let start = Instant::now();
        for _ in 0..4 {
            pace.wait("a.example").await.unwrap();
        }
        assert_eq!(start.elapsed(), SECOND);
        let (first, second) = tokio::join!(pace.wait("a.example"), pace.wait("a.example"));
        first.unwrap();
        let fault = second.unwrap_err();
        assert_eq!((fault.code.as_ref(), fault.retryable), ("rate_limited", true));
        assert_eq!(fault.message, "`a.example` is asked too often: the next turn is in 2.0 s");
    }
}
