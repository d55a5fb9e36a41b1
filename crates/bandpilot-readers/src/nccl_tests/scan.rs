//! Sorting the lines of the output: tables with their device lists, and everything else.

use crate::Diagnostic;

use super::devices::{Rank, rank_line};

const HEADER: [&str; 13] = [
    "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
    "busbw", "#wrong",
];
const UNITS: [&str; 8] =
    ["(B)", "(elements)", "(us)", "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(GB/s)"];

/// One table with what was said above it.
#[derive(Default)]
pub(super) struct Section<'a> {
    /// Name of the test as the file states it, with its line.
    pub(super) op: Option<(u32, &'a str)>,
    pub(super) ranks: Vec<Rank<'a>>,
    /// True if lines were left out between the device list and the table.
    pub(super) ranks_elided: bool,
    /// 0 as long as no header was seen.
    pub(super) header_line: u32,
    pub(super) rows: Vec<RawRow<'a>>,
}

/// A line that stands where a row belongs.
pub(super) struct RawRow<'a> {
    pub(super) line: u32,
    pub(super) cells: Vec<&'a str>,
}

/// The tables of a file and remarks about single lines.
pub(super) struct Scanned<'a> {
    pub(super) sections: Vec<Section<'a>>,
    pub(super) remarks: Vec<Diagnostic>,
}

/// Sorts all lines; an error if there is no table of the known form, or one of another form.
pub(super) fn scan(text: &str) -> Result<Scanned<'_>, Diagnostic> {
    let mut scanned = Scanned { sections: Vec::new(), remarks: Vec::new() };
    let mut current = Section::default();
    let mut ignored: Vec<u32> = Vec::new();
    let labelled = has_srun_labels(text);
    for (line, raw) in (1_u32..).zip(text.lines()) {
        let body = if labelled { without_label(raw) } else { raw };
        let bare = body.trim().trim_start_matches('#').trim();
        let cells: Vec<&str> = bare.split_whitespace().collect();
        if bare.is_empty() {
            continue;
        }
        if let Some(name) = bare.strip_prefix("Collective test starting:") {
            if current.header_line > 0 || current.op.is_some() || !current.ranks.is_empty() {
                scanned.close(&mut current);
            }
            current.op = Some((line, name.trim()));
        } else if let Some(rank) = rank_line(line, &cells) {
            if current.header_line > 0 {
                scanned.close(&mut current);
            }
            current.ranks.push(rank);
        } else if cells == HEADER {
            if current.header_line > 0 {
                scanned.close(&mut current);
            }
            current.header_line = line;
        } else if let Some(reason) = other_form(body, bare, &cells) {
            return Err(reason.at(line, 0));
        } else if is_elision(bare) {
            scanned.elision(&mut current, line);
        } else if is_row(body, &cells, current.header_line > 0) {
            if current.header_line > 0 {
                current.rows.push(RawRow { line, cells });
            } else {
                let reason = Diagnostic::error("", "a row stands above any header");
                scanned.remarks.push(reason.at(line, 0).help("the output may be cut off"));
            }
        } else if bare.starts_with("Out of bounds values") && bare.ends_with("FAILED") {
            let message = "the test itself reports wrong results";
            scanned.remarks.push(Diagnostic::warning("#wrong", message).at(line, 0));
        } else if !body.trim_start().starts_with('#') {
            ignored.push(line);
        }
    }
    scanned.close(&mut current);
    scanned.note_ignored(&ignored);
    scanned.finish()
}

impl<'a> Scanned<'a> {
    /// Ends a section; one without a table is only remarked on.
    fn close(&mut self, current: &mut Section<'a>) {
        let section = std::mem::take(current);
        if section.header_line > 0 {
            self.sections.push(section);
            return;
        }
        let op_line = section.op.map(|(line, _)| line);
        if let Some(line) = op_line.or_else(|| section.ranks.first().map(|rank| rank.line)) {
            let remark = Diagnostic::warning("", "a run without a table begins here");
            self.remarks.push(remark.at(line, 0));
        }
    }

    fn elision(&mut self, current: &mut Section<'a>, line: u32) {
        if current.header_line > 0 {
            let remark = Diagnostic::warning("", "rows were left out here");
            self.remarks.push(remark.at(line, 0));
        } else {
            current.ranks_elided = true;
        }
    }

    fn note_ignored(&mut self, ignored: &[u32]) {
        if let Some(first) = ignored.first() {
            let message =
                format!("{} lines that are no part of the output are ignored", ignored.len());
            self.remarks.push(Diagnostic::note("", message).at(*first, 0));
        }
    }

    fn finish(self) -> Result<Self, Diagnostic> {
        if self.sections.is_empty() {
            let line = self.remarks.iter().map(|remark| remark.line).find(|line| *line > 0);
            let message = "no table of nccl-tests was found";
            let help = "it begins with: # size count type redop root time algbw busbw #wrong ...";
            return Err(Diagnostic::error("", message).at(line.unwrap_or(0), 0).help(help));
        }
        Ok(self)
    }
}

/// Forms that hold bandwidths but are not read here; taking them for the known one would give wrong
/// numbers.
fn other_form(body: &str, bare: &str, cells: &[&str]) -> Option<Diagnostic> {
    let has = |word: &str| cells.iter().any(|cell| cell.contains(word));
    let refuse = |message: &str, help: &str| Some(Diagnostic::error("", message).help(help));
    if body.trim_start().starts_with('[') && body.contains("]<std") && has("busbw") {
        let help = "cut the prefix [JOB,RANK]<stdout>: off every line";
        return refuse("the lines carry the prefix of OpenMPI", help);
    }
    if bare.starts_with('{') && (has("busBw") || has("\"benchmark\"") || has("busbw")) {
        return refuse("JSON output of nccl-tests is not read", "give the text output");
    }
    if cells.contains(&"(B)") && cells.contains(&"(elements)") && cells != UNITS {
        let help = "units must be B, us and GB/s";
        return refuse("the table has other units or columns", help);
    }
    if !has("algbw") || !has("busbw") {
        return None;
    }
    let newer = "run a version of nccl-tests from 2021 or later";
    if cells.contains(&"error") {
        return refuse("the table is of the form before 2021, with a column 'error'", newer);
    }
    if cells.contains(&"res") {
        return refuse("the table is of the form of 2018, with a column 'res'", newer);
    }
    refuse("the table has bandwidths, but other columns than nccl-tests", newer)
}

/// A line in a table that begins with a number, or has as many cells as a row.
fn is_row(body: &str, cells: &[&str], in_table: bool) -> bool {
    if body.trim_start().starts_with('#') {
        return false;
    }
    let first_is_number =
        cells.first().is_some_and(|cell| cell.bytes().all(|b| b.is_ascii_digit()));
    if in_table {
        first_is_number || cells.len() == HEADER.len()
    } else {
        first_is_number && cells.len() == HEADER.len()
    }
}

fn is_elision(bare: &str) -> bool {
    let inner = bare.trim_start_matches('[').trim_end_matches(']');
    inner == "\u{2026}" || (inner.len() >= 2 && inner.bytes().all(|b| b == b'.'))
}

/// True if every line begins as `srun --label` writes it, `0: `.
fn has_srun_labels(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| label_end(line).is_some())
}

fn without_label(line: &str) -> &str {
    label_end(line).and_then(|end| line.get(end..)).unwrap_or(line)
}

fn label_end(line: &str) -> Option<usize> {
    let digits = line.trim_start();
    let blank = line.len() - digits.len();
    let colon = digits.find(':')?;
    let label = digits.get(..colon)?;
    let sound = !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
    sound.then_some(blank + colon + 1)
}
