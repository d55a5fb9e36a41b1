//! Jobs that share a GPU.

use std::fmt::Write as _;

use bandpilot_core::{ClusterBuilder, HostId};
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::placements::{PlacementRule, Room};
use bandpilot_sim::policy::{ORDERS, PLACEMENTS};
use bandpilot_sim::speed::Steady;
use bandpilot_sim::{
    Ask, Broken, Effect, Event, FaultRates, Grant, Hosts, JobId, Options, Policy, Scheduler,
    Setting, Shape, Workload, simulate, simulate_with,
};
use proptest::prelude::*;

use crate::naive::naive;
use crate::{finishes, hosts, run, scheduler};

/// A trace of (submit, duration, thousandths): less than 1000 is a share, more are whole GPUs.
pub fn trace(jobs: &[(u32, u32, u32)]) -> Trace {
    let mut text = "submit_s,duration_s,gpus,gpu_milli\n".to_owned();
    for (submit_s, duration_s, milli) in jobs {
        let (gpus, milli) = if *milli < 1000 { (1, *milli) } else { (milli / 1000, 1000) };
        writeln!(text, "{submit_s},{duration_s},{gpus},{milli}").unwrap();
    }
    let read = trace_file::read(&text);
    assert_eq!(read.diagnostics, []);
    read.value
}

/// Starts one job after the other on hosts of these sizes; where each share is.
fn places(gpus: &[usize], rule: &str, shares: &[u16]) -> Vec<(u32, usize)> {
    let mut scheduler = scheduler(&hosts(gpus), &format!("fifo/{rule}"));
    let mut effects = Vec::new();
    for (job, milli) in shares.iter().enumerate() {
        let shape = if *milli == 1000 { Shape::of_total(1, 8) } else { Shape::of_share(*milli) };
        let ask = Ask { shape, estimate_s: 1.0, priority: 0, tenant: 0, comm_share: 0.0 };
        let submit = Event::Submit { job: JobId(job as u32), ask };
        scheduler.step(job as f64, &[submit], &mut effects).unwrap();
    }
    let place = |effect: &Effect| match effect {
        Effect::Start { grant: Grant::Share { host, gpu, .. }, .. } => (host.0, *gpu),
        Effect::Start { grant: Grant::Gpus(set), .. } => {
            (set.shares()[0].0.0, set.shares()[0].1.iter().next().unwrap())
        }
        other => unreachable!("{other:?}"),
    };
    effects.iter().map(place).collect()
}

#[test]
fn shares_go_to_shared_gpus_first() {
    // 600 and 700 cannot be together; then 300 fits on both: tightly behind 700, first behind 600.
    let shares = [600, 700, 300, 1000];
    assert_eq!(places(&[2, 2], "best-fit", &shares), [(0, 0), (0, 1), (0, 1), (1, 0)]);
    assert_eq!(places(&[2, 2], "packed", &shares), [(0, 0), (0, 1), (0, 1), (1, 0)]);
    assert_eq!(places(&[2, 2], "first-fit", &shares), [(0, 0), (0, 1), (0, 0), (1, 0)]);
    let random = places(&[2, 2], "random", &[600, 700, 100, 100, 100]);
    assert!(random[2..].iter().all(|at| random[..2].contains(at)), "{random:?}");
    // A new GPU is opened on the host with the fewest idle ones.
    assert_eq!(places(&[4, 2], "best-fit", &[500, 600]), [(1, 0), (1, 1)]);
    assert_eq!(places(&[4, 2], "first-fit", &[500, 600]), [(0, 0), (0, 1)]);
}

#[test]
fn a_shared_gpu_is_not_idle_for_whole_jobs() {
    let hosts = hosts(&[2]);
    // One share on one GPU leaves a single whole one; the second whole job waits for the end of the share.
    let jobs = trace(&[(0, 10, 100), (1, 5, 1000), (2, 5, 2000), (3, 1, 900)]);
    for rule in ["best-fit", "first-fit", "compact", "random", "fgd"] {
        let (outcome, metrics) = run(&hosts, &jobs, &format!("fifo/{rule}"));
        let ends = [Some(10.0), Some(6.0), Some(15.0), Some(16.0)];
        assert_eq!(finishes(&outcome), ends, "{rule}");
        assert_eq!(outcome.totals.work_gpu_s, 1.0 + 5.0 + 10.0 + 0.9);
        assert_eq!(metrics.head_blocked_s, 0.0, "{rule}: 1900 thousandths are less than two GPUs");
        let (skipped, _) = run(&hosts, &jobs, &format!("fifo-skip/{rule}"));
        assert_eq!(finishes(&skipped)[3], Some(4.0), "{rule}: beside the other share");
    }
    let blocked = trace(&[(0, 10, 100), (0, 10, 950), (1, 5, 1000)]);
    let (_, metrics) = run(&crate::hosts(&[2]), &blocked, "fifo/best-fit");
    assert_eq!(metrics.head_blocked_s, 0.0);
    let scattered = trace(&[(0, 10, 300), (0, 10, 750), (1, 5, 900)]);
    let (_, metrics) = run(&crate::hosts(&[2]), &scattered, "fifo/best-fit");
    assert_eq!(metrics.head_blocked_s, 9.0, "950 thousandths are free, no GPU has 900");
}

