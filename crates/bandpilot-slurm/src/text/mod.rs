//! What `scontrol show node -d`, `show job -d` and `show reservation` print, in many lines or (`-o`) one for each.
//!
//! Times are taken as UTC: the commands have to be run with `TZ=UTC`.

mod record;
mod site;

use bandpilot_readers::{Diagnostic, Parsed, hostlist};

use crate::snapshot::{ArrayTasks, HetPart, Host, Job, Request, Reservation};
use crate::{gres, time};
use record::{Record, records};
pub use site::{config, partitions};

/// Hosts of `scontrol show node -d`.
///
/// ```
/// let text = "NodeName=h1 CPUAlloc=2 CPUTot=32\n   Gres=gpu:8\n   GresUsed=gpu:2(IDX:0,5)\n   State=MIXED\n";
/// let host = &bandpilot_slurm::text::hosts(text).value[0];
/// assert_eq!((host.gpus.len(), host.gpus_in_use().to_string().as_str()), (8, "0,5"));
/// ```
pub fn hosts(text: &str) -> Parsed<Vec<Host>> {
    read(text, "NodeName", host)
}

/// Jobs of `scontrol show job -d`.
pub fn jobs(text: &str) -> Parsed<Vec<Job>> {
    read(text, "JobId", job)
}

/// A job with what only `scontrol show job -d` says of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The job.
    pub job: Job,
    /// Slurm's word for its state: `RUNNING`, `COMPLETED`, ...
    pub state: String,
    /// Its comment.
    pub comment: String,
    /// With what it ended, and the signal that ended it (0: none); both are 0 before.
    pub exit: (u8, u8),
    /// GPUs by type over all its hosts; they stay when the job is over and its indexes are gone.
    pub in_all: Vec<gres::Entry>,
}

/// Jobs of `scontrol show job -d`, those that are over among them, with their details.
///
/// ```
/// let text = "JobId=7 JobName=a\n   JobState=COMPLETED\n   NodeList=h1\n   JOB_GRES=gpu:g3:1\n     Nodes=h1 GRES=\n";
/// let job = &bandpilot_slurm::text::details(text).value[0];
/// assert_eq!((job.state.as_str(), job.in_all[0].kind.as_deref()), ("COMPLETED", Some("g3")));
/// ```
pub fn details(text: &str) -> Parsed<Vec<Details>> {
    read(text, "JobId", |record| {
        let job = job(record)?;
        let list = record.text("JOB_GRES");
        let in_all = gres::totals(&list).unwrap_or_else(|reason| {
            record.error("JOB_GRES", format!("job {}: {reason}", job.id));
            Vec::new()
        });
        let (state, comment) = (record.text("JobState"), record.text("Comment"));
        let exit = exit(&record.text("ExitCode"));
        Some(Details { job, state, comment, exit, in_all })
    })
}

/// `3:0`; what is not of this form counts as no end.
fn exit(text: &str) -> (u8, u8) {
    let number = |text: &str| text.parse().unwrap_or(0);
    text.split_once(':').map_or((0, 0), |(code, signal)| (number(code), number(signal)))
}

/// Reservations of `scontrol show reservation`.
pub fn reservations(text: &str) -> Parsed<Vec<Reservation>> {
    read(text, "ReservationName", reservation)
}

fn read<T>(text: &str, first: &str, make: impl Fn(&mut Record) -> Option<T>) -> Parsed<Vec<T>> {
    let Parsed { value: records, mut diagnostics } = records(text, first);
    let mut value = Vec::new();
    for mut record in records {
        let made = make(&mut record);
        // A user may write a line of Slurm's into the name of a job: then nothing of it can be believed.
        if record.contradicts_itself() {
            record.error(first, "is not used, for keys of it stand twice");
        } else {
            value.extend(made);
        }
        diagnostics.append(&mut record.remarks);
    }
    Parsed { value, diagnostics }
}

/// Base state and flags of `IDLE*+DRAIN`; a sign behind a state is a flag in short.
pub(crate) fn state_words<'t>(words: impl Iterator<Item = &'t str>) -> (String, Vec<String>) {
    let mut all = Vec::new();
    for word in words {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        all.push(bare.to_ascii_uppercase());
        for sign in word.get(bare.len()..).unwrap_or("").chars() {
            let flag = match sign {
                '*' => "NOT_RESPONDING",
                '~' => "POWERED_DOWN",
                '#' => "POWERING_UP",
                '!' | '%' => "POWERING_DOWN",
                '$' => "MAINT",
                '@' => "REBOOT_REQUESTED",
                '^' => "REBOOT_ISSUED",
                '-' => "PLANNED",
                _ => continue,
            };
            all.push(flag.to_owned());
        }
    }
    let mut all = all.into_iter().filter(|word| !word.is_empty());
    (all.next().unwrap_or_default(), all.collect())
}

