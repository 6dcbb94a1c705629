//! One track: a level that rises and falls with the evidence that concerns it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use toolgate_contract::{Category, Difficulty, Evidence, Fact, Level, Part, Score, TaskOutcome};

use super::{Explained, Milestone, Need, Next, Pending, Step, Strategy, TrustRules, Weights};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Errors are counted over a week where they cost a step, and over a quarter where they speak against one.
const WEEK_DAYS: u32 = 7;
const QUARTER_DAYS: u32 = 90;

/// A share of fewer than so many is taken as a share of so many: little evidence is neither proof nor disproof.
const ENOUGH: u64 = 10;

/// A share of everything.
const WHOLE: u64 = 10_000;

/// The rating that says nothing, in hundredths.
const NEITHER: u64 = 500;

pub(super) struct Track<'a> {
    rules: &'a TrustRules,
    pub(super) category: Option<Category>,
    start: Level,
    pub(super) level: Level,
    pub(super) because: Vec<Explained>,
    /// How far time has come.
    now_ms: u64,

    /// The tasks that were done, in order.
    done: Vec<Done>,
    /// What is known of each task: where it stands among those done, or that it failed.
    tasks: BTreeMap<&'a str, Option<usize>>,
    incidents: BTreeSet<&'a str>,
    identity: BTreeMap<Part, &'a str>,

    week: Window,
    quarter: Window,
    /// The last failed task or incident.
    stained_ms: Option<u64>,
    /// The last day on which errors cost a step.
    bad_day: Option<u64>,
    /// When something first went well: the days of re-verification are counted from there.
    first_ms: Option<u64>,
    /// When something last went well, as far as anybody reports.
    seen_ms: Option<u64>,
    /// When something new last went well.
    worked_ms: Option<u64>,
    /// This stretch of idleness has cost its step.
    idled: bool,
    /// Which re-verification comes next.
    verification: u64,

    /// What speaks for the next step: all since the last one.
    since_step: Gathered,
    /// What is left of everything: all since something last went wrong.
    since_fall: Gathered,
}

/// A task that was done.
struct Done {
    at_ms: u64,
    difficulty: Difficulty,
    quality: Option<Score>,
    /// It turned out to have failed.
    void: bool,
}

/// What went well since some moment.
#[derive(Clone, Copy, Default)]
struct Gathered {
    /// The tasks from here on.
    from: usize,
    /// When something first went well.
    first_ms: Option<u64>,
    /// Calls and tasks.
    ok: u64,
    /// How far ratings were above the middle, in hundredths.
    praise: u64,
}

/// What happened within so many days.
struct Window {
    span_ms: u64,
    moments: VecDeque<(u64, Sums)>,
    sums: Sums,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    /// Calls and tasks that went well.
    ok: u64,
    /// Calls and tasks that did not.
    bad: u64,
    /// Tasks that did not.
    failed_tasks: u64,
    /// How far ratings were below the middle, in hundredths.
    blame: u64,
}

impl<'a> Track<'a> {
    pub(super) fn new(rules: &'a TrustRules, category: Option<Category>, start: Level) -> Self {
        Self {
            rules,
            category,
            start,
            level: start,
            because: Vec::new(),
            now_ms: 0,
            done: Vec::new(),
            tasks: BTreeMap::new(),
            incidents: BTreeSet::new(),
            identity: BTreeMap::new(),
            week: Window::of(WEEK_DAYS),
            quarter: Window::of(QUARTER_DAYS),
            stained_ms: None,
            bad_day: None,
            first_ms: None,
            seen_ms: None,
            worked_ms: None,
            idled: false,
            verification: 1,
            since_step: Gathered::default(),
            since_fall: Gathered::default(),
        }
    }

