//! What `sacct` prints: the accounts of a site.

use bandpilot_manager::exchange::Runner;
use bandpilot_readers::{Diagnostic, Parsed, hostlist};

use super::{MAX_S, Run, gpus_of_tres};
use crate::observe::Asking;
use crate::{Remark, time};

/// Columns that are asked for. None of them is free text of a user, so none has the separator in it.
pub const COLUMNS: &str = "JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,State,AllocTRES,NNodes,NodeList";
const NEEDED: [&str; 6] = ["JobID", "Submit", "Start", "ElapsedRaw", "State", "AllocTRES"];
/// More wrong rows than these are only counted.
const MAX_REMARKS: usize = 100;

/// The accounts of all users, and when they were asked for, seconds since 1970. Times are in Slurm's notation
/// (`2026-11-30`, `now-30days`), in UTC.
///
/// # Errors
/// If `sacct` does not answer.
pub fn ask(
    runner: &mut dyn Runner,
    since: &str,
    until: Option<&str>,
) -> Result<(String, i64), Remark> {
    let format = format!("--format={COLUMNS}");
    // Every run of a job that was requeued (-D), no steps (-X).
    let mut argv = vec!["sacct", "-a", "-D", "-X", "-P", "-S", since];
    if let Some(until) = until {
        argv.extend(["-E", until]);
    }
    argv.push(&format);
    let reply = Asking::new(runner).ask(&argv).map_err(|(_, reason)| {
        let help =
            "without accounts, take samples of the queue: bandpilot slurm trace --sample FILE";
        ("sacct".to_owned(), reason.help(help))
    })?;
    Ok((reply.stdout, reply.at_s))
}

/// Runs of what `sacct -P` printed, columns found by their names. Steps of jobs are passed over; a row with a mistake is left
/// out and said.
///
/// ```
/// let text = "JobID|Submit|Start|ElapsedRaw|State|AllocTRES|NNodes\n\
///             7|2026-11-30T10:00:00|2026-11-30T10:01:00|3600|COMPLETED|cpu=8,gres/gpu=16|2\n";
/// let run = &bandpilot_slurm::trace::sacct::runs(text).value[0];
/// assert_eq!((run.gpus, run.host_count, run.duration_s), (16, 2, 3600));
/// ```
pub fn runs(text: &str) -> Parsed<Vec<Run>> {
    let mut lines = text.lines().zip(1_u32..).filter(|(line, _)| !line.trim().is_empty());
    let (mut value, mut diagnostics) = (Vec::new(), Vec::new());
    let Some((header, at)) = lines.next() else {
        let empty = Diagnostic::error("", "has no header with the names of the columns");
        return Parsed { value, diagnostics: vec![empty.help(HELP)] };
    };
    let names: Vec<&str> = header.split('|').map(str::trim).collect();
    for needed in NEEDED {
        if !names.contains(&needed) {
            let missing = Diagnostic::error(needed, "there is no such column").at(at, 0);
            diagnostics.push(missing.help(HELP));
        }
    }
    if !diagnostics.is_empty() {
        return Parsed { value, diagnostics };
    }
    let mut wrong = 0;
    for (line, at) in lines {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let row = if cells.len() == names.len() {
            run(&Row { names: &names, cells: &cells })
        } else {
            let message = format!("has {} cells, the header {}", cells.len(), names.len());
            Err(Diagnostic::error("", message))
        };
        match row {
            Ok(run) => value.extend(run),
            Err(reason) => {
                wrong += 1;
                if wrong <= MAX_REMARKS {
                    diagnostics.push(reason.at(at, 0));
                }
            }
        }
    }
    if wrong > MAX_REMARKS {
        let message = format!("{} further rows are wrong", wrong - MAX_REMARKS);
        diagnostics.push(Diagnostic::error("", message));
    }
    Parsed { value, diagnostics }
}

const HELP: &str = "print it with TZ=UTC sacct -a -D -X -P -S now-30days --format=JobID,User,Account,Partition,QOS,\
                    Submit,Eligible,Start,End,ElapsedRaw,State,AllocTRES,NNodes,NodeList";

struct Row<'t> {
    names: &'t [&'t str],
    cells: &'t [&'t str],
}

impl Row<'_> {
    /// Empty for a column that is not there.
    fn get(&self, name: &str) -> &str {
        let at = self.names.iter().position(|column| *column == name);
        at.and_then(|at| self.cells.get(at)).copied().unwrap_or("")
    }

    fn text(&self, name: &str) -> String {
        self.get(name).to_owned()
    }

    /// A time; `None` for Slurm's words for none.
    fn time(&self, name: &str) -> Result<Option<i64>, Diagnostic> {
        let cell = self.get(name);
        if matches!(cell, "" | "Unknown" | "None" | "N/A" | "0") {
            return Ok(None);
        }
        let stamp = time::stamp(cell).filter(|s| *s <= MAX_S);
        stamp.map(Some).ok_or_else(|| Diagnostic::error(name, format!("'{cell}' is not a time")))
    }
}

/// A run; `None` for a step of one.
fn run(row: &Row<'_>) -> Result<Option<Run>, Diagnostic> {
    let id = row.get("JobID");
    if id.contains('.') {
        return Ok(None);
    }
    let (name, component) = match id.split_once('+') {
        Some((leader, offset)) => (leader, offset.parse().ok()),
        None => (id, None),
    };
    let part_is_none = id.contains('+') && component.is_none();
    let good = |b: u8| b.is_ascii_digit() || b"_[]-,%:".contains(&b);
    if part_is_none || !name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(good) {
        return Err(Diagnostic::error("JobID", format!("'{id}' is not the id of a job")));
    }
    let Some(submit_s) = row.time("Submit")? else {
        return Err(Diagnostic::error("Submit", format!("job {id} has none")));
    };
    let state = row.get("State").split([' ', '+']).next().unwrap_or("").to_ascii_uppercase();
    let gpus = gpus_of_tres(row.get("AllocTRES"))
        .map_err(|reason| Diagnostic::error("AllocTRES", reason))?;
    let hosts = hosts(row.get("NodeList"))?;
    let host_count = match row.get("NNodes") {
        "" => hosts.len() as u32,
        count => count.parse().map_err(|_| {
            Diagnostic::error("NNodes", format!("'{count}' is not a number of hosts"))
        })?,
    };
    // A job that waited and was cancelled has a start in some versions, but never resources.
    let start_s = row.time("Start")?.filter(|_| !row.get("AllocTRES").is_empty());
    let elapsed = row.get("ElapsedRaw");
    let duration_s = elapsed.parse().ok().filter(|s| (0..=MAX_S).contains(s)).ok_or_else(|| {
        Diagnostic::error("ElapsedRaw", format!("'{elapsed}' is not a number of seconds"))
    })?;
    Ok(Some(Run {
        name: name.to_owned(),
        component,
        user: row.text("User"),
        account: row.text("Account"),
        partition: row.text("Partition"),
        qos: row.text("QOS"),
        open: matches!(&*state, "RUNNING" | "SUSPENDED" | "COMPLETING" | "STOPPED"),
        state,
        submit_s,
        eligible_s: row.time("Eligible")?,
        start_s,
        duration_s,
        uncertain_s: 0,
        gpus,
        host_count,
        hosts,
        by_host: Vec::new(),
    }))
}

fn hosts(list: &str) -> Result<Vec<String>, Diagnostic> {
    if matches!(list, "" | "None assigned" | "(null)") {
        return Ok(Vec::new());
    }
    hostlist::expand(list).map_err(|reason| Diagnostic::error("NodeList", reason.message))
}
