//! A trace in windows, and the clusters that they are played on.

use bandpilot_readers::trace_file::Trace;
use bandpilot_sim::sizing::{self, Demand};
use bandpilot_sim::{Mixed, Workload};

use crate::cli::{SizeBy, Windows};
use crate::commands::ground::Remarks;
use crate::commands::simulate::ground::Ground;
use crate::exit::Failure;

/// The jobs of a window with one seed.
pub struct Scene {
    pub workload: Workload,
    /// Hosts of the cluster, one entry an eta; none if the window is not played.
    pub hosts: Vec<usize>,
}

/// A stretch of time in which jobs are submitted.
pub struct Window {
    /// So many windows after the origin of the trace's clock.
    pub number: i64,
    /// When it begins.
    pub from_s: f64,
    /// Jobs that ask for GPUs.
    pub jobs: usize,
    /// One a seed if the jobs depend on it, else a single one.
    scenes: Vec<Scene>,
}

impl Window {
    /// The jobs with the `at`-th seed.
    pub fn scene(&self, at: usize) -> &Scene {
        &self.scenes[at.min(self.scenes.len() - 1)]
    }
}

/// All windows with jobs, in order of time.
pub struct Cut {
    pub windows: Vec<Window>,
    /// Jobs of the trace that ask for GPUs.
    pub jobs: usize,
    /// What the mix has changed with the first seed.
    pub mixed: Option<Mixed>,
    /// Jobs depend on the seed.
    pub by_seed: bool,
}

/// Cuts a trace.
///
/// # Errors
/// If a file that the arguments name cannot be used.
pub fn cut(
    args: &Windows,
    trace: &Trace,
    seeds: &[u64],
    remarks: &mut Remarks,
) -> Result<Cut, Failure> {
    let ground =
        Ground::alike(1, args.host_gpus as usize, (&args.conditions, &args.numbers), remarks)?;
    let by_seed = args.conditions.mix.is_some();
    let mut cut = Cut { windows: Vec::new(), jobs: 0, mixed: None, by_seed };
    let of_jobs = if by_seed { seeds } else { &seeds[..1] };
    for (at, seed) in of_jobs.iter().enumerate() {
        let mut trace = trace.clone();
        // Before it is cut: what a job is does not depend on the window.
        let mixed = ground.prepare(&mut trace, &args.conditions, *seed);
        if at == 0 {
            cut.mixed = mixed;
            cut.jobs = trace.jobs.iter().filter(|job| job.gpus > 0).count();
        }
        add(&mut cut, args, &trace, &ground, at == 0);
    }
    Ok(cut)
}

/// Adds the scenes of one seed; the first one makes the windows.
fn add(cut: &mut Cut, args: &Windows, trace: &Trace, ground: &Ground, first: bool) {
    let number = |submit_s: f64| (submit_s / args.window).floor() as i64;
    let host_gpus = args.host_gpus as usize;
    let until_s = |number: i64| (number + 1) as f64 * args.window;
    let last = trace.jobs.last().map_or(0, |job| number(job.submit_s));
    let whole = (args.size_by == SizeBy::Trace).then(|| {
        let all = Workload::new(trace, &ground.hosts);
        let demand = Demand::new(&all, until_s(last));
        args.eta.iter().map(|eta| sizing::hosts(&all, &demand, host_gpus, *eta)).collect()
    });
    let (mut from, mut at) = (0, 0);
    while from < trace.jobs.len() {
        let of = number(trace.jobs[from].submit_s);
        let jobs = trace.jobs[from..].iter().take_while(|job| number(job.submit_s) == of).count();
        let workload = Workload::new(&trace.part(from..from + jobs), &ground.hosts);
        from += jobs;
        let enough = workload.len() as u64 >= args.least_jobs;
        let hosts = match &whole {
            _ if !enough => Vec::new(),
            Some(hosts) => Vec::clone(hosts),
            None => {
                let demand = Demand::new(&workload, until_s(of));
                let size = |eta: &f64| sizing::hosts(&workload, &demand, host_gpus, *eta);
                args.eta.iter().map(size).collect()
            }
        };
        let from_s = of as f64 * args.window;
        if first {
            let (jobs, scenes) = (workload.len(), Vec::new());
            cut.windows.push(Window { number: of, from_s, jobs, scenes });
        }
        // The mix leaves times as they are, so that every seed has the same windows.
        if let Some(window) = cut.windows.get_mut(at) {
            window.scenes.push(Scene { workload, hosts });
        }
        at += 1;
    }
}
