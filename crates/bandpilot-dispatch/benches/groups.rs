//! Time of a decision for jobs with groups: percentiles over many random states, predictors and flat view included.
//!
//! `cargo bench -p bandpilot-dispatch --bench groups` prints a table. Times are processor time of the thread, so that a
//! loaded machine does not show.

use bandpilot_core::{
    Cluster, ClusterBuilder, ClusterState, Collective, Demand, GpuMask, Placement, Request,
    RunningJob,
};
use bandpilot_dispatch::parallel::{Given, Models};
use bandpilot_dispatch::{AnswerOptions, Parallel, dispatch_parallel};
use bandpilot_model::{BandwidthModel, Traffic};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use rustix::time::{ClockId, clock_gettime};

const STATES: u64 = 1_000;

fn cluster(hosts: usize) -> Cluster {
    ClusterBuilder::new("bench")
        .host_type("h100", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, hosts)
        .build()
}

/// Holes on some hosts; with `jobs`, others run jobs across hosts that leave GPUs free.
fn state(cluster: &Cluster, jobs: bool, rng: &mut Pcg64) -> ClusterState {
    let mut state = ClusterState::idle(cluster);
    for free in &mut state.free {
        if rng.random_bool(0.4) {
            *free = GpuMask(free.0 & (rng.random::<u64>() | rng.random::<u64>()));
        }
    }
    for number in 0..if jobs { cluster.hosts.len() / 6 } else { 0 } {
        let mut shares = Vec::new();
        for host in cluster.host_ids() {
            let free = &mut state.free[host.index()];
            if rng.random_bool(3.0 / cluster.hosts.len() as f64) {
                let mask = free.lowest(rng.random_range(1..=4));
                *free = free.without(mask);
                shares.push((host, mask));
            }
        }
        let demand = Demand::Fraction(rng.random_range(0.2..1.0));
        let placement = Placement::new(shares);
        if placement.gpus() > 0 {
            state.jobs.push(RunningJob::new(format!("job{number}"), placement, demand));
        }
    }
    state
}

fn job(tensor: usize, pipeline: usize, data: usize) -> Parallel {
    Parallel {
        tensor,
        pipeline,
        data,
        tensor_traffic: Traffic { messages: 64.0, bytes: 128 << 20 },
        pipeline_traffic: Traffic { messages: 16.0, bytes: 64 << 20 },
        data_traffic: Traffic { messages: 1.0, bytes: 2 << 30 },
    }
}

fn thread_us() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Times in us, how many were proven, and the greatest gap.
fn measure(hosts: usize, jobs: bool, parallel: &Parallel) -> (Vec<f64>, usize, f64) {
    let cluster = cluster(hosts);
    let model = BandwidthModel::closed_form();
    let send_recv = model.for_collective(Collective::SendRecv);
    let models = Models { all_reduce: &model, send_recv: &send_recv };
    let request = Request::gpus(parallel.gpus());
    let (mut times, mut proven, mut greatest) = (Vec::new(), 0, 0.0_f64);
    for seed in 0..STATES {
        let state = state(&cluster, jobs, &mut Pcg64::seed_from_u64(seed));
        let given = Given { state: &state, request: &request, parallel };
        let start = thread_us();
        let answer = dispatch_parallel(&cluster, models, given, AnswerOptions::default());
        let time = thread_us() - start;
        if let Ok(answer) = answer {
            times.push(time);
            let gap = answer.gap.unwrap_or(1.0);
            proven += usize::from(gap <= 1e-9);
            greatest = greatest.max(gap);
        }
    }
    times.sort_by(f64::total_cmp);
    (times, proven, greatest)
}

#[expect(clippy::print_stdout, reason = "a table for people")]
fn main() {
    // `cargo test --benches` only wants to see that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!(
        "| GPUs | state | groups | possible | p50 us | p99 us | most us | proven | greatest gap |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|");
    for (hosts, shapes) in [
        (8, vec![(8, 1, 4), (4, 1, 8), (4, 2, 4)]),
        (32, vec![(8, 1, 4), (8, 1, 8), (4, 2, 8), (2, 1, 32), (1, 1, 64), (8, 2, 4), (2, 4, 8)]),
    ] {
        for (tensor, pipeline, data) in shapes {
            for jobs in [false, true] {
                let (times, proven, gap) = measure(hosts, jobs, &job(tensor, pipeline, data));
                let at = |share: f64| {
                    times.get((times.len() as f64 * share) as usize).or(times.last()).copied()
                };
                println!(
                    "| {} | {} | tp={tensor} pp={pipeline} dp={data} | {} | {:.0} | {:.0} | {:.0} | {:.1} % | {:.1} % |",
                    hosts * 8,
                    if jobs { "holes and jobs" } else { "holes" },
                    times.len(),
                    at(0.5).unwrap_or(0.0),
                    at(0.99).unwrap_or(0.0),
                    at(1.0).unwrap_or(0.0),
                    100.0 * proven as f64 / times.len().max(1) as f64,
                    100.0 * gap
                );
            }
        }
    }
}
