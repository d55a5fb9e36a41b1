//! The state file: what runs on a cluster at one moment, in TOML.
//!
//! ```toml
//! unavailable = "h3:0-1"           # optional: neither free nor in a job
//! # free = "h1:0-6"                # optional: then what is named nowhere is unavailable
//!
//! [[job]]
//! name = "train-a"
//! placement = "h1:0-3,h2:0-3"
//! demand = 0.5                     # share of its isolated bandwidth, 0..=1; 1 if left out
//! instance_gpus = 2                # must stay together on a host; all of a host's if left out
//! pinned = true                    # must not be moved
//!
//! [[job]]
//! name = "train-b"
//! placement = "h[3-4]:4-7"
//! demand_gbytes_per_s = 40         # or stated in GB/s (bus bandwidth)
//! ```
//!
//! Placements are in the notation of [`placement`]. Without `free`, every healthy GPU
//! that is neither in a job nor unavailable is free. A GPU in two jobs, or in a job and free, is an
//! error; what is wrong is left out of the value, so the value always keeps the rules of
//! [`ClusterState`].

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Cluster, ClusterState, Demand, GpuMask, HostId, Placement, RunningJob};

use crate::toml_walk::{self, Table, Text, Walk};
use crate::{Diagnostic, Parsed, placement};

const KEYS: [&str; 3] = ["job", "unavailable", "free"];
const JOB_KEYS: [&str; 6] =
    ["name", "placement", "demand", "demand_gbytes_per_s", "instance_gpus", "pinned"];

/// Reads a state file for a cluster.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 2).build();
/// let text = "unavailable = 'h2:7'\njob = [{ name = 'a', placement = 'h1:0-3' }]";
/// let read = bandpilot_readers::state_file::read(text, &cluster);
/// assert!(read.diagnostics.is_empty());
/// assert_eq!(read.value.free_gpus(), 11);
/// ```
pub fn read(text: &str, cluster: &Cluster) -> Parsed<ClusterState> {
    let (mut walk, document) = toml_walk::parse(text);
    let root = Table::root(&document);
    walk.unknown_keys(&root, &KEYS, "");
    let mut used = Used::default();
    let jobs = read_jobs(&mut walk, &root, cluster, &mut used);
    let unavailable = read_named(&mut walk, &root, "unavailable", cluster, &mut used);
    let free = if root.has("free") {
        let named = read_named(&mut walk, &root, "free", cluster, &mut used);
        report_unhealthy(&mut walk, &root, &named.unwrap_or_default(), cluster)
    } else {
        let unavailable = unavailable.unwrap_or_default();
        cluster
            .host_ids()
            .map(|host| cluster.healthy_gpus(host).without(used.on(host)))
            .zip(cluster.host_ids())
            .map(|(mask, host)| mask.without(unavailable.on(host)))
            .collect()
    };
    Parsed { value: ClusterState { free, jobs }, diagnostics: walk.finish() }
}

/// The state in which exactly the named GPUs are free and nothing runs, from `h1:0-6,h2:0-7`.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 2).build();
/// let read = bandpilot_readers::state_file::free_form("h1:0-6,h2", &cluster);
/// assert_eq!(read.value.free_gpus(), 15);
/// ```
pub fn free_form(text: &str, cluster: &Cluster) -> Parsed<ClusterState> {
    let Parsed { value: named, mut diagnostics } = placement::on_cluster(text, cluster);
    diagnostics.extend(unhealthy(&named, cluster).map(|d| d.at(1, 0)));
    let free =
        cluster.host_ids().map(|host| named.on(host).intersection(cluster.healthy_gpus(host)));
    Parsed { value: ClusterState { free: free.collect(), jobs: Vec::new() }, diagnostics }
}

