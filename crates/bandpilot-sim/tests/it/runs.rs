//! Conservation in random runs, speeds that change, and jobs that cannot run.

use bandpilot_core::{ClusterBuilder, GpuMask};
use bandpilot_readers::trace_file;
use bandpilot_sim::speed::{Pace, Speed};
use bandpilot_sim::{Grant, Hosts, JobId, Metrics, Outcome, Policy, Workload, simulate_with};
use proptest::prelude::*;

use crate::{cluster, hosts, play, policies, run, trace, with_setting};

/// Rate 1 / (number of running jobs): every start and finish changes all others.
#[derive(Default)]
pub(crate) struct Shared {
    running: Vec<(JobId, f64)>,
}

impl Speed for Shared {
    fn started(&mut self, job: JobId, _grant: &Grant, _workload: &Workload) {
        self.running.push((job, 1.0));
    }

    fn stopped(&mut self, job: JobId, _grant: &Grant) {
        self.running.retain(|(other, _)| *other != job);
    }

    fn changes(&mut self, changes: &mut Vec<(JobId, Pace)>) {
        let now = 1.0 / self.running.len().max(1) as f64;
        for (job, rate) in &mut self.running {
            if *rate != now {
                *rate = now;
                changes.push((*job, Pace { rate: now, ..Pace::FULL }));
            }
        }
    }
}

fn shared(hosts: &Hosts, workload: &Workload, policy: &str) -> Outcome {
    with_setting(hosts, workload, 1, |setting| {
        let scheduler = Policy::parse(policy).unwrap().scheduler(setting).unwrap();
        simulate_with(setting, scheduler, &mut Shared::default()).unwrap()
    })
}

#[test]
fn rates_change_when_neighbours_start_and_finish() {
    let hosts = hosts(&[8]);
    // Alone until 4, by halves until the second is done at 12, alone again.
    let workload = Workload::new(&trace(&[(0, 10, 4), (4, 4, 4)]), &hosts);
    for policy in ["fifo/counting", "easy/best-fit", "srtf/packed"] {
        let outcome = shared(&hosts, &workload, policy);
        let ends: Vec<Option<f64>> = outcome.jobs().map(|job| job.finish_s).collect();
        assert_eq!(ends, [Some(14.0), Some(12.0)], "{policy}");
        assert_eq!(outcome.job(JobId(0)).held_s, 14.0);
        assert_eq!(outcome.totals.work_gpu_s, 56.0);
    }
}

#[test]
fn jobs_that_can_never_run_are_refused() {
    let hosts = hosts(&[8, 8]);
    let trace = trace(&[(0, 10, 17), (1, 10, 16), (2, 10, 100)]);
    for policy in policies() {
        let (outcome, metrics) = run(&hosts, &trace, &policy);
        assert_eq!((metrics.jobs, metrics.refused, metrics.avg_jct_s), (1, 2, 10.0), "{policy}");
        assert_eq!(outcome.job(JobId(0)).first_start_s, None);
    }
    let (_, metrics) = run(&hosts, &trace_file::Trace::default(), "srtf/random");
    assert_eq!((metrics.jobs, metrics.avg_jct_s, metrics.busy_while_queued), (0, 0.0, None));
    // Without hosts nothing can run, and nothing goes wrong.
    let none = Hosts::new(&cluster(&[])).unwrap();
    for policy in policies() {
        assert_eq!(run(&none, &trace, &policy).1.refused, 3, "{policy}");
    }
}

#[test]
fn named_instances_stay_whole() {
    let hosts = hosts(&[8, 8]);
    let text = "submit_s,duration_s,gpus,gpus_per_instance\n0,10,10,5\n0,10,6,3\n0,10,12,12\n";
    let trace = trace_file::read(text).value;
    // Two of five leave three on each host; an instance of twelve fits nowhere but in a total.
    for (policy, jobs) in [("fifo/best-fit", 2), ("fifo/compact", 2), ("fifo/counting", 3)] {
        let (outcome, metrics) = run(&hosts, &trace, policy);
        assert_eq!(metrics.jobs, jobs, "{policy}");
        assert_eq!(outcome.job(JobId(1)).first_start_s, Some(0.0), "{policy}");
    }
}

