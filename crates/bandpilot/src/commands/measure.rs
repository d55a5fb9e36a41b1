//! `bandpilot measure import` and `show`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bandpilot_core::{Cluster, GpuMask, Measurement, format_bytes, parse_bytes};
use bandpilot_readers::coverage::{Outlier, Summary, summarise};
use bandpilot_readers::{
    Diagnostic, Import, ImportOptions, MissingBytes, Severity, placement, store,
};
use serde_json::{Value, json};

use crate::cli::{MeasureImport, MeasureShow};
use crate::commands::ground;
use crate::exit::{Code, Failure};
use crate::io::{append_locked, read_text};
use crate::output::{Done, Output, counted, remark_json, table, write_table};

/// Imports benchmark results into a store.
///
/// # Errors
/// If an argument is wrong, a file cannot be read, a file is refused (without `--keep-going`), or the
/// store cannot be written; then nothing is written.
pub fn import(args: &MeasureImport) -> Result<Done, Failure> {
    let mut remarks = Vec::new();
    let options = options(args, &mut remarks)?;
    let mut files = Vec::new();
    for path in &args.files {
        if path.is_dir() {
            let reason = Diagnostic::error("", "is a folder, not a file");
            let reason = reason.help(format!("give its files: {}", path.join("*").display()));
            return Err(Failure::new(Code::Io, &path.display().to_string(), reason));
        }
        let text = read_text(path)?;
        let import = bandpilot_readers::import(&source_name(path), &text, &options);
        files.push((path.display().to_string(), import));
    }
    let refused = files.iter().any(|(_, import)| import.refused);
    if refused && !args.keep_going {
        return Err(refusal(&files));
    }
    let all: Vec<_> =
        files.iter().flat_map(|(_, import)| import.measurements.iter().cloned()).collect();
    check_names(&options, &all)?;
    let name = args.out.display().to_string();
    let (added, already_present) = append_locked(&args.out, |existing| {
        let addition = store::append_text(existing, &all)
            .map_err(|reason| Failure::new(Code::BadInput, &name, reason))?;
        Ok((addition.text, (addition.added, addition.already_present)))
    })?;
    // Whatever was said to be wrong, a script must be able to see, also where the rest was imported.
    let wrong = refused || files.iter().any(|(_, import)| import.has_errors());
    let code = if wrong { Code::Problems } else { Code::Ok };
    let output = Imported { store: name, files, added, already_present };
    Ok(Done { remarks, code, ..Done::ok(output) })
}

/// Host names that were given but stand in no reading are slips: an append-only store must not take them.
fn check_names(options: &ImportOptions, all: &[Measurement]) -> Result<(), Failure> {
    let seen: BTreeSet<&str> =
        all.iter().flat_map(|m| &m.placement).map(|(host, _)| host.as_str()).collect();
    let unused = |name: &&String| !seen.contains(name.as_str());
    let renamed = options.renames.iter().find(|(_, new)| unused(&new)).map(|(old, _)| old);
    let listed = options.hosts.iter().all(|name| unused(&name)).then(|| options.hosts.first());
    let Some(name) = renamed.or(listed.flatten()) else { return Ok(()) };
    if all.is_empty() {
        return Ok(());
    }
    let hosts = seen.into_iter().take(8).collect::<Vec<_>>().join(", ");
    let message = format!("'{name}' is no host of these files, which have {hosts}");
    let help =
        "write OLD=NEW with an OLD from the files; a plain list is for the host columns of a table";
    Err(Failure::new(Code::Usage, "--hosts", Diagnostic::error("", message).help(help)))
}

/// The file name without its folder: the same file is the same source wherever it lies.
fn source_name(path: &Path) -> String {
    match path.file_name() {
        Some(name) if path.as_os_str() != "-" => name.to_string_lossy().into_owned(),
        _ => store::STDIN.to_owned(),
    }
}

