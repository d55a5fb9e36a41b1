//! The Anchor-Based Space as a placement.

use bandpilot_core::{ClusterBuilder, GpuMask, HostId};
use bandpilot_sim::orders::{By, Strict};
use bandpilot_sim::placements::{Compass, CompassPrinted, PlacementRule};
use bandpilot_sim::{
    Ask, Costs, Effect, Event, Grant, Hosts, JobId, Options, Scheduler, Shape, Workload,
};

use crate::stepping::{preempt, start, step, submit};
use crate::{cluster, hosts, trace};

fn fifo(hosts: Hosts, rule: impl PlacementRule + 'static) -> Scheduler<'static> {
    Scheduler::new(hosts, Box::new(Strict::new(By::Arrival)), Box::new(rule))
}

fn moving(hosts: Hosts, options: &Options) -> Scheduler<'static> {
    fifo(hosts, Compass::moving(options))
}

fn finish(job: u32) -> Event {
    Event::Finish { job: JobId(job) }
}

/// Jobs 0, 1, ... of these sizes and estimates.
fn jobs(sizes: &[(u32, f64)]) -> Vec<Event> {
    (0..).zip(sizes).map(|(job, (gpus, estimate_s))| submit(job, *gpus, *estimate_s)).collect()
}

#[test]
fn anchors_go_into_slots_and_single_gpus_beside_them() {
    let mut scheduler = fifo(hosts(&[8; 3]), Compass::place_only());
    let sizes = [(3, 9.0), (1, 9.0), (1, 9.0), (4, 9.0), (2, 9.0), (1, 9.0)];
    let expected = [
        start(0, &[(0, 0x7)]),
        start(1, &[(0, 0x8)]),
        // The slot is full: a pool is begun, although four GPUs of the first host are idle.
        start(2, &[(1, 0x1)]),
        start(3, &[(0, 0xf0)]),
        start(4, &[(2, 0x3)]),
        start(5, &[(1, 0x2)]),
    ];
    assert_eq!(step(&mut scheduler, 0.0, &jobs(&sizes)), expected);
    // Seven have a slot nowhere, and fit nowhere; six do on the pool.
    assert_eq!(step(&mut scheduler, 1.0, &[submit(6, 6, 9.0)]), [start(6, &[(1, 0xfc)])]);
}

#[test]
fn nobody_moves_unless_that_lets_the_first_one_start() {
    let mut scheduler = moving(hosts(&[8; 3]), &Options::default());
    let sizes = [(4, 90.0), (4, 90.0), (4, 90.0), (4, 90.0), (2, 90.0)];
    step(&mut scheduler, 0.0, &jobs(&sizes));
    assert_eq!(step(&mut scheduler, 1.0, &[finish(0), finish(2)]), []);
    // Held: 4, 4, 2. The two go beside a four.
    let effects = step(&mut scheduler, 2.0, &[submit(5, 8, 9.0)]);
    assert_eq!(effects, [preempt(4), start(4, &[(0, 0x3)]), start(5, &[(2, 0xff)])]);
}

#[test]
fn moves_cost_no_more_than_the_wait_that_they_save() {
    // A move of four GPUs costs 4 x 10 GPU-seconds; the eight would wait for the end of job 0.
    for (left_s, beta, moves) in [(4.0, 1.0, false), (6.0, 1.0, true), (4.0, 2.0, true)] {
        let costs = Costs { migration_s: 10.0, ..Costs::default() };
        let options = Options { costs, compass_beta: beta, compass_tau: 9, ..Options::default() };
        let mut scheduler = moving(hosts(&[8; 2]), &options);
        step(&mut scheduler, 0.0, &jobs(&[(4, left_s + 1.0), (4, 1.0), (4, 500.0), (4, 1.0)]));
        let effects = step(&mut scheduler, 1.0, &[finish(1), finish(3), submit(4, 8, 9.0)]);
        let moved = [preempt(2), start(2, &[(0, 0xf0)]), start(4, &[(1, 0xff)])];
        assert_eq!(effects, if moves { &moved[..] } else { &[] });
    }
}

#[test]
fn jobs_that_are_nearly_done_or_of_higher_priority_stay() {
    let two_hosts = |left_s: f64, priority: i32| {
        let costs = Costs { migration_s: 10.0, ..Costs::default() };
        let options = Options { costs, compass_tau: 9, ..Options::default() };
        let mut scheduler = moving(hosts(&[8; 2]), &options);
        let mut events = jobs(&[(4, 500.0), (4, 500.0), (2, left_s), (4, 500.0)]);
        if let Event::Submit { ask, .. } = &mut events[2] {
            *ask = Ask { priority, ..*ask };
        }
        step(&mut scheduler, 0.0, &events);
        // Held: 4 + 4, 2 + 4; then 4, 2.
        let effects = step(&mut scheduler, 1.0, &[finish(0), finish(3), submit(4, 8, 99.0)]);
        effects.contains(&preempt(2))
    };
    assert!(two_hosts(400.0, 0));
    assert!(!two_hosts(400.0, 1));
    assert!(!two_hosts(5.0, 0));
}

