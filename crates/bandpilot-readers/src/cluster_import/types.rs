//! From hosts to host types: hosts that are alike are one type, and those that differ from their peers are named.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Cluster, Host, HostType, HostTypeId, Links, Nic};

use super::ClusterOptions;
use super::gather::{Gathered, Remarks};
use super::resolve::Resolved;
use crate::{Diagnostic, hostlist};

/// Most types that a cluster file can have.
const MAX_TYPES: usize = 1000;
/// Most differences that are named for one host.
const MAX_DIFFERENCES: usize = 4;

/// Hosts that are alike.
struct Group {
    kind: HostType,
    /// Hosts and the NICs that each of them lacks.
    members: Vec<(Resolved, Vec<usize>)>,
}

impl Group {
    fn names(&self) -> String {
        hostlist::compress(self.members.iter().map(|(host, _)| host.name.as_str()))
    }
}

/// The cluster of these hosts; `None` if there are none.
pub(super) fn cluster(
    hosts: Vec<Resolved>,
    gathered: &Gathered,
    options: &ClusterOptions,
    remarks: &mut Remarks,
) -> Option<Cluster> {
    if hosts.is_empty() {
        return None;
    }
    report_leaves(&hosts, gathered, remarks);
    let Some(mut groups) = group(hosts) else {
        let message = format!("more than {MAX_TYPES} different kinds of host");
        let help = "a cluster file holds no more; make several";
        remarks.push((String::new(), Diagnostic::error("host_type", message).help(help)));
        return None;
    };
    compare(&mut groups, remarks);
    report_no_nics(&groups, options, remarks);
    name_types(&mut groups);
    Some(assemble(groups, gathered, options))
}

/// Splits a name into texts and numbers, so that h2 comes before h10.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut digits = false;
    for c in name.chars() {
        if !c.is_ascii_digit() && digits {
            parts.push((String::new(), 0));
        }
        digits = c.is_ascii_digit();
        if let Some((text, number)) = parts.last_mut() {
            match c.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(u64::from(digit)),
                None => text.push(c),
            }
        }
    }
    parts
}

fn report_leaves(hosts: &[Resolved], gathered: &Gathered, remarks: &mut Remarks) {
    if gathered.leaves.is_empty() {
        return;
    }
    let described: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let list = |mut names: Vec<&str>| {
        names.sort_by_cached_key(|name| natural(name));
        hostlist::compress(names)
    };
    let only_leaf: Vec<&str> = gathered
        .leaves
        .keys()
        .map(String::as_str)
        .filter(|name| !described.contains(name))
        .collect();
    let first = only_leaf.first().and_then(|name| gathered.leaves.get(*name));
    if let Some((file, leaf)) = first {
        let message = format!("no dump describes {}: left out", list(only_leaf.clone()));
        let help = "add their dumps, or give --hosts if one dump stands for all";
        let reason = Diagnostic::warning("host", message).at(leaf.line, 0).help(help);
        remarks.push((file.clone(), reason));
    }
    let no_leaf: Vec<&str> =
        described.into_iter().filter(|name| !gathered.leaves.contains_key(*name)).collect();
    if !no_leaf.is_empty() {
        let message = format!("no source gives the leaf of {}", list(no_leaf));
        let help = "add them to topology.conf or to the table of leaves";
        remarks.push((String::new(), Diagnostic::warning("leaf", message).help(help)));
    }
}

/// `None` if there are more kinds than a cluster file can hold.
fn group(hosts: Vec<Resolved>) -> Option<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for host in hosts {
        match groups.iter().position(|group| group.kind == host.kind) {
            Some(at) => groups[at].members.push((host, Vec::new())),
            None if groups.len() == MAX_TYPES => return None,
            None => {
                groups.push(Group { kind: host.kind.clone(), members: vec![(host, Vec::new())] });
            }
        }
    }
    for group in &mut groups {
        group.members.sort_by_cached_key(|(host, _)| natural(&host.name));
    }
    // Stable: equally frequent kinds keep the order of the sources.
    groups.sort_by_key(|group| std::cmp::Reverse(group.members.len()));
    Some(groups)
}

