//! The truth that a scheduler is played against.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::faults::{Faults, Happening};
use crate::fragmentation::Standing;
use crate::idle::Grant;
use crate::ids::{JobId, key};
use crate::ledger::Ledger;
use crate::options::Costs;
use crate::outcome::{Broken, HostTotals, Outcome, Totals};
use crate::policy::Policy;
use crate::scheduler::{Effect, Event, Scheduler, WrongEvent};
use crate::setting::Setting;
use crate::speed::{BandwidthSpeed, Pace, Speed, Steady};
use crate::truth::Truth;
use crate::watch::Watcher;
use crate::workload::Workload;

/// Instants in a row at which nothing happens to jobs although none runs and none arrives any more.
const MAX_IDLE_INSTANTS: usize = 10_000;

/// Steps of one job, from one change of its rate to the next, whose rounded times are allowed for.
const MOST_STEPS: f64 = 100.0;

/// Hosts that fail in a row without a job that finishes: then none ever will, or not within any time that matters.
const MAX_FAULTS_IN_A_ROW: u64 = 300_000;

/// Bytes that each job takes here, running or not: truth and, while it runs, its entry in the list of ends.
pub(crate) const BYTES_PER_JOB: usize =
    size_of::<Truth>() + size_of::<Reverse<(u64, JobId, u32)>>();

/// Plays the workload of a setting against a policy. With bandwidths in the setting, jobs are as fast as [`BandwidthSpeed`]
/// says, else at full pace.
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
    match setting.network {
        Some(network) => {
            let mut speed = BandwidthSpeed::new(network, setting.hosts);
            play(setting, scheduler, &mut speed, watcher)
        }
        None => play(setting, scheduler, &mut Steady, watcher),
    }
}

/// Plays the workload of a setting against a scheduler, with jobs that are as fast as `speed` says.
///
/// # Errors
/// If a unit breaks a law of conservation.
pub fn simulate_with(
    setting: &Setting<'_>,
    scheduler: Scheduler<'_>,
    speed: &mut dyn Speed,
) -> Result<Outcome, Broken> {
    play(setting, scheduler, speed, &mut ())
}

fn play(
    setting: &Setting<'_>,
    scheduler: Scheduler<'_>,
    speed: &mut dyn Speed,
    watcher: &mut dyn Watcher,
) -> Result<Outcome, Broken> {
    let workload = setting.workload;
    let truth = |job: u32| Truth::new(workload.duration_s(JobId(job)));
    let mut world = World {
        workload,
        costs: setting.options.costs,
        scheduler,
        speed,
        watcher,
        ledger: Ledger::new(setting.hosts),
        faults: Faults::new(setting),
        truth: (0..workload.len() as u32).map(truth).collect(),
        ends: BinaryHeap::new(),
        wakes: BTreeSet::new(),
        arrived: 0,
        refused: 0,
        finished: 0,
        now_s: 0.0,
        head_blocked: false,
        idle_instants: 0,
        faults_in_a_row: 0,
        totals: Totals { hosts: Some(HostTotals::default()), ..Totals::default() },
        told: Standing::default(),
        events: Vec::new(),
        effects: Vec::new(),
        changes: Vec::new(),
        happenings: Vec::new(),
        moving: BTreeSet::new(),
        pauses: Vec::new(),
    };
    while world.refused + world.finished < world.truth.len()
        && let Some(next_s) = world.next_s()
    {
        if world.watcher.stop() {
            return Err(Broken::Stopped);
        }
        world.step(next_s)?;
    }
    world.outcome()
}

