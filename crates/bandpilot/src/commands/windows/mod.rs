//! `bandpilot windows`.

mod cut;
mod play;
mod report;
mod table;
mod text;
mod verdict;

use std::path::Path;

use bandpilot_readers::Diagnostic;
use bandpilot_sim::Policy;

use self::text::Studied;
use super::ground::Remarks;
use super::simulate::{command_line, exists, policies, read_trace};
use crate::cli::Windows;
use crate::exit::{Code, Failure};
use crate::io::{check_place, is_special, make_folder, read_text, replace, replace_with};
use crate::output::{Done, Output as _};

/// Files of `--out`.
const CSV: &str = "windows.csv";
const SUMMARY: &str = "summary.json";
const REPORT: &str = "report.html";

/// Plays a trace window by window.
///
/// # Errors
/// If an argument or the trace cannot be used, results cannot be kept, or Ctrl-C ends it.
pub fn windows(args: &Windows) -> Result<Done, Failure> {
    let policies = policies(&args.policy)?;
    let judged = judged(args.judge.as_deref(), &policies)?;
    // Before the runs: they may take long.
    let kept = places(args)?;
    let mut remarks = Remarks::new();
    let file = args.trace.display().to_string();
    let text = read_text(&args.trace)?;
    let read = read_trace(&file, &text)?;
    let bad_rows = read.value.bad_rows;
    remarks.extend(read.diagnostics.into_iter().map(|remark| (file.clone(), remark)));
    let seeds = args.seeds.all();
    let cut = cut::cut(args, &read.value, &seeds, &mut remarks)?;
    let played = play::play(args, &cut, &policies, &seeds)?;
    let judge = |(eta, played): (&f64, _)| verdict::judge(*eta, played, &policies, judged);
    let etas = args.eta.iter().zip(played).map(judge).collect();
    let mut result = Studied {
        trace: file.clone(),
        window_s: args.window,
        host_gpus: args.host_gpus as usize,
        size_by: args.size_by,
        least_jobs: args.least_jobs as usize,
        seeds,
        bad_rows,
        cut,
        policies,
        judged,
        etas,
        remarks: Remarks::new(),
        files: Vec::new(),
    };
    let refused = result.refused();
    if refused > 0 {
        let message = format!("jobs that fit on no cluster, with some policy: {refused}");
        remarks.push((file, Diagnostic::warning("gpus", message)));
    }
    result.remarks.clone_from(&remarks);
    write(args, &kept, &mut result)?;
    let code = if bad_rows > 0 || refused > 0 { Code::Problems } else { Code::Ok };
    Ok(Done { output: Box::new(result), remarks, code })
}

/// The policy that is judged, by place.
fn judged(name: Option<&str>, policies: &[Policy]) -> Result<usize, Failure> {
    let Some(name) = name else {
        let compass = |policy: &Policy| policy.placement.name == "compass";
        return Ok(policies.iter().position(compass).unwrap_or(0));
    };
    let is = |policy: &Policy| policy.to_string() == name.trim();
    policies.iter().position(is).ok_or_else(|| {
        let reason = Diagnostic::error("", format!("'{name}' is none of --policy"));
        Failure::new(Code::BadInput, "--judge", reason.help("name one of them"))
    })
}

/// Files that are written: the table, the summary, and the reports.
struct Kept {
    table: Option<std::path::PathBuf>,
    summary: Option<std::path::PathBuf>,
    reports: Vec<std::path::PathBuf>,
}

impl Kept {
    fn all(&self) -> impl Iterator<Item = &Path> {
        let tables = self.table.iter().chain(&self.summary);
        tables.chain(&self.reports).map(AsRef::as_ref)
    }
}

/// Where results will be, if they may be there.
fn places(args: &Windows) -> Result<Kept, Failure> {
    if let Some(folder) = &args.out {
        make_folder(folder)?;
    }
    let inside = |name: &str| args.out.as_ref().map(|folder| folder.join(name));
    let kept = Kept {
        table: inside(CSV),
        summary: inside(SUMMARY),
        reports: inside(REPORT).into_iter().chain(args.report.clone()).collect(),
    };
    let there = |path: &&Path| path.exists() && !is_special(path);
    if let Some(path) = kept.all().find(there).filter(|_| !args.force) {
        return Err(exists(path));
    }
    kept.all().try_for_each(check_place)?;
    Ok(kept)
}

fn write(args: &Windows, kept: &Kept, result: &mut Studied) -> Result<(), Failure> {
    if let Some(path) = &kept.table {
        replace_with(path, |w| table::csv(w, result, &args.eta))?;
    }
    if let Some(path) = &kept.summary {
        replace(path, &format!("{:#}\n", result.json()))?;
    }
    if !kept.reports.is_empty() {
        let page = report::report(result, &command_line(std::env::args()));
        kept.reports.iter().try_for_each(|path| replace(path, &page))?;
    }
    result.files = kept.all().map(|path| path.display().to_string()).collect();
    Ok(())
}
