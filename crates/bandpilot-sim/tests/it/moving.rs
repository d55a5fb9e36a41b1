//! Rules that move running jobs.

use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;

use bandpilot_core::{ClusterBuilder, GpuMask, HostId, Placement};
use bandpilot_readers::trace_file;
use bandpilot_sim::orders::{By, Easy, Order, Strict};
use bandpilot_sim::placements::{BestFit, Drain, Moment, Move, Moves, PlacementRule, Repack, Room};
use bandpilot_sim::speed::{Pace, Speed};
use bandpilot_sim::{
    Ask, Desk, Effect, Event, Grant, Hosts, JobId, Jobs, Metrics, Policy, Scheduler, Shape,
    Workload, simulate_with,
};
use proptest::prelude::*;

use crate::stepping::{preempt, start, step, submit};
use crate::{cluster, hosts, policies, trace, with_setting};

fn fifo(gpus: &[usize], rule: impl PlacementRule + 'static) -> Scheduler<'static> {
    Scheduler::new(hosts(gpus), Box::new(Strict::new(By::Arrival)), Box::new(rule))
}

fn finish(job: u32) -> Event {
    Event::Finish { job: JobId(job) }
}

/// Half of both hosts is idle: job 0 is on the first, job 2 on the second.
fn halves(scheduler: &mut Scheduler<'_>) {
    step(scheduler, 0.0, &[submit(0, 4, 100.0), submit(1, 4, 10.0), submit(2, 4, 100.0)]);
    assert_eq!(step(scheduler, 10.0, &[finish(1)]), []);
}

#[test]
fn a_host_is_drained_for_a_job_that_does_not_fit() {
    let mut scheduler = fifo(&[8, 8], Drain::default());
    halves(&mut scheduler);
    let effects = step(&mut scheduler, 20.0, &[submit(3, 8, 5.0)]);
    assert_eq!(effects, [preempt(0), start(0, &[(1, 0xf0)]), start(3, &[(0, 0xff)])]);
    assert_eq!(scheduler.jobs().progress(JobId(0)).end_s(), 100.0);
    // Too few GPUs: nobody is moved for it.
    assert_eq!(step(&mut scheduler, 21.0, &[submit(4, 8, 5.0)]), []);
    assert_eq!(step(&mut scheduler, 25.0, &[finish(3)]), [start(4, &[(0, 0xff)])]);
}

#[test]
fn nobody_is_moved_in_vain() {
    let mut scheduler = fifo(&[8, 8, 8], Drain::default());
    halves(&mut scheduler);
    // 16 of 24 GPUs are idle, but only two whole hosts can be had.
    let effects = step(&mut scheduler, 20.0, &[submit(3, 8, 99.0), submit(4, 8, 99.0)]);
    let moved = [preempt(0), start(3, &[(2, 0xff)])];
    let moved = moved.into_iter().chain([start(0, &[(1, 0xf0)]), start(4, &[(0, 0xff)])]);
    assert_eq!(effects, moved.collect::<Vec<_>>());
    let mut scheduler = fifo(&[8, 8], Drain::default());
    step(&mut scheduler, 0.0, &[submit(0, 6, 99.0), submit(1, 6, 99.0)]);
    assert_eq!(step(&mut scheduler, 1.0, &[submit(2, 4, 9.0)]), []);
}

#[test]
fn jobs_that_share_a_gpu_stay() {
    let mut scheduler = fifo(&[8, 8], Drain::default());
    step(&mut scheduler, 0.0, &[submit(0, 2, 99.0), submit(1, 6, 10.0)]);
    let shape = Shape::of_share(500);
    let ask = Ask { shape, estimate_s: 99.0, priority: 0, tenant: 0, comm_share: 0.0 };
    step(&mut scheduler, 1.0, &[Event::Submit { job: JobId(2), ask }]);
    step(&mut scheduler, 10.0, &[finish(1)]);
    // The share is on the second host, which holds less; so the first one is emptied.
    let effects = step(&mut scheduler, 11.0, &[submit(3, 8, 9.0)]);
    assert_eq!(effects, [preempt(0), start(0, &[(1, 0b110)]), start(3, &[(0, 0xff)])]);
}

#[test]
fn several_hosts_are_drained_for_one_job() {
    let mut scheduler = fifo(&[8; 4], Drain::default());
    // Pairs fill two hosts each time; then one of each pair stays.
    let sizes = [6, 2, 6, 2, 4, 4, 2, 6];
    let all: Vec<Event> = (0..).zip(sizes).map(|(job, gpus)| submit(job, gpus, 99.0)).collect();
    step(&mut scheduler, 0.0, &all);
    step(&mut scheduler, 1.0, &[finish(1), finish(3), finish(5), finish(7)]);
    // Held: 6, 6, 4, 2. The two go beside the first six; then the four find no room: only one host can be had.
    let effects = step(&mut scheduler, 2.0, &[submit(8, 8, 9.0)]);
    assert_eq!(effects, [preempt(6), start(6, &[(0, 0xc0)]), start(8, &[(3, 0xff)])]);
    step(&mut scheduler, 3.0, &[finish(8), finish(2)]);
    // Held: 8, 0, 4, 0.
    let effects = step(&mut scheduler, 4.0, &[submit(9, 4, 9.0), submit(10, 16, 9.0)]);
    assert_eq!(effects[0], start(9, &[(2, 0xf0)]));
    assert_eq!(effects[1], start(10, &[(1, 0xff), (3, 0xff)]));
}

#[test]
fn what_an_order_expects_of_a_moved_job_is_put_right() {
    let mut scheduler =
        Scheduler::new(hosts(&[8; 3]), Box::<Easy>::default(), Box::<Drain>::default());
    let early = [submit(0, 8, 60.0), submit(1, 4, 100.0), submit(2, 4, 10.0), submit(3, 4, 100.0)];
    let on_second = [start(1, &[(1, 0xf)]), start(2, &[(1, 0xf0)])];
    assert_eq!(step(&mut scheduler, 0.0, &early)[1..3], on_second);
    // Job 1 would end at 200; moved at 20, with 90 s left, it goes on at full speed and ends at 110.
    step(&mut scheduler, 0.0, &[Event::Rate { job: JobId(1), rate: 0.5 }]);
    step(&mut scheduler, 10.0, &[finish(2)]);
    let effects = step(&mut scheduler, 20.0, &[submit(4, 8, 50.0)]);
    assert_eq!(effects, [preempt(1), start(1, &[(2, 0xf0)]), start(4, &[(1, 0xff)])]);
    assert_eq!(scheduler.jobs().progress(JobId(1)).end_s(), 110.0);
    // The whole cluster is wanted at 110: what ends by then may overtake, what does not may not.
    step(&mut scheduler, 70.0, &[finish(0), finish(4)]);
    let late = [submit(5, 24, 1.0), submit(6, 4, 50.0), submit(7, 4, 30.0)];
    assert_eq!(step(&mut scheduler, 75.0, &late), [start(7, &[(0, 0xf)])]);
}

#[test]
fn one_round_frees_a_host_with_one_move() {
    let mut scheduler = fifo(&[8, 8, 8], Repack::new(360.0));
    let sizes = [4, 2, 2, 4, 4, 2];
    let all: Vec<Event> = (0..).zip(sizes).map(|(job, gpus)| submit(job, gpus, 9e3)).collect();
    step(&mut scheduler, 0.0, &all);
    // Held: 4 + 2, 4, 2.
    step(&mut scheduler, 1.0, &[finish(2), finish(4)]);
    assert_eq!(
        step(&mut scheduler, 5.0, &[submit(6, 8, 9e3)]),
        [Effect::WakeAt { at_s: 360.0 }],
        "not before the round"
    );
    let effects = step(&mut scheduler, 360.0, &[Event::Wake]);
    let moved = [preempt(5), start(5, &[(0, 0xc0)]), start(6, &[(2, 0xff)])];
    assert_eq!(effects[..3], moved);
    // Nobody waits, so there is no round after that.
    assert_eq!(step(&mut scheduler, 720.0, &[finish(1), Event::Wake]), []);
}

#[test]
fn a_round_that_frees_nothing_moves_nobody() {
    let mut scheduler = fifo(&[8, 8], Repack::new(360.0));
    step(&mut scheduler, 0.0, &[submit(0, 5, 9e3), submit(1, 5, 9e3), submit(2, 6, 9e3)]);
    let effects = step(&mut scheduler, 720.0, &[Event::Wake]);
    assert_eq!(effects, [Effect::WakeAt { at_s: 1080.0 }]);
}

#[test]
fn instances_of_a_job_go_apart_where_that_frees_a_host() {
    let mut scheduler = fifo(&[8, 8, 8], Repack::new(360.0));
    let named = |job: u32, instances: u32, size: u32| {
        let ask = Ask {
            shape: Shape::of_instances(instances * size, size),
            estimate_s: 9e3,
            priority: 0,
            tenant: 0,
            comm_share: 0.0,
        };
        Event::Submit { job: JobId(job), ask }
    };
    let all = [named(0, 1, 6), named(1, 1, 2), named(2, 1, 6), named(3, 1, 2), named(4, 2, 2)];
    let effects = step(&mut scheduler, 0.0, &all);
    assert_eq!(effects[4], start(4, &[(2, 0xf)]));
    // Together its instances find no other place; apart they do not need the third host.
    step(&mut scheduler, 1.0, &[finish(1), finish(3), submit(5, 8, 9.0)]);
    let effects = step(&mut scheduler, 360.0, &[Event::Wake]);
    let moved = [preempt(4), start(4, &[(0, 0xc0), (1, 0xc0)]), start(5, &[(2, 0xff)])];
    assert_eq!(effects[..3], moved);
}

/// Best fit that wants what it is told to want, once.
struct Wants(Vec<(u32, Grant)>);

impl PlacementRule for Wants {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        BestFit.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        BestFit.place(job, shape, room)
    }

    fn moves(&mut self, moment: Moment, room: &mut Room<'_>) -> Moves {
        if room.jobs.running().len() < 2 || moment.now_s < 1.0 {
            return Moves::default();
        }
        let wanted = std::mem::take(&mut self.0).into_iter();
        let moves = wanted.map(|(job, to)| Move { job: JobId(job), to }).collect();
        Moves { moves, wake_at_s: Some(50.0) }
    }
}

