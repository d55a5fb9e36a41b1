//! Hosts as rows of characters, one for each GPU.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bandpilot_core::{Cluster, ClusterState, GpuMask, HostId};
use bandpilot_readers::hostlist;

use crate::output::{table, write_table};

/// Columns of a terminal that a row takes at most, long names of hosts aside.
pub const WIDTH: usize = 100;
/// A pool of more hosts is shown as groups of alike ones.
const MOST_ROWS: usize = 32;
/// What the characters mean.
pub const LEGEND: &str = "each GPU: the size of the instance that holds it (a = 10, b = 11, ..), '.' idle, '-' not usable";

/// How full a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fullness {
    /// Some GPUs are held and some are idle.
    Partial,
    /// All usable GPUs are held.
    Full,
    /// No GPU is held.
    Empty,
    /// No GPU is usable.
    Unusable,
}

impl Fullness {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Full => "full",
            Self::Empty => "empty",
            Self::Unusable => "unusable",
        }
    }
}

/// An instance on a host.
#[derive(Debug, Clone)]
pub struct Part {
    /// The job, by place in the state.
    pub job: usize,
    /// Its GPUs.
    pub gpus: GpuMask,
}

/// A host with what is on it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The host.
    pub host: HostId,
    /// Instances.
    pub parts: Vec<Part>,
    /// Idle GPUs.
    pub idle: GpuMask,
    /// GPUs of the host, usable or not.
    pub gpus: usize,
}

impl Row {
    /// GPUs that are held.
    pub fn held(&self) -> usize {
        self.parts.iter().map(|part| part.gpus.count()).sum()
    }

    /// How full it is.
    pub fn fullness(&self) -> Fullness {
        match (self.held(), self.idle.count()) {
            (0, 0) => Fullness::Unusable,
            (0, _) => Fullness::Empty,
            (_, 0) => Fullness::Full,
            _ => Fullness::Partial,
        }
    }

    /// One character for each GPU, in the order of their indexes.
    fn in_order(&self) -> String {
        let of = |gpu: usize| {
            let part = self.parts.iter().find(|part| part.gpus.contains(gpu));
            match part {
                Some(part) => digit(part.gpus.count()),
                None if self.idle.contains(gpu) => '.',
                None => '-',
            }
        };
        (0..self.gpus).map(of).collect()
    }

