//! Time of a decision at 32, 256, 1,024 and 10,000 GPUs: an empty cluster, a fragmented one without cross-host jobs, and a busy
//! one whose running jobs contend. Up to 1,024 GPUs also of one that looks for the least fragmentation within 3 % of the best, the
//! search for the best included.
//!
//! `cargo bench -p bandpilot-dispatch` times them; with `BANDPILOT_LIST_OUTCOMES` set it prints instead what each case is
//! worth and whether it is proven.

use std::hint::black_box;
use std::time::Duration;

use bandpilot_core::{
    Cluster, ClusterBuilder, ClusterState, Demand, GpuMask, HostId, Placement, Request, RunningJob,
};
use bandpilot_dispatch::{
    Fill, Least, Outcome, Scene, SearchOptions, least_fragmentation, scope, search,
};
use bandpilot_fragmentation::Occupancy;
use bandpilot_model::model::BandwidthModel;
use bandpilot_model::residual::{Features, Hyperparameters, Residual};
use bandpilot_model::{Predictor, VirtualMerge};
use criterion::Criterion;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

fn cluster(hosts: usize) -> Cluster {
    ClusterBuilder::new("bench")
        .host_type("h100", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, hosts)
        .build()
}

/// The closed form with a made-up correction of the size that 95 training vectors give.
fn model() -> BandwidthModel {
    let mut rng = Pcg64::seed_from_u64(7);
    let points: Vec<Features> = (0..95)
        .map(|_| Features {
            hosts: rng.random_range(2..=4),
            rails: rng.random_range(1..=8),
            levels: rng.random_range(1..=255),
            bytes: 2 << 30,
        })
        .collect();
    let weights = points.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
    BandwidthModel {
        residual: Residual { hyperparameters: Hyperparameters::default(), points, weights },
        ..BandwidthModel::closed_form()
    }
}

/// Half of the GPUs taken at random by single-host jobs: fragments, but no traffic between hosts.
fn fragmented(cluster: &Cluster) -> ClusterState {
    let mut rng = Pcg64::seed_from_u64(11);
    let mut state = ClusterState::idle(cluster);
    for (host, free) in cluster.host_ids().zip(&mut state.free) {
        let taken = GpuMask(free.0 & rng.random::<u64>());
        *free = free.without(taken);
        let (name, placement) = (format!("inside{host:?}"), Placement::new([(host, taken)]));
        state.jobs.push(RunningJob::new(name, placement, Demand::Fraction(1.0)));
    }
    state
}

/// Jobs of 4 to 24 GPUs on random hosts until only this share of the cluster is free.
fn busy(cluster: &Cluster, free_share: f64) -> ClusterState {
    let mut rng = Pcg64::seed_from_u64(13);
    let mut state = ClusterState::idle(cluster);
    let mut hosts: Vec<HostId> = cluster.host_ids().collect();
    while state.free_gpus() as f64 > free_share * cluster.gpu_count() as f64 {
        let mut left: usize = rng.random_range(4..=24);
        hosts.shuffle(&mut rng);
        let mut shares = Vec::new();
        for host in &hosts {
            let free = &mut state.free[host.index()];
            let mask = free.lowest(left.min(rng.random_range(1..=6)));
            *free = free.without(mask);
            left -= mask.count();
            shares.push((*host, mask));
            if left == 0 {
                break;
            }
        }
        let name = format!("job{}", state.jobs.len());
        let demand = Demand::Fraction(rng.random_range(0.25..1.0));
        state.jobs.push(RunningJob::new(name, Placement::new(shares), demand));
    }
    state
}

fn decide(predictor: &Predictor<'_>, state: &ClusterState, gpus: usize) -> Option<Outcome> {
    let request = Request::gpus(gpus);
    let scope = scope::check(predictor.cluster(), state, &request).ok()?;
    let contention = VirtualMerge;
    let scene = Scene::new(predictor, &contention, state);
    search(&scene, &scope, &request, &SearchOptions::default()).ok()
}

