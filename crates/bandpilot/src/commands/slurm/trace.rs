//! `bandpilot slurm trace`.

use std::io::{self, Write};
use std::time::Duration;

use bandpilot_manager::exchange::{Process, Recorder, Replay, Runner};
use bandpilot_readers::{Diagnostic, Severity};
use bandpilot_slurm::trace::samples::{self, Sampled};
use bandpilot_slurm::trace::{Choice, History, Moment, Run, Tenant, sacct};
use serde_json::{Value, json};

use super::sampling;
use crate::cli::{SlurmTrace, TenantColumn};
use crate::commands::ground::{self, Remarks};
use crate::exit::{Code, Failure};
use crate::io::{read_text, replace};
use crate::output::{Done, Output, counted, remarks_json, table, write_table};

/// Makes a trace, or takes samples for one.
///
/// # Errors
/// If Slurm does not answer, a file cannot be read or written, or no job had GPUs.
pub fn trace(args: &SlurmTrace) -> Result<Done, Failure> {
    if let Some(path) = &args.sample {
        return sampling::sample(args, path);
    }
    let mut remarks = Remarks::new();
    // A wrong file is told before Slurm is asked.
    let cluster = match &args.cluster {
        Some(path) => Some(ground::cluster(path, &mut remarks)?),
        None => None,
    };
    let told = told(args, &mut remarks)?;
    let mut history = History::of(told.runs, &choice(args, told.at_s)?);
    if history.jobs.is_empty() {
        return Err(nothing(&history, &told.source, remarks));
    }
    if let Some(cluster) = &cluster {
        let source = told.source.clone();
        let said = history.name_gpu_models(cluster);
        remarks.extend(said.into_iter().map(|remark| (source.clone(), remark)));
    }
    if let Some(out) = &args.out {
        let tenant = match args.tenant {
            TenantColumn::Account => Tenant::Account,
            TenantColumn::User => Tenant::User,
            TenantColumn::Partition => Tenant::Partition,
        };
        replace(out, &history.write(tenant, args.anonymous))?;
    }
    let bad = remarks.iter().any(|(_, remark)| remark.severity == Severity::Error);
    let code = if bad { Code::Problems } else { Code::Ok };
    let out = args.out.as_ref().map(|out| out.display().to_string());
    let shown = Shown {
        source: told.source,
        sampled: told.sampled,
        history,
        out,
        remarks: remarks.clone(),
    };
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

/// What a source told.
struct Told {
    source: String,
    runs: Vec<Run>,
    sampled: Option<Sampled>,
    /// When it was asked, seconds since 1970.
    at_s: Option<i64>,
}

fn told(args: &SlurmTrace, remarks: &mut Remarks) -> Result<Told, Failure> {
    let mut note = |source: &str, said: Vec<Diagnostic>| {
        remarks.extend(said.into_iter().map(|remark| (source.to_owned(), remark)));
    };
    if let Some(path) = &args.samples {
        let source = path.display().to_string();
        let read = samples::runs(&read_text(path)?);
        let (runs, sampled) = read.value;
        if sampled.samples == 0 && !read.diagnostics.is_empty() {
            return Err(Failure::all(Code::BadInput, &source, read.diagnostics));
        }
        note(&source, read.diagnostics);
        return Ok(Told { source, runs, sampled: Some(sampled), at_s: Some(sampled.last_s) });
    }
    let (source, text, at_s) = if let Some(path) = &args.sacct {
        (path.display().to_string(), read_text(path)?, None)
    } else {
        let (text, at_s) = asked(args)?;
        ("sacct".to_owned(), text, Some(at_s))
    };
    let read = sacct::runs(&text);
    if read.value.is_empty() && !read.diagnostics.is_empty() {
        return Err(Failure::all(Code::BadInput, &source, read.diagnostics));
    }
    note(&source, read.diagnostics);
    Ok(Told { source, runs: read.value, sampled: None, at_s })
}

fn asked(args: &SlurmTrace) -> Result<(String, i64), Failure> {
    with_runner(args, |runner| {
        sacct::ask(runner, since(args).unwrap_or("now"), args.until.as_deref())
            .map_err(|reason| vec![reason])
    })
}

/// Does something with Slurm's commands, with a recording, or writes one.
pub fn with_runner<T>(
    args: &SlurmTrace,
    act: impl FnOnce(&mut dyn Runner) -> Result<T, Vec<(String, Diagnostic)>>,
) -> Result<T, Failure> {
    let failed = |code: Code| move |reasons| Failure { code, reasons };
    if let Some(path) = &args.replay {
        let file = path.display().to_string();
        let read = Replay::read(&read_text(path)?).into_result();
        let (mut replay, _) =
            read.map_err(|reasons| Failure::all(Code::BadInput, &file, reasons))?;
        return act(&mut replay).map_err(failed(Code::BadInput));
    }
    let mut process =
        Process { timeout: Duration::from_secs(args.timeout_s), ..Process::default() };
    let Some(path) = &args.record else {
        return act(&mut process).map_err(failed(Code::Io));
    };
    let mut recording = Vec::new();
    let result = Recorder::new(process, &mut recording)
        .map_err(|error| Failure::new(Code::Io, "", Diagnostic::error("", error.to_string())))
        .and_then(|mut recorder| act(&mut recorder).map_err(failed(Code::Io)));
    // Also what failed is worth looking at elsewhere.
    replace(path, &String::from_utf8_lossy(&recording))?;
    result
}

/// From when on: of a file all is taken, the accounts of a site may reach back for years.
fn since(args: &SlurmTrace) -> Option<&str> {
    let file = args.sacct.is_some() || args.samples.is_some();
    args.since.as_deref().or((!file).then_some("now-30days"))
}

fn choice(args: &SlurmTrace, at_s: Option<i64>) -> Result<Choice, Failure> {
    let moment = |option: &str, text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let wrong = |message: &str| {
            let reason = Diagnostic::error("", message).help("give a date: 2026-11-01");
            Failure::new(Code::Usage, option, reason)
        };
        match (Moment::parse(text).map_err(|reason| wrong(&reason))?, at_s) {
            (Moment::At(at_s), _) => Ok(Some(at_s)),
            (ago @ Moment::Ago(_), Some(now_s)) => Ok(Some(ago.at_s(now_s))),
            (Moment::Ago(_), None) => {
                Err(wrong("a file of accounts does not say when it was made"))
            }
        }
    };
    Ok(Choice {
        since_s: moment("--since", since(args))?,
        until_s: moment("--until", args.until.as_deref())?,
        partitions: args.partition.clone(),
    })
}

