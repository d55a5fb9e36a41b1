//! Sorting the lines of a log: tables with their device lists, and everything else.

use bandpilot_core::{Collective, counted};

use super::devices::{DeviceList, rank_line};
use super::header::{Columns, columns};
use super::lines;
use super::rows::{self, RowOutcome};
use crate::Diagnostic;

/// One table with what was said above it.
#[derive(Default)]
pub(super) struct Table {
    /// The test that was run, as the file says.
    pub(super) stated: Option<Stated>,
    pub(super) devices: DeviceList,
    /// Number of GPUs as the file itself counts them, with its line.
    pub(super) gpus: Option<(u32, usize)>,
    /// Line of the header or of the first row; 0 as long as there is none.
    pub(super) line: u32,
    pub(super) rows: Vec<RowOutcome>,
    /// Why no row of it can be used.
    pub(super) unusable: Option<Diagnostic>,
    /// The times are those of the calls.
    pub(super) cpu_time: bool,
}

/// What the file says about the test.
#[derive(Clone)]
pub(super) struct Stated {
    pub(super) line: u32,
    pub(super) name: String,
    /// True if it is from a command, not from the test itself.
    pub(super) by_command: bool,
}

/// The tables of a file and remarks about single lines.
#[derive(Default)]
pub(super) struct Scanned {
    pub(super) tables: Vec<Table>,
    pub(super) remarks: Vec<Diagnostic>,
}

/// A row of which the rest is still to come.
struct Torn {
    line: u32,
    cells: Vec<String>,
}

#[derive(Default)]
struct Scanner {
    scanned: Scanned,
    current: Table,
    columns: Option<Columns>,
    torn: Option<Torn>,
    ignored: Vec<u32>,
    joined: Vec<u32>,
    /// First line of rows that lack their header.
    headless: Option<u32>,
    failed: Option<u32>,
    /// The last device list that several processes wrote for themselves.
    side_by_side: Option<DeviceList>,
}

/// Sorts all lines.
pub(super) fn scan(text: &str) -> Scanned {
    let mut scanner = Scanner::default();
    for (line, raw) in (1_u32..).zip(text.lines()) {
        let cleaned = lines::clean(raw);
        let bare = cleaned.text.trim().trim_start_matches('#').trim();
        let cells: Vec<&str> = bare.split_whitespace().collect();
        if cells.is_empty() {
            if cleaned.noisy {
                scanner.ignored.push(line);
            }
            continue;
        }
        scanner.line(line, &cleaned.text, bare, &cells);
    }
    scanner.finish()
}

impl Scanner {
    fn line(&mut self, line: u32, text: &str, bare: &str, cells: &[&str]) {
        if let Some(name) = bare.strip_prefix("Collective test starting:") {
            let stated = Stated { line, name: name.trim().to_owned(), by_command: false };
            self.state(stated);
        } else if let Some(rank) = rank_line(line, cells) {
            self.close_if(|current| current.line > 0);
            match rank {
                Ok(rank) => self.current.devices.ranks.push(rank),
                Err(()) => self.current.devices.incomplete = true,
            }
        } else if let Some(each) = per_process(cells) {
            self.close_if(|current| current.line > 0);
            self.current.devices.per_process = Some(each);
        } else if is_footer(bare) {
            self.end_table(line, bare);
        } else if cells.first() == Some(&"(B)") {
            self.units(line, cells);
        } else if let Some(read) = columns(cells) {
            self.header(line, read);
        } else if is_elision(bare) {
            self.elision(line);
        } else if is_failure(bare) {
            self.failure(line);
        } else if !text.trim_start().starts_with('#') && self.row(line, cells) {
        } else if let Some(name) = command(text) {
            let stated = Stated { line, name, by_command: true };
            if self.current.stated.as_ref().is_none_or(|stated| stated.by_command) {
                self.state(stated);
            }
        } else if !text.trim_start().starts_with('#') {
            self.ignored.push(line);
        }
    }

    /// A new run begins here.
    fn state(&mut self, stated: Stated) {
        let names_again =
            |current: &Table| current.stated.as_ref().is_some_and(|stated| !stated.by_command);
        self.close_if(|current| {
            current.line > 0 || !current.devices.ranks.is_empty() || names_again(current)
        });
        self.current.stated = Some(stated);
    }