fn options(
    args: &MeasureImport,
    remarks: &mut Vec<(String, Diagnostic)>,
) -> Result<ImportOptions, Failure> {
    let usage = |argument: &str, message: String, help: &str| {
        Failure::new(Code::Usage, argument, Diagnostic::error("", message).help(help))
    };
    let mut options = ImportOptions::default();
    if let Some(path) = &args.cluster {
        options.cluster = Some(Arc::new(ground::cluster(path, remarks)?));
    }
    if let Some(op) = &args.op {
        let op = op.parse().map_err(|error| usage("--op", format!("{error}"), ""))?;
        options.op = Some(op);
    }
    if let Some(text) = &args.placement {
        options.placement = Some(given_placement(text, options.cluster.as_deref())?);
    }
    match args.bytes.as_deref() {
        None => {}
        Some("unknown") => options.bytes = MissingBytes::Unknown,
        Some(text) => {
            let bytes = parse_bytes(text)
                .map_err(|error| usage("--bytes", error.to_string(), "or write \"unknown\""))?;
            options.bytes = MissingBytes::Given(bytes);
        }
    }
    if let Some(text) = &args.hosts {
        options.set_hosts(text).map_err(|reason| Failure::new(Code::Usage, "--hosts", reason))?;
    }
    Ok(options)
}

/// Where the user says that it ran; a host without GPUs means its healthy ones, if a cluster tells them.
fn given_placement(
    text: &str,
    cluster: Option<&Cluster>,
) -> Result<Vec<(String, GpuMask)>, Failure> {
    let read = match cluster {
        Some(cluster) => placement::by_name_on(text, cluster),
        None => placement::by_name(text),
    };
    let (value, _) = read.into_result().map_err(|mut reasons| {
        for reason in reasons.iter_mut().filter(|r| r.message.ends_with(" has no GPUs")) {
            reason.help += ", or give --cluster, which tells the GPUs of a host";
        }
        Failure::all(Code::Usage, "--placement", reasons)
    })?;
    Ok(value)
}

/// The failure of an import: everything that was said about the refused files.
fn refusal(files: &[(String, Import)]) -> Failure {
    let mut failure = Failure { code: Code::BadInput, reasons: Vec::new() };
    for (file, import) in files.iter().filter(|(_, import)| import.refused) {
        let about = Failure::all(Code::BadInput, file, import.diagnostics.clone());
        failure.reasons.extend(about.reasons);
    }
    let message = "nothing was written; --keep-going imports what can be used";
    failure.reasons.push((String::new(), Diagnostic::note("", message)));
    failure
}

struct Imported {
    store: String,
    files: Vec<(String, Import)>,
    added: usize,
    already_present: usize,
}

impl Output for Imported {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        for (file, import) in &self.files {
            for remark in &import.diagnostics {
                writeln!(w, "{}", remark.display(file))?;
            }
        }
        let mut rows = table(&["FILE", "IMPORTED", "SKIPPED", "REFUSED", ""]);
        for (file, import) in &self.files {
            rows.add_row([
                file.clone(),
                import.measurements.len().to_string(),
                import.skipped_rows.to_string(),
                import.refused_rows.to_string(),
                if import.refused { "file refused" } else { "" }.to_owned(),
            ]);
        }
        write_table(w, &rows)?;
        let Self { store, added, already_present, .. } = self;
        writeln!(
            w,
            "{store}: {} added, {already_present} there already",
            counted(*added, "measurement")
        )
    }

    fn json(&self) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|(file, import)| {
                let remarks: Vec<Value> =
                    import.diagnostics.iter().map(|remark| remark_json(file, remark)).collect();
                json!({
                    "file": file,
                    "imported": import.measurements.len(),
                    "skipped": import.skipped_rows,
                    "refused": import.refused_rows,
                    "file_refused": import.refused,
                    "diagnostics": remarks,
                })
            })
            .collect();
        json!({
            "store": self.store,
            "added": self.added,
            "already_present": self.already_present,
            "files": files,
        })
    }
}

/// Shows what a store covers.
///
/// # Errors
/// If the file cannot be read or is no store.
pub fn show(args: &MeasureShow) -> Result<Done, Failure> {
    let file = args.store.display().to_string();
    let read = store::parse(&read_text(&args.store)?);
    let refused = read.diagnostics.iter().any(|d| d.severity == Severity::Error && d.line == 1);
    if refused {
        return Err(Failure::all(Code::BadInput, &file, read.diagnostics));
    }
    let code = if read.has_errors() { Code::Problems } else { Code::Ok };
    let output =
        Covered { summary: summarise(&read.value), remarks: read.diagnostics.clone(), file };
    let file = output.file.clone();
    let remarks = read.diagnostics.into_iter().map(|remark| (file.clone(), remark)).collect();
    Ok(Done { remarks, code, ..Done::ok(output) })
}