#[test]
fn parts_of_several_gpus_are_whole_ones() {
    let text = "submit_s,duration_s,gpus,gpu_milli\n0,10,4,500\n0,10,1,500\n";
    let hosts = hosts(&[4]);
    let workload = Workload::new(&trace_file::read(text).value, &hosts);
    assert_eq!(workload.left_out.shared_gpus, 1);
    assert_eq!(workload.shape(JobId(0)).total_milli(), 4000);
    assert_eq!(workload.shape(JobId(1)).total_milli(), 500);
}

/// Puts every share on the first GPU, whatever is free there.
struct Overbooks;

impl PlacementRule for Overbooks {
    fn fits(&self, _shape: &Shape, _room: &Room<'_>) -> bool {
        true
    }

    fn place(&mut self, _job: JobId, _shape: &Shape, _room: &mut Room<'_>) -> Option<Grant> {
        None
    }

    fn place_share(&mut self, shape: &Shape, _room: &mut Room<'_>) -> Option<Grant> {
        Some(Grant::Share { host: HostId(0), gpu: 0, milli: shape.milli })
    }
}

#[test]
fn no_gpu_is_given_away_beyond_the_whole() {
    let (hosts, options) = (hosts(&[2]), Options::default());
    let play = |jobs: &[(u32, u32, u32)]| {
        let workload = Workload::new(&trace(jobs), &hosts);
        let setting = Setting::new(&hosts, &workload, &options, 1);
        let order = Policy::parse("fifo/best-fit").unwrap().make_order(&setting);
        let scheduler = Scheduler::new(hosts.clone(), order, Box::new(Overbooks));
        simulate_with(&setting, scheduler, &mut Steady).map(|outcome| outcome.totals.work_gpu_s)
    };
    assert_eq!(play(&[(0, 10, 400), (0, 10, 600)]), Ok(10.0));
    let twice = [(0, 10, 400), (0, 10, 601)];
    assert_eq!(play(&twice), Err(Broken::Overfull { job: 1, milli: 1001 }));
}

#[test]
fn models_are_heeded() {
    let text = "submit_s,duration_s,gpus,gpu_milli,gpu_type\n0,10,1,500,T4\n0,10,1,500,A100|T4\n0,10,1,500,V100\n";
    let builder = ClusterBuilder::new("c").host_type("a", "A100", 1).host("a1");
    let hosts = Hosts::new(&builder.host_type("t", "T4", 1).host("t1").build()).unwrap();
    for rule in ["best-fit", "first-fit", "random", "fgd"] {
        let (outcome, metrics) =
            run(&hosts, &trace_file::read(text).value, &format!("fifo/{rule}"));
        assert_eq!((metrics.jobs, metrics.refused), (2, 1), "{rule}");
        assert_eq!(outcome.job(JobId(1)).finish_s, Some(10.0));
    }
}

fn milli() -> impl Strategy<Value = u32> {
    prop_oneof![1..1000_u32, Just(500), (1..=9_u32).prop_map(|gpus| 1000 * gpus)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Counting is the counting model in thousandths.
    #[test]
    fn counting_counts_thousandths(
        mut jobs in proptest::collection::vec((0..60_u32, 0..30_u32, milli()), 1..60),
        gpus in 9..20_u32,
    ) {
        jobs.sort_by_key(|job| job.0);
        let (hosts, trace) = (hosts(&[gpus as usize]), trace(&jobs));
        for order in ["fifo", "fifo-skip", "sjf-strict", "sjf-skip", "srtf", "easy"] {
            let (finish, preemptions) = naive(&jobs, i64::from(1000 * gpus), order);
            let expected: Vec<Option<f64>> = finish.iter().map(|end| Some(*end as f64)).collect();
            let (outcome, metrics) = run(&hosts, &trace, &format!("{order}/counting"));
            prop_assert_eq!(finishes(&outcome), expected, "{}", order);
            prop_assert_eq!(metrics.preemptions, preemptions as u64);
        }
    }

    /// The world's ledger lets no GPU have more than 1000 thousandths, and gives no result otherwise.
    #[test]
    fn every_run_conserves(
        jobs in proptest::collection::vec((0..60_u32, 0..30_u32, milli()), 1..60),
        gpus in proptest::collection::vec(1..=5_usize, 1..5),
        mtbf_s in prop_oneof![Just(f64::INFINITY), 50.0..500.0],
    ) {
        let (hosts, trace) = (hosts(&gpus), trace(&jobs));
        let workload = Workload::new(&trace, &hosts);
        let faults = FaultRates { host_mtbf_s: mtbf_s, host_mttr_s: 5.0, ..FaultRates::default() };
        let options = Options { faults, ..Options::default() };
        let setting = Setting::new(&hosts, &workload, &options, 3);
        for order in &ORDERS {
            for placement in &PLACEMENTS {
                let policy = Policy { order, placement };
                let outcome = match simulate(&setting, policy) {
                    Err(Broken::NoNetwork(_)) => continue,
                    outcome => outcome.unwrap(),
                };
                let size = |job| workload.shape(JobId(job)).size_gpus();
                let held: f64 = (0..).zip(outcome.jobs()).map(|(id, job)| job.held_s * size(id)).sum();
                let work = outcome.totals.work_gpu_s;
                prop_assert!((held - work).abs() <= 1e-9 * work.max(1.0), "{}", policy);
                for (id, job) in (0..).zip(outcome.jobs()) {
                    let shape = workload.shape(JobId(id));
                    let fits = shape.shares() || placement.name == "counting" && shape.gpus() <= hosts.gpus();
                    prop_assert!(job.finish_s.is_some() || !fits, "{}", policy);
                }
            }
        }
    }
}
