//! The truth that a scheduler is played against.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::ids::{JobId, key};
use crate::ledger::Ledger;
use crate::policy::{NeedsNetwork, Policy};
use crate::progress::Progress;
use crate::scheduler::{Effect, Event, Scheduler, WrongEvent};
use crate::setting::Setting;
use crate::shape::Hosts;
use crate::speed::{Speed, Steady};
use crate::watch::Watcher;
use crate::workload::Workload;

/// Wakes in a row at which nothing happens although nothing runs and nothing arrives any more.
const MAX_IDLE_WAKES: usize = 10_000;

/// A run that breaks a law of conservation has no result: a mistake in a unit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Broken {
    /// A GPU in two grants, or one that does not exist.
    #[error("job {job} was given a GPU that is not free")]
    Twice {
        /// The job.
        job: u32,
    },
    /// More GPUs held than there are.
    #[error("{busy} of {capacity} GPUs are held")]
    TooMany {
        /// GPUs held.
        busy: usize,
        /// GPUs that there are.
        capacity: usize,
    },
    /// Another number of GPUs than the job asks for.
    #[error("job {job} asks for {asked} GPUs and was given {given}")]
    OtherCount {
        /// The job.
        job: u32,
        /// What it asks for.
        asked: usize,
        /// What it was given.
        given: usize,
    },
    /// A job stopped that does not run, or started that is done.
    #[error("job {job} does not run, or is done")]
    NotRunning {
        /// The job.
        job: u32,
    },
    /// Jobs wait for ever.
    #[error("{jobs} jobs wait, and nothing will happen any more")]
    Stuck {
        /// How many.
        jobs: usize,
    },
    /// More or less work was done than there was.
    #[error("{delivered} GPU-seconds of work were done of {asked}")]
    Work {
        /// Work done, GPU-seconds at rate 1.
        delivered: f64,
        /// Work of the jobs that finished.
        asked: f64,
    },
    /// The policy needs bandwidths, and there are none.
    #[error(transparent)]
    NoNetwork(#[from] NeedsNetwork),
    /// Not broken: whoever looks on had it stopped.
    #[error("the run was stopped")]
    Stopped,
    /// The scheduler did not accept an event.
    #[error(transparent)]
    Event(#[from] WrongEvent),
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobResult {
    /// When it first had its GPUs; `None` if it was refused.
    pub first_start_s: Option<f64>,
    /// When it was done; `None` if it was refused.
    pub finish_s: Option<f64>,
    /// How often it lost its GPUs.
    pub preemptions: u32,
    /// GPUs x time that it held them.
    pub gpu_seconds: f64,
}

/// Sums over the time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// GPUs of the cluster.
    pub gpus: usize,
    /// GPU-seconds of work that was done (rate x time x GPUs).
    pub work_gpu_s: f64,
    /// Time during which jobs waited.
    pub queued_s: f64,
    /// GPU-seconds held during that time.
    pub busy_queued_gpu_s: f64,
    /// Time during which the first waiting job did not start although as many GPUs as it asks for were idle.
    pub head_blocked_s: f64,
}

/// What became of all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// One entry a job.
    pub jobs: Vec<JobResult>,
    /// Sums.
    pub totals: Totals,
}

/// The truth about one job.
#[derive(Debug, Clone, Copy)]
struct Truth {
    progress: Progress,
    first_start_s: f64,
    finish_s: f64,
    /// When it last started.
    since_s: f64,
    held_s: f64,
    preemptions: u32,
    /// Entries in the list of ends with another version are void.
    version: u32,
}

/// Bytes that each job takes here, running or not: truth and, while it runs, its entry in the list of ends.
pub(crate) const BYTES_PER_JOB: usize =
    size_of::<Truth>() + size_of::<Reverse<(u64, JobId, u32)>>();

/// Plays the workload of a setting against a policy.
///
/// # Errors
/// If a unit breaks a law of conservation, or the policy needs bandwidths that the setting has not.
pub fn simulate(setting: &Setting<'_>, policy: Policy) -> Result<Outcome, Broken> {
    simulate_watched(setting, policy, &mut ())
}

/// The same while somebody looks on.
///
/// # Errors
/// As for [`simulate`], and if the run is stopped.
pub fn simulate_watched(
    setting: &Setting<'_>,
    policy: Policy,
    watcher: &mut dyn Watcher,
) -> Result<Outcome, Broken> {
    let scheduler = policy.scheduler(setting)?;
    play(setting.hosts, setting.workload, scheduler, &mut Steady, watcher)
}

/// Plays a workload against a scheduler, with jobs that run as fast as `speed` says.
///
/// # Errors
/// If a unit breaks a law of conservation.
pub fn simulate_with(
    hosts: &Hosts,
    workload: &Workload,
    scheduler: Scheduler<'_>,
    speed: &mut dyn Speed,
) -> Result<Outcome, Broken> {
    play(hosts, workload, scheduler, speed, &mut ())
}