/// No job with GPUs, and what may be the cause.
fn nothing(history: &History, source: &str, remarks: Remarks) -> Failure {
    let reasons: Vec<String> =
        left_out(history).into_iter().filter(|(_, count, _)| *count > 0).map(said).collect();
    let message = if reasons.is_empty() {
        "no jobs in this time".to_owned()
    } else {
        format!("no job with GPUs; left out: {}", reasons.join(", "))
    };
    let mut reason = Diagnostic::error("", message);
    if history.left_out.without_gpus > 0 {
        reason = reason.help(
            "accounts count GPUs where slurm.conf says AccountingStorageTRES=gres/gpu; samples of the queue need no accounts",
        );
    }
    let mut reasons = vec![(source.to_owned(), reason)];
    reasons.extend(remarks);
    Failure { code: Code::Impossible, reasons }
}

fn said((what, count, _): (&'static str, usize, &'static str)) -> String {
    format!("{count} {what}")
}

/// What was left out: words, count, key.
fn left_out(history: &History) -> [(&'static str, usize, &'static str); 6] {
    let left = history.left_out;
    [
        ("without GPUs", left.without_gpus, "without_gpus"),
        ("over before they started", left.never_started, "never_started"),
        ("waiting", left.waiting, "waiting"),
        ("of other partitions", left.other_partition, "other_partition"),
        ("of another time", left.other_time, "other_time"),
        ("gone unseen between samples", left.unseen, "unseen"),
    ]
}

struct Shown {
    source: String,
    sampled: Option<Sampled>,
    history: History,
    out: Option<String>,
    remarks: Remarks,
}

impl Shown {
    /// Jobs that had not ended, jobs of several components, jobs whose GPUs do not say how they spread.
    fn kinds(&self) -> (usize, usize, usize) {
        let count = |is: fn(&bandpilot_slurm::trace::PastJob) -> bool| {
            self.history.jobs.iter().filter(|job| is(job)).count()
        };
        (
            count(|job| job.open),
            count(|job| job.components > 1),
            count(|job| job.gpus_per_instance.is_none()),
        )
    }

    /// Jobs whose end is not exact, and the largest doubt in seconds.
    fn doubt(&self) -> (usize, i64) {
        let doubts = self.history.jobs.iter().map(|job| job.uncertain_s).filter(|s| *s > 0);
        (doubts.clone().count(), doubts.max().unwrap_or(0))
    }