/// The state file of a state; [`read`] gives the same state again.
///
/// ```
/// use bandpilot_core::{ClusterBuilder, ClusterState, GpuMask};
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 2).build();
/// let mut state = ClusterState::idle(&cluster);
/// state.free[1] = GpuMask::first(7);
/// assert_eq!(bandpilot_readers::state_file::write(&state, &cluster), "unavailable = \"h2:7\"\n");
/// ```
pub fn write(state: &ClusterState, cluster: &Cluster) -> String {
    let jobs = |host: HostId| {
        let masks = state.jobs.iter().map(|job| job.placement.on(host));
        masks.fold(GpuMask::EMPTY, GpuMask::union)
    };
    let unavailable = Placement::new(cluster.host_ids().map(|host| {
        let free = state.free.get(host.index()).copied().unwrap_or_default();
        (host, cluster.healthy_gpus(host).without(free).without(jobs(host)))
    }));
    let quoted = |text: String| toml::Value::String(text).to_string();
    let named = |set: &Placement| quoted(set.display(cluster));
    let mut lines = Vec::new();
    if unavailable.gpus() > 0 {
        lines.push(format!("unavailable = {}", named(&unavailable)));
    }
    for job in &state.jobs {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push("[[job]]".to_owned());
        lines.push(format!("name = {}", quoted(job.name.clone())));
        lines.push(format!("placement = {}", named(&job.placement)));
        match job.demand {
            // What is meant if nothing is said.
            Demand::Fraction(1.0) => {}
            Demand::Fraction(share) => lines.push(format!("demand = {share}")),
            Demand::GBytesPerS(rate) => lines.push(format!("demand_gbytes_per_s = {rate}")),
        }
        if let Some(gpus) = job.instance_gpus {
            lines.push(format!("instance_gpus = {gpus}"));
        }
        if job.pinned {
            lines.push("pinned = true".to_owned());
        }
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Which GPUs are taken, and by what.
#[derive(Default)]
struct Used {
    by: BTreeMap<HostId, Vec<(GpuMask, String)>>,
}

impl Used {
    fn on(&self, host: HostId) -> GpuMask {
        let all = self.by.get(&host).into_iter().flatten();
        all.fold(GpuMask::EMPTY, |mask, (more, _)| mask.union(*more))
    }

    /// Takes what is not taken yet; the rest is reported against its first holder.
    fn take(
        &mut self,
        wanted: &Placement,
        name: &str,
        cluster: &Cluster,
    ) -> (Placement, Vec<String>) {
        let mut clashes = Vec::new();
        let mut granted = Vec::new();
        for (host, mask) in wanted.shares() {
            let holders = self.by.entry(*host).or_default();
            let mut left = *mask;
            for (held, holder) in holders.iter() {
                let both = left.intersection(*held);
                if !both.is_empty() {
                    clashes.push(format!("{}:{both} is also {holder}", cluster.host(*host).name));
                    left = left.without(both);
                }
            }
            if !left.is_empty() {
                holders.push((left, name.to_owned()));
                granted.push((*host, left));
            }
        }
        (Placement::new(granted), clashes)
    }
}

fn read_jobs<'t>(
    walk: &mut Walk<'t>,
    root: &Table<'_, 't>,
    cluster: &Cluster,
    used: &mut Used,
) -> Vec<RunningJob> {
    let mut names = BTreeSet::new();
    let mut jobs = Vec::new();
    for table in walk.tables(root, "job") {
        walk.unknown_keys(
            &table,
            &JOB_KEYS,
            "known keys of a job: name, placement, demand, \
            demand_gbytes_per_s, instance_gpus, pinned; free and unavailable belong above the first [[job]]",
        );
        let name = walk.required_string(&table, "name");
        let wanted = walk.required_string(&table, "placement");
        let demand = read_demand(walk, &table);
        let (Some(name), Some(wanted), Some(demand)) = (name, wanted, demand) else { continue };
        if !names.insert(name.value.clone()) {
            let message = format!("job '{}' stands twice", name.value);
            walk.error(name.span.start, &table.field("name"), message, "rename one of them");
            continue;
        }
        let holder = format!("in job '{}'", name.value);
        let field = table.field("placement");
        let granted = take(walk, &wanted, &field, &holder, cluster, used);
        for sick in unhealthy(&granted, cluster) {
            walk.warning(wanted.span.start, &field, sick.message, "it keeps its GPUs all the same");
        }
        let instance_gpus = read_instance_gpus(walk, &table, &granted, cluster);
        let pinned = walk.boolean(&table, "pinned").unwrap_or(false);
        if granted.gpus() > 0 {
            let job = RunningJob::new(name.value, granted, demand);
            jobs.push(RunningJob { instance_gpus, pinned, ..job });
        }
    }
    jobs
}

/// Reads a placement and takes its GPUs; everything that is wrong is reported.
fn take(
    walk: &mut Walk<'_>,
    text: &Text,
    field: &str,
    holder: &str,
    cluster: &Cluster,
    used: &mut Used,
) -> Placement {
    let Parsed { value, diagnostics } = placement::on_cluster(&text.value, cluster);
    walk.inside(text, field, diagnostics);
    let (granted, clashes) = used.take(&value, holder, cluster);
    for clash in clashes {
        let help = "a GPU is in one job, or free, or unavailable";
        walk.error(text.span.start, field, clash, help);
    }
    granted
}

fn read_named<'t>(
    walk: &mut Walk<'t>,
    root: &Table<'_, 't>,
    key: &str,
    cluster: &Cluster,
    used: &mut Used,
) -> Option<Placement> {
    let text = walk.string(root, key)?;
    if text.value.trim().is_empty() {
        return None;
    }
    Some(take(walk, &text, key, key, cluster, used))
}

