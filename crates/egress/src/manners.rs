//! Good manners towards servers that are fetched from again and again: what each one wants is remembered, and a pause is
//! kept between two fetches.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use toolgate_contract::Fault;

use crate::robots::Robots;

/// How long it is remembered what a server wants.
const KEPT: Duration = Duration::from_secs(3600);
/// Servers that are remembered.
const MAX_ORIGINS: usize = 1024;
/// Bytes of what they want that are remembered. Whoever has one name has as many servers as they like.
const MAX_BYTES: usize = 16 << 20;
/// The pause where a server wants none.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a fetch waits for its turn at most.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// What is known about servers. An origin is its scheme, host and port as one text.
#[derive(Debug, Default)]
pub(crate) struct Manners(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    robots: Arc<Robots>,
    bytes: usize,
    until: Instant,
    /// When the next fetch may be made.
    next: Instant,
}

impl Manners {
    /// What this server wants, if that is known.
    pub(crate) fn robots(&self, origin: &str) -> Option<Arc<Robots>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(origin).filter(|known| known.until > Instant::now()).map(|known| Arc::clone(&known.robots))
    }

    /// Remembers what this server wants.
    pub(crate) fn remember(&self, origin: &str, robots: &Arc<Robots>) {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = known.remove(origin).map_or(now, |known| known.next);
        let bytes = robots.bytes();
        let mut whole = bytes + known.values().map(|known| known.bytes).sum::<usize>();
        while known.len() >= MAX_ORIGINS || whole > MAX_BYTES {
            let oldest = known.iter().min_by_key(|(_, known)| known.until).map(|(origin, _)| origin.clone());
            let Some(gone) = oldest.and_then(|oldest| known.remove(&oldest)) else { break };
            whole -= gone.bytes;
        }
        known.insert(origin.to_owned(), Known { robots: Arc::clone(robots), bytes, until: now + KEPT, next });
    }

    /// Waits until the pause this server wants is over.
    pub(crate) async fn pause(&self, origin: &str) -> Result<(), Fault> {
        let turn = self.turn(origin, Instant::now()).map_err(|wait| {
            Fault::failed(
                "rate_limited",
                format!("`{origin}` wants a pause between fetches: the next turn is in {:.1} s", wait.as_secs_f64()),
                "Wait that long, and fetch less from this server at the same time.",
            )
            .retryable()
        })?;
        sleep_until(turn).await;
        Ok(())
    }

    fn turn(&self, origin: &str, now: Instant) -> Result<Instant, Duration> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get_mut(origin) else { return Ok(now) };
        let turn = known.next.max(now);
        if turn - now > MAX_WAIT {
            return Err(turn - now);
        }
        known.next = turn + known.robots.delay.unwrap_or(PAUSE).max(PAUSE);
        Ok(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "https://a.example:443";

    fn told(file: &str) -> Manners {
        let manners = Manners::default();
        manners.remember(ORIGIN, &Arc::new(Robots::read(file.as_bytes(), "x")));
        manners
    }

    /// When each of these fetches is made, in milliseconds; `None` where it is refused.
    #[track_caller]
    fn check(file: &str, asked_at: &[u64], expected: &[Option<u64>]) {
        let (manners, start) = (told(file), Instant::now());
        let made: Vec<_> = asked_at
            .iter()
            .map(|at| manners.turn(ORIGIN, start + Duration::from_millis(*at)).ok())
            .map(|turn| turn.map(|turn| (turn - start).as_millis() as u64))
            .collect();
        assert_eq!(made, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn fetches_keep_a_pause() {
        check("", &[0, 0, 100, 1000], &[Some(0), Some(200), Some(400), Some(1000)]);
        check("User-agent: *\nCrawl-delay: 3", &[0, 0, 10_000], &[Some(0), Some(3000), Some(10_000)]);
        check("User-agent: *\nCrawl-delay: 9", &[0; 5], &[Some(0), Some(9000), Some(18_000), None, None]);
        check("User-agent: *\nCrawl-delay: 0", &[0, 0], &[Some(0), Some(200)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_asked_again_after_an_hour_and_the_pause_stays() {
        let manners = told("User-agent: *\nDisallow: /");
        assert!(!manners.robots(ORIGIN).unwrap().allows("/"));
        assert!(manners.robots("https://b.example:443").is_none());
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert!(manners.robots(ORIGIN).is_some());
        manners.pause(ORIGIN).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(manners.robots(ORIGIN).is_none());
        manners.pause(ORIGIN).await.unwrap();
        manners.remember(ORIGIN, &Arc::default());
        let now = Instant::now();
        assert_eq!(manners.turn(ORIGIN, now), Ok(now + PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn servers_are_not_remembered_without_end() {
        let manners = told("");
        for n in 0..2 * MAX_ORIGINS {
            tokio::time::advance(Duration::from_millis(1)).await;
            manners.remember(&format!("https://n{n}.example:443"), &Arc::default());
        }
        assert_eq!(manners.0.lock().unwrap().len(), MAX_ORIGINS);
        assert!(manners.robots(ORIGIN).is_none());
        assert!(manners.robots(&format!("https://n{}.example:443", 2 * MAX_ORIGINS - 1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_want_much_are_forgotten_sooner() {
        let file = format!("User-agent: *\n{}", format!("Disallow: /{}\n", "\u{e4}".repeat(300)).repeat(800));
        let robots = Arc::new(Robots::read(file.as_bytes(), "x"));
        assert!(robots.bytes() > file.len());
        let manners = Manners::default();
        for n in 0..50 {
            tokio::time::advance(Duration::from_millis(1)).await;
            manners.remember(&format!("https://n{n}.example:443"), &robots);
        }
        assert_eq!(manners.0.lock().unwrap().len(), MAX_BYTES / robots.bytes());
        assert!(manners.robots("https://n49.example:443").is_some());
        assert!(manners.robots("https://n0.example:443").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_cannot_wait_is_told_how_long() {
        let manners = told("User-agent: *\nCrawl-delay: 10");
        let now = Instant::now();
        for _ in 0..3 {
            manners.turn(ORIGIN, now).unwrap();
        }
        let fault = manners.pause(ORIGIN).await.unwrap_err();
        assert_eq!((fault.code.as_ref(), fault.retryable), ("rate_limited", true));
        assert_eq!(fault.message, "`https://a.example:443` wants a pause between fetches: the next turn is in 30.0 s");
    }
}
