//! The texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bandpilot_core::{Cluster, HostType};
use bandpilot_readers::{Diagnostic, hostlist, slurm};

use super::Input;
use super::devices::Found;
use super::hosts::Host;
use super::nodes::{self, Conf, NodeLine};
use crate::Remark;

/// `Key=Value`, in quotes where it needs them.
pub(super) fn pair(key: &str, value: &str) -> String {
    let bare = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '#');
    if bare { format!("{key}={value}") } else { format!("{key}=\"{value}\"") }
}

/// Lines for `slurm.conf`.
pub(super) fn slurm_conf(
    conf: Option<&Conf>,
    input: &Input,
    hosts: &[Host],
    topology: bool,
    remarks: &mut Vec<Remark>,
) -> String {
    let by_name: BTreeMap<&str, &Host> =
        hosts.iter().map(|host| (host.name.as_str(), host)).collect();
    let mut text =
        "# Written by bandpilot slurm config: these lines take the place of those of the same keys and nodes.\n"
            .to_owned();
    settings(conf, hosts, topology, &mut text);
    if let Some(conf) = conf {
        let file = input.slurm.map_or("", |text| text.file);
        for line in &conf.lines {
            node_line(line, &by_name, &mut text).unwrap_or_else(|reason| {
                remarks.push((file.to_owned(), reason.at(line.line, 0)));
            });
        }
    } else if let Some(cluster) = input.cluster {
        new_lines(cluster, hosts, &mut text);
        let message = "node lines of a cluster file know neither sockets nor addresses";
        let note = Diagnostic::warning("NodeName", message);
        let help = "compare with slurmd -C on a host of each kind, or give --slurm-conf as well";
        remarks.push((String::new(), note.help(help)));
    }
    text
}

fn settings(conf: Option<&Conf>, hosts: &[Host], topology: bool, text: &mut String) {
    let get = |key: &str| conf.and_then(|conf| conf.settings.get(key)).map_or("", String::as_str);
    let _ = writeln!(text, "GresTypes={}", list_with(get("grestypes"), ["gpu".to_owned()]));
    text.push_str("SelectType=select/cons_tres\n");
    // The two old plugins know fewer parameters; without memory jobs would not be kept apart.
    let old = get("selecttypeparameters");
    let parameters = if old.is_empty() { "CR_Core_Memory" } else { old };
    let _ = writeln!(text, "SelectTypeParameters={parameters}");
    if get("accountingstoragetype").to_ascii_lowercase().ends_with("slurmdbd") {
        let mut kinds: Vec<String> = hosts.iter().flat_map(|host| host.types.clone()).collect();
        kinds.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        kinds.dedup();
        let wanted = std::iter::once("gres/gpu".to_owned())
            .chain(kinds.iter().map(|kind| format!("gres/gpu:{kind}")));
        let tres = list_with(get("accountingstoragetres"), wanted);
        let _ = writeln!(text, "AccountingStorageTRES={tres}");
    }
    if topology {
        text.push_str("TopologyPlugin=topology/tree\n");
    }
}

/// A list with these words behind those that it has.
fn list_with(old: &str, words: impl IntoIterator<Item = String>) -> String {
    let mut all: Vec<String> =
        old.split(',').map(str::trim).filter(|w| !w.is_empty()).map(ToOwned::to_owned).collect();
    for word in words {
        if !all.iter().any(|other| other.eq_ignore_ascii_case(&word)) {
            all.push(word);
        }
    }
    all.join(",")
}

/// A node line anew; as many as its hosts differ.
fn node_line(
    line: &NodeLine,
    hosts: &BTreeMap<&str, &Host>,
    text: &mut String,
) -> Result<(), Diagnostic> {
    let kept: Vec<String> = line.kept.iter().map(|p| pair(&p.key, &p.value)).collect();
    let others = nodes::others(&line.gres);
    if line.hosts.is_empty() {
        // GPUs and features stand on every line instead.
        if !kept.is_empty() {
            let _ = writeln!(text, "NodeName=DEFAULT {}", kept.join(" "));
        }
        return Ok(());
    }
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for name in &line.hosts {
        let host = hosts.get(name.as_str());
        let mut gres = host.map_or(String::new(), |host| host.gres());
        for other in &others {
            let comma = if gres.is_empty() { "" } else { "," };
            let _ = write!(gres, "{comma}{other}");
        }
        let features = host.map_or_else(Vec::new, |host| host.features());
        // `--constraint` tells small letters from capitals.
        let mut all = line.features.clone();
        all.extend(features.into_iter().filter(|feature| !line.features.contains(feature)));
        let features = all.join(",");
        let mut tail = kept.clone();
        tail.extend((!features.is_empty()).then(|| pair("Feature", &features)));
        tail.extend((!gres.is_empty()).then(|| pair("Gres", &gres)));
        let tail = tail.join(" ");
        match groups.iter_mut().find(|(other, _)| *other == tail) {
            Some((_, names)) => names.push(name),
            None => groups.push((tail, vec![name])),
        }
    }
    if groups.len() > 1
        && let Some(list) = line.kept.iter().find(|pair| pair.value.contains(['[', ',']))
        && ["nodeaddr", "nodehostname", "port", "bcastaddr"].iter().any(|key| list.is(key))
    {
        let message =
            format!("the hosts of this line differ, and {} is a list for all of them", list.key);
        let help = "write a line for each kind of host, then call this again";
        return Err(Diagnostic::error("NodeName", message).help(help));
    }
    for (tail, names) in groups {
        let _ = writeln!(text, "NodeName={} {tail}", hostlist::compress(names));
    }
    Ok(())
}

