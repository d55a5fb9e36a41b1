//! `bandpilot simulate`.

mod ground;

use std::collections::BTreeMap;
use std::io::{self, Write};

use bandpilot_model::Predictor;
use bandpilot_readers::Diagnostic;
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::{JobId, LeftOut, Metrics, Mixed, Network, Outcome, Policy, Setting, Workload};
use rayon::prelude::*;
use serde_json::{Value, json};

use self::ground::Ground;
use super::ground::Remarks;
use crate::cli::Simulate;
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, Output, remark_json, table, write_table};

/// Most jobs that are listed because they fit nowhere.
const MAX_LISTED: usize = 100;

/// Plays a trace against policies.
///
/// # Errors
/// If an argument, the trace or the cluster cannot be used.
pub fn simulate(args: &Simulate) -> Result<Done, Failure> {
    let policies = policies(&args.policy)?;
    let mut remarks = Remarks::new();
    let ground = Ground::read(args, &mut remarks)?;
    let hosts = &ground.hosts;
    let file = args.trace.display().to_string();
    let read = trace_file::read(&read_text(&args.trace)?);
    if read.value.jobs.is_empty() {
        let mut reasons = read.diagnostics;
        if reasons.is_empty() {
            reasons.push(Diagnostic::error("", "the trace has no job"));
        }
        return Err(Failure::all(Code::BadInput, &file, reasons));
    }
    let mut trace = read.value;
    let mixed = ground.prepare(&mut trace, args);
    let workload = Workload::new(&trace, hosts);
    remarks.extend(read.diagnostics.into_iter().map(|remark| (file.clone(), remark)));
    remarks.extend(left_out(&workload.left_out).map(|remark| (file.clone(), remark)));
    // Collected in the order of the policies, whoever is done first.
    let runs: Result<Vec<(Policy, Metrics, Vec<JobId>)>, Failure> = policies
        .into_par_iter()
        .map(|policy| play(&ground, &workload, policy, args.seed))
        .collect();
    let runs = runs?;
    let refused = refused(&trace, &workload, &runs);
    let code = if trace.bad_rows > 0 || !refused.is_empty() { Code::Problems } else { Code::Ok };
    remarks.extend(refused.into_iter().map(|remark| (file.clone(), remark)));
    let shown = Simulated {
        trace: file,
        hosts: hosts.len(),
        gpus: hosts.gpus(),
        seed: args.seed,
        jobs: workload.len(),
        bad_rows: trace.bad_rows,
        left_out: workload.left_out,
        mixed,
        policies: runs.into_iter().map(|(policy, metrics, _)| (policy, metrics)).collect(),
        remarks: remarks.clone(),
    };
    Ok(Done { output: Box::new(shown), remarks, code })
}

fn play(
    ground: &Ground,
    workload: &Workload,
    policy: Policy,
    seed: u64,
) -> Result<(Policy, Metrics, Vec<JobId>), Failure> {
    let predictor = Predictor::new(&ground.model, &ground.cluster, ground.bytes);
    let setting = Setting::new(&ground.hosts, workload, &ground.options, seed)
        .with_network(Network::new(&predictor));
    let outcome = bandpilot_sim::simulate(&setting, policy).map_err(|broken| {
        let message = format!("the run of {policy} is not sound: {broken}");
        let help = "this is a mistake in the program; please report it with the trace";
        Failure::new(Code::Internal, "", Diagnostic::error("", message).help(help))
    })?;
    Ok((policy, Metrics::new(workload, &outcome), never_ran(&outcome)))
}

fn never_ran(outcome: &Outcome) -> Vec<JobId> {
    let ids = (0..).map(JobId).zip(outcome.jobs());
    ids.filter(|(_, result)| result.finish_s.is_none()).map(|(job, _)| job).collect()
}

