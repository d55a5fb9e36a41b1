//! Playing: each window with each size, policy and seed, side by side.

use bandpilot_readers::Diagnostic;
use bandpilot_sim::{Metrics, Policy};
use rayon::prelude::*;

use super::cut::Cut;
use crate::cli::Windows;
use crate::commands::ground::Remarks;
use crate::commands::simulate::ground::Ground;
use crate::commands::simulate::runs::{
    AtomicCount, Missing, heed_interrupts, progress_bar, run_one,
};
use crate::exit::{Code, Failure};

/// What is played, in order: policies are next to each other, so that they can be compared.
#[derive(Debug, Clone, Copy)]
struct Task {
    eta: usize,
    window: usize,
    policy: usize,
    seed: usize,
}

/// A run.
pub struct Run {
    /// Index of the seed.
    pub seed: usize,
    /// Hosts of the cluster.
    pub hosts: usize,
    /// Its figures.
    pub metrics: Metrics,
}

/// The runs of a window: by policy, in order of the seeds.
pub struct Played {
    /// Index of the window.
    pub window: usize,
    /// One entry a policy.
    pub runs: Vec<Vec<Run>>,
}

/// Plays everything; one entry an eta, of the windows that have enough jobs.
///
/// # Errors
/// If a run is not sound, or Ctrl-C ends it.
pub fn play(
    args: &Windows,
    cut: &Cut,
    policies: &[Policy],
    seeds: &[u64],
) -> Result<Vec<Vec<Played>>, Failure> {
    heed_interrupts();
    let fails = args.conditions.host_mtbf.is_some() || args.conditions.link_mtbf.is_some();
    let seeded = |policy: &Policy| policy.seeded() || cut.by_seed || fails;
    let mut tasks = Vec::new();
    for eta in 0..args.eta.len() {
        for window in 0..cut.windows.len() {
            for (policy, of) in policies.iter().enumerate() {
                let count = if seeded(of) { seeds.len() } else { 1 };
                let played = |seed: &usize| !cut.windows[window].scene(*seed).hosts.is_empty();
                tasks.extend((0..count).filter(played).map(|seed| Task {
                    eta,
                    window,
                    policy,
                    seed,
                }));
            }
        }
    }
    let all = tasks.len();
    let jobs = |task: &Task| cut.windows[task.window].scene(task.seed).workload.len();
    let bar = progress_bar(tasks.iter().map(jobs).sum(), all);
    let done = AtomicCount::default();
    let one = |task: &Task| -> Result<Run, Missing> {
        let scene = cut.windows[task.window].scene(task.seed);
        let hosts = scene.hosts[task.eta];
        let given = (&args.conditions, &args.numbers);
        // What there is to remark on a model was said when the trace was cut.
        let ground = Ground::alike(hosts, args.host_gpus as usize, given, &mut Remarks::new());
        let ground = ground.map_err(Missing::Failed)?;
        let (policy, seed) = (policies[task.policy], seeds[task.seed]);
        let (outcome, _) = run_one(&ground, &scene.workload, policy, seed, (&bar, None))?;
        bar.set_message(format!("{} of {all} runs", done.next()));
        let metrics = Metrics::new(&scene.workload, &outcome);
        Ok(Run { seed: task.seed, hosts, metrics })
    };
    let runs: Vec<Result<Run, Missing>> = tasks.par_iter().map(one).collect();
    bar.finish_and_clear();
    let finished = runs.iter().filter(|run| run.is_ok()).count();
    let mut etas: Vec<Vec<Played>> = args.eta.iter().map(|_| Vec::new()).collect();
    for (task, run) in tasks.iter().zip(runs) {
        let run = run.map_err(|missing| match missing {
            Missing::Failed(failure) => failure,
            Missing::Stopped => {
                let message = format!("interrupted after {finished} of {all} runs");
                Failure::new(Code::Interrupted, "", Diagnostic::error("", message))
            }
        })?;
        let windows = &mut etas[task.eta];
        if windows.last().is_none_or(|last| last.window != task.window) {
            let runs = policies.iter().map(|_| Vec::new()).collect();
            windows.push(Played { window: task.window, runs });
        }
        if let Some(last) = windows.last_mut() {
            last.runs[task.policy].push(run);
        }
    }
    Ok(etas)
}