    fn close_if(&mut self, begun: impl Fn(&Table) -> bool) {
        if begun(&self.current) {
            self.close();
        }
    }

    /// Ends a table; a run without one is only remarked on.
    fn close(&mut self) {
        self.flush_torn();
        self.columns = None;
        let mut table = std::mem::take(&mut self.current);
        if table.devices.has_rank_twice() {
            self.side_by_side = Some(table.devices.clone());
        } else if let (true, Some(list)) = (table.devices.ranks.is_empty(), &self.side_by_side) {
            // Its rows are of several runs, too.
            table.devices = list.clone();
        }
        if table.line > 0 {
            self.scanned.tables.push(table);
            return;
        }
        let line = match (&table.stated, table.devices.ranks.first()) {
            (Some(stated), _) if !stated.by_command => stated.line,
            (_, Some(rank)) => rank.line,
            _ => return,
        };
        let remark = Diagnostic::warning("", "a run without a table begins here");
        self.scanned.remarks.push(remark.at(line, 0));
    }

    fn header(&mut self, line: u32, read: Result<Columns, Diagnostic>) {
        // The same header again, without a row between, is of processes side by side.
        self.close_if(|current| {
            current.line > 0 && (!current.rows.is_empty() || current.unusable.is_some())
        });
        self.current.line = line;
        match read {
            Ok(columns) => {
                self.current.cpu_time = columns.cpu_time;
                self.columns = Some(columns);
            }
            Err(reason) => {
                self.current.unusable = Some(reason.at(line, 0));
                self.columns = None;
            }
        }
    }

    fn units(&mut self, line: u32, cells: &[&str]) {
        let fits = self.columns.as_ref().is_none_or(|columns| columns.has_units(cells));
        if !fits && self.current.rows.is_empty() {
            let reason = Diagnostic::error("", "the units do not belong to the header above them");
            self.current.unusable = Some(reason.at(line, 0).help("units must be B, us and GB/s"));
            self.columns = None;
        }
    }

    /// Takes a line of numbers as a row or a piece of one; false if it is something else.
    fn row(&mut self, line: u32, cells: &[&str]) -> bool {
        if self.columns.is_none() {
            return if self.current.unusable.is_some() {
                let lost = starts_with_number(cells);
                if lost {
                    self.current.rows.push(RowOutcome::SizeZero(line));
                }
                lost
            } else {
                self.headless_row(line, cells)
            };
        }
        let Some(columns) = &self.columns else { return false };
        let continues = self.torn.is_some() && cells.iter().all(|cell| is_value(cell));
        let is_row = starts_with_number(cells)
            || continues
            || cells.len() == columns.cells
            || columns.begins_row(cells);
        if !is_row {
            return false;
        }
        if let Some(mut torn) = self.torn.take() {
            if !columns.begins_row(cells) && torn.cells.len() + cells.len() <= columns.cells {
                torn.cells.extend(cells.iter().map(|cell| (*cell).to_owned()));
                self.torn = Some(torn);
                if self.torn.as_ref().is_some_and(|torn| torn.cells.len() == columns.cells) {
                    self.joined.push(line);
                    self.flush_torn();
                }
                return true;
            }
            self.torn = Some(torn);
            self.flush_torn();
        }
        let Some(columns) = &self.columns else { return false };
        if cells.len() < columns.cells {
            let cells = cells.iter().map(|cell| (*cell).to_owned()).collect();
            self.torn = Some(Torn { line, cells });
        } else {
            self.current.rows.push(rows::read(line, cells, columns));
        }
        true
    }

    /// A whole row of the form since 2021 whose header was cut off.
    fn headless_row(&mut self, line: u32, cells: &[&str]) -> bool {
        let Some(columns) = Columns::since_2021().filter(|columns| {
            cells.len() == columns.cells && starts_with_number(cells) && columns.begins_row(cells)
        }) else {
            return false;
        };
        self.close_if(|current| current.line > 0);
        self.headless.get_or_insert(line);
        self.current.line = line;
        self.current.rows.push(rows::read(line, cells, &columns));
        self.columns = Some(columns);
        true
    }

    /// What is left of a torn row becomes a row of its own, whole or refused.
    fn flush_torn(&mut self) {
        if let (Some(torn), Some(columns)) = (self.torn.take(), &self.columns) {
            let cells: Vec<&str> = torn.cells.iter().map(String::as_str).collect();
            self.current.rows.push(rows::read(torn.line, &cells, columns));
        }
    }

