//! The output of nccl-tests and rccl-tests, as text and as JSON, in every form since 2018.
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
//! The out-of-place bus bandwidth is kept. Three things make a row usable:
//!
//! * **where it ran**: the device list if it is complete (ranks 0..n-1), else the caller's placement, else
//!   the whole cluster if the rows prove that so many GPUs ran; if list and caller both say it they must
//!   have the same numbers of GPUs a host, and the caller's names are used;
//! * **what ran**: the line `Collective test starting`, a command in the log, the caller, or the rows
//!   themselves if only one collective has such numbers; all that speak must agree;
//! * **that the row agrees with both**: algbw must be size / time, busbw / algbw the factor of this
//!   collective for this number of ranks, and size / (count x element size) what the collective makes
//!   of it.
//!
//! What is inferred is said in a note. A table in which most rows disagree is refused as a whole, a single
//! such row alone. `docs/reference/benchmark-logs.md` is the user's side of this.

mod bus_id;
mod check;
mod devices;
mod header;
mod infer;
mod json;
mod lines;
mod rows;
mod scan;
mod settle;

use std::collections::BTreeSet;

use bandpilot_core::{Collective, Measurement, counted};

use crate::{Diagnostic, Import, ImportOptions, Severity};

use rows::{Row, RowOutcome};
use scan::{Scanned, Table, scan};

/// Reads the output of one or more runs. `source` is the name that the measurements carry.
pub fn read(source: &str, text: &str, options: &ImportOptions) -> Import {
    let scanned = scan(text);
    let scanned =
        if scanned.tables.is_empty() { json::scan(text).unwrap_or(scanned) } else { scanned };
    if scanned.tables.is_empty() {
        return Import { diagnostics: no_table(scanned), refused: true, ..Import::default() };
    }
    let mut import = Import { diagnostics: scanned.remarks, ..Import::default() };
    let mut whole_refused = false;
    for table in scanned.tables {
        let rows = table.rows.len();
        match read_table(source, table, options) {
            Ok(part) => {
                import.measurements.extend(part.measurements);
                import.skipped_rows += part.skipped_rows;
                import.refused_rows += part.refused_rows;
                import.diagnostics.extend(part.diagnostics);
            }
            Err(reason) => {
                whole_refused = true;
                import.refused_rows += rows;
                import.diagnostics.push(reason);
            }
        }
    }
    import.refused = whole_refused && import.measurements.is_empty();
    import.finish()
}

/// The remarks with a reason why there is nothing else.
fn no_table(scanned: Scanned) -> Vec<Diagnostic> {
    let mut all = scanned.remarks;
    if all.iter().all(|remark| remark.severity < Severity::Error) {
        let line = all.iter().map(|remark| remark.line).find(|line| *line > 0);
        let help = "it begins with: # size count type redop root time algbw busbw #wrong ...";
        let reason = Diagnostic::error("", "no table of nccl-tests was found");
        all.push(reason.at(line.unwrap_or(0), 0).help(help));
    }
    crate::diagnostic::sort(&mut all);
    all
}

fn read_table(source: &str, table: Table, options: &ImportOptions) -> Result<Import, Diagnostic> {
    let mut table = table;
    if let Some(reason) = table.unusable {
        return Err(reason);
    }
    if table.rows.is_empty() {
        return Err(Diagnostic::error("", "no row stands below this header")
            .at(table.line, 0)
            .help("the output may be cut off; run the test again"));
    }
    let mut import = Import::default();
    let rows = sound_rows(std::mem::take(&mut table.rows), &mut import);
    if rows.is_empty() {
        return Ok(import);
    }
    let (op, placement) = settle::settle(&table, &rows, options, &mut import.diagnostics)?;
    let ranks: usize = placement.iter().map(|(_, mask)| mask.count()).sum();
    if ranks == 1 {
        let lines: Vec<u32> = rows.iter().map(|row| row.line).collect();
        note_skipped(&mut import, &lines, "of a single GPU");
        return Ok(import);
    }
    let good = checked_rows(op, ranks, rows, &table, &mut import)?;
    import.measurements.extend(good.into_iter().map(|row| Measurement {
        collective: op,
        bytes: Some(row.bytes),
        placement: placement.clone(),
        busbw_gbytes_per_s: row.busbw.value,
        source: source.to_owned(),
        line: u64::from(row.line),
    }));
    Ok(import)
}

/// The rows that are sound by themselves; the others are noted.
fn sound_rows(outcomes: Vec<RowOutcome>, import: &mut Import) -> Vec<Row> {
    let (mut rows, mut zero_sizes): (Vec<Row>, Vec<u32>) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            RowOutcome::Row(row) => rows.push(*row),
            RowOutcome::SizeZero(line) => zero_sizes.push(line),
            RowOutcome::Refused(reason) => {
                import.refused_rows += 1;
                import.diagnostics.push(reason);
            }
        }
    }
    note_skipped(import, &zero_sizes, "of size 0");
    rows
}

/// The rows that fit the collective and the number of ranks; the others are noted.
fn checked_rows(
    op: Collective,
    ranks: usize,
    rows: Vec<Row>,
    table: &Table,
    import: &mut Import,
) -> Result<Vec<Row>, Diagnostic> {
    let numbers = infer::ranks(op, &rows);
    let checked = check::against(op, ranks, rows).map_err(|reason| {
        let mend = "give the --op and --placement that were really run";
        reason.help(match numbers {
            infer::Ranks::Unknown => mend.to_owned(),
            numbers => format!("if it was {op}, {numbers}; {mend}"),
        })
    })?;
    let (too_slow, good): (Vec<Row>, Vec<Row>) =
        checked.good.into_iter().partition(|row| row.busbw.value == 0.0);
    let lines: Vec<u32> = too_slow.iter().map(|row| row.line).collect();
    note_skipped(import, &lines, "with a printed bandwidth of 0");
    let note = |field: &str, message: String| Diagnostic::note(field, message).at(table.line, 0);
    if !checked.by_bandwidth && !good.is_empty() {
        let message = "no row is fast enough to check the number of ranks";
        import.diagnostics.push(note("busbw", message.to_owned()));
    }
    if table.cpu_time {
        let message = "the times are those of the calls; algbw cannot be checked against them";
        import.diagnostics.push(note("time", message.to_owned()));
    }
    import.diagnostics.extend(several_kinds(&good).map(|message| note("", message)));
    import.refused_rows += checked.odd.len();
    import.diagnostics.extend(checked.odd);
    Ok(good)
}

/// Says that rows of several reductions or element types count as repeats of each other.
fn several_kinds(rows: &[Row]) -> Option<String> {
    let kinds: BTreeSet<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    let named: Vec<&str> = kinds.iter().copied().collect();
    (kinds.len() > 1).then(|| {
        format!("rows of {} are taken as repeats of the same collective", named.join(", "))
    })
}

fn note_skipped(import: &mut Import, lines: &[u32], why: &str) {
    let Some(first) = lines.first() else { return };
    import.skipped_rows += lines.len();
    let message = format!("skipped: {} {why}", counted(lines.len(), "row"));
    import.diagnostics.push(Diagnostic::note("", message).at(*first, 0));
}

#[cfg(test)]
#[path = "../tests/nccl_tests.rs"]
mod tests;
