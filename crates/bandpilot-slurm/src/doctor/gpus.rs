//! Checks of GPUs, their types and their devices.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::counted;
use bandpilot_readers::{hostlist, slurm};

use super::{Device, Exam, Facts, Files, Verdict, error, no_config, ok, unknown, warning};
use crate::Host;
use crate::config::{Text, devices as gres_conf};

const NAMED: &str = "bandpilot slurm config writes the lines";

fn names<'a>(hosts: impl IntoIterator<Item = &'a str>) -> String {
    hostlist::compress(hosts)
}

/// Hosts that have GPUs.
fn with_gpus<'a>(exam: &Exam<'a>) -> Option<Vec<&'a Host>> {
    let hosts = exam.facts.hosts.as_ref().ok()?;
    Some(hosts.iter().filter(|host| !host.gpus.is_empty()).collect())
}

fn no_hosts() -> Verdict {
    unknown("scontrol show node gave nothing", "see the check 'answers'")
}

pub(super) fn gres_types(exam: &Exam) -> Verdict {
    let Some(types) = exam.facts.setting("grestypes") else { return no_config() };
    if types.split(',').any(|kind| kind.trim() == "gpu") {
        return ok(format!("GresTypes={types}"));
    }
    error(
        format!("GresTypes={types} has no gpu"),
        "GresTypes=gpu in slurm.conf, then restart all daemons",
    )
}

pub(super) fn gpu_types(exam: &Exam) -> Verdict {
    let Some(hosts) = with_gpus(exam) else { return no_hosts() };
    if hosts.is_empty() {
        return error("no host has GPUs", NAMED);
    }
    let (mut islands, mut counted_only) = (Vec::new(), Vec::new());
    for host in &hosts {
        let kinds: BTreeSet<&String> = host.gpus.iter().filter_map(|g| g.kind.as_ref()).collect();
        let untyped = host.gpus.iter().any(|gpu| gpu.kind.is_none());
        if untyped || (kinds.len() < 2 && host.gpus.len() > 1) {
            counted_only.push(host.name.as_str());
        } else if kinds.len() < host.gpus.len() {
            islands.push(host.name.as_str());
        }
    }
    if !counted_only.is_empty() {
        let found = format!(
            "{}: GPUs have no type for each index, jobs cannot name them",
            names(counted_only)
        );
        return error(found, NAMED);
    }
    if !islands.is_empty() {
        let found = format!(
            "{}: one type stands for several GPUs, which of them a job gets is Slurm's choice",
            names(islands)
        );
        return warning(
            found,
            "bandpilot slurm config --granularity gpu writes a type for each GPU",
        );
    }
    ok(format!("every GPU of {} has a type of its own", counted(hosts.len(), "host")))
}

pub(super) fn gpu_types_alike(exam: &Exam) -> Verdict {
    let Some(hosts) = with_gpus(exam) else { return no_hosts() };
    let mut of_index: BTreeMap<usize, (&Host, Option<&String>)> = BTreeMap::new();
    for host in &hosts {
        for (index, gpu) in host.gpus.iter().enumerate() {
            let kind = gpu.kind.as_ref();
            let (first, same) = *of_index.entry(index).or_insert((host, kind));
            if same != kind {
                let name = |kind: Option<&String>| kind.map_or("none", String::as_str).to_owned();
                let found = format!(
                    "GPU {index} has type {} on {} and {} on {}: such hosts need a component each of a heterogeneous job",
                    name(same),
                    first.name,
                    name(kind),
                    host.name
                );
                return warning(found, "give the same types to the same indexes on all hosts");
            }
        }
    }
    ok("an index has the same type on all hosts")
}

/// Names by which Slurm may mean this host; all of them where many hosts are run on one machine.
fn mine(facts: &Facts) -> Option<Vec<&str>> {
    let this = facts.this_host.as_deref()?;
    let short = |name: &str| name.split('.').next().unwrap_or(name) == this || name == "localhost";
    let of_slurm = facts.host_names.iter().filter(|(node, host)| short(host) || short(node));
    Some(of_slurm.map(|(node, _)| node.as_str()).collect())
}

