//! The scheduler as a live service would step it.

use bandpilot_core::{GpuMask, HostId, Placement};
use bandpilot_sim::orders::{By, Order, Strict, TwoStage};
use bandpilot_sim::placements::{BestFit, Counting};
use bandpilot_sim::{
    Ask, Desk, Effect, Event, Grant, JobId, Jobs, Options, Scheduler, Setting, Shape, Workload,
    WrongEvent, simulate_with, speed,
};

use crate::{hosts, trace};

fn scheduler(policy: &str) -> Scheduler<'static> {
    crate::scheduler(&hosts(&[8, 8]), policy)
}

pub(crate) fn submit(job: u32, gpus: u32, estimate_s: f64) -> Event {
    let ask = Ask {
        shape: Shape::of_total(gpus, 8),
        estimate_s,
        priority: 0,
        tenant: 0,
        comm_share: 0.0,
    };
    Event::Submit { job: JobId(job), ask }
}

pub(crate) fn start(job: u32, shares: &[(u32, u64)]) -> Effect {
    let shares = shares.iter().map(|(host, mask)| (HostId(*host), GpuMask(*mask)));
    Effect::Start { job: JobId(job), grant: Grant::Gpus(Placement::new(shares)) }
}

pub(crate) fn step(scheduler: &mut Scheduler<'_>, now_s: f64, events: &[Event]) -> Vec<Effect> {
    let mut effects = Vec::new();
    scheduler.step(now_s, events, &mut effects).unwrap();
    effects
}

#[test]
fn events_in_effects_out() {
    let mut fifo = scheduler("fifo/best-fit");
    let effects =
        step(&mut fifo, 0.0, &[submit(0, 12, 5.0), submit(1, 99, 1.0), submit(2, 5, 1.0)]);
    assert_eq!(effects, [Effect::Refuse { job: JobId(1) }, start(0, &[(0, 255), (1, 15)])]);
    assert_eq!((fifo.waiting(), fifo.head(), fifo.idle().total()), (1, Some(JobId(2)), 4));
    assert_eq!(step(&mut fifo, 1.0, &[Event::Rate { job: JobId(0), rate: 0.5 }]), []);
    assert_eq!(fifo.jobs().progress(JobId(0)).end_s(), 9.0);
    // An estimate that was too short does no harm.
    let effects = step(&mut fifo, 20.0, &[Event::Finish { job: JobId(0) }]);
    assert_eq!(effects, [start(2, &[(0, 31)])]);
}

#[test]
pub(crate) fn preemption_comes_before_the_start_that_needs_it() {
    let mut srtf = scheduler("srtf/packed");
    step(&mut srtf, 0.0, &[submit(0, 16, 50.0)]);
    let effects = step(&mut srtf, 10.0, &[submit(1, 2, 39.0)]);
    assert_eq!(effects, [Effect::Preempt { job: JobId(0) }, start(1, &[(0, 3)])]);
    // A longer job does not preempt; a job with as little left as another one waits behind the earlier.
    assert_eq!(step(&mut srtf, 20.0, &[submit(2, 16, 29.0)]), []);
    let effects = step(&mut srtf, 49.0, &[Event::Finish { job: JobId(1) }]);
    assert_eq!(effects, [start(2, &[(0, 255), (1, 255)])]);
}

#[test]
fn a_reservation_names_gpus() {
    let mut easy = scheduler("easy/first-fit");
    let effects = step(&mut easy, 0.0, &[submit(0, 8, 10.0), submit(1, 4, 100.0)]);
    assert_eq!(effects, [start(0, &[(0, 255)]), start(1, &[(1, 15)])]);
    // The head will get the first host at 10. What is long may have the rest of the second, but not more.
    let events = [submit(2, 8, 5.0), submit(3, 3, 50.0), submit(4, 2, 50.0), submit(5, 1, 50.0)];
    let effects = step(&mut easy, 1.0, &events);
    assert_eq!(effects, [start(3, &[(1, 0b111_0000)]), start(5, &[(1, 0b1000_0000)])]);
    let effects = step(&mut easy, 10.0, &[Event::Finish { job: JobId(0) }]);
    assert_eq!(effects, [start(2, &[(0, 255)])]);
}

pub(crate) fn preempt(job: u32) -> Effect {
    Effect::Preempt { job: JobId(job) }
}

/// All sixteen GPUs.
fn start_all(job: u32) -> Effect {
    start(job, &[(0, 255), (1, 255)])
}

#[test]
fn jobs_sink_in_time_whatever_their_rate() {
    let mut las = scheduler("las/best-fit");
    // While nobody waits nobody has to be woken.
    assert_eq!(step(&mut las, 0.0, &[submit(0, 16, 9e9)]), [start_all(0)]);
    // 3,250 GPU-seconds are 203.125 s of sixteen GPUs.
    let wake = |at_s| Effect::WakeAt { at_s };
    assert_eq!(step(&mut las, 10.0, &[submit(1, 16, 9e9)]), [wake(203.125)]);
    assert_eq!(step(&mut las, 20.0, &[Event::Rate { job: JobId(0), rate: 0.25 }]), []);
    let effects = step(&mut las, 203.125, &[Event::Wake]);
    assert_eq!(effects, [preempt(0), start_all(1), wake(406.25)]);
    assert_eq!(las.jobs().held_s(JobId(0), 300.0), 203.125);
    // The other one sinks too, and stands behind the one that waits there; that one sinks again at 7,200 GPU-seconds.
    let effects = step(&mut las, 406.25, &[Event::Wake]);
    assert_eq!(effects, [preempt(1), start_all(0), wake(653.125)]);
    let effects = step(&mut las, 653.125, &[Event::Wake]);
    assert_eq!(effects, [preempt(0), start_all(1), wake(900.0)]);
    // On the last level nobody is woken any more.
    assert_eq!(step(&mut las, 900.0, &[Event::Wake]), [preempt(1), start_all(0)]);
    assert_eq!(step(&mut las, 901.0, &[Event::Wake]), []);
    // A new job goes before both; a job that has waited does not take the GPUs of one on its own level.
    let effects = step(&mut las, 1000.0, &[submit(2, 16, 5.0), submit(3, 16, 5.0)]);
    assert_eq!(effects, [preempt(0), start_all(2), wake(1203.125)]);
    assert_eq!(step(&mut las, 1005.0, &[Event::Finish { job: JobId(2) }])[0], start_all(3));
    // Who was preempted last goes on first.
    assert_eq!(step(&mut las, 1010.0, &[Event::Finish { job: JobId(3) }]), [start_all(0)]);
}

