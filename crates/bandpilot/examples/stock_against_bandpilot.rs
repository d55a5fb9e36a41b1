//! Stock Slurm against bandpilot on the same stream of jobs, each on a real Slurm of its own.
//!
//! `cargo run -p bandpilot --example stock_against_bandpilot -- DATA BANDPILOT [SEED]` with the folder of the public
//! tables and the program. Jobs only sleep; what they were given is scored with measured tables: cross-host jobs (2 to 4
//! hosts) with the H100 table, single-host jobs with the tables of V100 (cube mesh) and A6000 (bridged pairs).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bandpilot_core::{Cluster, GpuMask, HostId, Placement};
use bandpilot_eval::load::ClusterName;
use bandpilot_eval::truth::{BYTES, Truth};
use bandpilot_manager::exchange::Process;
use bandpilot_model::model::BandwidthModel;
use bandpilot_model::{Predictor, contention};
use bandpilot_readers::{cluster_file, store};
use bandpilot_slurm::{Form, JobState, Snapshot, observe};
use bandpilot_testcluster::{Gres, Setup, SlurmCluster};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

const JOBS: usize = 200;
const POLL: Duration = Duration::from_millis(150);
/// Share of the GPUs that the stream keeps busy if nothing waits.
const LOAD: f64 = 0.6;
const SLEEP_S: std::ops::Range<f64> = 2.0..6.0;
/// After so many seconds of waiting a job may be planned anew.
const REPLAN: &str = "2";

/// One of the three comparisons.
struct Case {
    name: &'static str,
    hosts: u16,
    /// Fewest and most GPUs of a job.
    gpus: std::ops::RangeInclusive<usize>,
    /// Host type of the truth; `None`: the cross-host table.
    local: Option<HostId>,
    truth: Truth,
    /// Cluster file for bandpilot.
    cluster: String,
    /// Sets of the cross-host table that bandpilot's model is fitted on.
    measured: usize,
}

struct Job {
    at_s: f64,
    gpus: usize,
    sleep_s: f64,
}

/// What a job was given, and what it was worth at each look.
#[derive(Default)]
struct Given {
    alone: f64,
    looks: Vec<f64>,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let data = PathBuf::from(args.next().expect("DATA")).join("nccl-bandpilot");
    let bandpilot = PathBuf::from(args.next().expect("BANDPILOT"));
    let bandpilot = std::fs::canonicalize(bandpilot).unwrap();
    let seed = args.next().map_or(1, |seed| seed.parse().expect("SEED"));
    println!(
        "| table | jobs | policy | alone: mean | 5th | beside others: mean | 5th | makespan s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in cases(&data) {
        let jobs = stream(&case, seed);
        let scored = std::thread::scope(|scope| {
            let stock = scope.spawn(|| play(&case, &jobs, None));
            let ours = play(&case, &jobs, Some(&bandpilot));
            [("stock Slurm", stock.join().unwrap()), ("bandpilot", ours)]
        });
        for (policy, run) in scored {
            println!("| {} | {} | {policy} | {} |", case.name, jobs.len(), run.row());
        }
    }
}

fn cases(data: &Path) -> Vec<Case> {
    let mut text = |name: &str| std::fs::read_to_string(data.join(name));
    let truth = |name: ClusterName, text: &mut dyn FnMut(&str) -> std::io::Result<String>| {
        name.truth(text).expect("the tables")
    };
    let h100 = truth(ClusterName::H100, &mut text);
    let het = truth(ClusterName::Het, &mut text);
    let one = |name, host, kind: &str| Case {
        name,
        hosts: 4,
        gpus: 2..=6,
        local: Some(HostId(host)),
        truth: het.clone(),
        cluster: of_type(&het.cluster, kind, 4),
        measured: 0,
    };
    vec![
        one("V100, in one host", 1, "V100"),
        one("A6000, in one host", 2, "A6000"),
        Case {
            name: "H100, 2 to 4 hosts",
            hosts: 8,
            gpus: 9..=24,
            local: None,
            cluster: of_type(&h100.cluster, "h100", 8),
            truth: h100,
            measured: 95,
        },
    ]
}