fn host(record: &mut Record) -> Option<Host> {
    let name = record.text("NodeName");
    if !hostlist::is_host_name(&name) {
        record.error("NodeName", format!("'{name}' is not the name of a host"));
        return None;
    }
    let state = record.text("State");
    if state.is_empty() {
        record.error("State", format!("{name} has none: it counts as closed"));
    }
    let (state, flags) = state_words(state.split('+'));
    let (has, taken) = (record.text("Gres"), record.text("GresUsed"));
    let gpus = match gres::inventory(&has, &taken) {
        Ok((gpus, warning)) => {
            if let Some(warning) = warning {
                record.warning("GresUsed", format!("{name}: {warning}"));
            }
            gpus
        }
        Err(reason) => {
            record.error("Gres", format!("{name}: {reason}: it has no GPUs here"));
            Vec::new()
        }
    };
    // Some may be set aside for the system.
    let (cpus, effective) = (record.number("CPUTot").unwrap_or(0), record.number("CPUEfctv"));
    let memory: u64 = record.number("RealMemory").unwrap_or(0);
    let aside = record.number("MemSpecLimit").unwrap_or(0);
    let reason = record.text("Reason");
    // Behind it stands who said so, and when.
    let reason = reason.rsplit_once(" [").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
    Some(Host {
        cpus: effective.unwrap_or(cpus).min(cpus),
        threads_per_core: record.number("ThreadsPerCore").unwrap_or(1),
        cpus_in_use: record.number("CPUAlloc").unwrap_or(0),
        memory_mib: memory.saturating_sub(aside),
        memory_in_use_mib: record.number("AllocMem").unwrap_or(0),
        features: list(&record.text("ActiveFeatures")),
        partitions: list(&record.text("Partitions")),
        name,
        state,
        flags,
        reason,
        gpus,
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(ToOwned::to_owned).collect()
}

fn job(record: &mut Record) -> Option<Job> {
    let id = record.number("JobId")?;
    let state = record.text("JobState");
    let Some(state) = crate::snapshot::job_state([state.as_str()]) else {
        record.error("JobState", format!("'{state}' of job {id} is unknown: the job is not used"));
        return None;
    };
    let user = record.text("UserId");
    let names = record.text("NodeList");
    let (gpus, unnamed_gpus) = gpus_of(record, id);
    Some(Job {
        id,
        name: record.text("JobName"),
        user: user.split('(').next().unwrap_or("").to_owned(),
        account: record.text("Account"),
        partition: record.text("Partition"),
        qos: record.text("QOS"),
        reservation: record.text("Reservation"),
        state,
        reason: Some(record.text("Reason")).filter(|r| r != "None").unwrap_or_default(),
        priority: record.number("Priority").unwrap_or(0),
        hosts: record.hosts("NodeList", &names),
        gpus,
        unnamed_gpus,
        tres: tres(record),
        request: request(record),
        submit_s: time::stamp(&record.text("SubmitTime")),
        eligible_s: time::stamp(&record.text("EligibleTime")),
        start_s: time::stamp(&record.text("StartTime")),
        end_s: time::stamp(&record.text("EndTime")),
        array: record
            .number("ArrayJobId")
            .map(|job| ArrayTasks { job, tasks: record.text("ArrayTaskId") }),
        het: record
            .number("HetJobId")
            .map(|leader| HetPart { leader, offset: record.number("HetJobOffset").unwrap_or(0) }),
    })
}

/// 22.05 has one key for what is asked for and, once the job runs, what it has; later versions have two.
fn tres(record: &mut Record) -> String {
    let held = record.text("AllocTRES");
    let waits = record.text("JobState") == "PENDING";
    if held.is_empty() && !waits { record.text("TRES") } else { held }
}

fn request(record: &mut Record) -> Request {
    let hosts = record.text("NumNodes");
    Request {
        hosts: hosts.split('-').next().and_then(|least| least.parse().ok()).unwrap_or(0),
        cpus: record.number("NumCPUs").unwrap_or(0),
        tasks: record.number("NumTasks"),
        memory_mib_per_host: memory_mib(&record.text("MinMemoryNode")),
        memory_mib_per_cpu: memory_mib(&record.text("MinMemoryCPU")),
        tres_per_host: record.text("TresPerNode"),
        tres_per_job: record.text("TresPerJob"),
        features: record.text("Features"),
        named_hosts: record.text("ReqNodeList"),
        excluded_hosts: record.text("ExcNodeList"),
        time_limit: time::limit(&record.text("TimeLimit")),
        dependency: record.text("Dependency"),
    }
}

/// `1000M`, `1.50G`; 0 means that nothing was said.
fn memory_mib(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "M"),
    };
    let scale = match unit {
        "K" => 1.0 / 1024.0,
        "G" => 1024.0,
        "T" => 1024.0 * 1024.0,
        _ => 1.0,
    };
    let mib = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0)? * scale;
    Some(mib.round() as u64)
}

/// GPUs by host: each `Nodes=` is followed by the `GRES=` that each of these hosts gives.
fn gpus_of(record: &mut Record, id: u32) -> (Vec<(String, bandpilot_core::GpuMask)>, usize) {
    let (mut by_host, mut unnamed) = (Vec::new(), 0);
    let mut at = String::new();
    for (key, value) in record.all(&["Nodes", "GRES"]) {
        if key == "Nodes" {
            at = value;
            continue;
        }
        match gres::named(&value) {
            Ok((mask, more)) => {
                let hosts = record.hosts("Nodes", &at);
                unnamed += more * hosts.len();
                if !mask.is_empty() {
                    by_host.extend(hosts.into_iter().map(|host| (host, mask)));
                }
            }
            Err(reason) => {
                record.error("GRES", format!("job {id}: {reason}"));
                unnamed += 1;
            }
        }
    }
    (by_host, unnamed)
}

fn reservation(record: &mut Record) -> Option<Reservation> {
    let name = record.text("ReservationName");
    if name.is_empty() {
        record.error("ReservationName", "is empty: the reservation is not used");
        return None;
    }
    let nodes = record.text("Nodes");
    Some(Reservation {
        name,
        hosts: record.hosts("Nodes", &nodes),
        start_s: time::stamp(&record.text("StartTime")),
        end_s: time::stamp(&record.text("EndTime")),
        users: record.text("Users"),
        accounts: record.text("Accounts"),
        active: record.text("State") == "ACTIVE",
    })
}

/// One remark about the output as a whole.
pub(crate) fn unreadable(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error("", message).help("run the command by hand and look at its output")
}

#[cfg(test)]
mod tests;
