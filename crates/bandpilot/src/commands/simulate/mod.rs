//! `bandpilot simulate`.

pub mod figures;
mod folder;
pub mod ground;
mod job_table;
pub mod judge;
mod remarks;
mod report;
pub mod runs;
mod series_table;
pub mod text;
pub mod words;

use std::path::Path;

use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_readers::{Diagnostic, Parsed};
use bandpilot_sim::{Costs, FaultRates, Options, Policy};
use serde_json::{Value, json};

use self::folder::{About, CSV, Folder, PARQUET, REPORT, RESULTS, SERIES, SUMMARY, fingerprint};
use self::ground::Ground;
use self::runs::Stage;
use self::text::Simulated;
use super::ground::Remarks;
use crate::cli::Simulate;
use crate::exit::{Code, Failure};
use crate::io::{check_place, read_text, replace, replace_with, write_new};
use crate::output::{Done, Output as _};

/// Plays a trace against policies.
///
/// # Errors
/// If an argument, the trace or the cluster cannot be used, results cannot be kept, or Ctrl-C ends it.
pub fn simulate(args: &Simulate) -> Result<Done, Failure> {
    let policies = policies(&args.policy)?;
    if let Some(path) = &args.kept.report
        && !args.kept.force
        && path.exists()
        && !crate::io::is_special(path)
    {
        return Err(exists(path));
    }
    let mut remarks = Remarks::new();
    let ground = Ground::read(args, &mut remarks)?;
    let file = args.trace.display().to_string();
    let text = read_text(&args.trace)?;
    let read = read_trace(&file, &text)?;
    let bad_rows = read.value.bad_rows;
    let seeds = args.seeds.all();
    let stage = Stage::new(ground, policies, seeds, read.value, args);
    let about = about(args, &stage, &text);
    let kept = &args.kept;
    // Before the runs: they may take hours. A page inside the folder has no place before the folder is there.
    let page = kept.report.as_deref();
    let inside = |path: &&Path| kept.out.as_ref().is_some_and(|folder| path.starts_with(folder));
    page.filter(|path| !inside(path)).map_or(Ok(()), check_place)?;
    let folder = kept.out.as_ref();
    let folder =
        folder.map(|path| Folder::take(path, &about, kept.resume, kept.force)).transpose()?;
    page.filter(inside).map_or(Ok(()), check_place)?;
    let scene = stage.scene(0);
    let (played, run_again) = runs::play(&stage, folder.as_ref())?;

    let left_out = scene.workload.left_out;
    remarks.extend(read.diagnostics.into_iter().map(|remark| (file.clone(), remark)));
    remarks.extend(remarks::left_out(&left_out).map(|remark| (file.clone(), remark)));
    let theta = remarks::theta(args, &stage);
    remarks.extend(theta.map(|remark| ("--two-stage-theta".to_owned(), remark)));
    let refused = remarks::refused(scene, &stage.ground.hosts, &played);
    let code = if bad_rows > 0 || !refused.is_empty() { Code::Problems } else { Code::Ok };
    remarks.extend(refused.into_iter().map(|remark| (file.clone(), remark)));
    let mixed = scene.mixed;
    let jobs = scene.workload.len();
    let (policies, verdict) = judge::judge(&stage, played);
    let mut result = Simulated {
        trace: file,
        hosts: stage.ground.hosts.len(),
        gpus: stage.ground.hosts.gpus(),
        seeds: stage.seeds.clone(),
        jobs,
        bad_rows,
        left_out,
        mixed,
        policies,
        verdict,
        remarks: remarks.clone(),
        files: Vec::new(),
    };
    result.files = write(args, folder.as_ref(), &stage, &result)?;
    // Not among the results: those are the same as without it.
    remarks.extend(run_again);
    Ok(Done { output: Box::new(result), remarks, code })
}

/// Reads the text of a trace.
///
/// # Errors
/// If it has no job.
pub fn read_trace(file: &str, text: &str) -> Result<Parsed<Trace>, Failure> {
    let read = trace_file::read(text);
    if !read.value.jobs.is_empty() {
        return Ok(read);
    }
    let mut reasons = read.diagnostics;
    if reasons.is_empty() {
        reasons.push(Diagnostic::error("", "the trace has no job"));
    }
    Err(Failure::all(Code::BadInput, file, reasons))
}