    /// Walks the evidence that concerns this track, which is in order of time, and then on to now.
    pub(super) fn walk(mut self, known: &[&'a Evidence], now_ms: u64) -> Self {
        for one in known {
            if self.concerns(one) {
                self.advance(one.at_ms.min(now_ms));
                self.take(&one.fact);
            }
        }
        self.advance(now_ms);
        self
    }

    /// A track of one category is moved by what happens there, and by what concerns the agent as a whole: an incident
    /// anywhere, and that it is another agent.
    fn concerns(&self, one: &Evidence) -> bool {
        match (self.category, one.category) {
            (None, _) => true,
            (Some(own), Some(other)) => own == other,
            (Some(_), None) => matches!(one.fact, Fact::Incident { .. } | Fact::Identity { .. }),
        }
    }

    fn take(&mut self, fact: &'a Fact) {
        match fact {
            Fact::Calls { ok, failed } => {
                if *ok > 0 {
                    self.went_well(u64::from(*ok));
                }
                if *failed > 0 {
                    self.went_wrong(Sums { bad: u64::from(*failed), ..Sums::default() });
                }
            }
            Fact::Task { task, outcome: TaskOutcome::Success, difficulty, quality } => {
                self.task_done(task, *difficulty, *quality);
            }
            Fact::Task { task, outcome: TaskOutcome::Failure, .. } => self.task_failed(task),
            Fact::Feedback { rating, .. } => self.rated(*rating),
            Fact::Incident { incident } => {
                if self.incidents.insert(incident) {
                    self.stained_ms = Some(self.now_ms);
                    self.fall(format!("incident `{incident}`"));
                }
            }
            Fact::Promotion { to } => self.agreed(*to),
            Fact::Identity { part, value } => {
                let known = self.identity.insert(*part, value);
                if known.is_some_and(|known| known != value) {
                    self.is_another(*part);
                }
            }
        }
    }

    fn went_well(&mut self, count: u64) {
        self.is_seen();
        self.worked_ms = Some(self.now_ms);
        self.observe(Sums { ok: count, ..Sums::default() });
        for gathered in [&mut self.since_step, &mut self.since_fall] {
            gathered.first_ms.get_or_insert(self.now_ms);
            gathered.ok += count;
        }
        self.rise();
    }

    /// The track is not idle. A report of something that is known already shows that as well; it shows nothing else.
    fn is_seen(&mut self) {
        self.first_ms.get_or_insert(self.now_ms);
        self.seen_ms = Some(self.now_ms);
        self.idled = false;
    }

    fn task_done(&mut self, task: &'a str, difficulty: Difficulty, quality: Option<Score>) {
        self.is_seen();
        if self.tasks.contains_key(task) {
            return;
        }
        self.tasks.insert(task, Some(self.done.len()));
        self.done.push(Done { at_ms: self.now_ms, difficulty, quality, void: false });
        self.went_well(1);
    }

    fn task_failed(&mut self, task: &'a str) {
        match self.tasks.insert(task, None) {
            Some(None) => return,
            Some(Some(index)) => {
                if let Some(done) = self.done.get_mut(index) {
                    done.void = true;
                }
            }
            None => {}
        }
        self.stained_ms = Some(self.now_ms);
        self.went_wrong(Sums { bad: 1, failed_tasks: 1, ..Sums::default() });
    }

    fn went_wrong(&mut self, sums: Sums) {
        self.observe(sums);
        let Some(limit) = self.rules.decay.error_rate else { return };
        let Sums { ok, bad, .. } = self.week.sums;
        let all = ok + bad;
        if bad * WHOLE <= u64::from(limit) * all.max(ENOUGH) {
            return;
        }
        if self.is_bad_day() {
            self.forget();
            return;
        }
        self.bad_day = Some(self.now_ms / DAY_MS);
        let limit = f64::from(limit) / 100.0;
        self.fall(format!("{bad} errors among the {all} calls and tasks of a week are more than {limit} %"));
    }

    fn is_bad_day(&self) -> bool {
        self.bad_day == Some(self.now_ms / DAY_MS)
    }

    fn rated(&mut self, rating: Score) {
        let rating = u64::from(rating.hundredths());
        self.observe(Sums { blame: NEITHER.saturating_sub(rating), ..Sums::default() });
        let praise = rating.saturating_sub(NEITHER);
        for gathered in [&mut self.since_step, &mut self.since_fall] {
            gathered.praise += praise;
        }
        if praise > 0 {
            self.rise();
        }
    }

    fn observe(&mut self, sums: Sums) {
        self.week.add(self.now_ms, sums);
        self.quarter.add(self.now_ms, sums);
    }

    // ---- time ----

    /// Lets time pass, and does what falls due on the way, in order.
    fn advance(&mut self, to_ms: u64) {
        loop {
            let (idle, verify) = (self.idle_due(), self.verify_due());
            let Some(due) = idle.into_iter().chain(verify).min().filter(|due| *due <= to_ms) else { break };
            self.arrive(due);
            if idle == Some(due) {
                self.idled = true;
                let days = self.rules.decay.idle_days.unwrap_or_default();
                self.fall(format!("nothing went well for {days} days"));
            } else {
                self.verification += 1;
                self.verify();
            }
        }
        self.arrive(to_ms);
    }

    fn arrive(&mut self, at_ms: u64) {
        self.now_ms = at_ms;
        self.week.slide(at_ms);
        self.quarter.slide(at_ms);
    }

    fn idle_due(&self) -> Option<u64> {
        let days = self.rules.decay.idle_days.filter(|_| !self.idled)?;
        Some(self.seen_ms?.saturating_add(u64::from(days) * DAY_MS))
    }

    /// At the first moment of a day, so that it comes before whatever errors cost on that day.
    fn verify_due(&self) -> Option<u64> {
        let days = self.rules.decay.interval_days.filter(|days| *days > 0)?;
        let first_day = self.first_ms? / DAY_MS;
        Some((first_day + self.verification * u64::from(days)).saturating_mul(DAY_MS))
    }

    /// Would what happened in the last interval still earn the level? One that was given, not earned, is not asked about.
    fn verify(&mut self) {
        let Some(step) = Step::below(self.level).filter(|_| self.level > self.start) else { return };
        let Some(milestone) = self.milestone(step) else { return };
        let all = Gathered { first_ms: self.first_ms, ..Gathered::default() };
        let needs = self.measure(step, milestone, &all);
        if let Some(missing) = needs.iter().find(|need| !need.is_met()) {
            let days = self.rules.decay.interval_days.unwrap_or_default();
            let why = format!("re-verification after {days} days found {missing}");
            self.move_to(step.lower(), why);
            // It goes on from what it has, which was too little for this level.
            self.since_step = self.since_fall;
        }
    }

    // ---- moving ----

    /// Takes the next step if enough is gathered and nobody has to agree.
    fn rise(&mut self) {
        let Some(step) = Step::above(self.level).filter(|step| !self.takes_person(*step)) else { return };
        if self.is_earned(step) {
            self.step_up(step, "");
        }
    }

    /// A person agrees. Where nothing waits for them, that changes nothing.
    fn agreed(&mut self, to: Level) {
        let Some(step) = Step::above(self.level).filter(|step| step.upper() == to) else { return };
        if self.takes_person(step) && self.is_earned(step) {
            self.step_up(step, "a person agreed; ");
        }
    }

    fn step_up(&mut self, step: Step, how: &str) {
        let needs: Vec<String> = self.needs(step).iter().map(ToString::to_string).collect();
        let why = format!("{how}{}", needs.join(", "));
        self.move_to(step.upper(), why.trim_end_matches("; ").to_owned());
        self.since_step = Gathered { from: self.done.len(), ..Gathered::default() };
    }

    /// Down one step, if there is one, and everything gathered is gone.
    fn fall(&mut self, why: String) {
        if let Some(step) = Step::below(self.level) {
            self.move_to(step.lower(), why);
        }
        self.forget();
    }

    fn is_another(&mut self, part: Part) {
        if let Some(step) = Step::below(self.level).filter(|_| self.level > self.start) {
            self.move_to(step.lower(), format!("its {part} is another one"));
        }
        // Another agent has not had its bad day yet.
        self.bad_day = None;
        self.forget();
    }

    fn forget(&mut self) {
        self.since_fall = Gathered { from: self.done.len(), ..Gathered::default() };
        self.since_step = self.since_fall;
    }

    fn move_to(&mut self, to: Level, why: String) {
        self.because.push(Explained { at_ms: self.now_ms, category: self.category, from: self.level, to, why });
        self.level = to;
    }

    // ---- measuring ----

    /// Nobody becomes `elevated` without a person, whatever the rules say.
    fn takes_person(&self, step: Step) -> bool {
        let said = match &self.rules.strategy {
            Strategy::Weighted { steps, .. } => steps.get(&step).is_some_and(|known| known.value.person),
            _ => self.milestone(step).is_some_and(|milestone| milestone.person),
        };
        said || step == Step::StandardToElevated
    }

    fn is_earned(&self, step: Step) -> bool {
        !self.is_bad_day() && self.has_rule(step) && self.needs(step).iter().all(Need::is_met)
    }

    fn has_rule(&self, step: Step) -> bool {
        match &self.rules.strategy {
            Strategy::Weighted { steps, .. } => steps.contains_key(&step),
            _ => self.milestone(step).is_some(),
        }
    }

    fn milestone(&self, step: Step) -> Option<&'a Milestone> {
        let steps = match &self.rules.strategy {
            Strategy::Disabled | Strategy::Weighted { .. } => return None,
            Strategy::PerCategory { steps, .. } => steps.get(&self.category?)?,
            Strategy::Milestone { steps } => steps,
        };
        steps.get(&step).map(|known| &known.value)
    }