#[test]
fn hosts_that_need_not_be_partial_are_made_fewer_while_jobs_wait() {
    for (tau, moved) in [(0, 2), (1, 2), (2, 1), (3, 1), (4, 0)] {
        let options = Options { compass_tau: tau, ..Options::default() };
        let mut scheduler = moving(hosts(&[8; 4]), &options);
        step(&mut scheduler, 0.0, &jobs(&[(4, 90.0); 8]));
        // Half of each host is idle, and two could be empty; a job for all of the cluster waits.
        let ends: Vec<Event> = [0, 2, 4, 6].map(finish).into();
        let effects = step(&mut scheduler, 1.0, &[&ends[..], &[submit(8, 32, 9.0)]].concat());
        let preempted = effects.iter().filter(|effect| matches!(effect, Effect::Preempt { .. }));
        assert_eq!(preempted.count(), moved, "{tau}: {effects:?}");
    }
}

#[test]
fn a_shared_gpu_stays_and_counts_as_one() {
    let mut scheduler = moving(hosts(&[8; 2]), &Options::default());
    let share = Ask {
        shape: Shape::of_share(500),
        estimate_s: 90.0,
        priority: 0,
        tenant: 0,
        comm_share: 0.0,
    };
    let shared = [Event::Submit { job: JobId(0), ask: share }, submit(1, 8, 90.0)];
    step(&mut scheduler, 0.0, &shared);
    // The pool that the share makes takes the single GPU, and no slot.
    let effects = step(&mut scheduler, 1.0, &[submit(2, 1, 90.0)]);
    assert_eq!(effects, [start(2, &[(0, 0x2)])]);
    // Held: the two single ones, and four. For eight the four go beside the single ones: no move can take the share away.
    step(&mut scheduler, 2.0, &[finish(1), submit(3, 4, 90.0)]);
    let effects = step(&mut scheduler, 3.0, &[submit(4, 8, 9.0)]);
    assert_eq!(effects, [preempt(3), start(3, &[(0, 0x3c)]), start(4, &[(1, 0xff)])]);
}

#[test]
fn the_printed_form_waits_for_a_slot_and_compacts_after_every_event() {
    let mut scheduler = fifo(hosts(&[8; 2]), CompassPrinted::default());
    // Six single GPUs make a pool, five have a slot on the other host.
    let mut events = jobs(&[(1, 90.0); 6]);
    events.push(submit(6, 5, 90.0));
    let effects = step(&mut scheduler, 0.0, &events);
    // Three of the single ones are moved beside the five.
    let preempted = effects.iter().filter(|effect| matches!(effect, Effect::Preempt { .. }));
    assert_eq!(preempted.count(), 0, "what this plan has started is started where it ends");
    let on_second = |effect: &&Effect| match effect {
        Effect::Start { grant: Grant::Gpus(placement), .. } => {
            placement.shares().iter().any(|(host, _)| *host == HostId(1))
        }
        _ => false,
    };
    assert_eq!(effects.iter().filter(on_second).count(), 4, "{effects:?}");
    // Five GPUs are idle, none of them in a slot.
    assert_eq!(step(&mut scheduler, 1.0, &[submit(7, 4, 9.0)]), []);
    // When the pool is empty the four have a host of their own.
    let effects = step(&mut scheduler, 2.0, &(0..6).map(finish).collect::<Vec<_>>());
    assert_eq!(effects, [start(7, &[(0, 0xf)])]);
}

#[test]
fn the_printed_form_starts_what_has_no_slot_when_it_is_alone() {
    let cluster = ClusterBuilder::new("broken").host_type("t", "", 8).nvswitch().hosts("h", 0, 2);
    let mut cluster = cluster.build();
    cluster.hosts[0].unhealthy_gpus = GpuMask::single(7);
    cluster.hosts[1].unhealthy_gpus = GpuMask::single(0);
    let mut scheduler = fifo(Hosts::new(&cluster).unwrap(), CompassPrinted::default());
    assert_eq!(step(&mut scheduler, 0.0, &[submit(0, 4, 9.0)]), [start(0, &[(0, 0xf)])]);
    assert_eq!(step(&mut scheduler, 1.0, &[submit(1, 5, 9.0)]), []);
    assert_eq!(step(&mut scheduler, 2.0, &[finish(0)]), [start(1, &[(0, 0x1f)])]);
}

#[test]
fn moves_take_fragmentation_away_and_the_lazy_form_moves_the_least() {
    let jobs: Vec<(u32, u32, u32)> = (0..40)
        .flat_map(|at| [(10 * at, 400, 4), (10 * at, 15, 4), (10 * at + 5, 30, 8)])
        .collect();
    let hosts = Hosts::new(&cluster(&[8; 6])).unwrap();
    let workload = Workload::new(&trace(&jobs), &hosts);
    let run = |policy: &str| {
        let outcome = crate::play(&hosts, &workload, policy, 1).unwrap();
        let migrations = bandpilot_sim::Metrics::new(&workload, &outcome).migrations;
        (outcome.totals.head_blocked_s, migrations)
    };
    let (stays_s, none) = run("fifo/compass-place-only");
    let (lazy_s, lazy) = run("fifo/compass");
    let (_, eager) = run("fifo/compass-printed");
    assert_eq!(none, 0);
    assert!(lazy_s < stays_s && lazy > 0, "{stays_s} {lazy_s}");
    assert!(lazy <= eager, "{lazy} {eager}");
}
