//! The output of nccl-tests, in the form it has had since 2021.
//!
//! ```text
//! # Collective test starting: all_reduce_perf
//! # Using devices
//! #  Rank  0 Group  0 Pid  15784 on h1 device  0 [0x0f] NVIDIA H100
//! #  Rank  1 Group  0 Pid  15785 on h1 device  1 [0x2d] NVIDIA H100
//! #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//! #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//!      1048576        262144     float     sum      -1   339.61    3.09    3.09       0   335.85    3.12    3.12       0
//! ```
//!
//! The out-of-place bus bandwidth is kept. Three things make a row usable, and none is guessed:
//!
//! * **where it ran**: the device list if it is complete (ranks 0..n-1), else the caller's placement; if
//!   both are there they must have the same numbers of GPUs a host, and the caller's names are used;
//! * **what ran**: the line `Collective test starting`, or the caller; both must agree;
//! * **that the table agrees with both**: busbw / algbw must be the factor of this collective for this
//!   number of ranks, and size / (count x element size) what this collective makes of it.
//!
//! A file in which most rows disagree is refused as a whole, a single such row alone. Other forms (the
//! `error` column before 2021, JSON, prefixed lines, other programs) are refused with the line.

mod check;
mod devices;
mod rows;
mod scan;

use bandpilot_core::{Collective, GpuMask, Measurement};

use crate::{Diagnostic, Import, ImportOptions, placement};

use rows::{Row, RowOutcome};
use scan::{Section, scan};

/// Reads the output of one or more runs of the same collective. `source` is the name that the
/// measurements carry.
pub fn read(source: &str, text: &str, options: &ImportOptions) -> Import {
    let scanned = match scan(text) {
        Ok(scanned) => scanned,
        Err(reason) => return Import::refuse(reason),
    };
    let mut import = Import { diagnostics: scanned.remarks, ..Import::default() };
    let mut op: Option<Collective> = None;
    let count: usize = scanned.sections.iter().map(|section| section.rows.len()).sum();
    for section in &scanned.sections {
        let part = read_section(source, section, options, op);
        match part {
            Ok((section_op, part)) => {
                op = Some(section_op);
                import.measurements.extend(part.measurements);
                import.skipped_rows += part.skipped_rows;
                import.refused_rows += part.refused_rows;
                import.diagnostics.extend(part.diagnostics);
            }
            Err(reason) => return Import { refused_rows: count, ..Import::refuse(reason) },
        }
    }
    import.finish()
}

/// One table; `op_before` is the collective of the tables before it in the file.
fn read_section(
    source: &str,
    section: &Section<'_>,
    options: &ImportOptions,
    op_before: Option<Collective>,
) -> Result<(Collective, Import), Diagnostic> {
    let op = section_op(section, options, op_before)?;
    let mut import = Import::default();
    let placement = section_placement(section, options, &mut import.diagnostics)?;
    let ranks: usize = placement.iter().map(|(_, mask)| mask.count()).sum();
    if section.rows.is_empty() {
        return Err(Diagnostic::error("", "no row stands below this header")
            .at(section.header_line, 0)
            .help("the output may be cut off; run the test again"));
    }
    let mut good: Vec<Row> = Vec::new();
    let mut zero_sizes: Vec<u32> = Vec::new();
    for raw in &section.rows {
        match rows::read(raw) {
            RowOutcome::Row(row) => good.push(row),
            RowOutcome::SizeZero => zero_sizes.push(raw.line),
            RowOutcome::Refused(reason) => {
                import.refused_rows += 1;
                import.diagnostics.push(reason);
            }
        }
    }
    note_skipped(&mut import, &zero_sizes, "of size 0");
    if ranks == 1 {
        let lines: Vec<u32> = good.iter().map(|row| row.line).collect();
        note_skipped(&mut import, &lines, "of a single GPU");
        return Ok((op, import));
    }
    let checked = check::against(op, ranks, good)?;
    let (too_slow, good): (Vec<Row>, Vec<Row>) =
        checked.good.into_iter().partition(|row| row.busbw.value == 0.0);
    let lines: Vec<u32> = too_slow.iter().map(|row| row.line).collect();
    note_skipped(&mut import, &lines, "that print a bandwidth of 0");
    if !checked.by_bandwidth && !good.is_empty() {
        let message = "no row is fast enough to check the number of ranks";
        import.diagnostics.push(Diagnostic::note("busbw", message).at(section.header_line, 0));
    }
    import.refused_rows += checked.odd.len();
    import.diagnostics.extend(checked.odd);
    import.measurements.extend(good.into_iter().map(|row| Measurement {
        collective: op,
        bytes: Some(row.bytes),
        placement: placement.clone(),
        busbw_gbytes_per_s: row.busbw.value,
        source: source.to_owned(),
        line: u64::from(row.line),
    }));
    Ok((op, import))
}

