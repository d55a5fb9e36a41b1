//! Playing: each policy with each seed, side by side.

use std::sync::atomic::{AtomicBool, Ordering};

use bandpilot_model::Predictor;
use bandpilot_readers::Diagnostic;
use bandpilot_readers::trace_file::Trace;
use bandpilot_sim::series::{Recorder, Series};
use bandpilot_sim::{
    Broken, Grant, JobResult, Metrics, Mixed, Network, Outcome, Policy, Setting, Standing, Watcher,
    Workload, simulate_watched,
};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, Found};
use super::ground::Ground;
use crate::cli::Simulate;
use crate::commands::ground::Remarks;
use crate::exit::{Code, Failure};

/// Jobs after which the progress bar is told.
const JOBS_A_TICK: u64 = 256;

/// The jobs that are played with a seed.
pub struct Scene {
    /// The trace.
    pub trace: Trace,
    /// Its jobs on the cluster.
    pub workload: Workload,
    /// What the mix has changed.
    pub mixed: Option<Mixed>,
}

/// Everything that is given.
pub struct Stage {
    /// Cluster and options.
    pub ground: Ground,
    /// Policies in the order in which they were asked for.
    pub policies: Vec<Policy>,
    /// Seeds in that order; at least one.
    pub seeds: Vec<u64>,
    /// One a seed if the jobs depend on it, else a single one.
    scenes: Vec<Scene>,
}

impl Stage {
    /// Makes the jobs of each seed.
    pub fn new(
        ground: Ground,
        policies: Vec<Policy>,
        seeds: Vec<u64>,
        trace: Trace,
        args: &Simulate,
    ) -> Self {
        let scene = |seed: u64, mut trace: Trace| {
            let mixed = ground.prepare(&mut trace, &args.conditions, seed);
            let workload = Workload::new(&trace, &ground.hosts);
            Scene { trace, workload, mixed }
        };
        let scenes = if args.conditions.mix.is_some() {
            seeds.iter().map(|seed| scene(*seed, trace.clone())).collect()
        } else {
            vec![scene(seeds[0], trace)]
        };
        Self { ground, policies, seeds, scenes }
    }

    /// The jobs of the `at`-th seed.
    pub fn scene(&self, at: usize) -> &Scene {
        &self.scenes[at.min(self.scenes.len() - 1)]
    }

    /// True if runs of this policy differ by seed.
    pub fn seeded(&self, policy: Policy) -> bool {
        let faults = &self.ground.options.faults;
        let fail = faults.host_mtbf_s.is_finite() || faults.link_mtbf_s.is_finite();
        policy.seeded() || fail || self.scenes.len() > 1
    }

    /// All runs: policy and position of the seed. What does not depend on the seed is run once.
    fn runs(&self) -> Vec<(Policy, usize)> {
        let seeds = |policy: Policy| if self.seeded(policy) { self.seeds.len() } else { 1 };
        let of = |policy: &Policy| (0..seeds(*policy)).map(|at| (*policy, at)).collect::<Vec<_>>();
        self.policies.iter().flat_map(of).collect()
    }
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Its figures.
    pub metrics: Metrics,
    /// What became of each job.
    pub jobs: Vec<JobResult>,
    /// How it went over time; for the first seed only.
    pub series: Option<Series>,
}

/// Why a run gives nothing.
pub enum Missing {
    /// Ctrl-C.
    Stopped,
    /// Something is wrong.
    Failed(Failure),
}

/// Set by Ctrl-C. A second one ends the program at once.
static STOP: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C end the runs in good order. Where that is not to be had, it ends the program as ever.
pub fn heed_interrupts() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// The runs of each policy in order of the seeds.
pub type Played = Vec<(Policy, Vec<Run>)>;

/// Plays everything that is not yet in the folder; runs that are done are put there at once. Says also which runs that were
/// there were not trusted.
///
/// # Errors
/// If a run is not sound, cannot be kept, or Ctrl-C ends it.
pub fn play(stage: &Stage, folder: Option<&Folder>) -> Result<(Played, Remarks), Failure> {
    heed_interrupts();
    let runs = stage.runs();
    let all = runs.len();
    let bar = progress_bar(runs.iter().map(|(_, at)| stage.scene(*at).workload.len()).sum(), all);
    let done = AtomicCount::default();
    let one = |(policy, at): &(Policy, usize)| -> Result<_, Missing> {
        let kept = folder.map(|folder| folder.run(*policy, stage.seeds[*at]));
        let (run, remark) = match kept {
            Some(Found::Run(run)) => {
                bar.inc(run.jobs.len() as u64);
                (*run, None)
            }
            kept => {
                let run = play_one(stage, *policy, *at, &bar)?;
                let keep = folder.map_or(Ok(()), |folder| folder.keep(*policy, &run));
                keep.map_err(Missing::Failed)?;
                (run, run_again(kept))
            }
        };
        bar.set_message(format!("{} of {all} runs", done.next()));
        Ok((run, remark))
    };
    let played: Vec<Result<_, Missing>> = runs.par_iter().map(one).collect();
    bar.finish_and_clear();
    let finished = played.iter().filter(|run| run.is_ok()).count();
    let (mut policies, mut remarks) = (Played::new(), Remarks::new());
    for ((policy, at), run) in runs.iter().zip(played) {
        let (run, remark) = run.map_err(|missing| match missing {
            Missing::Failed(failure) => failure,
            Missing::Stopped => interrupted(finished, all, folder),
        })?;
        remarks.extend(remark);
        match policies.last_mut() {
            Some((_, runs)) if *at > 0 => runs.push(run),
            _ => policies.push((*policy, vec![run])),
        }
    }
    Ok((policies, remarks))
}