struct Covered {
    file: String,
    summary: Summary,
    remarks: Vec<Diagnostic>,
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), format_bytes)
}

impl Output for Covered {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let summary = &self.summary;
        writeln!(w, "{}", counted(summary.measurements, "measurement"))?;
        if !summary.counts.is_empty() {
            let header = ["COLLECTIVE", "SIZE", "HOSTS", "GPUS", "MEASUREMENTS", "PLACEMENTS"];
            let mut counts = table(&header);
            for count in &summary.counts {
                counts.add_row([
                    count.collective.to_string(),
                    size(count.bytes),
                    count.hosts.to_string(),
                    if count.gpus.0 == count.gpus.1 {
                        count.gpus.0.to_string()
                    } else {
                        format!("{}-{}", count.gpus.0, count.gpus.1)
                    },
                    count.measurements.to_string(),
                    count.placements.to_string(),
                ]);
            }
            writeln!(w)?;
            write_table(w, &counts)?;
        }
        writeln!(w)?;
        match summary.repeats {
            None => writeln!(w, "no placement was measured twice: run-to-run noise is unknown")?,
            Some(noise) => writeln!(
                w,
                "{} measured more than once; readings are {:.1} % apart on average, {:.1} % at worst",
                match noise.repeated {
                    1 => "1 placement was".to_owned(),
                    many => format!("{many} placements were"),
                },
                100.0 * noise.mean,
                100.0 * noise.worst
            )?,
        }
        write_outliers(w, &summary.outliers)
    }

    fn json(&self) -> Value {
        let summary = &self.summary;
        let counts: Vec<Value> = summary
            .counts
            .iter()
            .map(|count| {
                json!({
                    "op": count.collective.name(),
                    "bytes": count.bytes,
                    "hosts": count.hosts,
                    "gpus_min": count.gpus.0,
                    "gpus_max": count.gpus.1,
                    "measurements": count.measurements,
                    "placements": count.placements,
                })
            })
            .collect();
        let repeats = summary.repeats.map(|noise| {
            json!({
                "placements": noise.repeated,
                "mean_relative_spread": noise.mean,
                "worst_relative_spread": noise.worst,
            })
        });
        let remarks: Vec<Value> =
            self.remarks.iter().map(|remark| remark_json(&self.file, remark)).collect();
        json!({
            "measurements": summary.measurements,
            "counts": counts,
            "repeats": repeats,
            "outliers": summary.outliers.iter().map(outlier_json).collect::<Vec<_>>(),
            "diagnostics": remarks,
        })
    }
}

fn write_outliers(w: &mut dyn Write, outliers: &[Outlier]) -> io::Result<()> {
    if outliers.is_empty() {
        return writeln!(w, "no reading stands out among its peers");
    }
    let header = ["COLLECTIVE", "SIZE", "PLACEMENT", "GB/S", "MEDIAN", "PEERS", "SOURCE"];
    let mut rows = table(&header);
    for outlier in outliers {
        let m = &outlier.measurement;
        rows.add_row([
            m.collective.to_string(),
            size(m.bytes),
            placement::format(&m.placement),
            format!("{:.2}", m.busbw_gbytes_per_s),
            format!("{:.2}", outlier.median_gbytes_per_s),
            outlier.peers.to_string(),
            format!("{}:{}", m.source, m.line),
        ]);
    }
    writeln!(w, "not like its peers: {}; measure again", counted(outliers.len(), "reading"))?;
    write_table(w, &rows)
}

fn outlier_json(outlier: &Outlier) -> Value {
    let m = &outlier.measurement;
    json!({
        "op": m.collective.name(),
        "bytes": m.bytes,
        "placement": placement::format(&m.placement),
        "busbw_gbytes_per_s": m.busbw_gbytes_per_s,
        "median_gbytes_per_s": outlier.median_gbytes_per_s,
        "peers": outlier.peers,
        "source": m.source,
        "line": m.line,
    })
}
