//! Traces of jobs: CSV with one row a job, columns found by their name in the header, in any order.
//!
//! | column | meaning |
//! |---|---|
//! | `submit_s` | when the job was submitted, seconds from any origin |
//! | `duration_s` | how long it runs once it has its GPUs, seconds |
//! | `gpus` | GPUs over the whole job; 0 for a job without one |
//! | `job_id` | its name; without it the line stands for the job |
//! | `gpu_milli` | thousandths of each GPU; empty means whole ones (1000) |
//! | `gpu_type`, `qos`, `tenant` | words; empty where the source does not say |
//! | `instances`, `gpus_per_instance` | parts of the job that must each stay inside one host; the last one may be smaller |
//! | `comm_share` | share (0 to 1) of a step that is communication |
//! | `priority` | a whole number, greater is more important |
//!
//! `submit_s`, `duration_s` and `gpus` (or else both columns of instances) must be there. Other columns are not used.
//! A row with a mistake is left out, listed with line and field, and counted.

use std::collections::BTreeMap;

use crate::csv_cells::{count, full, header, needed, number, shorten, wrong};
use crate::csv_lines::{Lines, Row};
use crate::{Diagnostic, Parsed, encoding};

/// Greatest time that is read, seconds (more than 300 years): sums of times stay exact, and a time in milliseconds
/// since 1970 is found out.
pub const MAX_SECONDS: f64 = 1e10;

/// Most GPUs of one job.
pub const MAX_JOB_GPUS: u32 = 1_000_000;

const COLUMNS: [&str; 12] = [
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "gpu_milli",
    "gpu_type",
    "qos",
    "tenant",
    "instances",
    "gpus_per_instance",
    "comm_share",
    "priority",
];

const NEEDED: [&str; 3] = ["submit_s", "duration_s", "gpus"];

/// Index of a word in [`Trace::words`]; words repeat in every row and are kept once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WordId(pub u32);

/// One job of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceJob {
    /// Name, unique in the trace.
    pub name: Box<str>,
    /// Line of its row.
    pub line: u32,
    /// When it was submitted, seconds.
    pub submit_s: f64,
    /// How long it runs, seconds.
    pub duration_s: f64,
    /// GPUs over the whole job.
    pub gpus: u32,
    /// GPUs of each instance (the last may have fewer), if the trace says so.
    pub gpus_per_instance: Option<u32>,
    /// Thousandths of each GPU, 1000 for whole ones.
    pub gpu_milli: u16,
    /// GPU model that it asks for; the empty word for any.
    pub gpu_type: WordId,
    /// Quality of service; may be the empty word.
    pub qos: WordId,
    /// Whose job it is; may be the empty word.
    pub tenant: WordId,
    /// Share of a step that is communication, 0..=1.
    pub comm_share: Option<f64>,
    /// Greater is more important.
    pub priority: Option<i32>,
}

/// The jobs of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// In order of submission; those of one instant in order of the file.
    pub jobs: Vec<TraceJob>,
    /// Rows that were left out for a mistake.
    pub bad_rows: usize,
    words: Vec<Box<str>>,
}

impl Trace {
    /// The text of a word.
    pub fn word(&self, id: WordId) -> &str {
        self.words.get(id.0 as usize).map_or("", |word| word)
    }

    /// A trace of some of the jobs, by their places in [`jobs`](Self::jobs); wrong rows are not among them.
    #[must_use]
    pub fn part(&self, jobs: std::ops::Range<usize>) -> Self {
        let jobs = self.jobs.get(jobs).unwrap_or_default().to_vec();
        Self { jobs, bad_rows: 0, words: self.words.clone() }
    }

    /// All words, the empty one among them if it occurs.
    pub fn words(&self) -> impl Iterator<Item = (WordId, &str)> {
        (0..).map(WordId).zip(self.words.iter().map(|word| &**word))
    }
}