fn play(
    hosts: &Hosts,
    workload: &Workload,
    scheduler: Scheduler<'_>,
    speed: &mut dyn Speed,
    watcher: &mut dyn Watcher,
) -> Result<Outcome, Broken> {
    let truth = |job: u32| Truth {
        progress: Progress::new(workload.duration_s(JobId(job))),
        first_start_s: f64::NAN,
        finish_s: f64::NAN,
        since_s: 0.0,
        held_s: 0.0,
        preemptions: 0,
        version: 0,
    };
    let mut world = World {
        workload,
        scheduler,
        speed,
        watcher,
        ledger: Ledger::new(hosts),
        truth: (0..workload.len() as u32).map(truth).collect(),
        ends: BinaryHeap::new(),
        wakes: BTreeSet::new(),
        arrived: 0,
        refused: 0,
        finished: 0,
        now_s: 0.0,
        head_blocked: false,
        idle_wakes: 0,
        totals: Totals { gpus: hosts.gpus(), ..Totals::default() },
        events: Vec::new(),
        effects: Vec::new(),
        changes: Vec::new(),
    };
    while let Some(next_s) = world.next_s() {
        if world.watcher.stop() {
            return Err(Broken::Stopped);
        }
        world.step(next_s)?;
    }
    world.outcome()
}

struct World<'a> {
    workload: &'a Workload,
    scheduler: Scheduler<'a>,
    speed: &'a mut dyn Speed,
    watcher: &'a mut dyn Watcher,
    ledger: Ledger,
    truth: Vec<Truth>,
    /// When running jobs end at their rates now.
    ends: BinaryHeap<Reverse<(u64, JobId, u32)>>,
    wakes: BTreeSet<u64>,
    arrived: usize,
    refused: usize,
    finished: usize,
    now_s: f64,
    head_blocked: bool,
    idle_wakes: usize,
    totals: Totals,
    // Kept between steps for their memory.
    events: Vec<Event>,
    effects: Vec<Effect>,
    changes: Vec<(JobId, f64)>,
}