/// Node lines of nothing but the cluster.
fn new_lines(cluster: &Cluster, hosts: &[Host], text: &mut String) {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let kinds = cluster.host_ids().map(|id| cluster.type_of(id));
    for (host, kind) in hosts.iter().zip(kinds) {
        let tail = new_line(kind, host);
        match groups.iter_mut().find(|(other, _)| *other == tail) {
            Some((_, names)) => names.push(&host.name),
            None => groups.push((tail, vec![&host.name])),
        }
    }
    for (tail, names) in groups {
        let _ = writeln!(text, "NodeName={}{tail}", hostlist::compress(names));
    }
}

fn new_line(kind: &HostType, host: &Host) -> String {
    let mut tail = String::new();
    if let Some(cores) = kind.cores {
        let _ = write!(tail, " CPUs={cores}");
    }
    if let Some(bytes) = kind.memory_bytes {
        let _ = write!(tail, " RealMemory={}", bytes >> 20);
    }
    let _ = write!(tail, " Feature={} Gres={}", host.features().join(","), host.gres());
    tail
}

/// `gres.conf` as a whole.
pub(super) fn gres_conf(hosts: &[Host], found: &Found) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for host in hosts {
        let mut lines = String::new();
        for (device, kind) in host.devices.iter().zip(&host.types) {
            let _ = write!(lines, " Name=gpu Type={kind} File={}", device.file);
            for (key, value) in &device.kept {
                let _ = write!(lines, " {}", pair(key, value));
            }
            lines.push('\n');
        }
        match groups.iter_mut().find(|(other, _)| *other == lines) {
            Some((_, names)) => names.push(&host.name),
            None => groups.push((lines, vec![&host.name])),
        }
    }
    let mut text =
        "# Written by bandpilot slurm config; the same file on every host.\nAutoDetect=off\n"
            .to_owned();
    for (lines, names) in groups {
        let names = hostlist::compress(names);
        for line in lines.lines() {
            let _ = writeln!(text, "NodeName={names}{line}");
        }
    }
    for line in &found.others {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// `topology.conf` of the leaves of a cluster; `None` if there is nothing to write.
pub(super) fn topology(input: &Input, hosts: &[Host], remarks: &mut Vec<Remark>) -> Option<String> {
    if let Some(given) = input.topology {
        kept_topology(given.file, given.text, hosts, remarks);
        return None;
    }
    let cluster = input.cluster?;
    let mut leaves: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut without = Vec::new();
    for host in &cluster.hosts {
        let Some(leaf) = &host.leaf else {
            without.push(host.name.as_str());
            continue;
        };
        match leaves.iter_mut().find(|(name, _)| name == leaf) {
            Some((_, names)) => names.push(&host.name),
            None => leaves.push((leaf, vec![&host.name])),
        }
    }
    if leaves.is_empty() {
        return None;
    }
    let strange = leaves.iter().find(|(name, _)| !hostlist::is_host_name(name));
    if !without.is_empty() || strange.is_some() {
        let message = match strange {
            Some((name, _)) => format!("'{name}' cannot be the name of a switch in Slurm"),
            None => format!("{} have no leaf", hostlist::compress(without)),
        };
        let remark = Diagnostic::warning("leaf", format!("{message}: no topology.conf is written"));
        let help = "Slurm starts no job across hosts that no switch joins: mend the cluster file";
        remarks.push((String::new(), remark.help(help)));
        return None;
    }
    let mut text = "# Written by bandpilot slurm config.\n".to_owned();
    for (leaf, names) in &leaves {
        let names = hostlist::compress(names.iter().copied());
        let _ = writeln!(text, "SwitchName={leaf} Nodes={names}");
    }
    if leaves.len() > 1 {
        let mut top = "spine".to_owned();
        while leaves.iter().any(|(leaf, _)| *leaf == top) {
            top.push('0');
        }
        let names = hostlist::compress(leaves.iter().map(|(leaf, _)| *leaf));
        let _ = writeln!(text, "SwitchName={top} Switches={names}");
    }
    Some(text)
}

/// A topology stays; what is wrong with it is said.
fn kept_topology(file: &str, text: &str, hosts: &[Host], remarks: &mut Vec<Remark>) {
    let mut say = |remark: Diagnostic| remarks.push((file.to_owned(), remark));
    if let Some(line) = slurm::topology_yaml(text) {
        say(Diagnostic::note("topology", "a topology.yaml stays as it is, and is not looked into")
            .at(line, 0));
        return;
    }
    let read = slurm::read(text);
    read.diagnostics.into_iter().for_each(&mut say);
    let leaves = read.value.leaves;
    let lost: Vec<&str> =
        hosts.iter().map(|host| host.name.as_str()).filter(|n| !leaves.contains_key(*n)).collect();
    if leaves.is_empty() {
        say(Diagnostic::error("SwitchName", "has no switch or block with Nodes")
            .help("write for example SwitchName=leaf1 Nodes=h[1-16]"));
    } else if !lost.is_empty() {
        let message = format!("{} hang at no switch", hostlist::compress(lost));
        let help = "Slurm starts no job across hosts that no switch joins: add them";
        say(Diagnostic::warning("Nodes", message).help(help));
    }
}