/// Compares the groups of each GPU model with its most frequent one.
fn compare(groups: &mut Vec<Group>, remarks: &mut Remarks) {
    let models: BTreeSet<String> =
        groups.iter().map(|group| group.kind.gpu_model.clone()).collect();
    for model in models {
        let of_model: Vec<usize> =
            (0..groups.len()).filter(|at| groups[*at].kind.gpu_model == model).collect();
        let [usual, next, ..] = of_model[..] else { continue };
        if groups[usual].members.len() == groups[next].members.len() {
            let kinds: Vec<String> = of_model.iter().map(|at| groups[*at].names()).collect();
            let message = format!(
                "hosts with {model} differ, and no kind is the most frequent: {} become types of their own ({})",
                kinds.join(" and "),
                differences(&groups[next].kind, &groups[usual].kind).join("; ")
            );
            remarks.push((String::new(), Diagnostic::note("host_type", message)));
            continue;
        }
        let reference = groups[usual].kind.clone();
        let peers = groups[usual].names();
        let mut different: BTreeMap<String, OddKinds> = BTreeMap::new();
        let mut lacking: BTreeMap<Vec<usize>, Vec<Odd>> = BTreeMap::new();
        for at in of_model.into_iter().skip(1) {
            if let Some(missing) = missing_nics(&groups[at].kind, &reference) {
                let members = std::mem::take(&mut groups[at].members);
                for (host, _) in members {
                    lacking.entry(missing.clone()).or_default().push(Odd::new(&host));
                    groups[usual].members.push((host, missing.clone()));
                }
                continue;
            }
            let what = differences(&groups[at].kind, &reference).join("; ");
            let hosts = groups[at].members.iter().map(|(host, _)| Odd::new(host));
            different.entry(what).or_default().kind(hosts);
        }
        for (what, hosts) in different {
            hosts.report(&what, &peers, remarks);
        }
        for (missing, hosts) in lacking {
            report_nics(hosts, &missing, &reference, &peers, remarks);
        }
        groups[usual].members.sort_by_cached_key(|(host, _)| natural(&host.name));
    }
    groups.retain(|group| !group.members.is_empty());
}

/// A host that is not like its peers.
struct Odd {
    name: String,
    file: String,
    line: u32,
}

impl Odd {
    fn new(host: &Resolved) -> Self {
        Self { name: host.name.clone(), file: host.file.clone(), line: host.line }
    }
}

/// Hosts that differ from their peers in the same words, of one or more kinds.
#[derive(Default)]
struct OddKinds {
    hosts: Vec<Odd>,
    kinds: usize,
}

impl OddKinds {
    /// Adds the hosts of one kind.
    fn kind(&mut self, hosts: impl Iterator<Item = Odd>) {
        self.hosts.extend(hosts);
        self.kinds += 1;
    }

    fn report(self, what: &str, peers: &str, remarks: &mut Remarks) {
        let help = match (self.hosts.len(), self.kinds) {
            (1, _) => "it becomes a type of its own; check the host".to_owned(),
            (_, 1) => "they become a type of their own; check the hosts".to_owned(),
            (_, kinds) => format!("they become {kinds} types of their own; check the hosts"),
        };
        let (differ, its) =
            if self.hosts.len() == 1 { ("differs", "its") } else { ("differ", "their") };
        remark_on(self.hosts, "host", &help, remarks, |names| {
            format!("{names} {differ} from {its} peers {peers}: {what}")
        });
    }
}

fn report_nics(
    hosts: Vec<Odd>,
    missing: &[usize],
    reference: &HostType,
    peers: &str,
    remarks: &mut Remarks,
) {
    let nics: Vec<&str> = missing.iter().map(|at| reference.nics[*at].name.as_str()).collect();
    let nics = nics.join(", ");
    let (lack, its, check) = match hosts.len() {
        1 => ("lacks", "its", "check the host"),
        _ => ("lack", "their", "check the hosts"),
    };
    let help = format!("it is written as unhealthy_nics; {check}");
    remark_on(hosts, "NIC", &help, remarks, |names| {
        format!("{names} {lack} NIC {nics} that {its} peers {peers} have")
    });
}