struct World<'a> {
    workload: &'a Workload,
    costs: Costs,
    scheduler: Scheduler<'a>,
    speed: &'a mut dyn Speed,
    watcher: &'a mut dyn Watcher,
    ledger: Ledger,
    faults: Faults,
    truth: Vec<Truth>,
    /// When running jobs end at their rates now.
    ends: BinaryHeap<Reverse<(u64, JobId, u32)>>,
    wakes: BTreeSet<u64>,
    arrived: usize,
    refused: usize,
    finished: usize,
    now_s: f64,
    head_blocked: bool,
    idle_instants: usize,
    faults_in_a_row: u64,
    totals: Totals,
    /// How the hosts stood when whoever looks on was last told.
    told: Standing,
    /// Jobs that have lost their GPUs at this instant and may go on elsewhere.
    moving: BTreeSet<JobId>,
    // Kept between steps for their memory.
    events: Vec<Event>,
    effects: Vec<Effect>,
    changes: Vec<(JobId, Pace)>,
    happenings: Vec<Happening>,
    pauses: Vec<Event>,
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
        let wake = self.wakes.first().copied();
        let next = [arrival, end, wake, self.faults.next()].into_iter().flatten().min()?;
        // Rounding may put an end a hair before the event that it follows from.
        Some(f64::from_bits(next).max(self.now_s))
    }

    /// Everything that happens at one instant: jobs end, hardware fails or is back, jobs arrive, then the scheduler plans.
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
            self.faults_in_a_row = 0;
            self.events.push(Event::Finish { job });
        }
        self.fail(now)?;
        while let Some(job) = self.arrival()
            && key(self.workload.submit_s(job)) <= now
        {
            self.arrived += 1;
            self.waits(job, 1);
            self.events.push(Event::Submit { job, ask: self.workload.ask(job) });
        }
        self.watch(now)?;
        self.scheduler.step(now_s, &self.events, &mut self.effects)?;
        let mut effects = std::mem::take(&mut self.effects);
        effects.drain(..).try_for_each(|effect| self.apply(effect))?;
        self.effects = effects;
        while let Some(job) = self.moving.pop_first() {
            self.truth[job.index()].preemptions += 1;
        }
        self.change_paces()?;
        let head = self.scheduler.head();
        let idle_milli = self.ledger.idle_milli();
        self.head_blocked =
            head.is_some_and(|job| self.workload.shape(job).total_milli() <= idle_milli);
        Ok(())
    }

    /// Adds the time that has passed to the sums.
    fn account(&mut self, now_s: f64) {
        let passed_s = now_s - self.now_s;
        if self.scheduler.waiting() > 0 {
            self.totals.queued_s += passed_s;
            self.totals.busy_queued_gpu_s += passed_s * self.ledger.busy();
            self.totals.all_queued_gpu_s += passed_s * self.ledger.capacity();
        }
        if self.head_blocked {
            self.totals.head_blocked_s += passed_s;
        }
        if self.arrived > 0 && passed_s > 0.0 {
            self.account_hosts(passed_s);
        }
        self.now_s = now_s;
    }

    /// Adds how the hosts stood in the time that has passed.
    fn account_hosts(&mut self, passed_s: f64) {
        let Some(standing) = self.ledger.standing() else {
            self.totals.hosts = None;
            return;
        };
        if let Some(totals) = &mut self.totals.hosts {
            totals.add(passed_s, self.scheduler.waiting() > 0, &standing);
        }
        if standing != self.told {
            self.told = standing;
            self.watcher.stands(self.now_s, &standing);
        }
    }

    /// Hardware that fails takes its jobs down.
    fn fail(&mut self, now: u64) -> Result<(), Broken> {
        let mut happenings = std::mem::take(&mut self.happenings);
        self.faults.happen(now, &mut happenings);
        for happening in happenings.drain(..) {
            match happening {
                Happening::HostDown(host) => {
                    for job in self.ledger.victims(host) {
                        self.take_down(job)?;
                    }
                    self.ledger.host_down(host);
                    self.events.push(Event::HostDown { host });
                    self.faults_in_a_row += 1;
                    if self.faults_in_a_row > MAX_FAULTS_IN_A_ROW {
                        let jobs = self.truth.len() - self.refused - self.finished;
                        return Err(Broken::NeverDone { jobs });
                    }
                }
                Happening::HostUp(host) => {
                    self.ledger.host_up(host);
                    self.events.push(Event::HostUp { host });
                }
                Happening::Nics(host, share) => self.speed.nics(host, share),
            }
        }
        self.happenings = happenings;
        Ok(())
    }

    /// A job loses its GPUs and what it has done since it last saved its state.
    fn take_down(&mut self, job: JobId) -> Result<(), Broken> {
        self.stop(job)?;
        self.waits(job, 1);
        let truth = &mut self.truth[job.index()];
        let done_s = truth.progress.done_at(self.now_s);
        let lost_s =
            if self.costs.checkpoint_s > 0.0 { done_s % self.costs.checkpoint_s } else { 0.0 };
        truth.progress.lose(lost_s);
        truth.faults += 1;
        self.totals.lost_gpu_s += lost_s * self.workload.shape(job).size_gpus();
        self.events.push(Event::Fail { job, lost_s });
        Ok(())
    }

    fn watch(&mut self, now: u64) -> Result<(), Broken> {
        // Hosts that come and go are watched by the count of faults: what waits may need all of them at once.
        let waits = |event: &Event| matches!(event, Event::Wake);
        let alive = self.ledger.running() > 0 || !self.events.iter().all(waits);
        let idle = !alive && self.arrival().is_none();
        self.idle_instants = if idle { self.idle_instants + 1 } else { 0 };
        if self.idle_instants > MAX_IDLE_INSTANTS {
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
                self.moving.insert(job);
            }
            Effect::Start { job, grant } => self.start(job, grant)?,
            Effect::WakeAt { at_s } => {
                self.wakes.insert(key(at_s));
            }
        }
        Ok(())
    }

    fn start(&mut self, job: JobId, grant: Grant) -> Result<(), Broken> {
        let truth = self.truth.get(job.index()).ok_or(Broken::NotRunning { job: job.0 })?;
        if truth.is_done() {
            return Err(Broken::NotRunning { job: job.0 });
        }
        let again = !truth.first_start_s.is_nan();
        let moves = self.moving.remove(&job);
        let delay_s = match (moves, again) {
            (true, _) => self.costs.migration_s,
            (false, true) => self.costs.restart_s,
            (false, false) => 0.0,
        };
        let hosts = match &grant {
            Grant::Count(_) | Grant::Part(_) => 0,
            Grant::Share { .. } => 1,
            Grant::Gpus(placement) => placement.hosts() as u32,
        };
        self.waits(job, -1);
        self.watcher.takes(self.now_s, &grant);
        self.speed.started(job, &grant, self.workload);
        self.ledger.claim(job, grant, self.workload.shape(job))?;
        let truth = &mut self.truth[job.index()];
        truth.migrations += u32::from(moves);
        truth.start(self.now_s, delay_s, hosts);
        if delay_s > 0.0 {
            self.pauses.push(Event::Pause { job, until_s: self.now_s + delay_s });
        }
        self.expect_end(job);
        Ok(())
    }

    /// Tells whoever looks on of a job that waits from now on (1), or no longer (-1).
    fn waits(&mut self, job: JobId, change: i32) {
        let milli = self.workload.shape(job).total_milli().cast_signed() as i64;
        self.watcher.waits(self.now_s, change, i64::from(change) * milli);
    }

    /// Takes its GPUs from a job, because it is done, preempted or taken down.
    fn stop(&mut self, job: JobId) -> Result<(), Broken> {
        let grant = self.ledger.release(job, self.workload.shape(job))?;
        self.speed.stopped(job, &grant);
        self.watcher.gives(self.now_s, &grant);
        let done_s = self.truth[job.index()].stop(self.now_s);
        self.book(job, done_s);
        Ok(())
    }

    fn book(&mut self, job: JobId, done_s: f64) {
        self.totals.work_gpu_s += done_s * self.workload.shape(job).size_gpus();
    }

    fn expect_end(&mut self, job: JobId) {
        let truth = &self.truth[job.index()];
        self.ends.push(Reverse((key(truth.progress.end_s()), job, truth.version)));
    }

    /// Lets the jobs go on at the paces that hold now, and tells the scheduler.
    fn change_paces(&mut self) -> Result<(), Broken> {
        self.speed.changes(&mut self.changes);
        self.events.clear();
        self.events.append(&mut self.pauses);
        let mut changes = std::mem::take(&mut self.changes);
        for (job, pace) in changes.drain(..) {
            let Some(truth) = self.truth.get_mut(job.index()) else { continue };
            let before = truth.progress.rate();
            if before == 0.0 {
                return Err(Broken::NotRunning { job: job.0 });
            }
            if !(pace.rate > 0.0 && pace.rate.is_finite()) {
                return Err(WrongEvent::NoRate(job.0, pace.rate).into());
            }
            let done_s = truth.set_pace(self.now_s, pace);
            self.book(job, done_s);
            self.expect_end(job);
            if before != pace.rate {
                self.events.push(Event::Rate { job, rate: pace.rate });
            }
        }
        self.changes = changes;
        if self.events.is_empty() {
            return Ok(());
        }
        Ok(self.scheduler.step(self.now_s, &self.events, &mut self.effects)?)
    }

    fn outcome(self) -> Result<Outcome, Broken> {
        let missing = self.truth.len() - self.refused - self.finished;
        if missing > 0 {
            return Err(Broken::Stuck { jobs: missing });
        }
        let done = |at: &usize| self.truth[*at].is_done();
        let work = |at: usize| {
            self.truth[at].progress.work_s() * self.workload.shape(JobId(at as u32)).size_gpus()
        };
        let asked: f64 = (0..self.truth.len()).filter(done).map(work).sum();
        let asked = asked + self.totals.lost_gpu_s;
        let delivered = self.totals.work_gpu_s;
        // Whole seconds are exact; what is allowed for is the rounding of sums of fractions, and of times: those of a trace may
        // be seconds since 1970, of which a step of a job is known to 0.2 us only.
        let gpus: f64 = (0..self.truth.len())
            .filter(done)
            .map(|at| self.workload.shape(JobId(at as u32)).size_gpus())
            .sum();
        let of_times = f64::EPSILON * self.now_s.abs() * gpus * MOST_STEPS;
        if (delivered - asked).abs() > 1e-9 * asked.max(1.0) + of_times {
            return Err(Broken::Work { delivered, asked });
        }
        Ok(Outcome { truth: self.truth, totals: self.totals })
    }
}