    /// One character for each GPU, large instances first: alike for hosts that are equally full.
    fn sorted(&self) -> String {
        let mut sizes: Vec<usize> = self.parts.iter().map(|part| part.gpus.count()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let held = sizes.iter().flat_map(|size| std::iter::repeat_n(digit(*size), *size));
        let held: String = held.collect();
        let idle = ".".repeat(self.idle.count());
        let lost = self.gpus.saturating_sub(self.held() + self.idle.count());
        format!("{held}{idle}{}", "-".repeat(lost))
    }

    fn pinned(&self, state: &ClusterState) -> usize {
        let pinned = self.parts.iter().filter(|part| state.jobs[part.job].pinned);
        pinned.map(|part| part.gpus.count()).sum()
    }
}

/// All hosts with what is on them.
pub fn rows(cluster: &Cluster, state: &ClusterState) -> Vec<Row> {
    let row = |host: HostId| Row {
        host,
        parts: Vec::new(),
        idle: state.free[host.index()],
        gpus: cluster.type_of(host).gpus,
    };
    let mut rows: Vec<Row> = cluster.host_ids().map(row).collect();
    for (job, running) in state.jobs.iter().enumerate() {
        for (host, gpus) in running.instances() {
            rows[host.index()].parts.push(Part { job, gpus });
        }
    }
    rows
}

/// 1 to 9, then letters.
fn digit(size: usize) -> char {
    u32::try_from(size).ok().and_then(|size| char::from_digit(size, 36)).unwrap_or('#')
}

/// The hosts of a pool, one by one or as groups.
///
/// # Errors
/// If writing fails.
pub fn write(
    w: &mut dyn Write,
    cluster: &Cluster,
    state: &ClusterState,
    rows: &[&Row],
) -> io::Result<()> {
    if rows.len() > MOST_ROWS {
        groups(w, cluster, state, rows)
    } else {
        hosts(w, cluster, state, rows)
    }
}

fn hosts(
    w: &mut dyn Write,
    cluster: &Cluster,
    state: &ClusterState,
    rows: &[&Row],
) -> io::Result<()> {
    let mut lines = table(&["  HOST", "GPUS", "STATE", "JOBS"]);
    let width = rows.iter().map(|row| cluster.host(row.host).name.len()).max().unwrap_or(0);
    for row in rows {
        let name = format!("  {}", cluster.host(row.host).name);
        let room = WIDTH.saturating_sub(width + row.gpus + 18);
        let jobs = shortened(&jobs(state, row), room);
        lines.add_row([name, row.in_order(), row.fullness().name().to_owned(), jobs]);
    }
    write_table(w, &lines)
}

/// Jobs with the sizes of their instances on a host.
fn jobs(state: &ClusterState, row: &Row) -> Vec<String> {
    let mut sizes: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for part in &row.parts {
        sizes.entry(part.job).or_default().push(part.gpus.count().to_string());
    }
    let shown = |(job, sizes): (usize, Vec<String>)| {
        let pinned = if state.jobs[job].pinned { " pinned" } else { "" };
        format!("{} {}{pinned}", name(&state.jobs[job].name), sizes.join("+"))
    };
    sizes.into_iter().map(shown).collect()
}

/// Users choose names, and a terminal would obey control characters in them.
pub fn name(job: &str) -> String {
    job.replace(char::is_control, "?")
}

/// As many items as there is room for.
fn shortened(items: &[String], room: usize) -> String {
    let mut line = String::new();
    for (at, item) in items.iter().enumerate() {
        let more = format!(", {} more", items.len() - at);
        let room = if at + 1 == items.len() { room } else { room.saturating_sub(more.len()) };
        if at > 0 && line.chars().count() + 2 + item.chars().count() > room {
            return line + &more;
        }
        if at > 0 {
            line += ", ";
        }
        line += item;
    }
    line
}

fn groups(
    w: &mut dyn Write,
    cluster: &Cluster,
    state: &ClusterState,
    rows: &[&Row],
) -> io::Result<()> {
    // Partial hosts first, of these those with the fewest idle GPUs.
    let mut alike: BTreeMap<(Fullness, usize, String, usize), Vec<&str>> = BTreeMap::new();
    for row in rows {
        let key = (row.fullness(), row.idle.count(), row.sorted(), row.pinned(state));
        alike.entry(key).or_default().push(&cluster.host(row.host).name);
    }
    let mut lines = table(&["  HOSTS", "GPUS", "STATE", "PINNED", "NAMES"]);
    for ((fullness, _, picture, pinned), names) in alike {
        let room = WIDTH.saturating_sub(picture.len() + 32);
        let pinned = if pinned > 0 { pinned.to_string() } else { "-".to_owned() };
        let count = format!("  {}", names.len());
        lines.add_row([count, picture, fullness.name().to_owned(), pinned, listed(&names, room)]);
    }
    write_table(w, &lines)
}

/// A hostlist, cut where there is no more room.
fn listed(names: &[&str], room: usize) -> String {
    let all = hostlist::compress(names.iter().copied());
    if all.len() <= room {
        return all;
    }
    let fits = |count: usize| hostlist::compress(names[..count].iter().copied()).len() + 12 <= room;
    // At least one; the more names, the longer the list.
    let (mut shown, mut too_many) = (1, names.len());
    while shown + 1 < too_many {
        let middle = usize::midpoint(shown, too_many);
        if fits(middle) { shown = middle } else { too_many = middle }
    }
    let list = hostlist::compress(names[..shown].iter().copied());
    format!("{list}, {} more", names.len() - shown)
}