fn policies(names: &[String]) -> Result<Vec<Policy>, Failure> {
    let mut policies: Vec<Policy> = Vec::with_capacity(names.len());
    let wrong = |message: String| {
        let reason = Diagnostic::error("", message).help("run with --help for the list");
        Failure::new(Code::BadInput, "--policy", reason)
    };
    for name in names {
        let policy = Policy::parse(name).map_err(|error| wrong(error.to_string()))?;
        if policies.iter().any(|known| known.to_string() == policy.to_string()) {
            return Err(wrong(format!("'{policy}' stands twice")));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn left_out(left_out: &LeftOut) -> impl Iterator<Item = Diagnostic> + use<> {
    let LeftOut { without_gpus, shared_gpus, model_unknown } = *left_out;
    [
        ("gpus", without_gpus, "jobs without a GPU, left out"),
        ("gpu_milli", shared_gpus, "jobs that share a GPU, each given a whole one"),
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

/// Remarks on the jobs that would not fit on the idle cluster.
fn refused(
    trace: &Trace,
    workload: &Workload,
    runs: &[(Policy, Metrics, Vec<JobId>)],
) -> Vec<Diagnostic> {
    let mut by_job: BTreeMap<JobId, Vec<String>> = BTreeMap::new();
    for (policy, _, jobs) in runs {
        for job in jobs {
            by_job.entry(*job).or_default().push(policy.to_string());
        }
    }
    let remark = |(job, policies): (&JobId, &Vec<String>)| {
        let row = trace.jobs.get(workload.of_trace(*job));
        let (name, line, gpus) = row.map_or(("", 0, 0), |row| (&*row.name, row.line, row.gpus));
        let who = if policies.len() == runs.len() {
            "no policy".to_owned()
        } else {
            format!("not {}", policies.join(", "))
        };
        let message = format!(
            "'{name}' asks for {gpus} GPUs that do not fit on the idle cluster: {who} runs it"
        );
        Diagnostic::warning("gpus", message).at(line, 0)
    };
    let mut remarks: Vec<Diagnostic> = by_job.iter().take(MAX_LISTED).map(remark).collect();
    if by_job.len() > MAX_LISTED {
        let more = by_job.len() - MAX_LISTED;
        remarks.push(Diagnostic::warning("gpus", format!("{more} further jobs do not fit")));
    }
    remarks
}

struct Simulated {
    trace: String,
    hosts: usize,
    gpus: usize,
    seed: u64,
    jobs: usize,
    bad_rows: usize,
    left_out: LeftOut,
    mixed: Option<Mixed>,
    policies: Vec<(Policy, Metrics)>,
    remarks: Remarks,
}

impl Output for Simulated {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(w, "trace   {}: {} jobs", self.trace, self.jobs)?;
        writeln!(w, "cluster {} hosts, {} GPUs", self.hosts, self.gpus)?;
        writeln!(w, "seed    {}", self.seed)?;
        if let Some(mixed) = &self.mixed {
            let Mixed { jobs, instances, gpu_seconds: (before, after) } = *mixed;
            let more = if before > 0.0 { 100.0 * (after / before - 1.0) } else { 0.0 };
            writeln!(w, "mix     {jobs} jobs, {instances} instances; GPU-seconds {more:+.1} %")?;
        }
        if self.bad_rows > 0 {
            writeln!(w, "wrong rows of the trace, left out: {}", self.bad_rows)?;
        }
        let mut rows = table(&[
            "POLICY",
            "JOBS",
            "REFUSED",
            "MEAN JCT S",
            "MEDIAN",
            "P95",
            "P99",
            "MEAN WAIT S",
            "MAKESPAN S",
            "PREEMPTIONS",
            "BUSY %",
            "HEAD BLOCKED S",
        ]);
        for (policy, m) in &self.policies {
            let busy = m.busy_while_queued.map(|share| format!("{:.1}", 100.0 * share));
            rows.add_row([
                policy.to_string(),
                m.jobs.to_string(),
                m.refused.to_string(),
                format!("{:.2}", m.avg_jct_s),
                format!("{:.0}", m.median_jct_s),
                format!("{:.0}", m.p95_jct_s),
                format!("{:.0}", m.p99_jct_s),
                format!("{:.2}", m.avg_wait_s),
                format!("{:.0}", m.makespan_s),
                m.preemptions.to_string(),
                busy.unwrap_or_else(|| "-".to_owned()),
                format!("{:.0}", m.head_blocked_s),
            ]);
        }
        writeln!(w)?;
        write_table(w, &rows)?;
        writeln!(
            w,
            "\nbusy: GPUs held while jobs wait; head blocked: time the first one waits although enough GPUs are idle"
        )
    }

    fn json(&self) -> Value {
        let policies: Vec<Value> =
            self.policies.iter().map(|(policy, metrics)| policy_json(*policy, metrics)).collect();
        json!({
            "trace": self.trace,
            "hosts": self.hosts,
            "gpus": self.gpus,
            "seed": self.seed,
            "jobs": self.jobs,
            "bad_rows": self.bad_rows,
            "left_out": {
                "without_gpus": self.left_out.without_gpus,
                "shared_gpus": self.left_out.shared_gpus,
                "model_unknown": self.left_out.model_unknown,
            },
            "mixed": self.mixed.map(|mixed| json!({
                "jobs": mixed.jobs,
                "instances": mixed.instances,
                "gpu_s_before": mixed.gpu_seconds.0,
                "gpu_s_after": mixed.gpu_seconds.1,
            })),
            "policies": policies,
            "diagnostics": self.remarks.iter().map(|(f, r)| remark_json(f, r)).collect::<Vec<_>>(),
        })
    }
}

fn policy_json(policy: Policy, metrics: &Metrics) -> Value {
    json!({
        "policy": policy.to_string(),
        "jobs": metrics.jobs,
        "refused": metrics.refused,
        "avg_jct_s": metrics.avg_jct_s,
        "median_jct_s": metrics.median_jct_s,
        "p95_jct_s": metrics.p95_jct_s,
        "p99_jct_s": metrics.p99_jct_s,
        "avg_wait_s": metrics.avg_wait_s,
        "makespan_s": metrics.makespan_s,
        "preemptions": metrics.preemptions,
        "migrations": metrics.migrations,
        "faults": metrics.faults,
        "busbw_jobs": metrics.busbw_jobs,
        "avg_busbw_gbytes_per_s": metrics.avg_busbw_gbytes_per_s,
        "p05_busbw_gbytes_per_s": metrics.p05_busbw_gbytes_per_s,
        "contention_slowdown": metrics.contention_slowdown,
        "lost_gpu_s": metrics.lost_gpu_s,
        "busy_while_queued": metrics.busy_while_queued,
        "queued_s": metrics.queued_s,
        "head_blocked_s": metrics.head_blocked_s,
    })
}

#[cfg(test)]
mod tests {
    use bandpilot_sim::policy::{ORDERS, PLACEMENTS};
    use clap::CommandFactory as _;

    #[test]
    fn help_lists_every_unit() {
        let mut command = crate::cli::Cli::command();
        let simulate = command.find_subcommand_mut("simulate").unwrap();
        let help = simulate.render_long_help().to_string();
        let orders = ORDERS.iter().map(|order| (order.name, order.summary));
        let placements = PLACEMENTS.iter().map(|rule| (rule.name, rule.summary));
        for (name, summary) in orders.chain(placements) {
            assert!(help.contains(&format!("  {name:<11} {summary}\n")), "{name}: {summary}");
        }
    }
}