/// A cluster file of so many hosts `h1`, `h2`, ... of one type.
fn of_type(cluster: &Cluster, kind: &str, hosts: usize) -> String {
    let mut one = cluster.clone();
    let at = one.host_types.iter().position(|have| have.name == kind).unwrap();
    let like = one.hosts.iter().find(|host| host.host_type.0 as usize == at).unwrap().clone();
    let host = |n: usize| bandpilot_core::Host { name: format!("h{n}"), ..like.clone() };
    one.hosts = (1..=hosts).map(host).collect();
    cluster_file::write(&one)
}

fn stream(case: &Case, seed: u64) -> Vec<Job> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mean_gpus = (case.gpus.start() + case.gpus.end()) as f64 / 2.0;
    let mean_s = f64::midpoint(SLEEP_S.start, SLEEP_S.end);
    let gap_s = mean_gpus * mean_s / (f64::from(case.hosts) * 8.0) / LOAD;
    let mut at_s = 0.0;
    let mut job = || {
        at_s += -gap_s * (1.0 - rng.random::<f64>()).ln();
        Job { at_s, gpus: rng.random_range(case.gpus.clone()), sleep_s: rng.random_range(SLEEP_S) }
    };
    (0..JOBS).map(|_| job()).collect()
}

/// What came of a stream.
struct Run {
    given: Vec<Given>,
    makespan_s: f64,
}

fn play(case: &Case, jobs: &[Job], bandpilot: Option<&Path>) -> Run {
    let gres = if bandpilot.is_some() { Gres::PerIndex } else { Gres::Counted };
    let setup = Setup { gres, ..Setup::new(case.hosts, 8) };
    let slurm = setup.start("stock_against_bandpilot").expect("Slurm is installed");
    let program = match bandpilot {
        Some(bandpilot) => {
            prepare(case, &slurm, bandpilot);
            let file = |name: &str| slurm.path(name).display().to_string();
            let files = [file("cluster.toml"), file("model.json"), file("audit.jsonl")];
            let [cluster, model, audit] = files;
            let bandpilot = bandpilot.display().to_string();
            let options = ["--cluster", &cluster, "--model", &model, "--audit", &audit];
            let options = options.into_iter().chain(["--replan", REPLAN]).map(ToOwned::to_owned);
            [bandpilot, "sbatch".to_owned()].into_iter().chain(options).collect()
        }
        None => vec!["sbatch".to_owned()],
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| watch(case, &slurm, jobs.len(), &over));
        let start = Instant::now();
        let mut submits = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let due = Duration::from_secs_f64(job.at_s);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            let (slurm, program) = (&slurm, &program);
            submits.push(scope.spawn(move || submit(case, slurm, program, number, job)));
        }
        for submit in submits {
            submit.join().unwrap();
        }
        while !slurm.must(&["squeue", "-h"]).is_empty() {
            std::thread::sleep(POLL);
        }
        let makespan_s = start.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        Run { given: looks.join().unwrap(), makespan_s }
    })
}

/// The model that a site would have: inside hosts all subsets are measured, across hosts some sets.
fn prepare(case: &Case, slurm: &SlurmCluster, bandpilot: &Path) {
    let mut measured = case.truth.local_measurements();
    measured.extend(case.truth.training_draw(case.measured, 1));
    let measured = store::append_text("", &measured).unwrap().text;
    std::fs::write(slurm.path("store.jsonl"), measured).unwrap();
    std::fs::write(slurm.path("truth.toml"), cluster_file::write(&case.truth.cluster)).unwrap();
    std::fs::write(slurm.path("cluster.toml"), &case.cluster).unwrap();
    let mut fit = Command::new(bandpilot);
    fit.arg("fit").arg("--measurements").arg(slurm.path("store.jsonl"));
    fit.arg("--cluster").arg(slurm.path("truth.toml"));
    let fit = fit.arg("--out").arg(slurm.path("model.json")).output().unwrap();
    assert!(fit.status.success(), "{}", String::from_utf8_lossy(&fit.stderr));
}

