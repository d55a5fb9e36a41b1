//! `bandpilot fit`.

use std::io::{self, Write};
use std::path::Path;

use bandpilot_model::cross_validation::Errors;
use bandpilot_model::fit::Stage;
use bandpilot_model::model::BandwidthModel;
use bandpilot_model::{FitError, FitOptions, FitReport};
use bandpilot_readers::{Diagnostic, store};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::cli::Fit;
use crate::commands::ground::{self, Remarks};
use crate::exit::{Code, Failure};
use crate::io::{is_special, read_text, replace};
use crate::output::{Done, Output, counted, remarks_json, table, write_table};

/// Fits a model and writes it.
///
/// # Errors
/// If a file cannot be read, written or used, or no measurement fits the cluster.
pub fn fit(args: &Fit) -> Result<Done, Failure> {
    let mut remarks = Remarks::new();
    let cluster = ground::cluster(&args.cluster, &mut remarks)?;
    let name = args.measurements.display().to_string();
    let read = store::parse(&read_text(&args.measurements)?);
    let measurements = ground::settle(read, &name, Code::BadInput, &mut remarks)?;
    let options = FitOptions {
        collective: args.op,
        description: format!(
            "fitted on {} for cluster {}",
            counted(measurements.len(), "reading"),
            cluster.name
        ),
        folds: args.folds as usize,
    };
    let bar = progress_bar(args.folds);
    let fitted = bandpilot_model::fit(&cluster, &measurements, &options, &mut |stage| {
        bar.inc(1);
        bar.set_message(stage_name(stage));
    });
    bar.finish_and_clear();
    let (model, report) = fitted.map_err(|error| {
        let FitError::NothingFits { unknown, .. } = error;
        let help = if unknown > 0 {
            "import with --hosts to give hosts the cluster file's names; see 'bandpilot measure show'"
        } else {
            "give the collective of the readings with --op; see 'bandpilot measure show'"
        };
        Failure::new(Code::BadInput, &name, Diagnostic::error("", error.to_string()).help(help))
    })?;
    if let Some(first) = &report.first_unknown {
        let (name_them, they_are) =
            if report.unknown == 1 { ("names", "it is") } else { ("name", "they are") };
        let message = format!(
            "{} {name_them} hosts or GPUs that the cluster lacks (first: {first}); {they_are} left out",
            counted(report.unknown, "reading")
        );
        remarks.push((name, Diagnostic::warning("", message)));
    }
    if measurements.is_empty() {
        let message = "the store has no readings: the model is the closed form alone";
        remarks.push((args.measurements.display().to_string(), Diagnostic::warning("", message)));
    }
    replace_model(&args.out, &bandpilot_model::file::write(&model))?;
    let out = args.out.display().to_string();
    let output =
        Fitted { out, model, report, folds: args.folds as usize, remarks: remarks.clone() };
    Ok(Done { remarks, ..Done::ok(output) })
}

/// Writes the model, but over no file that is something else: a store or a cluster file would be lost.
fn replace_model(path: &Path, text: &str) -> Result<(), Failure> {
    let there = (path.exists() && !is_special(path)).then(|| read_text(path)).transpose()?;
    let foreign = |old: &String| {
        !old.trim().is_empty()
            && bandpilot_model::file::read(old).is_err_and(|e| e.field != "version")
    };
    if there.as_ref().is_some_and(foreign) {
        let reason = Diagnostic::error("--out", "it is there already and is no model file")
            .help("give another name, or remove the file first");
        return Err(Failure::new(Code::BadInput, &path.display().to_string(), reason));
    }
    replace(path, text)
}

fn progress_bar(folds: u32) -> ProgressBar {
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::new(u64::from(folds) + 2);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn stage_name(stage: Stage) -> String {
    match stage {
        Stage::Calibrate => "constants of the closed form".to_owned(),
        Stage::Correct => "correction".to_owned(),
        Stage::CrossValidate(fold, folds) => format!("cross-validation, fold {fold} of {folds}"),
    }
}

struct Fitted {
    out: String,
    model: BandwidthModel,
    report: FitReport,
    folds: usize,
    remarks: Remarks,
}

impl Output for Fitted {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let report = &self.report;
        writeln!(
            w,
            "{}: {} used: {} inside hosts, {} across hosts",
            self.out,
            counted(report.used, "reading"),
            counted(report.local_sets, "subset"),
            counted(report.cross_sets, "set")
        )?;
        for (count, what) in [
            (report.other_collective, "of another collective"),
            (report.unknown, "of unknown hosts or GPUs"),
            (report.without_size, "across hosts without a message size or of a single GPU"),
        ] {
            if count > 0 {
                writeln!(w, "left out: {count} {what}")?;
            }
        }
        match report.contradicted {
            0 => {}
            1 => writeln!(
                w,
                "1 set across hosts is contradicted by its peers; it keeps its value but teaches nothing"
            )?,
            many => writeln!(
                w,
                "{many} sets across hosts are contradicted by their peers; they keep their value but teach nothing"
            )?,
        }
        let Some(validation) = &report.cross_validation else {
            let why = if self.folds < 2 {
                "--folds is below 2"
            } else {
                "it needs at least 20 distinct sets across hosts"
            };
            return writeln!(
                w,
                "no cross-validation: {why}; the bands are those of the closed form"
            );
        };
        let mut rows = table(&["HELD OUT", "SETS", "MEAN %", "MEDIAN %", "90TH PCT %"]);
        let row = |name: &str, errors: &Errors| {
            let per_cent = |share: f64| format!("{:.2}", 100.0 * share);
            [
                name.to_owned(),
                errors.sets.to_string(),
                per_cent(errors.mean),
                per_cent(errors.median),
                per_cent(errors.p90),
            ]
        };
        rows.add_row(row("all", &validation.overall));
        for (name, errors) in &validation.groups {
            rows.add_row(row(name, errors));
        }
        writeln!(w, "\nerror on sets held out, {}-fold", validation.folds)?;
        write_table(w, &rows)
    }

    fn json(&self) -> Value {
        let report = &self.report;
        let errors = |errors: &Errors| {
            json!({
                "sets": errors.sets,
                "mean": errors.mean,
                "median": errors.median,
                "p90": errors.p90,
            })
        };
        let validation = report.cross_validation.as_ref().map(|validation| {
            let groups: serde_json::Map<String, Value> =
                validation.groups.iter().map(|(name, e)| (name.clone(), errors(e))).collect();
            json!({"folds": validation.folds, "all": errors(&validation.overall), "groups": groups})
        });
        let physics = &self.model.physics;
        json!({
            "model": self.out,
            "readings_used": report.used,
            "left_out": {
                "other_collective": report.other_collective,
                "unknown_hosts_or_gpus": report.unknown,
                "without_size_or_single_gpu": report.without_size,
            },
            "local_sets": report.local_sets,
            "cross_sets": report.cross_sets,
            "contradicted": report.contradicted,
            "cross_validation": validation,
            "physics": {
                "rail_efficiency": physics.rail_efficiency,
                "ring_gain": physics.ring_gain,
                "two_host_cap": physics.two_host_cap,
                "many_host_cap": physics.many_host_cap,
                "latency_us": physics.latency_us,
                "latency_per_rank_us": physics.latency_per_rank_us,
                "tree_half_bytes": physics.tree_half_bytes,
            },
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