/// The least fragmentation within 3 % of the best.
fn decide_within(
    predictor: &Predictor<'_>,
    state: &ClusterState,
    gpus: usize,
) -> Option<(Outcome, Least)> {
    let request = Request::gpus(gpus);
    let scope = scope::check(predictor.cluster(), state, &request).ok()?;
    let scene = Scene::new(predictor, &VirtualMerge, state);
    let options = SearchOptions::default();
    let outcome = search(&scene, &scope, &request, &options).ok()?;
    let fill = Fill::new(&Occupancy::of(predictor.cluster(), state));
    let (floor, known) = (0.97 * outcome.best.objective, Some(&outcome.best.placement));
    let least =
        least_fragmentation(&scene, &scope, &request, &fill, floor, known, &options).ok()?;
    Some((outcome, least))
}

fn main() {
    let list = std::env::var_os("BANDPILOT_LIST_OUTCOMES").is_some();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let model = model();
    for hosts in [4, 32, 128, 1250] {
        let cluster = cluster(hosts);
        let predictor = Predictor::new(&model, &cluster, 2 << 30);
        let states = [
            ("empty", ClusterState::idle(&cluster)),
            ("fragmented", fragmented(&cluster)),
            ("busy", busy(&cluster, 0.5)),
            ("crowded", busy(&cluster, 0.2)),
        ];
        for (name, state) in states {
            for gpus in [6, 12, 48, 200].into_iter().filter(|gpus| *gpus <= state.free_gpus()) {
                if list {
                    report(&predictor, &state, name, gpus);
                    if hosts <= 128 {
                        report_within(&predictor, &state, name, gpus);
                    }
                    continue;
                }
                let id = format!("{} GPUs {name}, {gpus} wanted", 8 * hosts);
                criterion.bench_function(&id, |bench| {
                    bench.iter(|| decide(&predictor, black_box(&state), gpus));
                });
                if hosts <= 128 {
                    criterion.bench_function(&format!("{id} within 3 %"), |bench| {
                        bench.iter(|| decide_within(&predictor, black_box(&state), gpus));
                    });
                }
            }
        }
    }
    criterion.final_summary();
}

#[expect(clippy::print_stdout, reason = "asked for on the command line")]
fn report(predictor: &Predictor<'_>, state: &ClusterState, name: &str, gpus: usize) {
    let start = std::time::Instant::now();
    let Some(outcome) = decide(predictor, state, gpus) else { return };
    println!(
        "{} GPUs {name}, {} jobs, {gpus} wanted: {:.1} GB/s (bound {:.1}), {}, {} steps, {:.2} ms cold",
        predictor.cluster().gpu_count(),
        state.jobs.len(),
        outcome.best.effective,
        outcome.upper_bound.unwrap_or(f64::NAN),
        if outcome.proven { "proven" } else { "not proven" },
        outcome.steps,
        start.elapsed().as_secs_f64() * 1e3,
    );
}

#[expect(clippy::print_stdout, reason = "asked for on the command line")]
fn report_within(predictor: &Predictor<'_>, state: &ClusterState, name: &str, gpus: usize) {
    let fill = Fill::new(&Occupancy::of(predictor.cluster(), state));
    let start = std::time::Instant::now();
    let Some((outcome, least)) = decide_within(predictor, state, gpus) else { return };
    let elapsed = start.elapsed();
    let left = |left: bandpilot_dispatch::Fragmentation| {
        format!("{}/{}/{}", left.avoidable, left.partial, left.in_use)
    };
    println!(
        "{} GPUs {name}, {gpus} wanted, within 3 %: {:.1} of {:.1} GB/s, avoidable/partial/in use {} -> {} (best set {}), {}, bound {:?}, {} steps, {:.2} ms with the search for the best",
        predictor.cluster().gpu_count(),
        least.found.effective,
        outcome.best.effective,
        left(fill.now()),
        left(least.left),
        left(fill.after(&outcome.best.placement, 1)),
        if least.proven { "proven" } else { "not proven" },
        least.avoidable_bound,
        least.steps,
        elapsed.as_secs_f64() * 1e3,
    );
}