impl World<'_> {
    /// The next job to arrive.
    fn arrival(&self) -> Option<JobId> {
        (self.arrived < self.workload.len()).then_some(JobId(self.arrived as u32))
    }

    /// The next end that is not void.
    fn end(&mut self) -> Option<(u64, JobId)> {
        while let Some(Reverse((end, job, version))) = self.ends.peek().copied() {
            if self.truth[job.index()].version == version {
                return Some((end, job));
            }
            self.ends.pop();
        }
        None
    }

    /// When something happens next.
    fn next_s(&mut self) -> Option<f64> {
        let arrival = self.arrival().map(|job| key(self.workload.submit_s(job)));
        let end = self.end().map(|(end, _)| end);
        let next = [arrival, end, self.wakes.first().copied()].into_iter().flatten().min()?;
        // Rounding may put an end a hair before the event that it follows from.
        Some(f64::from_bits(next).max(self.now_s))
    }

    /// Everything that happens at one instant: jobs end, then jobs arrive, then the scheduler plans.
    fn step(&mut self, now_s: f64) -> Result<(), Broken> {
        self.account(now_s);
        let now = key(now_s);
        self.events.clear();
        while let Some((end, job)) = self.end()
            && end <= now
        {
            self.ends.pop();
            self.stop(job)?;
            self.truth[job.index()].finish_s = now_s;
            self.finished += 1;
            self.watcher.settled();
            self.events.push(Event::Finish { job });
        }
        while let Some(job) = self.arrival()
            && key(self.workload.submit_s(job)) <= now
        {
            self.arrived += 1;
            self.waits(job, 1);
            self.events.push(Event::Submit { job, ask: self.workload.ask(job) });
        }
        self.watch_wakes(now)?;
        self.scheduler.step(now_s, &self.events, &mut self.effects)?;
        let mut effects = std::mem::take(&mut self.effects);
        effects.drain(..).try_for_each(|effect| self.apply(effect))?;
        self.effects = effects;
        self.change_rates()?;
        let head = self.scheduler.head();
        let idle = self.ledger.capacity() - self.ledger.busy();
        self.head_blocked = head.is_some_and(|job| self.workload.shape(job).gpus() <= idle);
        Ok(())
    }

    /// Adds the time that has passed to the sums.
    fn account(&mut self, now_s: f64) {
        let passed_s = now_s - self.now_s;
        if self.scheduler.waiting() > 0 {
            self.totals.queued_s += passed_s;
            self.totals.busy_queued_gpu_s += passed_s * self.ledger.busy() as f64;
        }
        if self.head_blocked {
            self.totals.head_blocked_s += passed_s;
        }
        self.now_s = now_s;
    }

    fn watch_wakes(&mut self, now: u64) -> Result<(), Broken> {
        let alive = !self.events.is_empty() || self.ledger.running() > 0;
        self.idle_wakes = if alive || self.arrival().is_some() { 0 } else { self.idle_wakes + 1 };
        if self.idle_wakes > MAX_IDLE_WAKES {
            return Err(Broken::Stuck { jobs: self.scheduler.waiting() });
        }
        while self.wakes.first().is_some_and(|wake| *wake <= now) {
            self.wakes.pop_first();
            self.events.push(Event::Wake);
        }
        Ok(())
    }

    fn apply(&mut self, effect: Effect) -> Result<(), Broken> {
        match effect {
            Effect::Refuse { job } => {
                self.refused += 1;
                self.waits(job, -1);
                self.watcher.settled();
            }
            Effect::Preempt { job } => {
                self.stop(job)?;
                self.waits(job, 1);
                self.truth[job.index()].preemptions += 1;
            }
            Effect::Start { job, grant } => {
                let truth = self.truth.get(job.index()).ok_or(Broken::NotRunning { job: job.0 })?;
                if !truth.finish_s.is_nan() {
                    return Err(Broken::NotRunning { job: job.0 });
                }
                self.speed.started(job, &grant, self.workload);
                self.watcher.takes(self.now_s, &grant);
                self.ledger.claim(job, grant, self.workload.shape(job).gpus())?;
                let truth = &mut self.truth[job.index()];
                truth.since_s = self.now_s;
                if truth.first_start_s.is_nan() {
                    truth.first_start_s = self.now_s;
                }
                self.set_rate(job, 1.0);
                self.waits(job, -1);
            }
            Effect::WakeAt { at_s } => {
                self.wakes.insert(key(at_s));
            }
        }
        Ok(())
    }

    /// Tells whoever looks on of a job that waits from now on (1), or no longer (-1).
    fn waits(&mut self, job: JobId, change: i32) {
        let gpus = i64::from(self.workload.shape(job).gpus() as u32);
        self.watcher.waits(self.now_s, change, i64::from(change) * gpus);
    }

    /// Takes its GPUs from a job, because it is done or because it is preempted.
    fn stop(&mut self, job: JobId) -> Result<(), Broken> {
        let grant = self.ledger.release(job)?;
        self.speed.stopped(job, &grant);
        self.watcher.gives(self.now_s, &grant);
        self.set_rate(job, 0.0);
        let truth = &mut self.truth[job.index()];
        truth.held_s += self.now_s - truth.since_s;
        Ok(())
    }

    /// Books the work done so far, and computes the end anew.
    fn set_rate(&mut self, job: JobId, rate: f64) {
        let truth = &mut self.truth[job.index()];
        let done_s = truth.progress.set_rate(self.now_s, rate);
        self.totals.work_gpu_s += done_s * self.workload.shape(job).gpus() as f64;
        truth.version += 1;
        if rate > 0.0 {
            self.ends.push(Reverse((key(truth.progress.end_s()), job, truth.version)));
        }
    }

    /// Lets the jobs go on at the rates that hold now, and tells the scheduler.
    fn change_rates(&mut self) -> Result<(), Broken> {
        self.speed.changes(&mut self.changes);
        if self.changes.is_empty() {
            return Ok(());
        }
        self.events.clear();
        for (job, rate) in std::mem::take(&mut self.changes) {
            self.events.push(Event::Rate { job, rate });
            if self.truth.get(job.index()).is_some_and(|truth| truth.progress.rate() > 0.0) {
                self.set_rate(job, rate);
            }
        }
        // It refuses jobs that do not run, and rates that are none.
        Ok(self.scheduler.step(self.now_s, &self.events, &mut self.effects)?)
    }

    fn outcome(self) -> Result<Outcome, Broken> {
        let missing = self.truth.len() - self.refused - self.finished;
        if missing > 0 {
            return Err(Broken::Stuck { jobs: missing });
        }
        let done = |at: &usize| !self.truth[*at].finish_s.is_nan();
        let work = |at: usize| {
            self.truth[at].progress.work_s() * self.workload.shape(JobId(at as u32)).gpus() as f64
        };
        let asked: f64 = (0..self.truth.len()).filter(done).map(work).sum();
        let delivered = self.totals.work_gpu_s;
        // Whole seconds are exact; what is allowed for is the rounding of sums of fractions.
        if (delivered - asked).abs() > 1e-9 * asked.max(1.0) {
            return Err(Broken::Work { delivered, asked });
        }
        let known = |seconds: f64| Some(seconds).filter(|seconds| !seconds.is_nan());
        let result = |(at, truth): (u32, &Truth)| JobResult {
            first_start_s: known(truth.first_start_s),
            finish_s: known(truth.finish_s),
            preemptions: truth.preemptions,
            gpu_seconds: truth.held_s * self.workload.shape(JobId(at)).gpus() as f64,
        };
        let jobs = (0..).zip(&self.truth).map(result).collect();
        Ok(Outcome { jobs, totals: self.totals })
    }
}
