//! What jobs meet: bandwidths and neighbours, the price of being stopped, faults.

use std::fmt::Write as _;

use bandpilot_core::{Cluster, ClusterBuilder, GpuMask, HostId, Placement};
use bandpilot_model::{BandwidthModel, Predictor, host_share};
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::{
    Broken, Costs, FaultRates, Hosts, JobId, Metrics, Network, Options, Outcome, Policy, Setting,
    Workload, simulate,
};
use proptest::prelude::*;

use crate::{finishes, policies};

/// Hosts of 8 H100.
fn h100(hosts: usize) -> Cluster {
    let builder = ClusterBuilder::new("h100").host_type("h", "H100", 8).nvswitch().rails(400.0);
    builder.hosts("h", 1, hosts).build()
}

fn read(text: &str) -> Trace {
    let read = trace_file::read(text);
    assert_eq!(read.diagnostics, []);
    read.value
}

fn play(
    cluster: &Cluster,
    trace: &Trace,
    policy: &str,
    options: &Options,
    seed: u64,
) -> Result<(Outcome, Metrics), Broken> {
    let hosts = Hosts::new(cluster).unwrap();
    let workload = Workload::new(trace, &hosts);
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, cluster, 2 << 30);
    let setting =
        Setting::new(&hosts, &workload, options, seed).with_network(Network::new(&predictor));
    let outcome = simulate(&setting, Policy::parse(policy).unwrap())?;
    let metrics = Metrics::new(&workload, &outcome);
    Ok((outcome, metrics))
}

/// A run that puts the first job on two hosts.
fn spread(cluster: &Cluster, trace: &Trace) -> (Outcome, Metrics) {
    let run = |seed| play(cluster, trace, "fifo/random", &Options::default(), seed).unwrap();
    (0..64).map(run).find(|(outcome, _)| outcome.job(JobId(0)).hosts == 2).unwrap()
}

#[test]
fn bandwidth_decides_how_fast_a_job_is() {
    let cluster = h100(2);
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, &cluster, 2 << 30);
    let set = |a: u64, b: u64| Placement::new([(HostId(0), GpuMask(a)), (HostId(1), GpuMask(b))]);
    // Two jobs of four each leave four on each host for one of eight, which would be best on one host.
    let trace = read(
        "submit_s,duration_s,gpus,gpus_per_instance,comm_share\n0,1000,8,4,0.5\n0,1000,8,4,0.5\n",
    );
    let (outcome, metrics) = spread(&cluster, &trace);
    let reference = predictor.isolated(&set(255, 0));
    let alone = predictor.isolated(&set(15, 15));
    let (first, second) = (set(15, 15), set(240, 240));
    let share = host_share(&predictor, HostId(0), &[(&first, alone), (&second, alone)]);
    assert!(share < 1.0);
    let rate = |bandwidth: f64| 1.0 / (0.5 + 0.5 * reference / bandwidth);
    let expected = 1000.0 / rate(alone * share);
    for job in outcome.jobs() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
        close(job.finish_s.unwrap(), expected);
        close(job.busbw_gbytes_per_s.unwrap(), alone * share);
        close(job.worked_s, expected);
        close(job.contention_s, expected * (1.0 - rate(alone * share) / rate(alone)));
    }
    let slowdown = rate(alone) / rate(alone * share);
    assert!((metrics.contention_slowdown.unwrap() - slowdown).abs() < 1e-6);
    assert_eq!(metrics.busbw_jobs, 2);
}

#[test]
fn a_neighbour_slows_while_it_runs_and_no_longer() {
    let cluster = h100(2);
    let head = "submit_s,duration_s,gpus,gpus_per_instance,comm_share\n";
    let pair = read(&format!("{head}0,1000,8,4,0.4\n0,100,8,4,0.4\n"));
    let alone = read(&format!("{head}0,1000,8,4,0.4\n"));
    let quiet = read(&format!("{head}0,1000,8,4,0.4\n0,100,8,4,0\n"));
    let [pair, alone, quiet] = [pair, alone, quiet].map(|trace| {
        let (outcome, metrics) = spread(&cluster, &trace);
        (outcome.job(JobId(0)), metrics)
    });
    // What the neighbour does not ask for costs nothing.
    assert_eq!(alone.0, quiet.0);
    assert_eq!((alone.0.contention_s, alone.1.contention_slowdown), (0.0, Some(1.0)));
    let lost_s = pair.0.finish_s.unwrap() - alone.0.finish_s.unwrap();
    assert!(lost_s > 0.0 && (lost_s - pair.0.contention_s).abs() < 1e-4, "{lost_s}");
    assert!(pair.0.busbw_gbytes_per_s < alone.0.busbw_gbytes_per_s);
}