    /// What the next step takes, and how much of it is there.
    fn needs(&self, step: Step) -> Vec<Need> {
        if let Strategy::Weighted { weights, steps } = &self.rules.strategy {
            let want = steps.get(&step).map(|known| known.value.score);
            return want.into_iter().map(|want| Need::Score { have: self.score(weights, step), want }).collect();
        }
        let milestone = self.milestone(step);
        milestone.map(|milestone| self.measure(step, milestone, &self.since_step)).unwrap_or_default()
    }

    fn measure(&self, step: Step, milestone: &Milestone, gathered: &Gathered) -> Vec<Need> {
        let Milestone { tasks, quality, active_days, clean_days, .. } = *milestone;
        let mut needs = Vec::new();
        if tasks > 0 {
            let have = self.fit(step, gathered).filter(|done| done.is_good(quality)).count();
            let have = u32::try_from(have).unwrap_or(u32::MAX);
            needs.push(Need::Tasks { have, want: tasks, difficulty: step.difficulty(), quality });
        }
        if active_days > 0 {
            let have = gathered.first_ms.zip(self.worked_ms).map_or(0, |(first, last)| days(first, last));
            needs.push(Need::ActiveDays { have, want: active_days });
        }
        if clean_days > 0 {
            let from = gathered.first_ms.map(|first| self.stained_ms.map_or(first, |stain| stain.max(first)));
            let have = from.map_or(0, |from| days(from, self.now_ms));
            needs.push(Need::CleanDays { have, want: clean_days });
        }
        needs
    }