#[test]
fn all_moves_happen_or_none() {
    let on = |host: u32, mask: u64| Grant::Gpus(Placement::new([(HostId(host), GpuMask(mask))]));
    let wake = Effect::WakeAt { at_s: 50.0 };
    let after = |wants: &[(u32, Grant)]| {
        let mut scheduler = fifo(&[8, 8], Wants(wants.to_vec()));
        let effects = step(&mut scheduler, 0.0, &[submit(0, 5, 99.0), submit(1, 5, 99.0)]);
        assert_eq!(effects, [start(0, &[(0, 0b1_1111)]), start(1, &[(1, 0b1_1111)])]);
        let before = scheduler.idle().total();
        let effects = step(&mut scheduler, 1.0, &[Event::Wake]);
        assert_eq!(scheduler.idle().total(), before);
        let freed = step(&mut scheduler, 2.0, &[finish(0), finish(1)]);
        assert_eq!((freed, scheduler.idle().total()), (vec![], 16));
        effects
    };
    // Jobs may change places.
    let swapped = after(&[(0, on(1, 0b1_1111)), (1, on(0, 0b1_1111))]);
    let expected =
        [preempt(0), preempt(1), start(0, &[(1, 31)]), start(1, &[(0, 31)]), wake.clone()];
    assert_eq!(swapped, expected);
    for wrong in [
        vec![(0, on(0, 0b1111_1000)), (1, on(0, 0b1_1111))],
        vec![(0, on(0, 0b1111_1000)), (0, on(0, 0b1_1111))],
        vec![(0, on(0, 0b1111_1000)), (7, on(1, 0b1_1111))],
        vec![(1, on(1, 0b1111_1000)), (0, on(0, 0b1111))],
    ] {
        assert_eq!(after(&wrong), std::slice::from_ref(&wake), "{wrong:?}");
    }
}

