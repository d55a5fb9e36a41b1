//! A snapshot for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bandpilot_core::GpuMask;
use bandpilot_readers::hostlist;
use bandpilot_slurm::{Host, Job, JobState, Observed, Snapshot};

use crate::output::{counted, table, time, write_table};

pub fn write(w: &mut dyn Write, observed: &Observed) -> io::Result<()> {
    let snapshot = &observed.snapshot;
    let gpus: usize = snapshot.hosts.iter().map(|host| host.gpus.len()).sum();
    let taken: usize = snapshot.hosts.iter().map(|host| host.gpus_in_use().count()).sum();
    writeln!(
        w,
        "Slurm {} at {}: {}, {}, {taken} in use",
        observed.version,
        time(snapshot.taken_at_s),
        counted(snapshot.hosts.len(), "host"),
        counted(gpus, "GPU"),
    )?;
    hosts(w, snapshot)?;
    running(w, snapshot)?;
    waiting(w, snapshot)?;
    for reservation in &snapshot.reservations {
        let until = reservation.end_s.map_or("its end".to_owned(), time);
        let when = if reservation.active { "now" } else { "not now" };
        let names = hostlist::compress(reservation.hosts.iter().map(String::as_str));
        writeln!(w, "\nreservation {}: {names}, {when}, until {until}", reservation.name)?;
    }
    Ok(())
}

/// Users choose names, and a terminal would obey control characters in them.
fn or_dash(text: &str) -> String {
    let shown = text.replace(char::is_control, "?");
    if shown.is_empty() { "-".to_owned() } else { shown }
}

fn hosts(w: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut rows = table(&["HOST", "STATE", "CPUS", "MEMORY", "GPUS", "IDLE", "IN USE"]);
    for host in &snapshot.hosts {
        let idle = host.all_gpus().without(host.gpus_in_use());
        rows.add_row([
            host.name.clone(),
            state(host),
            format!("{}/{}", host.cpus_in_use, host.cpus),
            format!("{}/{} MiB", host.memory_in_use_mib, host.memory_mib),
            host.gpus.len().to_string(),
            or_dash(&idle.to_string()),
            or_dash(&holders(host, snapshot)),
        ]);
    }
    writeln!(w)?;
    write_table(w, &rows)
}

/// `mixed`, `idle+drain (fan is loud)`.
fn state(host: &Host) -> String {
    let words: Vec<&str> =
        std::iter::once(host.state.as_str()).chain(host.flags.iter().map(String::as_str)).collect();
    let words = words.join("+").to_lowercase();
    if host.reason.is_empty() { words } else { format!("{words} ({})", or_dash(&host.reason)) }
}

/// `0-1 by 12, 5 by 3+0, 7 by ?`.
fn holders(host: &Host, snapshot: &Snapshot) -> String {
    let mut by: BTreeMap<Option<u32>, GpuMask> = BTreeMap::new();
    for (index, gpu) in host.gpus.iter().enumerate().filter(|(_, gpu)| gpu.in_use) {
        let mask = by.entry(gpu.job).or_default();
        *mask = mask.union(GpuMask::single(index));
    }
    let name = |id: Option<u32>| id.and_then(|id| snapshot.job(id)).map(Job::label);
    let mut parts: Vec<(GpuMask, String)> =
        by.into_iter().map(|(id, mask)| (mask, name(id).unwrap_or("?".to_owned()))).collect();
    parts.sort_by_key(|(mask, _)| mask.0.trailing_zeros());
    let parts: Vec<String> = parts.iter().map(|(mask, by)| format!("{mask} by {by}")).collect();
    parts.join(", ")
}

fn running(w: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut rows = table(&["JOB", "STATE", "USER", "NAME", "GPUS", "ENDS BY"]);
    for job in snapshot.jobs.iter().filter(|job| job.state != JobState::Pending) {
        let gpus: Vec<String> = job.gpus.iter().map(|(h, mask)| format!("{h}:{mask}")).collect();
        let state = match job.state {
            JobState::Suspended => "suspended",
            JobState::Completing => "completing",
            _ => "running",
        };
        rows.add_row([
            job.label(),
            state.to_owned(),
            or_dash(&job.user),
            or_dash(&job.name),
            or_dash(&gpus.join(",")),
            job.end_s.map_or("-".to_owned(), time),
        ]);
    }
    if rows.row_count() > 0 {
        writeln!(w)?;
        write_table(w, &rows)?;
    }
    Ok(())
}

fn waiting(w: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut rows = table(&["WAITS", "USER", "NAME", "HOSTS", "ON EACH", "WHY"]);
    for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Pending) {
        let request = &job.request;
        let hosts = if request.named_hosts.is_empty() {
            request.hosts.to_string()
        } else {
            format!("{} of {}", request.hosts, request.named_hosts)
        };
        rows.add_row([
            job.label(),
            or_dash(&job.user),
            or_dash(&job.name),
            hosts,
            or_dash(&request.tres_per_host.replace("gres:", "").replace("gres/", "")),
            or_dash(&job.reason),
        ]);
    }
    if rows.row_count() > 0 {
        writeln!(w)?;
        write_table(w, &rows)?;
    }
    Ok(())
}