/// The devices of this host's GPUs by `gres.conf`, to be looked at.
pub fn device_paths(facts: &Facts, files: &Files) -> Vec<String> {
    let (Some(nodes), Some(text)) = (mine(facts), &files.gres) else { return Vec::new() };
    let found = gres_conf::read(Text { file: "gres.conf", text }, &mut Vec::new());
    let mut paths = BTreeSet::new();
    for node in nodes {
        let devices = found.by_host.get(node).unwrap_or(&found.everywhere);
        paths.extend(devices.iter().map(|device| device.file.clone()));
    }
    paths.into_iter().collect()
}

fn no_files() -> Verdict {
    unknown(
        "the folder of slurm.conf is not readable here",
        "call it on a host with Slurm's files, or give --config FOLDER",
    )
}

pub(super) fn auto_detect(exam: &Exam) -> Verdict {
    if !exam.files.seen {
        return no_files();
    }
    let Some(text) = &exam.files.gres else {
        return warning("there is no gres.conf: GPUs have no devices", NAMED);
    };
    let entries = slurm::lines::entries(text);
    let on = entries.iter().find_map(|entry| {
        let method = entry.get("autodetect")?;
        (!method.eq_ignore_ascii_case("off")).then_some((entry.line, method))
    });
    match on {
        None => ok("gres.conf names every device"),
        Some((line, method)) => error(
            format!(
                "gres.conf:{line}: AutoDetect={method} keeps only types that are part of the name of the device: no type for each index"
            ),
            "AutoDetect=off with a line for each GPU, as bandpilot slurm config writes them",
        ),
    }
}

/// Slurm's index of a GPU follows the order of types on the node line, not the number of the device (seen with 22.05).
pub(super) fn device_order(exam: &Exam) -> Verdict {
    let Some(text) = &exam.files.gres else { return no_files() };
    let Some(hosts) = with_gpus(exam) else { return no_hosts() };
    let found = gres_conf::read(Text { file: "gres.conf", text }, &mut Vec::new());
    for host in &hosts {
        let devices = found.by_host.get(&host.name).unwrap_or(&found.everywhere);
        let mut kinds: Vec<&Option<String>> = host.gpus.iter().map(|gpu| &gpu.kind).collect();
        kinds.dedup();
        let numbers: Vec<(usize, &str)> = kinds
            .iter()
            .flat_map(|kind| devices.iter().filter(move |device| device.kind == **kind))
            .map(|device| (device.number, device.file.as_str()))
            .collect();
        let moved = numbers.iter().enumerate().find(|(index, (number, _))| index != number);
        if let Some((index, (_, file))) = moved {
            let found = format!(
                "{file} is GPU {index} of {} for Slurm: without ConstrainDevices CUDA_VISIBLE_DEVICES names another GPU",
                host.name
            );
            return error(
                found,
                "name the types on the node line in the order of the devices, and all devices",
            );
        }
    }
    ok("Slurm's indexes are the numbers of the devices")
}

pub(super) fn devices(exam: &Exam) -> Verdict {
    if !exam.files.seen {
        return no_files();
    }
    if exam.devices.is_empty() {
        return unknown("gres.conf names no device of this host", "call it on a host with GPUs");
    }
    let other = exam.devices.iter().find_map(|(path, device)| match device {
        Device::Other(what) => Some((path, what)),
        Device::Character(_) => None,
    });
    if let Some((path, what)) = other {
        let found = format!(
            "{path}: {what}; Slurm sets CUDA_VISIBLE_DEVICES for character devices only (seen with 22.05)"
        );
        return error(
            found,
            "name the device of the GPU: File=/dev/nvidia0; load the driver before slurmd starts",
        );
    }
    let shifted = exam.devices.iter().find_map(|(path, device)| {
        let number = path.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: u32 = path.get(number..)?.parse().ok()?;
        match device {
            Device::Character(minor) if *minor != number => Some((path, minor)),
            _ => None,
        }
    });
    if let Some((path, minor)) = shifted {
        let found = format!("{path} has the minor number {minor}: the index may be another GPU's");
        return warning(found, "use the files that the driver made");
    }
    ok(format!(
        "{} of this host are character devices with their own numbers",
        counted(exam.devices.len(), "GPU")
    ))
}