/// The size of the instances; it must divide what the job has on each host.
fn read_instance_gpus<'t>(
    walk: &mut Walk<'t>,
    table: &Table<'_, 't>,
    granted: &Placement,
    cluster: &Cluster,
) -> Option<usize> {
    let gpus = walk.integer(table, "instance_gpus", 1..65)? as usize;
    let shares = granted.shares().iter();
    let Some((host, mask)) = shares.into_iter().find(|(_, mask)| mask.count() % gpus != 0) else {
        return Some(gpus);
    };
    let (name, held) = (&cluster.host(*host).name, mask.count());
    let message = format!("{gpus} does not divide the {held} GPUs on {name}");
    let help =
        "every instance lies on one host; leave it out if the job is one instance on each host";
    walk.error(table.at("instance_gpus"), &table.field("instance_gpus"), message, help);
    None
}

fn read_demand<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>) -> Option<Demand> {
    let field = table.field("demand");
    match (table.has("demand"), table.has("demand_gbytes_per_s")) {
        (true, true) => {
            let message = "stands beside demand_gbytes_per_s".to_owned();
            walk.error(table.at("demand"), &field, message, "keep one of the two");
            None
        }
        (true, false) => {
            let share = walk.number(table, "demand", false)?;
            if share > 1.0 {
                let message = format!("{share} is out of range");
                let help = "a share is 0..=1; for GB/s write demand_gbytes_per_s";
                walk.error(table.at("demand"), &field, message, help);
                return None;
            }
            Some(Demand::Fraction(share))
        }
        (false, true) => walk.number(table, "demand_gbytes_per_s", false).map(Demand::GBytesPerS),
        (false, false) => Some(Demand::Fraction(1.0)),
    }
}

/// The free masks, healthy GPUs only; unhealthy ones are reported.
fn report_unhealthy(
    walk: &mut Walk<'_>,
    root: &Table<'_, '_>,
    named: &Placement,
    cluster: &Cluster,
) -> Vec<GpuMask> {
    for sick in unhealthy(named, cluster) {
        walk.error(root.at("free"), "free", sick.message, &sick.help);
    }
    cluster.host_ids().map(|host| named.on(host).intersection(cluster.healthy_gpus(host))).collect()
}

/// One error for each host on which unhealthy GPUs are named.
fn unhealthy<'a>(
    named: &'a Placement,
    cluster: &'a Cluster,
) -> impl Iterator<Item = Diagnostic> + use<'a> {
    named.shares().iter().filter_map(|(host, mask)| {
        let sick = mask.without(cluster.healthy_gpus(*host));
        let name = &cluster.host(*host).name;
        (!sick.is_empty()).then(|| {
            Diagnostic::error("", format!("{name}:{sick} is unhealthy"))
                .help("leave it out, or mend unhealthy_gpus in the cluster file")
        })
    })
}

#[cfg(test)]
#[path = "tests/state_file.rs"]
mod tests;