/// One warning about several hosts, at the first of them.
fn remark_on(
    mut hosts: Vec<Odd>,
    field: &str,
    help: &str,
    remarks: &mut Remarks,
    message: impl Fn(&str) -> String,
) {
    hosts.sort_by_cached_key(|host| natural(&host.name));
    let names = hostlist::compress(hosts.iter().map(|host| host.name.as_str()));
    let Some(first) = hosts.into_iter().next() else { return };
    let reason = Diagnostic::warning(field, message(&names)).at(first.line, 0).help(help);
    remarks.push((first.file, reason));
}

/// Hosts without a NIC would be taken to be slow, and a rate that was given goes nowhere.
fn report_no_nics(groups: &[Group], options: &ClusterOptions, remarks: &mut Remarks) {
    let without = groups.iter().filter(|group| group.kind.nics.is_empty());
    let hosts = without.flat_map(|group| group.members.iter().map(|(host, _)| Odd::new(host)));
    let hosts: Vec<Odd> = hosts.collect();
    if hosts.is_empty() {
        return;
    }
    let help = "say --rails --nic-gbit-per-s RATE if each GPU has a NIC of its own";
    remark_on(hosts, "NIC", help, remarks, |names| {
        format!("{names}: no NIC is known; taken to have one 10 Gbit/s Ethernet card")
    });
    if options.nic_gbit_per_s.is_some() && groups.iter().all(|group| group.kind.nics.is_empty()) {
        let message = "not used, since no NIC was found";
        let help = "say --rails as well if each GPU has a NIC of its own";
        let reason = Diagnostic::warning("--nic-gbit-per-s", message).help(help);
        remarks.push((String::new(), reason));
    }
}

/// Indexes of the reference's NICs that `kind` lacks, if it is the reference otherwise.
///
/// NICs are matched by name; where numbers have moved up, as NIC0, NIC1, ... do, by the GPUs that they serve.
fn missing_nics(kind: &HostType, reference: &HostType) -> Option<Vec<usize>> {
    let same = HostType { nics: reference.nics.clone(), ..kind.clone() } == *reference;
    if !same || kind.nics.len() >= reference.nics.len() {
        return None;
    }
    let by_name = |a: &Nic, b: &Nic| a == b;
    let by_gpus = |a: &Nic, b: &Nic| a.gpus == b.gpus && a.gbit_per_s == b.gbit_per_s;
    unmatched(kind, reference, by_name).or_else(|| unmatched(kind, reference, by_gpus))
}

/// The reference's NICs that are left over if each NIC of `kind` takes one; `None` if one finds none.
fn unmatched(
    kind: &HostType,
    reference: &HostType,
    alike: impl Fn(&Nic, &Nic) -> bool,
) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..reference.nics.len()).collect();
    for nic in &kind.nics {
        let at = left.iter().position(|at| alike(nic, &reference.nics[*at]))?;
        left.remove(at);
    }
    Some(left)
}

/// What differs, in words: `kind` against the reference.
fn differences(kind: &HostType, reference: &HostType) -> Vec<String> {
    let mut found = Vec::new();
    if kind.gpus != reference.gpus {
        found.push(format!("{} GPUs, not {}", kind.gpus, reference.gpus));
    } else if kind.links != reference.links {
        found.extend(link_differences(kind, reference));
    }
    if kind.gpus == reference.gpus && kind.nics != reference.nics {
        found.extend(nic_differences(&kind.nics, &reference.nics));
    }
    if kind.cores != reference.cores {
        found.push("another number of cores".to_owned());
    }
    if kind.memory_bytes != reference.memory_bytes {
        found.push("another amount of memory".to_owned());
    }
    found
}

