//! Link matrices and mask tables.

use bandpilot_core::{GpuMask, Links, MAX_GPUS_PER_HOST};

use crate::csv_lines::{Lines, Row};
use crate::links::matrix;
use crate::{Diagnostic, Parsed};

/// Reads a link matrix `gpu,GPU0,GPU1,...`; `None` if anything is wrong with it.
///
/// ```
/// let read = bandpilot_readers::csv_tables::read_links("gpu,GPU0,GPU1\nGPU0,X,NV4\nGPU1,NV4,X\n");
/// assert!(read.value.is_some());
/// ```
pub fn read_links(text: &str) -> Parsed<Option<Links>> {
    let refuse = |d: Diagnostic| Parsed { value: None, diagnostics: vec![d] };
    let Some(lines) = Lines::new(text) else {
        return refuse(Diagnostic::error("", "the file is empty"));
    };
    let gpus = lines.numbered("GPU");
    if gpus == 0 || gpus > MAX_GPUS_PER_HOST {
        let message = "the table has no columns GPU0, GPU1, ... up to at most GPU63";
        return refuse(Diagnostic::error("GPU0", message).at(lines.header_line(), 0));
    }
    let rows: Vec<Row<'_>> = lines.rows().collect();
    for (at, row) in rows.iter().enumerate() {
        let label = row.get("gpu");
        if lines.has("gpu") && label != format!("GPU{at}") {
            let message = format!("'{label}' stands where GPU{at} belongs");
            return refuse(Diagnostic::error("gpu", message).at(row.line, 0));
        }
        if row.len() != lines.width() {
            let message = format!("{} cells below {} columns", row.len(), lines.width());
            return refuse(Diagnostic::error("", message).at(row.line, 0));
        }
    }
    let names: Vec<String> = (0..gpus).map(|n| format!("GPU{n}")).collect();
    let words: Vec<Vec<&str>> =
        rows.iter().map(|row| names.iter().map(|name| row.get(name)).collect()).collect();
    match matrix(&words, gpus) {
        Ok(cells) => Parsed { value: Some(Links::Matrix(cells)), diagnostics: Vec::new() },
        Err(error) => {
            let line = rows.get(error.row).map_or(lines.header_line(), |row| row.line);
            let field = names.get(error.cell).map_or("", String::as_str);
            refuse(Diagnostic::error(field, error.message).at(line, 0).help(error.help))
        }
    }
}

/// Reads GPU sets over several hosts: `m0,m1,...`, one bit mask a host. Wrong rows are left out.
///
/// ```
/// let read = bandpilot_readers::csv_tables::read_masks("m0,m1\n255,3\n");
/// assert_eq!(read.value[0][0].count(), 8);
/// ```
pub fn read_masks(text: &str) -> Parsed<Vec<Vec<GpuMask>>> {
    let Some(lines) = Lines::new(text) else {
        let diagnostics = vec![Diagnostic::error("", "the file is empty")];
        return Parsed { value: Vec::new(), diagnostics };
    };
    let hosts = lines.numbered("m");
    let mut diagnostics = Vec::new();
    let mut sets = Vec::new();
    if hosts == 0 {
        let reason = Diagnostic::error("m0", "the table has no such column");
        diagnostics.push(reason.at(lines.header_line(), 0));
        return Parsed { value: sets, diagnostics };
    }
    for row in lines.rows() {
        match masks(&row, hosts) {
            Ok(set) => sets.push(set),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    Parsed { value: sets, diagnostics }
}

fn masks(row: &Row<'_>, hosts: usize) -> Result<Vec<GpuMask>, Diagnostic> {
    let mask = |host: usize| {
        let column = format!("m{host}");
        let cell = row.get(&column);
        cell.parse().map(GpuMask).map_err(|_| {
            Diagnostic::error(column, format!("'{cell}' is not a bit mask"))
                .at(row.line, 0)
                .help("write the sum of 2^i over the GPUs i")
        })
    };
    let set: Vec<GpuMask> = (0..hosts).map(mask).collect::<Result<_, _>>()?;
    if set.iter().all(|mask| mask.is_empty()) {
        return Err(Diagnostic::error("m0", "the row has no GPU at all").at(row.line, 0));
    }
    Ok(set)
}