/// Watches grants: instances stay whole, models are heeded.
struct Watch<'a> {
    hosts: &'a Hosts,
    splits: bool,
    counts: bool,
}

impl Speed for Watch<'_> {
    fn started(&mut self, job: JobId, grant: &Grant, workload: &Workload) {
        let shape = workload.shape(job);
        match grant {
            Grant::Count(_) | Grant::Part(_) => assert!(self.counts),
            Grant::Share { milli, .. } => assert_eq!(*milli, shape.milli),
            Grant::Gpus(placement) => {
                for (host, _) in placement.shares() {
                    assert!(shape.models.has(self.hosts.model(*host)), "{shape:?} {placement:?}");
                }
                let size = shape.instance_gpus as usize;
                let counts = placement.shares().iter().map(|(_, mask)| mask.count());
                let uneven: Vec<usize> = counts.filter(|count| count % size != 0).collect();
                let whole = match uneven[..] {
                    [] => true,
                    // One host has the smaller instance.
                    [one] => one % size == shape.rest_gpus as usize,
                    _ => false,
                };
                assert!(whole || self.splits && !shape.stated, "{shape:?} {placement:?}");
            }
        }
    }

    fn stopped(&mut self, _job: JobId, _grant: &Grant) {}

    fn changes(&mut self, _changes: &mut Vec<(JobId, Pace)>) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is moved: no job is lost, instances stay whole, models are heeded, and the same again gives the same.
    #[test]
    fn grants_are_of_the_shape(
        jobs in proptest::collection::vec((0..60_u32, 1..40_u32, 1..20_u32, 0..4_u32, 0..3_usize), 1..50),
    ) {
        let mut text = "submit_s,duration_s,gpus,gpus_per_instance,gpu_type,gpu_milli\n".to_owned();
        for (submit_s, duration_s, gpus, named, model) in &jobs {
            let named = if *named > 0 { (gpus.div_ceil(*named).min(6)).to_string() } else { String::new() };
            let model = ["", "V100", "H100"][*model];
            let milli = if *gpus == 1 { [300, 600, 1000][*duration_s as usize % 3] } else { 1000 };
            writeln!(text, "{submit_s},{duration_s},{gpus},{named},{model},{milli}").unwrap();
        }
        let cluster = ClusterBuilder::new("mixed")
            .host_type("h", "H100", 8).nvswitch().hosts("h", 1, 3)
            .host_type("v", "V100", 8).nvswitch().hosts("v", 1, 2)
            .build();
        let hosts = Hosts::new(&cluster).unwrap();
        let workload = Workload::new(&trace_file::read(&text).value, &hosts);
        for policy in policies() {
            let play = || with_setting(&hosts, &workload, 1, |setting| {
                let scheduler = Policy::parse(&policy).unwrap().scheduler(setting).unwrap();
                let rule = policy.split('/').next_back().unwrap();
                let splits = ["compact", "bandpilot", "bandpilot-tradeoff"].contains(&rule);
                let mut watch = Watch { hosts: &hosts, splits, counts: rule == "counting" };
                simulate_with(setting, scheduler, &mut watch).unwrap()
            });
            let outcome = play();
            let metrics = Metrics::new(&workload, &outcome);
            prop_assert_eq!(metrics.jobs + metrics.refused, workload.len(), "{}", policy);
            prop_assert_eq!(outcome, play(), "{}", policy);
        }
    }
}