fn link_differences(kind: &HostType, reference: &HostType) -> Vec<String> {
    let word = |host: &HostType, a, b| {
        host.link(a, b).map_or("NVSwitch".to_owned(), |class| class.to_string())
    };
    // Where the reference has a switch, links with most NVLinks are what it shows as well.
    let widest = match &kind.links {
        Links::Matrix(cells) => cells.iter().max().copied(),
        Links::NvSwitch => None,
    };
    let pairs = (0..kind.gpus).flat_map(|a| (a + 1..kind.gpus).map(move |b| (a, b)));
    let differ: Vec<(usize, usize)> = pairs
        .filter(|(a, b)| match (kind.link(*a, *b), reference.link(*a, *b)) {
            (Some(here), None) => Some(here) != widest,
            (here, there) => here != there,
        })
        .collect();
    let mut gpus = (0..kind.gpus).filter(|gpu| {
        let own = differ.iter().filter(|(a, b)| a == gpu || b == gpu).count();
        kind.gpus > 2 && own + 1 == kind.gpus
    });
    if let (Some(gpu), None) = (gpus.next(), gpus.next()) {
        let words = |host: &HostType| {
            let others = (0..host.gpus).filter(|other| *other != gpu);
            let words: BTreeSet<String> = others.map(|other| word(host, gpu, other)).collect();
            words.into_iter().collect::<Vec<_>>().join(", ")
        };
        let (here, there) = (words(kind), words(reference));
        return vec![format!("GPU{gpu} reaches the others by {here}, not {there}")];
    }
    if differ.is_empty() {
        return vec!["links without NVSwitch".to_owned()];
    }
    let mut told: Vec<String> = differ
        .iter()
        .take(MAX_DIFFERENCES)
        .map(|(a, b)| {
            format!("GPU{a} to GPU{b} is {}, not {}", word(kind, *a, *b), word(reference, *a, *b))
        })
        .collect();
    if differ.len() > MAX_DIFFERENCES {
        told.push(format!("{} more links differ", differ.len() - MAX_DIFFERENCES));
    }
    told
}

fn nic_differences(nics: &[Nic], reference: &[Nic]) -> Vec<String> {
    let names = |of: &[Nic], without: &[Nic]| -> Vec<String> {
        of.iter().filter(|nic| !without.contains(nic)).map(|nic| nic.name.clone()).collect()
    };
    let (more, fewer) = (names(nics, reference), names(reference, nics));
    let mut told = Vec::new();
    let both: Vec<&String> = more.iter().filter(|name| fewer.contains(name)).collect();
    if !both.is_empty() {
        let both: Vec<&str> = both.into_iter().map(String::as_str).collect();
        told.push(format!("NIC {} has another rate or serves other GPUs", both.join(", ")));
    }
    let only = |of: &[String], other: &[String]| -> Vec<String> {
        of.iter().filter(|name| !other.contains(name)).cloned().collect()
    };
    let (extra, lacking) = (only(&more, &fewer), only(&fewer, &more));
    if !extra.is_empty() {
        told.push(format!("NIC {} more", extra.join(", ")));
    }
    if !lacking.is_empty() {
        told.push(format!("NIC {} missing", lacking.join(", ")));
    }
    told
}

/// Names like `h100-8`, made unique with the first host's name.
fn name_types(groups: &mut [Group]) {
    let mut taken = BTreeSet::new();
    for group in groups {
        let letters = group
            .kind
            .gpu_model
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        let letters: String = letters.collect();
        let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
        let base = format!("{}-{}", words.join("-"), group.kind.gpus);
        let base = base.trim_start_matches('-').to_owned();
        let first = group.members.first().map_or("", |(host, _)| host.name.as_str());
        let with_host = format!("{base}-{first}");
        let mut name = if taken.contains(&base) { with_host.clone() } else { base };
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{with_host}-{number}");
            number += 1;
        }
        group.kind.name = name;
    }
}

fn assemble(groups: Vec<Group>, gathered: &Gathered, options: &ClusterOptions) -> Cluster {
    let mut host_types = Vec::new();
    let mut hosts = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        for (host, unhealthy_nics) in group.members {
            hosts.push(Host {
                leaf: gathered.leaves.get(&host.name).map(|(_, leaf)| leaf.name.clone()),
                name: host.name,
                host_type: HostTypeId(at as u16),
                unhealthy_gpus: bandpilot_core::GpuMask::EMPTY,
                unhealthy_nics,
                gpu_ids: host.gpu_ids,
            });
        }
        host_types.push(group.kind);
    }
    // Hosts of a leaf side by side: fewer entries in the file, and neighbours among equals.
    hosts.sort_by_cached_key(|host| {
        let leaf = host.leaf.as_deref().map(natural);
        (leaf.is_none(), leaf, host.host_type, natural(&host.name), host.name.clone())
    });
    Cluster { name: options.name.clone(), host_types, hosts }
}