#[test]
fn stopping_a_job_costs_time() {
    let cluster = h100(3);
    let costs = Costs { restart_s: 7.0, migration_s: 3.0, checkpoint_s: 0.0 };
    let options = Options { costs, ..Options::default() };
    // The short job takes a whole host: one of those there moves, the other waits for five seconds.
    let jobs = "0,50,8\n0,100,4\n1,200,4\n2,60,4\n3,5,8\n";
    let trace = read(&format!("submit_s,duration_s,gpus\n{jobs}"));
    let (outcome, metrics) = play(&cluster, &trace, "srtf/first-fit", &options, 1).unwrap();
    assert_eq!((metrics.preemptions, metrics.migrations), (1, 1));
    let [moved, stopped] = [1, 2].map(|job| outcome.job(JobId(job)));
    assert_eq!((moved.finish_s, moved.held_s, moved.worked_s), (Some(103.0), 103.0, 100.0));
    assert_eq!((stopped.finish_s, stopped.held_s, stopped.worked_s), (Some(213.0), 207.0, 200.0));
    let held: f64 = outcome.totals.work_gpu_s;
    assert_eq!(held, 50.0 * 8.0 + 360.0 * 4.0 + 5.0 * 8.0);
}

fn faulty(host_mtbf_s: f64, link_mtbf_s: f64) -> Options {
    let faults = FaultRates { host_mtbf_s, host_mttr_s: 50.0, link_mtbf_s, link_mttr_s: 100.0 };
    let costs = Costs { restart_s: 5.0, migration_s: 2.0, checkpoint_s: 20.0 };
    Options { costs, faults, ..Options::default() }
}

fn thirty_jobs(comm_share: f64) -> Trace {
    let mut text = "submit_s,duration_s,gpus,comm_share\n".to_owned();
    for job in 0..30 {
        let gpus = [1, 2, 4, 8, 16, 3, 12][job % 7];
        writeln!(text, "{},{},{gpus},{comm_share}", job * 11, 30 + job * 29 % 170).unwrap();
    }
    read(&text)
}

#[test]
fn hosts_fail_and_come_back() {
    let cluster = h100(4);
    let trace = thirty_jobs(0.0);
    let (calm, _) = play(&cluster, &trace, "fifo/best-fit", &Options::default(), 1).unwrap();
    let options = faulty(400.0, f64::INFINITY);
    let (outcome, metrics) = play(&cluster, &trace, "fifo/best-fit", &options, 1).unwrap();
    assert!(metrics.faults > 0 && metrics.lost_gpu_s > 0.0, "{metrics:?}");
    assert_eq!((metrics.jobs, metrics.preemptions, metrics.migrations), (30, 0, 0));
    assert!(metrics.makespan_s > 0.0 && finishes(&outcome) != finishes(&calm));
    for (job, result) in outcome.jobs().enumerate() {
        // Each fault costs at most what was done since the last checkpoint and the restart.
        let work_s = trace.jobs[job].duration_s;
        let most_s = work_s + f64::from(result.faults) * 20.0;
        assert!(result.worked_s >= work_s - 1e-9 && result.worked_s <= most_s, "{result:?}");
        assert_eq!(result.faults > 0, result.held_s > result.worked_s, "{result:?}");
    }
    // Another seed, other faults; the same seed, the same run, for every policy.
    let (other, _) = play(&cluster, &trace, "fifo/best-fit", &options, 2).unwrap();
    assert_ne!(other, outcome);
    let (again, _) = play(&cluster, &trace, "fifo/best-fit", &options, 1).unwrap();
    assert_eq!(again, outcome);
}

#[test]
fn nics_fail_and_slow_what_spans_hosts() {
    let cluster = h100(4);
    let run = |comm_share, link_mtbf_s| {
        let options = faulty(f64::INFINITY, link_mtbf_s);
        play(&cluster, &thirty_jobs(comm_share), "fifo/best-fit", &options, 1).unwrap()
    };
    let ((calm, calm_metrics), (slow, slow_metrics)) = (run(0.5, f64::INFINITY), run(0.5, 300.0));
    assert!(slow_metrics.avg_busbw_gbytes_per_s < calm_metrics.avg_busbw_gbytes_per_s);
    assert!(slow_metrics.avg_jct_s > calm_metrics.avg_jct_s);
    // A NIC that fails is no neighbour.
    assert_eq!(slow_metrics.contention_slowdown, Some(1.0));
    for (slow, calm) in slow.jobs().zip(calm.jobs()).filter(|(_, calm)| calm.hosts == 1) {
        assert!((slow.worked_s - calm.worked_s).abs() < 1e-9);
    }
    let (still, _) = run(0.0, 300.0);
    assert_eq!(finishes(&still), finishes(&run(0.0, f64::INFINITY).0));
}

