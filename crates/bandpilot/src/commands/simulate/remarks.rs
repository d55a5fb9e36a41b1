//! What is to be said of jobs that are not played as the trace has them.

use std::collections::BTreeMap;

use bandpilot_core::counted;
use bandpilot_readers::Diagnostic;
use bandpilot_readers::trace_file::TraceJob;
use bandpilot_sim::orders::theta_of_s;
use bandpilot_sim::{Hosts, JobId, LeftOut, Policy};

use super::runs::{Run, Scene, Stage};
use super::words;
use crate::cli::Simulate;

/// Most jobs that are listed because they fit nowhere.
const MAX_LISTED: usize = 100;

/// Remarks on jobs that were left out or changed.
pub fn left_out(left_out: &LeftOut) -> impl Iterator<Item = Diagnostic> + use<> {
    let LeftOut { without_gpus, shared_gpus, model_unknown } = *left_out;
    [
        ("gpus", without_gpus, "jobs without a GPU, left out"),
        ("gpu_milli", shared_gpus, "jobs that ask for parts of several GPUs, given whole ones"),
        (
            "gpu_type",
            model_unknown,
            "jobs that name a GPU model where the hosts have none, given any",
        ),
    ]
    .into_iter()
    .filter(|(_, jobs, _)| *jobs > 0)
    .map(|(field, jobs, what)| Diagnostic::note(field, format!("{what}: {jobs}")))
}

/// A remark on the theta of two-stage where nobody has named one.
pub fn theta(args: &Simulate, stage: &Stage) -> Option<Diagnostic> {
    let asked = stage.policies.iter().any(|policy| policy.order.name == "two-stage");
    (asked && args.numbers.two_stage_theta.is_none()).then(|| {
        let theta_s = theta_of_s(&stage.scene(0).workload, stage.ground.hosts.gpus());
        let help = "a site that does not know durations beforehand has to name it";
        let message = format!("chosen by the durations of the trace: {theta_s:.0} s");
        Diagnostic::note("", message).help(help)
    })
}

/// Remarks on the jobs that would not fit on the idle cluster, with the first seed.
pub fn refused(scene: &Scene, hosts: &Hosts, policies: &[(Policy, Vec<Run>)]) -> Vec<Diagnostic> {
    let mut by_job: BTreeMap<JobId, Vec<Policy>> = BTreeMap::new();
    for (policy, runs) in policies {
        let jobs = runs.first().map_or(&[][..], |run| &run.jobs);
        for (job, _) in (0..).map(JobId).zip(jobs).filter(|(_, job)| job.finish_s.is_none()) {
            by_job.entry(job).or_default().push(*policy);
        }
    }
    let remark = |(job, names): (&JobId, &Vec<Policy>)| {
        let row = scene.trace.jobs.get(scene.workload.of_trace(*job));
        let (name, line) = row.map_or(("", 0), |row| (&*row.name, row.line));
        let who = if names.len() == policies.len() {
            "no policy runs it".to_owned()
        } else {
            let these = words::names(names.iter().copied());
            format!("not run by {} of {} policies: {these}", names.len(), policies.len())
        };
        let (field, why) = row.map_or(("gpus", String::new()), |row| why(scene, *job, row, hosts));
        Diagnostic::warning(field, format!("'{name}' asks for {why}: {who}")).at(line, 0)
    };
    let mut remarks: Vec<Diagnostic> = by_job.iter().take(MAX_LISTED).map(remark).collect();
    if by_job.len() > MAX_LISTED {
        let more = by_job.len() - MAX_LISTED;
        remarks.push(Diagnostic::warning("gpus", format!("{more} further jobs do not fit")));
    }
    remarks
}

/// The column that keeps a job off the idle cluster, and what it asks for.
fn why(scene: &Scene, job: JobId, row: &TraceJob, hosts: &Hosts) -> (&'static str, String) {
    let shape = scene.workload.shape(job);
    let largest = hosts.largest(shape.models);
    let asked = scene.trace.word(row.gpu_type);
    if largest == 0 {
        return ("gpu_type", format!("GPUs of the model '{asked}', which no healthy host has"));
    }
    let of = if asked.is_empty() || !hosts.models_known() {
        String::new()
    } else {
        format!(" of the model '{asked}'")
    };
    // Instances that nobody has stated are made so that they fit into the largest host.
    if shape.stated && shape.instance_gpus.min(row.gpus) > largest {
        let size = counted(shape.instance_gpus.min(row.gpus) as usize, "GPU");
        let message = format!("an instance of {size}{of}, and the largest host has {largest}");
        return ("gpus_per_instance", message);
    }
    let gpus = counted(row.gpus as usize, "GPU");
    ("gpus", format!("{gpus}{of} that do not fit on the idle cluster"))
}