#[test]
fn gpu_models_are_heeded_where_the_cluster_names_them() {
    let text =
        "submit_s,duration_s,gpus,gpu_type\n0,10,8,v100\n0,10,8,V100|A100\n0,10,8,T4\n0,10,8,\n";
    let trace = trace_file::read(text).value;
    let mixed = ClusterBuilder::new("mixed")
        .host_type("a", "A100", 8)
        .host("a1")
        .host_type("v", "V100", 8)
        .host("v1")
        .build();
    for rule in ["first-fit", "best-fit", "packed", "compact", "random"] {
        let (outcome, metrics) = run(&Hosts::new(&mixed).unwrap(), &trace, &format!("fifo/{rule}"));
        assert_eq!((metrics.jobs, metrics.refused), (3, 1), "{rule}");
        assert_eq!(outcome.job(JobId(1)).finish_s, Some(10.0), "{rule}");
    }
    let unnamed = hosts(&[8, 8]);
    assert_eq!(Workload::new(&trace, &unnamed).left_out.model_unknown, 3);
    assert_eq!(run(&unnamed, &trace, "fifo/best-fit").1.jobs, 4);
}

#[test]
fn unhealthy_gpus_are_never_used() {
    let mut cluster = cluster(&[8, 8]);
    cluster.hosts[0].unhealthy_gpus = GpuMask(0b111);
    let hosts = Hosts::new(&cluster).unwrap();
    assert_eq!(hosts.gpus(), 13);
    let (_, metrics) =
        run(&hosts, &trace(&[(0, 5, 8), (0, 5, 5), (0, 5, 13), (0, 5, 14)]), "fifo/best-fit");
    assert_eq!((metrics.jobs, metrics.refused, metrics.makespan_s), (3, 1, 10.0));
}

#[test]
fn a_preempted_job_goes_on_elsewhere_if_it_can() {
    // The short job takes the host of the last one, which finds room elsewhere, or has to wait.
    let jobs = trace(&[(0, 100, 2), (0, 200, 4), (10, 5, 4)]);
    for (gpus, expected, end_s) in [([4, 4, 4], (0, 0), 200.0), ([4, 4, 2], (1, 0), 205.0)] {
        let (outcome, metrics) = run(&hosts(&gpus), &jobs, "srtf/first-fit");
        assert_eq!(outcome.job(JobId(2)).first_start_s, Some(10.0));
        assert_eq!((metrics.preemptions, metrics.migrations), expected);
        assert_eq!(outcome.job(JobId(0)).finish_s, Some(100.0));
        assert_eq!(outcome.job(JobId(1)).finish_s, Some(end_s));
    }
    // Two of two GPUs each make room for one of four: the one with less work left finds room elsewhere.
    let jobs = trace(&[(0, 50, 4), (0, 100, 2), (1, 200, 2), (2, 60, 2), (3, 5, 4)]);
    let (outcome, metrics) = run(&hosts(&[4, 4, 4]), &jobs, "srtf/first-fit");
    assert_eq!(outcome.job(JobId(4)).first_start_s, Some(3.0));
    assert_eq!((metrics.preemptions, metrics.migrations), (1, 1));
    assert_eq!((outcome.job(JobId(1)).migrations, outcome.job(JobId(2)).preemptions), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The world checks conservation itself and gives no result if it is broken.
    #[test]
    fn every_run_conserves(
        jobs in proptest::collection::vec((0..60_u32, 0..30_u32, 1..40_u32), 1..60),
        gpus in proptest::collection::vec(1..=9_usize, 1..6),
    ) {
        let (hosts, trace) = (hosts(&gpus), trace(&jobs));
        let workload = Workload::new(&trace, &hosts);
        for policy in policies() {
            let (outcome, metrics) = run(&hosts, &trace, &policy);
            prop_assert_eq!(metrics.jobs + metrics.refused, jobs.len());
            let gpus = |job| workload.shape(JobId(job)).gpus() as f64;
            let held: f64 = (0..).zip(outcome.jobs()).map(|(id, job)| job.held_s * gpus(id)).sum();
            prop_assert_eq!(held, outcome.totals.work_gpu_s, "{}", policy);
            prop_assert!(metrics.busy_while_queued.unwrap_or(0.0) <= 1.0);
            prop_assert!(metrics.avg_wait_s >= 0.0 && metrics.head_blocked_s <= metrics.queued_s);
            let slowed = shared(&hosts, &workload, &policy);
            prop_assert_eq!(Metrics::new(&workload, &slowed).jobs, metrics.jobs);
        }
    }

    #[test]
    fn the_seed_decides_and_nothing_else(
        jobs in proptest::collection::vec((0..60_u32, 0..30_u32, 1..12_u32), 1..60),
        seed in any::<u64>(),
    ) {
        let hosts = hosts(&[4, 4, 4]);
        let workload = Workload::new(&trace(&jobs), &hosts);
        for order in ["fifo-skip", "srtf", "easy"] {
            let policy = format!("{order}/random");
            let once = play(&hosts, &workload, &policy, seed);
            prop_assert_eq!(once, play(&hosts, &workload, &policy, seed));
        }
    }
}

// A million jobs must fit into little memory.
const _: () = assert!(Metrics::BYTES_PER_JOB <= 300);