#[test]
fn fragmentation_is_what_moves_take_away() {
    // Pairs that leave every host half empty, and whole hosts wanted in between.
    let jobs: Vec<(u32, u32, u32)> = (0..40)
        .flat_map(|at| [(10 * at, 400, 4), (10 * at, 15, 4), (10 * at + 5, 30, 8)])
        .collect();
    let hosts = Hosts::new(&cluster(&[8; 6])).unwrap();
    let workload = Workload::new(&trace(&jobs), &hosts);
    let blocked_s = |policy: &str| {
        let outcome = crate::play(&hosts, &workload, policy, 1).unwrap();
        (outcome.totals.head_blocked_s, Metrics::new(&workload, &outcome).migrations)
    };
    let (stays_s, none) = blocked_s("fifo/best-fit");
    let (drained_s, drained) = blocked_s("fifo/drain");
    let (repacked_s, repacked) = blocked_s("fifo/repack");
    assert_eq!(none, 0);
    assert!(stays_s > 0.0 && drained > 0 && repacked > 0);
    assert!(drained_s < stays_s && repacked_s < stays_s, "{stays_s} {drained_s} {repacked_s}");
}

#[test]
fn an_order_is_never_told_that_a_moved_job_stopped() {
    /// Strict, and counts what it is told.
    struct Counts(Strict, Rc<Cell<usize>>);
    impl Order for Counts {
        fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
            self.0.enqueue(job, jobs);
        }
        fn stopped(&mut self, _job: JobId, _jobs: &Jobs) {
            self.1.set(self.1.get() + 1);
        }
        fn head(&self) -> Option<JobId> {
            self.0.head()
        }
        fn waiting(&self) -> usize {
            self.0.waiting()
        }
        fn plan(&mut self, desk: &mut Desk<'_>) {
            self.0.plan(desk);
        }
    }
    let stops = Rc::default();
    let order = Counts(Strict::new(By::Arrival), Rc::clone(&stops));
    let mut scheduler = Scheduler::new(hosts(&[8, 8]), Box::new(order), Box::<Drain>::default());
    halves(&mut scheduler);
    step(&mut scheduler, 20.0, &[submit(3, 8, 5.0)]);
    assert_eq!((stops.get(), scheduler.jobs().running().len()), (1, 3));
}