/// Writes the files that were asked for; gives their names.
fn write(
    args: &Simulate,
    folder: Option<&Folder>,
    stage: &Stage,
    result: &Simulated,
) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    if folder.is_none() && args.kept.report.is_none() {
        return Ok(files);
    }
    let page = report::report(result, stage, &command_line(std::env::args()));
    if let Some(path) = &args.kept.report {
        if args.kept.force {
            replace(path, &page)?;
        } else if !write_new(path, &page)? {
            return Err(exists(path));
        }
        files.push(path.display().to_string());
    }
    if let Some(folder) = folder {
        let rows = &result.policies;
        replace_with(&folder.path(CSV), |w| job_table::csv(w, stage, rows))?;
        replace_with(&folder.path(PARQUET), |w| job_table::parquet(w, stage, rows))?;
        replace_with(&folder.path(SERIES), |w| series_table::csv(w, rows))?;
        folder.write(SUMMARY, &format!("{:#}\n", result.json()))?;
        folder.write(REPORT, &page)?;
        files.extend(RESULTS.map(|name| folder.path(name).display().to_string()));
    }
    Ok(files)
}

/// A file is in the way.
pub fn exists(path: &Path) -> Failure {
    let reason = Diagnostic::error("", "there is a file of this name");
    let reason = reason.help("name another one, or overwrite it with --force");
    Failure::new(Code::BadInput, &path.display().to_string(), reason)
}

/// What results depend on. Where a text would be long it is a fingerprint.
fn about(args: &Simulate, stage: &Stage, trace: &str) -> About {
    let policies: Vec<String> = stage.policies.iter().map(ToString::to_string).collect();
    let ground = &stage.ground;
    let about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "trace": args.trace.display().to_string(),
        "trace_sha256": fingerprint(trace),
        "cluster_sha256": fingerprint(format!("{:?}", ground.cluster)),
        "model_sha256": fingerprint(format!("{:?}", ground.model)),
        "bytes": ground.bytes,
        "comm_share": args.conditions.comm_share,
        "mix": args.conditions.mix,
        "policies": policies,
        "seeds": stage.seeds,
    });
    let mut all = options(&ground.options);
    if let Value::Object(about) = about {
        all.extend(about);
    }
    all
}

/// The options one by one, so that it can be said which one differs; `null` is never.
fn options(options: &Options) -> About {
    // Without dots: a new option has to be put here.
    let Options {
        costs: Costs { restart_s, migration_s, checkpoint_s },
        faults: FaultRates { host_mtbf_s, host_mttr_s, link_mtbf_s, link_mttr_s },
        las_thresholds_gpu_s,
        aging_s,
        two_stage_theta_s,
        round_s,
        compass_tau,
        compass_beta,
        least_rate,
        tradeoff,
        search_steps,
    } = options;
    let theta = two_stage_theta_s.map_or(Value::from("by the trace"), Value::from);
    let all = json!({
        "preemption_cost_s": restart_s,
        "migration_cost_s": migration_s,
        "checkpoint_every_s": checkpoint_s,
        "host_mtbf_s": host_mtbf_s,
        "host_mttr_s": host_mttr_s,
        "link_mtbf_s": link_mtbf_s,
        "link_mttr_s": link_mttr_s,
        "las_thresholds_gpu_s": las_thresholds_gpu_s,
        "aging_s": aging_s,
        "two_stage_theta_s": theta,
        "round_s": round_s,
        "compass_tau": compass_tau,
        "compass_beta": compass_beta,
        "least_rate": least_rate,
        "tradeoff": tradeoff,
        "search_steps": search_steps,
    });
    match all {
        Value::Object(all) => all,
        _ => About::new(),
    }
}

/// The command as it could be typed again, without what does not change the results.
pub fn command_line(words: impl Iterator<Item = String>) -> String {
    let passing = ["--resume", "--force", "--json"];
    let words = words.skip(1).filter(|word| !passing.contains(&&**word));
    let plain = |word: &str| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_./,:=%+@".contains(c);
        !word.is_empty() && word.chars().all(safe)
    };
    let quoted = words
        .map(|word| if plain(&word) { word } else { format!("'{}'", word.replace('\'', r"'\''")) });
    std::iter::once("bandpilot".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Reads policies; each may stand once.
///
/// # Errors
/// If one is not known.
pub fn policies(names: &[String]) -> Result<Vec<Policy>, Failure> {
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