fn note_skipped(import: &mut Import, lines: &[u32], what: &str) {
    let Some(first) = lines.first() else { return };
    import.skipped_rows += lines.len();
    let message = format!("{} rows {what} are skipped", lines.len());
    import.diagnostics.push(Diagnostic::note("", message).at(*first, 0));
}

/// The collective of a table, which file and caller must agree on.
fn section_op(
    section: &Section<'_>,
    options: &ImportOptions,
    before: Option<Collective>,
) -> Result<Collective, Diagnostic> {
    let stated = match section.op {
        None => None,
        Some((line, name)) => match name.parse::<Collective>() {
            Ok(op) => Some((line, op)),
            Err(error) => {
                let reason = Diagnostic::error("op", error.to_string());
                return Err(reason.at(line, 0).help("such a run cannot be used"));
            }
        },
    };
    let (line, op) = match (stated, options.op) {
        (Some((line, stated)), Some(given)) if stated != given => {
            let message = format!("the file is of {stated}, but {given} was given");
            let reason = Diagnostic::error("op", message).at(line, 0);
            return Err(reason.help("leave the operation out for this file"));
        }
        (Some(stated), _) => stated,
        (None, Some(given)) => (section.header_line, given),
        (None, None) => {
            let message = "the file does not say which collective was run";
            let reason = Diagnostic::error("op", message).at(section.header_line, 0);
            return Err(reason.help("give it, for example --op all_reduce"));
        }
    };
    match before {
        Some(before) if before != op => {
            let message = format!("a table of {op} after one of {before}");
            let reason = Diagnostic::error("op", message).at(line, 0);
            Err(reason.help("split the file into one for each collective"))
        }
        _ => Ok(op),
    }
}

/// Where a table's run was, from the device list or the caller.
fn section_placement(
    section: &Section<'_>,
    options: &ImportOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Vec<(String, GpuMask)>, Diagnostic> {
    let listed = devices::placement(&section.ranks, section.ranks_elided);
    let help = "give it, for example --placement h1:0-7,h2:0-7";
    match (listed, options.placement.as_ref().filter(|given| !given.is_empty())) {
        (Ok(listed), None) => Ok(listed),
        (Err((line, reason)), None) => {
            let line = if line == 0 { section.header_line } else { line };
            Err(Diagnostic::error("placement", reason).at(line, 0).help(help))
        }
        (Err((line, reason)), Some(given)) => {
            if line > 0 {
                let message = format!("{reason}; the given placement is used");
                remarks.push(Diagnostic::note("placement", message).at(line, 0));
            }
            Ok(given.clone())
        }
        (Ok(listed), Some(given)) => {
            if counts(&listed) == counts(given) {
                return Ok(given.clone());
            }
            let line = section.ranks.first().map_or(section.header_line, |rank| rank.line);
            let message = format!(
                "the device list is {}, but {} was given",
                placement::format(&listed),
                placement::format(given)
            );
            let help = "both must have the same numbers of GPUs a host";
            Err(Diagnostic::error("placement", message).at(line, 0).help(help))
        }
    }
}

/// Numbers of GPUs a host, largest first.
fn counts(placement: &[(String, GpuMask)]) -> Vec<usize> {
    let mut counts: Vec<usize> = placement.iter().map(|(_, mask)| mask.count()).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

#[cfg(test)]
#[path = "../tests/nccl_tests.rs"]
mod tests;