/// A remark on a run that was not trusted.
fn run_again(kept: Option<Found>) -> Option<(String, Diagnostic)> {
    let Some(Found::Wrong(path, why)) = kept else { return None };
    let message = format!("{why}: it was run again");
    Some((path.display().to_string(), Diagnostic::note("", message)))
}

/// Counts what is done side by side.
#[derive(Default)]
pub struct AtomicCount(std::sync::atomic::AtomicUsize);

impl AtomicCount {
    /// One more.
    pub fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn interrupted(finished: usize, all: usize, folder: Option<&Folder>) -> Failure {
    let message = format!("interrupted after {finished} of {all} runs");
    let reason = Diagnostic::error("", message);
    let reason = match folder {
        Some(_) => reason.help("they are kept; the same command with --resume does the others"),
        None => reason.help("with --out, runs that are done are kept"),
    };
    Failure::new(Code::Interrupted, "", reason)
}

/// Shows how far runs are.
pub fn progress_bar(jobs: usize, runs: usize) -> ProgressBar {
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::new(jobs as u64).with_message(format!("0 of {runs} runs"));
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} jobs, {msg}, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

fn play_one(stage: &Stage, policy: Policy, at: usize, bar: &ProgressBar) -> Result<Run, Missing> {
    let Stage { ground, seeds, .. } = stage;
    let workload = &stage.scene(at).workload;
    let recorder = (at == 0).then(|| Recorder::new(&ground.hosts));
    let (outcome, recorder) = run_one(ground, workload, policy, seeds[at], (bar, recorder))?;
    Ok(Run {
        seed: seeds[at],
        metrics: Metrics::new(workload, &outcome),
        jobs: outcome.jobs().collect(),
        series: recorder.map(Recorder::finish),
    })
}

/// Plays a workload against a policy; jobs that are done are told to the bar, and what happens to the recorder, if there is one.
///
/// # Errors
/// If the run is not sound, or Ctrl-C ends it.
pub fn run_one(
    ground: &Ground,
    workload: &Workload,
    policy: Policy,
    seed: u64,
    (bar, recorder): (&ProgressBar, Option<Recorder>),
) -> Result<(Outcome, Option<Recorder>), Missing> {
    let predictor = Predictor::new(&ground.model, &ground.cluster, ground.bytes);
    let setting = Setting::new(&ground.hosts, workload, &ground.options, seed)
        .with_network(Network::new(&predictor));
    let mut spectator = Spectator { recorder, bar, untold: 0 };
    let outcome = simulate_watched(&setting, policy, &mut spectator);
    bar.inc(spectator.untold);
    let outcome = outcome.map_err(|broken| match broken {
        Broken::Stopped => Missing::Stopped,
        broken => Missing::Failed(unsound(policy, &broken)),
    })?;
    Ok((outcome, spectator.recorder))
}

fn unsound(policy: Policy, broken: &Broken) -> Failure {
    if let Broken::NeverDone { .. } = broken {
        let reason = Diagnostic::error("", format!("{policy}: {broken}"));
        let help = "give hosts a longer --host-mtbf or a shorter --host-mttr, or jobs a shorter --checkpoint-every";
        return Failure::new(Code::Impossible, "--host-mtbf", reason.help(help));
    }
    let message = format!("the run of {policy} is not sound: {broken}");
    let help = "this is a mistake in the program; please report it with the trace";
    Failure::new(Code::Internal, "", Diagnostic::error("", message).help(help))
}

/// Looks on at a run.
struct Spectator<'a> {
    recorder: Option<Recorder>,
    bar: &'a ProgressBar,
    /// Jobs that are done and that the bar does not know of.
    untold: u64,
}

impl Watcher for Spectator<'_> {
    fn waits(&mut self, now_s: f64, jobs: i32, milli: i64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.waits(now_s, jobs, milli);
        }
    }

    fn takes(&mut self, now_s: f64, grant: &Grant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.takes(now_s, grant);
        }
    }

    fn gives(&mut self, now_s: f64, grant: &Grant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.gives(now_s, grant);
        }
    }

    fn stands(&mut self, now_s: f64, standing: &Standing) {
        if let Some(recorder) = &mut self.recorder {
            recorder.stands(now_s, standing);
        }
    }

    fn settled(&mut self) {
        self.untold += 1;
        if self.untold == JOBS_A_TICK {
            self.bar.inc(self.untold);
            self.untold = 0;
        }
    }

    fn stop(&mut self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}