    fn elision(&mut self, line: u32) {
        if self.current.line > 0 {
            self.flush_torn();
            let remark = Diagnostic::warning("", "rows were left out here");
            self.scanned.remarks.push(remark.at(line, 0));
        } else {
            self.current.devices.incomplete = true;
        }
    }

    fn failure(&mut self, line: u32) {
        self.flush_torn();
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(line);
        let reason = Diagnostic::error("", "the test failed here");
        let reason = reason.at(line, 0).help("run it again; rows above this line are whole");
        if self.current.line > 0 && self.current.rows.is_empty() && self.current.unusable.is_none()
        {
            self.current.unusable = Some(reason);
            self.columns = None;
        } else {
            self.scanned.remarks.push(reason);
        }
    }

    fn end_table(&mut self, line: u32, bare: &str) {
        self.flush_torn();
        self.columns = None;
        if bare.starts_with("Out of bounds values") && bare.ends_with("FAILED") {
            let message = "the test itself reports wrong results";
            self.scanned.remarks.push(Diagnostic::warning("#wrong", message).at(line, 0));
        }
    }

    fn finish(mut self) -> Scanned {
        self.close();
        let note = |lines: &[u32], message: String| {
            lines.first().map(|first| Diagnostic::note("", message).at(*first, 0))
        };
        let ignored =
            format!("ignored: {} besides the output", counted(self.ignored.len(), "line"));
        let joined =
            format!("put together: {} torn by other output", counted(self.joined.len(), "row"));
        let headless = "no header stands above these rows; they are read as the form since 2021";
        self.scanned.remarks.extend(note(&self.ignored, ignored));
        self.scanned.remarks.extend(note(&self.joined, joined));
        self.scanned.remarks.extend(note(self.headless.as_slice(), headless.to_owned()));
        self.scanned
    }
}

fn starts_with_number(cells: &[&str]) -> bool {
    cells.first().is_some_and(|cell| {
        cell.starts_with(|c: char| c.is_ascii_digit())
            && cell.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b))
            && !cell.bytes().skip(1).any(|b| b == b'-')
    })
}

/// True for what may stand in the later cells of a row.
fn is_value(cell: &str) -> bool {
    cell == "N/A" || cell.parse::<f64>().is_ok()
}

/// GPUs of each process from the line `nThread 1 nGpus 8 ...`, 0 if unreadable; `None` for another line.
fn per_process(cells: &[&str]) -> Option<u64> {
    let ["nThread", threads, "nGpus", gpus, ..] = cells else { return None };
    let product = || threads.parse::<u64>().ok()?.checked_mul(gpus.parse().ok()?);
    Some(product().unwrap_or(0))
}

fn is_footer(bare: &str) -> bool {
    ["Out of bounds values", "Avg bus bandwidth", "Collective test concluded"]
        .iter()
        .any(|start| bare.starts_with(start))
}

/// Lines that nccl-tests and NCCL print when they give up.
fn is_failure(bare: &str) -> bool {
    let starts = [
        "NCCL failure",
        "CUDA failure",
        "Cuda failure",
        "Test NCCL failure",
        "Test CUDA failure",
        "Test HIP failure",
        "Test RCCL failure",
        "Invalid number of GPUs",
    ];
    starts.iter().any(|start| bare.starts_with(start))
        || bare.contains(": Test NCCL failure")
        || bare.contains(": Test CUDA failure")
        || (bare.starts_with("..") && bare.contains(": Test failure"))
}

fn is_elision(bare: &str) -> bool {
    let inner = bare.trim_start_matches('[').trim_end_matches(']');
    inner == "\u{2026}" || (inner.len() >= 2 && inner.bytes().all(|b| b == b'.'))
}

/// The test in a command such as `mpirun -np 8 ./build/all_reduce_perf -b 8`.
fn command(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || "=\"'`;,()".contains(c)).find_map(test_name)
}

/// The test that a path to its program names.
pub(super) fn test_name(word: &str) -> Option<String> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.strip_suffix("_mpi").unwrap_or(name);
    let op = name.strip_suffix("_perf")?;
    let others = ["gather", "scatter", "hypercube", "alltoallv", "all_reduce_bias"];
    let known = op.parse::<Collective>().is_ok() || others.contains(&op);
    known.then(|| name.to_owned())
}