fn submit(case: &Case, slurm: &SlurmCluster, program: &[String], number: usize, job: &Job) {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).envs(slurm.env());
    command.args(["-o", "/dev/null", "-D", "/", "-J", &format!("j{number}"), "--mem-per-cpu=1"]);
    if case.local.is_some() {
        command.args(["-N1", &format!("--gres=gpu:{}", job.gpus)]);
    } else {
        command.args(["-N2-4", &format!("--gpus={}", job.gpus)]);
    }
    let limit = "-t1";
    let output = command.args([limit, "--wrap", &format!("sleep {:.2}", job.sleep_s)]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Looks again and again at what runs.
fn watch(case: &Case, slurm: &SlurmCluster, jobs: usize, over: &AtomicBool) -> Vec<Given> {
    let (cluster, _) = cluster_file::read(&case.cluster).into_result().unwrap();
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, &cluster, BYTES);
    let mut given: Vec<Given> = (0..jobs).map(|_| Given::default()).collect();
    let mut runner = Process { env: slurm.env(), ..Process::default() };
    while !over.load(Ordering::Relaxed) {
        let seen = observe(&mut runner, Form::Any).expect("Slurm answers").snapshot;
        let running = running(&seen, &cluster);
        for (number, placement) in &running {
            let alone = worth(case, placement);
            let others: Vec<(&Placement, f64)> =
                running.values().map(|set| (set, worth(case, set))).collect();
            let share = placement.shares().iter().map(|(host, _)| {
                let here: Vec<(&Placement, f64)> = others
                    .iter()
                    .filter(|(set, _)| set.hosts() > 1 && !set.on(*host).is_empty())
                    .copied()
                    .collect();
                contention::host_share(&predictor, *host, &here)
            });
            let crosses = placement.hosts() > 1;
            let share = if crosses { share.fold(1.0, f64::min) } else { 1.0 };
            given[*number].alone = alone;
            given[*number].looks.push(alone * share);
        }
        std::thread::sleep(POLL);
    }
    let unseen = given.iter().filter(|given| given.looks.is_empty()).count();
    assert_eq!(unseen, 0, "jobs that were never seen running");
    given
}

/// The sets that run, by the number in the job's name; a job is there once all its parts have their GPUs.
fn running(seen: &Snapshot, cluster: &Cluster) -> BTreeMap<usize, Placement> {
    let mut shares: BTreeMap<usize, Vec<(HostId, GpuMask)>> = BTreeMap::new();
    for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
        let Some(number) = job.name.strip_prefix('j').and_then(|n| n.parse().ok()) else {
            continue;
        };
        for (host, mask) in &job.gpus {
            let id = cluster.host_ids().find(|id| cluster.host(*id).name == *host).unwrap();
            shares.entry(number).or_default().push((id, *mask));
        }
    }
    shares.into_iter().map(|(number, shares)| (number, Placement::new(shares))).collect()
}

/// What the table says of a set, GB/s.
fn worth(case: &Case, set: &Placement) -> f64 {
    if let Some(host) = case.local {
        return set.shares().first().map_or(0.0, |(_, mask)| case.truth.local(host, *mask));
    }
    let mut counts = [0; 4];
    for (count, (_, mask)) in counts.iter_mut().zip(set.shares()) {
        *count = mask.count() as u8;
    }
    case.truth.by_counts(counts)
}

impl Run {
    fn row(&self) -> String {
        let alone: Vec<f64> = self.given.iter().map(|given| given.alone).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let beside: Vec<f64> = self.given.iter().map(|given| mean(&given.looks)).collect();
        format!(
            "{:.1} | {:.1} | {:.1} | {:.1} | {:.0}",
            mean(&alone),
            quantile(&alone, 0.05),
            mean(&beside),
            quantile(&beside, 0.05),
            self.makespan_s
        )
    }
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}
