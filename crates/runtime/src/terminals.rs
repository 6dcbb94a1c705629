//! Terminals that stay open between calls, each with the screen a person would see.
//!
//! A terminal belongs to the agent that opened it; to any other agent it does not exist. It holds a lease on its room,
//! and ends when it is closed, when its program ends and the end was seen, when its time is over, when nobody has
//! touched it for long, or when somebody touches it whose agent may reach less by now.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroU16,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use toolgate_contract::{Fault, Ran, Receipt, TerminalSize};
use toolgate_sandbox::{Egress, Lease, RoomSpec, Terminal};
use toolgate_tools::{Seen, StopFlag};

/// How long a terminal nobody touches stays.
const IDLE: Duration = Duration::from_secs(600);
/// How many terminals one agent has at most.
const MOST: usize = 16;
/// How long a terminal must say nothing to count as quiet.
const QUIET: Duration = Duration::from_millis(80);
/// How much is read of a terminal at one look; a program that never stops talking does not hold up whoever looks.
const MOST_BYTES: usize = 4 << 20;
/// Lines that are remembered when they scroll off, until somebody looks.
const SCROLLBACK: usize = 2_000;

/// The terminals of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Terminals(Mutex<ByOwner>);

/// By agent and name.
type ByOwner = BTreeMap<(String, String), Arc<Mutex<Open>>>;

struct Open {
    terminal: Option<Box<dyn Terminal>>,
    /// Keeps the room.
    _lease: Arc<Lease>,
    /// What the room is.
    spec: RoomSpec,
    screen: vt100::Parser,
    receipt: Receipt,
    opened: Instant,
    /// The longest it stays, also when somebody uses it.
    life: Duration,
    touched: Instant,
    running: bool,
}

