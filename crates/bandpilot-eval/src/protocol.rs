//! Cases, policies and scores.

use bandpilot_core::{ClusterState, Demand, GpuMask, HostId, Placement, Request, RunningJob};
use bandpilot_dispatch::{Scene, SearchOptions, baselines, scope, search};
use bandpilot_model::cross_validation::quantile;
use bandpilot_model::model::BandwidthModel;
use bandpilot_model::{FitOptions, Predictor, VirtualMerge, fit};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::oracle::{Case, effective, optimum};
use crate::report::{ModeReport, PolicyReport, Report, WorstCase};
use crate::truth::{BYTES, GPUS, HOSTS, Truth};

/// What the background job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Idle,
    /// It demands its isolated bandwidth.
    Intensive,
    /// It demands 25 to 75 % of it.
    Common,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Intensive, Self::Common];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Intensive => "intensive",
            Self::Common => "common",
        }
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// Training vectors.
    pub train: usize,
    /// Repeats per number of GPUs.
    pub repeats: usize,
    /// Seed of the training draw and of the cases.
    pub seed: u64,
    /// Modes to run.
    pub modes: Vec<Mode>,
}

const POLICIES: [&str; 5] = ["bandpilot", "balanced", "topo", "default", "random"];

/// Fits a model on the training draw and scores all policies. `now_us` is a clock in microseconds, `progress` is told the
/// cases done and to be done.
pub fn run(
    truth: &Truth,
    protocol: &Protocol,
    now_us: &dyn Fn() -> f64,
    progress: &mut dyn FnMut(usize, usize),
) -> Report {
    let model = trained(truth, protocol.train, protocol.seed);
    let per_mode = (2..HOSTS * GPUS).len() * protocol.repeats;
    let total = per_mode * protocol.modes.len();
    let mut done = 0;
    let modes = protocol
        .modes
        .iter()
        .map(|&mode| {
            let mut scores: Vec<Scores> = POLICIES.iter().map(|_| Scores::default()).collect();
            let predictor = Predictor::new(&model, &truth.cluster, BYTES);
            for case in cases(mode, protocol.repeats, protocol.seed) {
                score_case(truth, &predictor, &case, protocol.seed, now_us, &mut scores);
                done += 1;
                progress(done, total);
            }
            let policies = POLICIES.iter().zip(scores).map(|(name, s)| s.report(name)).collect();
            ModeReport { mode: mode.name(), cases: per_mode, policies }
        })
        .collect();
    Report {
        cluster: truth.cluster.name.clone(),
        truth: truth.source.clone(),
        seed: protocol.seed,
        train: protocol.train,
        repeats: protocol.repeats,
        modes,
    }
}

/// The model that a training draw gives; the hosts' local tables are known.
pub fn trained(truth: &Truth, train: usize, seed: u64) -> BandwidthModel {
    let mut measurements = truth.local_measurements();
    measurements.extend(truth.training_draw(train, seed));
    let options = FitOptions {
        description: format!("{}: {train} training vectors, seed {seed}", truth.cluster.name),
        folds: 0,
        ..FitOptions::default()
    };
    // The truth's own hosts: nothing can be unknown.
    fit(&truth.cluster, &measurements, &options, &mut |_| ())
        .map_or_else(|_| BandwidthModel::closed_form(), |(model, _)| model)
}

/// The cases of a mode: every number of GPUs 2..=31, `repeats` times, drawn by the seed.
pub fn cases(mode: Mode, repeats: usize, seed: u64) -> Vec<Case> {
    let mut rng = Pcg64::seed_from_u64(seed ^ 0x0063_6173_6573);
    let mut cases = Vec::new();
    for gpus in 2..HOSTS * GPUS {
        for repeat in 0..repeats {
            let available = rng.random_range(gpus..=HOSTS * GPUS);
            let everything = [GpuMask::first(GPUS); HOSTS];
            let free_set = baselines::random(&everything, available, &mut rng);
            let ratio: f64 = rng.random_range(0.25..0.75);
            let free: [GpuMask; HOSTS] =
                std::array::from_fn(|host| free_set.on(HostId(host as u32)));
            let background = Placement::new(
                (0..HOSTS).map(|host| (HostId(host as u32), everything[host].without(free[host]))),
            );
            let ratio = match mode {
                Mode::Idle => 0.0,
                Mode::Intensive => 1.0,
                Mode::Common => ratio,
            };
            cases.push(Case { gpus, repeat, free, background, ratio });
        }
    }
    cases
}

/// The case as a snapshot: when idle the background job carries no traffic and is left out.
pub fn snapshot(case: &Case) -> ClusterState {
    let busy = case.ratio > 0.0 && case.background.gpus() > 0;
    let jobs = busy.then(|| {
        let demand = Demand::Fraction(case.ratio);
        RunningJob::new("background".to_owned(), case.background.clone(), demand)
    });
    ClusterState { free: case.free.to_vec(), jobs: jobs.into_iter().collect() }
}

/// bandpilot's choice for a case; empty if the case cannot be met.
pub fn choose(predictor: &Predictor<'_>, case: &Case) -> Placement {
    let state = snapshot(case);
    let request = Request::gpus(case.gpus);
    let Ok(scope) = scope::check(predictor.cluster(), &state, &request) else {
        return Placement::default();
    };
    let contention = VirtualMerge;
    let scene = Scene::new(predictor, &contention, &state);
    search(&scene, &scope, &request, &SearchOptions::default())
        .map_or_else(|_| Placement::default(), |outcome| outcome.best.placement)
}

fn score_case(
    truth: &Truth,
    predictor: &Predictor<'_>,
    case: &Case,
    seed: u64,
    now_us: &dyn Fn() -> f64,
    scores: &mut [Scores],
) {
    let (best_value, best) = optimum(truth, case);
    let stream = (seed << 20) ^ ((case.gpus as u64) << 12) ^ case.repeat as u64;
    let mut rng = Pcg64::seed_from_u64(stream);
    for (policy, of_policy) in POLICIES.iter().zip(scores) {
        let start = now_us();
        let chosen = match *policy {
            "bandpilot" => choose(predictor, case),
            "balanced" => baselines::balanced(&case.free, case.gpus, 1),
            "topo" => baselines::topo(&truth.cluster, &case.free, case.gpus),
            "default" => baselines::default(&case.free, case.gpus),
            _ => baselines::random(&case.free, case.gpus, &mut rng),
        };
        of_policy.times_us.push(now_us() - start);
        let value = effective(truth, case, &chosen);
        of_policy.cases.push(WorstCase {
            gpus: case.gpus,
            repeat: case.repeat,
            score: 100.0 * value / best_value,
            chosen,
            best: best.clone(),
            chosen_gbytes_per_s: value,
            best_gbytes_per_s: best_value,
        });
    }
}

#[derive(Default)]
struct Scores {
    cases: Vec<WorstCase>,
    times_us: Vec<f64>,
}

impl Scores {
    fn report(mut self, policy: &'static str) -> PolicyReport {
        let mut values: Vec<f64> = self.cases.iter().map(|case| case.score).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        self.cases.sort_by(|a, b| a.score.total_cmp(&b.score));
        self.cases.truncate(5);
        PolicyReport {
            policy,
            mean,
            p5: quantile(&mut values, 0.05),
            min: values.first().copied().unwrap_or(0.0),
            worst: self.cases,
            dispatch_us_p50: quantile(&mut self.times_us, 0.5),
            dispatch_us_p99: quantile(&mut self.times_us, 0.99),
        }
    }
}