#[test]
fn long_jobs_give_way() {
    let order = Box::new(TwoStage::new(100.0));
    let mut stages = Scheduler::new(hosts(&[8, 8]), order, Box::new(BestFit));
    let effects = step(&mut stages, 0.0, &[submit(0, 8, 1e3), submit(1, 8, 1e3)]);
    assert_eq!(effects, [start(0, &[(0, 255)]), start(1, &[(1, 255)])]);
    let effects = step(&mut stages, 10.0, &[submit(2, 8, 1e3), submit(3, 16, 1e3)]);
    assert_eq!(effects, [Effect::WakeAt { at_s: 100.0 }]);
    // The head of the first stage does not fit: what it cannot use yet the second stage keeps.
    let effects = step(&mut stages, 100.0, &[Event::Wake]);
    assert_eq!(effects, [preempt(1), start(2, &[(1, 255)]), Effect::WakeAt { at_s: 200.0 }]);
    assert_eq!(stages.head(), Some(JobId(3)));
    let effects = step(&mut stages, 200.0, &[Event::Wake]);
    let wake = Effect::WakeAt { at_s: 300.0 };
    assert_eq!(effects, [preempt(2), preempt(0), start_all(3), wake]);
    let effects = step(&mut stages, 300.0, &[Event::Wake]);
    assert_eq!(effects, [preempt(3), start(0, &[(0, 255)]), start(1, &[(1, 255)])]);
}

#[test]
fn age_and_priority_add_up() {
    let heads = |aging_s| {
        let order = Box::new(Strict::new(By::Priority { aging_s }));
        let mut jobs = Scheduler::new(hosts(&[8]), order, Box::new(Counting));
        for (job, now_s, priority) in [(0, 0.0, 0), (1, 1.0, 0), (2, 50.0, 1), (3, 102.0, 1)] {
            let shape = Shape::of_total(8, 8);
            let ask = Ask { shape, estimate_s: 1.0, priority, tenant: 0, comm_share: 0.0 };
            step(&mut jobs, now_s, &[Event::Submit { job: JobId(job), ask }]);
        }
        let mut next = |job| {
            let head = jobs.head().unwrap();
            step(&mut jobs, 200.0, &[Event::Finish { job }]);
            head
        };
        let first = next(JobId(0));
        let second = next(first);
        [first, second, next(second)].map(|job| job.0)
    };
    assert_eq!(heads(100.0), [2, 1, 3]);
    assert_eq!(heads(f64::INFINITY), [2, 3, 1]);
    assert_eq!(heads(1.0), [1, 2, 3]);
}

#[test]
fn events_that_cannot_be_are_refused() {
    let mut fifo = scheduler("fifo/counting");
    let mut effects = Vec::new();
    let mut wrong = |now_s, event| fifo.step(now_s, &[event], &mut effects).unwrap_err();
    assert_eq!(wrong(0.0, submit(1, 1, 1.0)), WrongEvent::NotNext(1, 0));
    assert_eq!(wrong(1.0, Event::Finish { job: JobId(7) }), WrongEvent::NotRunning(7));
    let no_rate = Event::Rate { job: JobId(0), rate: 0.0 };
    assert_eq!(wrong(1.0, no_rate), WrongEvent::NoRate(0, 0.0));
    assert_eq!(wrong(0.5, Event::Wake), WrongEvent::Backwards(1.0, 0.5));
    assert!(matches!(wrong(f64::NAN, Event::Wake), WrongEvent::Backwards(..)));
}

/// Starts the jobs that wait at every full ten seconds.
#[derive(Default)]
struct Rounds {
    queue: Vec<JobId>,
}

impl Order for Rounds {
    fn enqueue(&mut self, job: JobId, _jobs: &Jobs) {
        self.queue.push(job);
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first().copied()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        if desk.now_s() % 10.0 == 0.0 {
            self.queue.retain(|job| !desk.start(*job));
        }
        if !self.queue.is_empty() {
            desk.wake_at((desk.now_s() / 10.0).floor() * 10.0 + 10.0);
        }
    }
}

#[test]
fn an_order_can_ask_to_be_woken() {
    let hosts = hosts(&[8, 8]);
    let workload = Workload::new(&trace(&[(3, 4, 8), (5, 100, 8), (6, 1, 16)]), &hosts);
    let rule = Box::new(BestFit);
    let scheduler = Scheduler::new(hosts.clone(), Box::<Rounds>::default(), rule);
    let options = Options::default();
    let setting = Setting::new(&hosts, &workload, &options, 1);
    let outcome = simulate_with(&setting, scheduler, &mut speed::Steady).unwrap();
    let ends: Vec<Option<f64>> = outcome.jobs().map(|job| job.finish_s).collect();
    assert_eq!(ends, [Some(14.0), Some(110.0), Some(111.0)]);
    // The last one waits until 110, from 14 on with half of the GPUs idle, before that with none.
    assert_eq!(outcome.totals.queued_s, 107.0);
}