pub(super) fn constrain_devices(exam: &Exam) -> Verdict {
    // Slurm shows it itself where a cgroup plugin is in use.
    let shown = exam.facts.setting("constraindevices").filter(|value| !value.is_empty());
    let in_file = exam.files.cgroup.as_ref().map(|text| {
        let entries = slurm::lines::entries(text);
        let values = entries.iter().rev().find_map(|entry| entry.get("constraindevices"));
        values.unwrap_or("no").to_owned()
    });
    let value = shown.map(ToOwned::to_owned).or(in_file);
    let Some(plugins) = exam.facts.setting("taskplugin") else { return no_config() };
    let plugin = plugins.contains("cgroup");
    match value {
        None if !exam.files.seen => no_files(),
        Some(value) if plugin && value.eq_ignore_ascii_case("yes") => ok(
            "ConstrainDevices=yes: CUDA_VISIBLE_DEVICES counts among the job's own GPUs, in the order of PCI_BUS_ID; it is never overwritten",
        ),
        _ => warning(
            "jobs can use GPUs that they were not given; CUDA_VISIBLE_DEVICES has the indexes of the host",
            "ConstrainDevices=yes in cgroup.conf with TaskPlugin=task/cgroup",
        ),
    }
}

pub(super) fn driver(exam: &Exam) -> Verdict {
    let facts = exam.facts;
    let (Ok(hosts), Some(nodes)) = (&facts.hosts, mine(facts)) else { return no_hosts() };
    let here: Vec<&Host> = hosts
        .iter()
        .filter(|host| nodes.contains(&host.name.as_str()) && !host.gpus.is_empty())
        .collect();
    let Some(first) = here.first() else {
        return unknown("this host is none of Slurm's with GPUs", "call it on a host with GPUs");
    };
    let count = first.gpus.len();
    match &facts.driver {
        Err(reason) => warning(
            format!("nvidia-smi gave nothing: {reason}"),
            "install the driver; without it GPUs cannot be told by their UUID",
        ),
        Ok(gpus) if *gpus == count => {
            ok(format!("the driver has {} as Slurm has", counted(count, "GPU")))
        }
        Ok(gpus) => error(
            format!(
                "the driver has {}, Slurm has {count} on {}",
                counted(*gpus, "GPU"),
                first.name
            ),
            "mend gres.conf, or drain the host: nvidia-smi says which GPU is gone",
        ),
    }
}

fn no_cluster() -> Verdict {
    unknown("no cluster file was given", "give --cluster FILE")
}

pub(super) fn cluster_hosts(exam: &Exam) -> Verdict {
    let Some(cluster) = exam.cluster else { return no_cluster() };
    let Some(hosts) = with_gpus(exam) else { return no_hosts() };
    let of_slurm: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let of_file: BTreeSet<&str> = cluster.hosts.iter().map(|host| host.name.as_str()).collect();
    let mut notes = Vec::new();
    let lost: Vec<&str> = of_file.difference(&of_slurm).copied().collect();
    if !lost.is_empty() {
        notes.push(format!("{} have no GPUs in Slurm", names(lost)));
    }
    let more: Vec<&str> = of_slurm.difference(&of_file).copied().collect();
    if !more.is_empty() {
        notes.push(format!("{} are not in the cluster file", names(more)));
    }
    if notes.is_empty() {
        return ok(format!("{} in both", counted(of_file.len(), "host")));
    }
    warning(
        notes.join("; "),
        "make both have the same hosts; those that one lacks are never planned on",
    )
}

pub(super) fn cluster_gpus(exam: &Exam) -> Verdict {
    let Some(cluster) = exam.cluster else { return no_cluster() };
    let Some(hosts) = with_gpus(exam) else { return no_hosts() };
    let of_slurm: BTreeMap<&str, usize> =
        hosts.iter().map(|host| (host.name.as_str(), host.gpus.len())).collect();
    let differ: Vec<String> = cluster
        .host_ids()
        .filter_map(|id| {
            let (name, gpus) = (cluster.host(id).name.as_str(), cluster.type_of(id).gpus);
            let has = *of_slurm.get(name)?;
            (has != gpus)
                .then(|| format!("{name} has {has} in Slurm and {gpus} in the cluster file"))
        })
        .take(5)
        .collect();
    if differ.is_empty() {
        return ok("the same number of GPUs on every host");
    }
    error(differ.join("; "), "mend the file that is wrong: indexes would not mean the same GPUs")
}