    fn span(&self) -> (i64, i64) {
        let jobs = &self.history.jobs;
        let first = jobs.iter().map(|job| job.submit_s).min().unwrap_or(0);
        (first, jobs.iter().map(|job| job.end_s).max().unwrap_or(0))
    }

    fn remarks_on_jobs(&self, w: &mut dyn Write) -> io::Result<()> {
        let (open, het, uneven) = self.kinds();
        let (doubtful, most_s) = self.doubt();
        let again = self.history.requeued;
        for (count, text) in [
            (open, "had not ended: taken with the time that they had".to_owned()),
            (het, "of several components: taken as one each".to_owned()),
            (
                uneven,
                "whose hosts had different numbers of GPUs: only the total is said".to_owned(),
            ),
            (
                again.jobs,
                format!(
                    "ran again: the last run is taken, {:.1} GPU hours of the others are not",
                    again.gpu_hours
                ),
            ),
            (
                doubtful,
                format!("whose end lies between two samples: known to {most_s} s up or down"),
            ),
        ] {
            if count > 0 {
                writeln!(w, "{}, {text}", counted(count, "job"))?;
            }
        }
        Ok(())
    }
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let (first, end) = self.span();
        let (jobs, hours) = (self.history.jobs.len(), self.history.gpu_hours());
        let jobs = counted(jobs, "job");
        writeln!(w, "{}: {jobs} with GPUs, {hours:.1} GPU hours", self.source)?;
        writeln!(w, "from {} to {}", crate::output::time(first), crate::output::time(end))?;
        if let Some(sampled) = self.sampled {
            let samples = counted(sampled.samples, "sample");
            writeln!(w, "{samples}, at most {} s apart", sampled.longest_gap_s)?;
        }
        if let Some(waits) = self.history.waits() {
            let mut rows = table(&["WAITED S", "MEAN", "P95", "LONGEST"]);
            let cells = [waits.p95_s, waits.max_s].map(|s| s.to_string());
            let [p95, max] = cells;
            rows.add_row([String::new(), format!("{:.1}", waits.mean_s), p95, max]);
            writeln!(w)?;
            write_table(w, &rows)?;
        }
        let mut rows = table(&["ENDED AS", "JOBS"]);
        for (state, count) in self.history.states() {
            rows.add_row([state.replace(char::is_control, "?"), count.to_string()]);
        }
        writeln!(w)?;
        write_table(w, &rows)?;
        writeln!(w)?;
        self.remarks_on_jobs(w)?;
        let left: Vec<String> =
            left_out(&self.history).into_iter().filter(|(_, n, _)| *n > 0).map(said).collect();
        if !left.is_empty() {
            writeln!(w, "left out: {}", left.join(", "))?;
        }
        match &self.out {
            Some(out) => writeln!(w, "written: {out}"),
            None => writeln!(w, "no trace is written without --out"),
        }
    }

    fn json(&self) -> Value {
        let history = &self.history;
        let (open, het, uneven) = self.kinds();
        let (doubtful, most_s) = self.doubt();
        let (first_s, end_s) = self.span();
        let left: serde_json::Map<String, Value> = left_out(history)
            .into_iter()
            .map(|(_, count, key)| (key.to_owned(), Value::from(count)))
            .collect();
        let waits = history.waits().unwrap_or_default();
        json!({
            "source": self.source,
            "jobs": history.jobs.len(),
            "gpu_hours": history.gpu_hours(),
            "origin_s": history.origin_s(),
            "first_submit_s": first_s,
            "last_end_s": end_s,
            "wait_s": {"mean": waits.mean_s, "p95": waits.p95_s, "max": waits.max_s},
            "states": history.states(),
            "left_out": left,
            "not_ended": open,
            "heterogeneous": het,
            "uneven": uneven,
            "requeued": {"jobs": history.requeued.jobs, "gpu_hours": history.requeued.gpu_hours},
            "inexact_ends": {"jobs": doubtful, "most_s": most_s},
            "samples": {
                "count": self.sampled.map_or(0, |sampled| sampled.samples),
                "first_s": self.sampled.map(|sampled| sampled.first_s),
                "last_s": self.sampled.map(|sampled| sampled.last_s),
                "longest_gap_s": self.sampled.map(|sampled| sampled.longest_gap_s),
            },
            "out": self.out,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