#[test]
fn faults_without_end_are_found_out() {
    let trace = read("submit_s,duration_s,gpus\n0,1000000,16\n");
    let costs = Costs { checkpoint_s: 1e9, ..Costs::default() };
    let faults = FaultRates { host_mtbf_s: 10.0, host_mttr_s: 1.0, ..FaultRates::default() };
    let options = Options { costs, faults, ..Options::default() };
    let run = play(&h100(2), &trace, "fifo/best-fit", &options, 1);
    assert_eq!(run.unwrap_err(), Broken::NeverDone { jobs: 1 });
    // It may be that all hosts are never there at once.
    let trace = read("submit_s,duration_s,gpus\n0,10,8\n0,10,240\n");
    let faults = FaultRates { host_mtbf_s: 10.0, host_mttr_s: 30.0, ..FaultRates::default() };
    let options = Options { faults, ..Options::default() };
    let run = play(&h100(30), &trace, "fifo/best-fit", &options, 1);
    assert_eq!(run.unwrap_err(), Broken::NeverDone { jobs: 1 });
}

#[test]
fn a_trace_may_have_any_origin() {
    let cluster = h100(3);
    let shifted = |shift_s: u32| {
        let mut text = "submit_s,duration_s,gpus\n".to_owned();
        for job in 0..40_u32 {
            let (submit_s, gpus) = (shift_s + job * 13, [1, 8, 4, 20, 3][job as usize % 5]);
            writeln!(text, "{submit_s},{},{gpus}", 100 + job * 37 % 300).unwrap();
        }
        read(&text)
    };
    for policy in policies() {
        let ends = |shift_s: u32| -> Vec<i64> {
            let mut options = faulty(1_000.0, 700.0);
            options.round_s = 60.0;
            let (outcome, _) = play(&cluster, &shifted(shift_s), &policy, &options, 1).unwrap();
            let end = |end: Option<f64>| ((end.unwrap() - f64::from(shift_s)) * 1e3).round() as i64;
            outcome.jobs().map(|job| end(job.finish_s)).collect()
        };
        assert_eq!(ends(0), ends(1_000_000), "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The world checks conservation in each of these runs.
    #[test]
    fn every_policy_lives_through_faults(
        jobs in proptest::collection::vec((0..60_u32, 0..60_u32, 1..30_u32, 0..3_u32), 1..40),
        seed in any::<u64>(),
    ) {
        let cluster = h100(4);
        let mut text = "submit_s,duration_s,gpus,comm_share\n".to_owned();
        for (submit_s, duration_s, gpus, share) in &jobs {
            writeln!(text, "{submit_s},{duration_s},{gpus},{}", f64::from(*share) / 4.0).unwrap();
        }
        let trace = read(&text);
        for policy in policies() {
            let run = play(&cluster, &trace, &policy, &faulty(200.0, 150.0), seed);
            let (outcome, metrics) = run.unwrap_or_else(|broken| panic!("{policy}: {broken}"));
            prop_assert_eq!(metrics.jobs, jobs.len(), "{}", policy);
            for (job, result) in outcome.jobs().enumerate() {
                prop_assert!(result.worked_s + 1e-9 >= trace.jobs[job].duration_s, "{}", policy);
                prop_assert!(result.held_s + 1e-9 >= result.worked_s, "{}", policy);
                let stops = result.preemptions + result.migrations + result.faults;
                let idle_s = result.held_s - result.worked_s;
                prop_assert!(idle_s <= f64::from(stops) * 5.0 + 1e-6, "{} {:?}", policy, result);
            }
        }
    }

    /// Without communication bandwidths change nothing.
    #[test]
    fn no_share_of_communication_gives_the_counting_digits(
        jobs in proptest::collection::vec((0..60_u32, 0..30_u32, 1..30_u32), 1..40),
    ) {
        let cluster = h100(4);
        let trace = crate::trace(&jobs);
        for policy in policies() {
            let run = play(&cluster, &trace, &policy, &Options::default(), 1);
            let (outcome, metrics) = run.unwrap();
            prop_assert_eq!(metrics.contention_slowdown.unwrap_or(1.0), 1.0);
            let (order, rule) = policy.split_once('/').unwrap();
            for result in outcome.jobs() {
                prop_assert_eq!(result.held_s, result.worked_s);
            }
            if rule == "compact" {
                let counting = format!("{order}/counting");
                let (counted, _) =
                    play(&cluster, &trace, &counting, &Options::default(), 1).unwrap();
                prop_assert_eq!(finishes(&outcome), finishes(&counted), "{}", policy);
            }
        }
    }
}

#[test]
fn times_may_count_from_anywhere() {
    let cluster = h100(4);
    // Short jobs: little work, of which the rounding of times is much.
    let near =
        read("submit_s,duration_s,gpus,comm_share\n0,1.3,12,0.3\n0.1,1.7,16,0.3\n0.3,1.1,4,0.3\n");
    let mut far = near.clone();
    // Seconds since 1970, as accounts have them.
    far.jobs.iter_mut().for_each(|job| job.submit_s += 1.8e9);
    let run = |trace: &Trace| {
        let options = Options::default();
        play(&cluster, trace, "easy/bandpilot", &options, 1).unwrap().1
    };
    let (near, far) = (run(&near), run(&far));
    assert!((near.avg_jct_s - far.avg_jct_s).abs() < 1e-3, "{near:?} {far:?}");
}