impl Terminals {
    /// Keeps a terminal, and gives its name.
    pub(crate) fn keep(
        &self,
        agent: &str,
        (spec, lease): (RoomSpec, Arc<Lease>),
        terminal: Box<dyn Terminal>,
        size: TerminalSize,
        life: Duration,
    ) -> Result<(String, Receipt), Fault> {
        let mut all = self.all();
        if all.keys().filter(|(owner, _)| owner == agent).count() >= MOST {
            return Err(Fault::failed(
                "too_many_terminals",
                format!("there are {MOST} terminals open already"),
                "Close one with `terminal_close`.",
            ));
        }
        let name = format!("term_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let receipt = terminal.receipt().clone();
        let open = Open {
            terminal: Some(terminal),
            _lease: lease,
            spec,
            screen: vt100::Parser::new(at_least_one(size.rows), at_least_one(size.columns), SCROLLBACK),
            receipt: receipt.clone(),
            opened: Instant::now(),
            life,
            touched: Instant::now(),
            running: true,
        };
        all.insert((agent.to_owned(), name.clone()), Arc::new(Mutex::new(open)));
        Ok((name, receipt))
    }

    /// Ends a terminal that reaches more than a room its agent would get now: rules and levels change, and files come.
    pub(crate) fn hold_to(&self, agent: &str, name: &str, now: &RoomSpec) -> Result<(), Fault> {
        let open = self.find(agent, name)?;
        if is_as_tight(&lock(&open).spec, now) {
            return Ok(());
        }
        self.all().remove(&(agent.to_owned(), name.to_owned()));
        Err(unknown(name))
    }

    pub(crate) fn type_into(&self, agent: &str, name: &str, bytes: &[u8]) -> Result<Receipt, Fault> {
        let open = self.find(agent, name)?;
        let mut open = lock(&open);
        open.touched = Instant::now();
        let terminal = open.terminal.as_mut().ok_or_else(|| unknown(name))?;
        terminal.write(bytes)?;
        Ok(open.receipt.clone())
    }

    /// What it shows, once it has been quiet for a moment or the time is over.
    pub(crate) fn look_at(
        &self,
        agent: &str,
        name: &str,
        wait: Duration,
        stop: &StopFlag,
    ) -> Result<(Seen, Receipt), Fault> {
        let open = self.find(agent, name)?;
        let mut open = lock(&open);
        open.touched = Instant::now();
        open.listen(wait, stop)?;
        Ok((open.seen(), open.receipt.clone()))
    }

    pub(crate) fn close(&self, agent: &str, name: &str) -> Result<Ran, Fault> {
        let key = (agent.to_owned(), name.to_owned());
        let open = self.all().remove(&key).ok_or_else(|| unknown(name))?;
        let terminal = lock(&open).terminal.take().ok_or_else(|| unknown(name))?;
        Ok(terminal.end()?)
    }

    /// Is there none? In one that is there a program may run between calls.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Ends those whose time is over, and those nobody has touched for long.
    pub(crate) fn tick(&self) {
        let is_over = |open: &Arc<Mutex<Open>>| {
            open.try_lock().is_ok_and(|open| open.is_overdue() || open.touched.elapsed() > IDLE)
        };
        let mut all = self.all();
        let over: Vec<_> = all.iter().filter(|(_, open)| is_over(open)).map(|(key, _)| key.clone()).collect();
        let ended: Vec<_> = over.into_iter().filter_map(|key| all.remove(&key)).collect();
        drop(all);
        // Ending takes its time, and nobody else has to wait for it.
        drop(ended);
    }

    fn find(&self, agent: &str, name: &str) -> Result<Arc<Mutex<Open>>, Fault> {
        let key = (agent.to_owned(), name.to_owned());
        let open = self.all().get(&key).cloned().ok_or_else(|| unknown(name))?;
        if lock(&open).is_overdue() {
            self.all().remove(&key);
            return Err(unknown(name));
        }
        Ok(open)
    }

    fn all(&self) -> MutexGuard<'_, ByOwner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does a room keep whoever is in it from all that another would?
fn is_as_tight(room: &RoomSpec, other: &RoomSpec) -> bool {
    let names = |spec: &RoomSpec| spec.workspace.as_ref().map(|it| it.protected.clone()).unwrap_or_default();
    let barred = |spec: &RoomSpec| spec.egress.opening().map(|it| it.barred.clone()).unwrap_or_default();
    let (kept, shut) = (names(room), barred(room));
    other.closed.iter().all(|path| room.closed.iter().any(|closed| path.starts_with(closed)))
        && names(other).iter().all(|name| kept.iter().any(|kept| Path::new(name).starts_with(kept)))
        && barred(other).iter().all(|host| shut.contains(host))
        && bare(room) == bare(other)
}

/// A room without what is closed in it.
fn bare(room: &RoomSpec) -> RoomSpec {
    let mut bare = RoomSpec { closed: Vec::new(), ..room.clone() };
    if let Some(workspace) = &mut bare.workspace {
        workspace.protected.clear();
    }
    if let Egress::Allow(opening) = &mut bare.egress {
        opening.barred.clear();
    }
    bare
}

fn at_least_one(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN)
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(name: &str) -> Fault {
    let name: String = name.chars().take(80).flat_map(char::escape_default).collect();
    Fault::failed(
        "unknown_terminal",
        format!("there is no terminal `{name}`"),
        "Open one with `terminal_open`; a terminal is closed when its time is over, when nobody uses it for ten minutes, \
         or when it reaches more than it may by now.",
    )
}

impl Open {
    fn is_overdue(&self) -> bool {
        self.opened.elapsed() > self.life
    }

    /// Reads until it is quiet.
    fn listen(&mut self, wait: Duration, stop: &StopFlag) -> Result<(), Fault> {
        let until = Instant::now() + wait;
        let mut read = 0;
        let mut heard = false;
        while self.running && read < MOST_BYTES && !stop.is_raised() {
            let left = until.saturating_duration_since(Instant::now());
            // Something said is waited on for its end; nothing said, for its beginning.
            let patience = if heard { QUIET.min(left.max(QUIET)) } else { left.min(QUIET) };
            let Some(terminal) = self.terminal.as_mut() else { return Ok(()) };
            match terminal.read(patience)? {
                None => self.running = false,
                Some(bytes) if bytes.is_empty() => {
                    if heard || Instant::now() >= until {
                        return Ok(());
                    }
                }
                Some(bytes) => {
                    heard = true;
                    read += bytes.len();
                    self.screen.process(&bytes);
                }
            }
            if Instant::now() >= until + QUIET {
                return Ok(());
            }
        }
        Ok(())
    }

    fn seen(&mut self) -> Seen {
        let contents = self.screen.screen().contents();
        let cursor = self.screen.screen().cursor_position();
        Seen { screen: contents.trim_end().to_owned(), scrolled: self.take_scrolled(), cursor, running: self.running }
    }

    /// The lines that have scrolled off since the last look. The emulator shows them through a window as high as the
    /// screen, which is moved from the oldest line down.
    fn take_scrolled(&mut self) -> String {
        let screen = self.screen.screen_mut();
        let (rows, columns) = screen.size();
        let mut left = screen.scrollback_len();
        let mut lines = Vec::new();
        while left > 0 {
            screen.set_scrollback(left);
            let window = usize::from(rows.get()).min(left);
            lines.extend(screen.rows(0, columns.get()).take(window).map(|line| line.trim_end().to_owned()));
            left -= window;
        }
        screen.set_scrollback(0);
        screen.clear_scrollback();
        lines.join("\n")
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("running", &self.running).finish_non_exhaustive()
    }
}