    /// The tasks that speak for a step.
    fn fit(&self, step: Step, gathered: &Gathered) -> impl Iterator<Item = &Done> {
        let interval = self.rules.decay.interval_days.map(|days| u64::from(days) * DAY_MS);
        let oldest = interval.map_or(0, |interval| self.now_ms.saturating_sub(interval));
        self.done
            .iter()
            .skip(gathered.from)
            .filter(move |done| !done.void && done.at_ms >= oldest && done.difficulty >= step.difficulty())
    }

    /// What speaks for a step since the last one, against what spoke against it in a quarter. Each part is rounded down,
    /// and so is the sum.
    fn score(&self, weights: &Weights, step: Step) -> u32 {
        let Gathered { ok, praise, .. } = self.since_step;
        let Sums { bad, failed_tasks, blame, .. } = self.quarter.sums;
        let (mut done, mut thirds) = (0, 0);
        for task in self.fit(step, &self.since_step) {
            done += 1;
            thirds += match task.difficulty {
                Difficulty::Easy => 1,
                Difficulty::Medium => 2,
                Difficulty::Hard => 3,
            };
        }
        let difficulty = share(thirds, 3 * ENOUGH);
        let feedback = share(praise.saturating_sub(blame), NEITHER * ENOUGH);
        let parts = [
            (weights.task_difficulty, difficulty),
            (weights.completion_rate, share(done, done + failed_tasks)),
            (weights.error_rate, share(ok, ok + bad)),
            (weights.human_feedback, feedback),
        ];
        let sum: u64 = parts.into_iter().map(|(weight, part)| u64::from(weight) * part.min(WHOLE)).sum();
        u32::try_from(sum / WHOLE).unwrap_or(u32::MAX)
    }

    // ---- what comes of it ----

    pub(super) fn pending(&self) -> Option<Pending> {
        let step = Step::above(self.level).filter(|step| self.takes_person(*step) && self.is_earned(*step))?;
        Some(Pending { category: self.category, from: step.lower(), to: step.upper() })
    }

    pub(super) fn next(&self) -> Option<Next> {
        let step = Step::above(self.level)?;
        Some(Next {
            category: self.category,
            from: step.lower(),
            to: step.upper(),
            needs: self.needs(step),
            person: self.takes_person(step),
            possible: self.has_rule(step),
        })
    }
}

impl Done {
    /// Is it known to be good enough? What nobody rated is not.
    fn is_good(&self, least: Option<Score>) -> bool {
        least.is_none_or(|least| self.quality.is_some_and(|quality| quality >= least))
    }
}

impl Window {
    fn of(days: u32) -> Self {
        Self { span_ms: u64::from(days) * DAY_MS, moments: VecDeque::new(), sums: Sums::default() }
    }

    fn add(&mut self, at_ms: u64, sums: Sums) {
        self.moments.push_back((at_ms, sums));
        self.sums = self.sums.plus(sums);
    }

    fn slide(&mut self, now_ms: u64) {
        while let Some((_, gone)) = self.moments.pop_front_if(|(at, _)| at.saturating_add(self.span_ms) <= now_ms) {
            self.sums = self.sums.minus(gone);
        }
    }
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            ok: self.ok + other.ok,
            bad: self.bad + other.bad,
            failed_tasks: self.failed_tasks + other.failed_tasks,
            blame: self.blame + other.blame,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            ok: self.ok - other.ok,
            bad: self.bad - other.bad,
            failed_tasks: self.failed_tasks - other.failed_tasks,
            blame: self.blame - other.blame,
        }
    }
}

/// The share of a part in a whole of at least [`ENOUGH`], in ten-thousandths, rounded down.
fn share(part: u64, whole: u64) -> u64 {
    part * WHOLE / whole.max(ENOUGH)
}

fn days(from_ms: u64, to_ms: u64) -> u32 {
    u32::try_from(to_ms.saturating_sub(from_ms) / DAY_MS).unwrap_or(u32::MAX)
}