/// Reads a trace. Wrong rows are left out and counted; at most a hundred of them are listed.
///
/// ```
/// let text = "job_id,submit_s,duration_s,gpus\na,60,100,8\nb,0,soon,1\nc,0,20,1\n";
/// let read = bandpilot_readers::trace_file::read(text);
/// assert_eq!(read.value.jobs.len(), 2);
/// assert_eq!(&*read.value.jobs[0].name, "c");
/// assert_eq!((read.value.bad_rows, read.diagnostics[0].line), (1, 3));
/// assert_eq!(read.diagnostics[0].field, "duration_s");
/// ```
pub fn read(text: &str) -> Parsed<Trace> {
    let mut trace = Trace::default();
    let text = match encoding::ready(text).and_then(|text| encoding::is_text(&text).map(|()| text))
    {
        Ok(text) => text,
        Err(reason) => return Parsed { value: trace, diagnostics: vec![reason] },
    };
    let text = &*text;
    let Some(lines) = Lines::new(text) else {
        let reason = Diagnostic::error("", "the file is empty");
        return Parsed { value: trace, diagnostics: vec![reason] };
    };
    let by_instances = lines.has("instances") && lines.has("gpus_per_instance");
    let needed: &[&str] = if by_instances { &NEEDED[..2] } else { &NEEDED };
    let mut diagnostics = header(text, &lines, &COLUMNS, needed);
    if !diagnostics.is_empty() {
        diagnostics = separated(&lines).map_or(diagnostics, |reason| vec![reason]);
        return Parsed { value: trace, diagnostics };
    }
    let mut words = Words::default();
    for row in lines.rows() {
        match job(&row, lines.width(), &mut words) {
            Ok(job) => trace.jobs.push(job),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    trace.words = words.list;
    refuse_twins(&mut trace.jobs, &mut diagnostics);
    // Stable: jobs of one instant keep the order of the file.
    trace.jobs.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
    trace.bad_rows = diagnostics.len();
    shorten(&mut diagnostics);
    Parsed { value: trace, diagnostics }
}

/// What is to be said of a header that is one single cell because something else than commas separates its columns.
fn separated(lines: &Lines<'_>) -> Option<Diagnostic> {
    let header = lines.only_column()?;
    let names = |separator: char| {
        let cells = header.split(separator).map(|name| name.trim().trim_matches('"'));
        cells.filter(|name| COLUMNS.contains(name)).count()
    };
    let separators = [(';', "';'"), ('\t', "tabs"), ('|', "'|'"), (' ', "blanks")];
    let (_, what) = separators.into_iter().find(|(separator, _)| names(*separator) > 1)?;
    let message = format!("its columns are separated by {what}, not by commas");
    let reason = Diagnostic::error("", message).at(lines.header_line(), 0);
    Some(reason.help("write it anew as CSV with commas"))
}

/// The words seen so far.
#[derive(Default)]
struct Words {
    list: Vec<Box<str>>,
    ids: BTreeMap<Box<str>, WordId>,
}

impl Words {
    fn id(&mut self, word: &str) -> WordId {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let id = WordId(self.list.len() as u32);
        self.list.push(word.into());
        self.ids.insert(word.into(), id);
        id
    }
}

fn job(row: &Row<'_>, width: usize, words: &mut Words) -> Result<TraceJob, Diagnostic> {
    full(row, width)?;
    let submit_s = needed(row, "submit_s", seconds(row, "submit_s")?)?;
    let duration_s = needed(row, "duration_s", seconds(row, "duration_s")?)?;
    let (gpus, gpus_per_instance) = gpus(row)?;
    let least_milli = u32::from(gpus > 0);
    let name = match row.get("job_id") {
        "" => format!("line {}", row.line).into(),
        name => name.into(),
    };
    Ok(TraceJob {
        name,
        line: row.line,
        submit_s,
        duration_s,
        gpus,
        gpus_per_instance,
        gpu_milli: count(row, "gpu_milli", least_milli, 1000)?.unwrap_or(1000) as u16,
        gpu_type: words.id(row.get("gpu_type")),
        qos: words.id(row.get("qos")),
        tenant: words.id(row.get("tenant")),
        comm_share: number(row, "comm_share", 0.0, 1.0, "a share from 0 to 1")?,
        priority: priority(row)?,
    })
}

/// GPUs of a job and of each instance; what is said twice must agree.
fn gpus(row: &Row<'_>) -> Result<(u32, Option<u32>), Diagnostic> {
    let total = count(row, "gpus", 0, MAX_JOB_GPUS)?;
    let instances = count(row, "instances", 1, MAX_JOB_GPUS)?;
    let size = count(row, "gpus_per_instance", 1, MAX_JOB_GPUS)?;
    match (total, instances, size) {
        (Some(total), None, size) => Ok((total, size)),
        (None, Some(instances), Some(size)) => match instances.checked_mul(size) {
            Some(total) if total <= MAX_JOB_GPUS => Ok((total, Some(size))),
            _ => Err(wrong(row, "instances", format!("the job has more than {MAX_JOB_GPUS} GPUs"))),
        },
        (Some(total), Some(instances), size) => {
            let size = size.unwrap_or(total.div_ceil(instances)).max(1);
            if total.div_ceil(size) == instances {
                return Ok((total, Some(size)));
            }
            let message = format!("{instances} instances of {size} GPUs are not {total} GPUs");
            Err(wrong(row, "instances", message).help("only the last instance may be smaller"))
        }
        (None, ..) => needed(row, "gpus", None),
    }
}

fn seconds(row: &Row<'_>, column: &str) -> Result<Option<f64>, Diagnostic> {
    let what = "a number of seconds from 0 to 10^10";
    number(row, column, 0.0, MAX_SECONDS, what)
        .map_err(|error| error.help("times are in seconds, not in milliseconds or as a date"))
}

fn priority(row: &Row<'_>) -> Result<Option<i32>, Diagnostic> {
    let cell = row.get("priority");
    if cell.is_empty() {
        return Ok(None);
    }
    let range = format!("a whole number from {} to {}", i32::MIN, i32::MAX);
    cell.parse().map(Some).map_err(|_| wrong(row, "priority", format!("'{cell}' is not {range}")))
}

/// Leaves out jobs whose name an earlier row has: two jobs of one name cannot be told apart.
fn refuse_twins(jobs: &mut Vec<TraceJob>, diagnostics: &mut Vec<Diagnostic>) {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| jobs[*a].name.cmp(&jobs[*b].name).then(a.cmp(b)));
    let mut twins = vec![false; jobs.len()];
    let mut first = 0;
    for at in 1..order.len() {
        let (a, b) = (&jobs[order[first]], &jobs[order[at]]);
        if a.name == b.name {
            let message = format!("'{}' stands in line {} already", b.name, a.line);
            diagnostics.push(Diagnostic::error("job_id", message).at(b.line, 0));
            twins[order[at]] = true;
        } else {
            first = at;
        }
    }
    let mut at = 0;
    jobs.retain(|_| {
        at += 1;
        !twins[at - 1]
    });
}

#[cfg(test)]
#[path = "tests/trace_file.rs"]
mod tests;
