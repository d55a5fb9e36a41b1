//! `bandpilot evaluate`.

use std::io::{self, Write};
use std::path::Path;

use bandpilot_core::{Cluster, Placement};
use bandpilot_eval::{ClusterName, LoadError, Mode, PolicyReport, Protocol, Report, Truth};
use bandpilot_readers::Diagnostic;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::cli::Evaluate;
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, Output, counted, table, write_table};

/// Scores all policies.
///
/// # Errors
/// If the tables cannot be read or used.
pub fn evaluate(args: &Evaluate) -> Result<Done, Failure> {
    let cluster = ClusterName::parse(&args.cluster).unwrap_or(ClusterName::H100);
    let truth = match &args.data {
        Some(folder) => measured(cluster, folder)?,
        None => cluster.synthetic(),
    };
    let protocol = Protocol {
        train: args.train,
        repeats: args.repeats as usize,
        seed: args.seed,
        modes: Mode::ALL.to_vec(),
    };
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cases, {eta} left") {
        bar.set_style(style);
    }
    let report = bandpilot_eval::run(&truth, &protocol, &thread_time_us, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    Ok(Done::ok(Evaluated { report, cluster: truth.cluster }))
}

/// Processor time of this thread: what a decision costs, whatever else the machine does meanwhile.
fn thread_time_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn measured(cluster: ClusterName, folder: &Path) -> Result<Truth, Failure> {
    let nested = folder.join("nccl-bandpilot");
    let folder = if nested.is_dir() { nested } else { folder.to_owned() };
    let name = folder.display().to_string();
    cluster.truth(&mut |file| read_text(&folder.join(file))).map_err(|error| match error {
        LoadError::File(failure) => failure,
        LoadError::Tables(error) => {
            Failure::new(Code::BadInput, &name, Diagnostic::error("", error.to_string()))
        }
    })
}

struct Evaluated {
    report: Report,
    cluster: Cluster,
}

impl Output for Evaluated {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let report = &self.report;
        writeln!(w, "cluster {}, truth {}", report.cluster, report.truth)?;
        writeln!(
            w,
            "seed {}, {}, {} per number of GPUs (2 to 31)",
            report.seed,
            counted(report.train, "training vector"),
            counted(report.repeats, "case")
        )?;
        if report.train == 0 {
            writeln!(
                w,
                "no training vector: the closed form alone, whose constants were fitted on the H100 table"
            )?;
        }
        for mode in &report.modes {
            let mut rows =
                table(&["POLICY", "MEAN %", "5TH PCT %", "MIN %", "DECISION P50 US", "P99 US"]);
            for policy in &mode.policies {
                rows.add_row([
                    policy.policy.to_owned(),
                    format!("{:.2}", policy.mean),
                    format!("{:.2}", policy.p5),
                    format!("{:.2}", policy.min),
                    format!("{:.0}", policy.dispatch_us_p50),
                    format!("{:.0}", policy.dispatch_us_p99),
                ]);
            }
            writeln!(
                w,
                "\n{}: per cent of the exact optimum over {}",
                mode.mode,
                counted(mode.cases, "case")
            )?;
            write_table(w, &rows)?;
            if let Some(ours) = mode.policies.first() {
                self.write_worst(w, ours)?;
            }
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let report = &self.report;
        let modes: Map<String, Value> = report
            .modes
            .iter()
            .map(|mode| {
                let policies: Map<String, Value> = mode
                    .policies
                    .iter()
                    .map(|policy| (policy.policy.to_owned(), self.policy_json(policy)))
                    .collect();
                (mode.mode.to_owned(), Value::from(policies))
            })
            .collect();
        json!({
            "cluster": report.cluster,
            "truth": report.truth,
            "seed": report.seed,
            "train": report.train,
            "repeats": report.repeats,
            "modes": modes,
        })
    }
}

impl Evaluated {
    fn write_worst(&self, w: &mut dyn Write, policy: &PolicyReport) -> io::Result<()> {
        let mut rows = table(&["WORST %", "GPUS", "CHOSEN", "GB/S", "BEST", "GB/S"]);
        for case in &policy.worst {
            rows.add_row([
                format!("{:.2}", case.score),
                case.gpus.to_string(),
                self.counts(&case.chosen),
                format!("{:.1}", case.chosen_gbytes_per_s),
                self.counts(&case.best),
                format!("{:.1}", case.best_gbytes_per_s),
            ]);
        }
        writeln!(w, "worst cases of {}", policy.policy)?;
        write_table(w, &rows)
    }

    fn counts(&self, set: &Placement) -> String {
        let parts = set
            .shares()
            .iter()
            .map(|(host, mask)| format!("{}:{}", self.cluster.host(*host).name, mask.count()));
        parts.collect::<Vec<_>>().join(" ")
    }

    fn policy_json(&self, policy: &PolicyReport) -> Value {
        let worst: Vec<Value> = policy
            .worst
            .iter()
            .map(|case| {
                json!({
                    "gpus": case.gpus,
                    "repeat": case.repeat,
                    "score": case.score,
                    "chosen": case.chosen.display(&self.cluster),
                    "chosen_gbytes_per_s": case.chosen_gbytes_per_s,
                    "best": case.best.display(&self.cluster),
                    "best_gbytes_per_s": case.best_gbytes_per_s,
                })
            })
            .collect();
        json!({
            "mean": policy.mean,
            "p5": policy.p5,
            "min": policy.min,
            "dispatch_us_p50": policy.dispatch_us_p50,
            "dispatch_us_p99": policy.dispatch_us_p99,
            "worst": worst,
        })
    }
}
