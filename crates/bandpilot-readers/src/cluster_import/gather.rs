//! Reads every source with the reader of its kind, and settles which host each dump is of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bandpilot_core::counted;

use super::{ClusterOptions, HostName, Source, SourceSummary};
use crate::slurm::{Leaf, NodeFacts};
use crate::topo::{self, Dump, Facts, TopoOptions};
use crate::{Diagnostic, encoding, hostlist, leaf_map, slurm};

pub(super) type Remarks = Vec<(String, Diagnostic)>;

/// A host's dump and where it came from.
pub(super) struct HostDump {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) dump: Dump,
    pub(super) facts: Facts,
    /// True if the dump is of this host and of no other.
    pub(super) own: bool,
}

/// All that the sources say.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) summaries: Vec<SourceSummary>,
    pub(super) dumps: Vec<HostDump>,
    /// Facts from texts without a matrix, by host.
    pub(super) facts: BTreeMap<String, (String, Facts)>,
    pub(super) leaves: BTreeMap<String, (String, Leaf)>,
    pub(super) nodes: BTreeMap<String, (String, NodeFacts)>,
}

/// Who says which host a dump is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByText,
    ByFolder,
    ByFile,
    ByPrompt,
    Not,
}

struct Found {
    file: String,
    names: Vec<String>,
    named: Named,
    dump: Dump,
    facts: Facts,
}

pub(super) fn gather(
    sources: &[Source],
    options: &ClusterOptions,
    remarks: &mut Remarks,
) -> Gathered {
    let mut gathered = Gathered::default();
    let mut found = Vec::new();
    for source in sources {
        let mended = match encoding::ready(&source.text) {
            Ok(Cow::Borrowed(_)) => None,
            Ok(Cow::Owned(text)) => Some(Source { text, ..source.clone() }),
            Err(reason) => {
                remarks.push((source.file.clone(), reason));
                let file = source.file.clone();
                gathered.summaries.push(SourceSummary { file, kind: None, hosts: 0 });
                continue;
            }
        };
        let source = mended.as_ref().unwrap_or(source);
        let (kind, hosts) = if leaf_map::is_leaf_map(&source.text) {
            (Some("leaf map"), read_leaf_map(source, &mut gathered, remarks))
        } else if slurm::is_slurm(&source.text) && !topo::is_topo(&source.text) {
            (Some("slurm"), read_slurm(source, options, &mut gathered, remarks))
        } else if topo::is_topo(&source.text) {
            (Some("topology dump"), read_topo(source, options, &mut gathered, &mut found, remarks))
        } else if let Some(line) = slurm::topology_yaml(&source.text) {
            let help = "give Slurm's topology.conf, the output of scontrol show topology, or a table of node,ASW";
            let reason = Diagnostic::error("", "Slurm's topology.yaml is not read");
            remarks.push((source.file.clone(), reason.at(line, 0).help(help)));
            (None, 0)
        } else {
            let help = "give output of nvidia-smi topo -m, Slurm's topology.conf or gres.conf, or a table of node,ASW";
            let reason = Diagnostic::error("", "it is of no kind that is read here").help(help);
            remarks.push((source.file.clone(), reason));
            (None, 0)
        };
        gathered.summaries.push(SourceSummary { file: source.file.clone(), kind, hosts });
    }
    name(found, options, &mut gathered, remarks);
    gathered
}

fn said(source: &Source, diagnostics: Vec<Diagnostic>, remarks: &mut Remarks) {
    remarks.extend(diagnostics.into_iter().map(|remark| (source.file.clone(), remark)));
}

fn read_leaf_map(source: &Source, gathered: &mut Gathered, remarks: &mut Remarks) -> usize {
    let read = leaf_map::read(&source.text);
    said(source, read.diagnostics, remarks);
    let hosts = read.value.len();
    add_leaves(source, read.value, gathered, remarks);
    hosts
}

/// A host that two sources put on different leaves is an error.
fn add_leaves(
    source: &Source,
    leaves: BTreeMap<String, Leaf>,
    gathered: &mut Gathered,
    remarks: &mut Remarks,
) {
    for (host, leaf) in leaves {
        if let Some((file, before)) = gathered.leaves.get(&host)
            && before.name != leaf.name
        {
            let message = format!(
                "{host} is on '{}', but on '{}' in {file}:{}",
                leaf.name, before.name, before.line
            );
            let reason = Diagnostic::error("leaf", message).at(leaf.line, 0);
            remarks.push((source.file.clone(), reason.help("leave one of the two files out")));
            continue;
        }
        gathered.leaves.insert(host, (source.file.clone(), leaf));
    }
}

fn read_slurm(
    source: &Source,
    options: &ClusterOptions,
    gathered: &mut Gathered,
    remarks: &mut Remarks,
) -> usize {
    let read = slurm::read(&source.text);
    said(source, read.diagnostics, remarks);
    let mut file = read.value;
    if let Some(local) = file.local {
        let mut names: Vec<String> = options.hosts.clone().unwrap_or_default();
        if let HostName::Folder(name) = &source.host
            && names.is_empty()
        {
            names.push(name.clone());
        }
        if names.is_empty() {
            let message = "lines without NodeName are about the host that the file is on";
            let reason = Diagnostic::error("NodeName", message).at(local.line, 0);
            remarks.push((source.file.clone(), reason.help("say which hosts with --hosts")));
        }
        file.nodes.extend(names.into_iter().map(|name| (name, local.clone())));
    }
    let mut hosts: std::collections::BTreeSet<&String> = file.leaves.keys().collect();
    hosts.extend(file.nodes.keys());
    let hosts = hosts.len();
    for (host, facts) in file.nodes {
        let (_, known) = gathered.nodes.entry(host).or_insert_with(|| {
            (source.file.clone(), NodeFacts { line: facts.line, ..NodeFacts::default() })
        });
        known.gpus = known.gpus.or(facts.gpus);
        known.gpu_type = known.gpu_type.take().or(facts.gpu_type);
        known.links = known.links.take().or(facts.links);
        known.cores = known.cores.or(facts.cores);
        known.memory_bytes = known.memory_bytes.or(facts.memory_bytes);
    }
    add_leaves(source, file.leaves, gathered, remarks);
    hosts
}

fn read_topo(
    source: &Source,
    options: &ClusterOptions,
    gathered: &mut Gathered,
    found: &mut Vec<Found>,
    remarks: &mut Remarks,
) -> usize {
    let topo_options = TopoOptions { nics: options.nics.clone(), rails: options.rails };
    let read = topo::read(&source.text, &topo_options);
    said(source, read.diagnostics, remarks);
    let dumps = read.value.iter().filter(|section| section.dump.is_some()).count();
    let mut hosts = 0;
    for section in read.value {
        let by_file = match &source.host {
            HostName::Folder(name) => Some((name, Named::ByFolder)),
            HostName::File(name) => Some((name, Named::ByFile)),
            HostName::Unknown => None,
        };
        let Some(dump) = section.dump else {
            lone_facts(source, &section.facts, gathered, remarks);
            continue;
        };
        let (names, named) = match (&dump.hosts, by_file, &dump.prompt_host) {
            (hosts, _, _) if !hosts.is_empty() => (hosts.clone(), Named::ByText),
            (_, Some((name, named)), _) if dumps == 1 => (vec![name.clone()], named),
            (_, _, Some(host)) => (vec![host.clone()], Named::ByPrompt),
            _ => (Vec::new(), Named::Not),
        };
        hosts += names.len().max(1);
        found.push(Found { file: source.file.clone(), names, named, dump, facts: section.facts });
    }
    hosts
}

/// Facts without a matrix belong to the host that the text or the file names.
fn lone_facts(source: &Source, facts: &Facts, gathered: &mut Gathered, remarks: &mut Remarks) {
    let by_file = match &source.host {
        HostName::Folder(name) | HostName::File(name) => vec![name.clone()],
        HostName::Unknown => Vec::new(),
    };
    let names = if facts.hosts.is_empty() { by_file } else { facts.hosts.clone() };
    if names.is_empty() {
        let message = "GPU names or NIC rates of an unknown host, not used";
        let reason = Diagnostic::warning("", message).at(facts.line, 0);
        remarks
            .push((source.file.clone(), reason.help("put them into the file of the host's dump")));
    }
    for name in names {
        gathered.facts.insert(name, (source.file.clone(), facts.clone()));
    }
}

/// Gives every dump its hosts.
fn name(
    mut found: Vec<Found>,
    options: &ClusterOptions,
    gathered: &mut Gathered,
    remarks: &mut Remarks,
) {
    if let Some(hosts) = &options.hosts
        && !found.is_empty()
        && !told(&mut found, hosts, remarks)
    {
        return;
    }
    let mut known: BTreeMap<String, (String, u32)> = BTreeMap::new();
    for Found { file, names, named, dump, facts } in found {
        let line = dump.line;
        if names.is_empty() {
            let help = unnamed_help(gathered);
            let reason = Diagnostic::error("host", "the dump does not name its host").at(line, 0);
            remarks.push((file.clone(), reason.help(help)));
        }
        let by = match named {
            Named::ByFile if options.hosts.is_none() => Some("the file"),
            Named::ByPrompt if options.hosts.is_none() => Some("the shell prompt"),
            _ => None,
        };
        if let (Some(by), Some(host)) = (by, names.first()) {
            let message = format!("the host is named '{host}' after {by}");
            let note = Diagnostic::note("host", message).at(line, 0);
            remarks.push((file.clone(), note.help("--hosts gives other names")));
        }
        let own = names.len() == 1;
        for name in names {
            let reason = if hostlist::is_host_name(&name) {
                let before = known.insert(name.clone(), (file.clone(), line));
                before.map(|(file, line)| {
                    format!("host '{name}' is described in {file}:{line} already")
                })
            } else {
                Some(format!("'{name}' cannot be a host name"))
            };
            if let Some(message) = reason {
                let reason = Diagnostic::error("host", message).at(line, 0);
                remarks.push((file.clone(), reason.help("name each host once")));
                continue;
            }
            if gathered.dumps.len() == hostlist::MAX_HOSTS {
                let message = format!("more than {} hosts", hostlist::MAX_HOSTS);
                let reason = Diagnostic::error("host", message).at(line, 0);
                remarks.push((file, reason.help("make several cluster files")));
                return;
            }
            let (file, dump, facts) = (file.clone(), dump.clone(), facts.clone());
            gathered.dumps.push(HostDump { name, file, dump, facts, own });
        }
    }
}

/// Takes the names of `--hosts`: all of them for a single dump, one for each of several; false if they do not go
/// with the dumps.
fn told(found: &mut [Found], hosts: &[String], remarks: &mut Remarks) -> bool {
    let weak = |found: &Found| !matches!(found.named, Named::ByText | Named::ByFolder);
    if let [single] = found {
        if single.named == Named::ByText && single.names != hosts {
            let message = format!(
                "the dump is marked as of {}, but --hosts says otherwise: taken for all hosts of --hosts",
                hostlist::compress(single.names.iter().map(String::as_str))
            );
            let reason = Diagnostic::warning("--hosts", message).at(single.dump.line, 0);
            remarks.push((single.file.clone(), reason));
        }
        single.names = hosts.to_vec();
        if hosts.len() > 1 {
            let message = format!("this one dump stands for {} hosts", hosts.len());
            let note = Diagnostic::note("--hosts", message).at(single.dump.line, 0);
            remarks.push((single.file.clone(), note));
        }
        return true;
    }
    if found.len() == hosts.len() && found.iter().all(weak) {
        for (found, host) in found.iter_mut().zip(hosts) {
            found.names = vec![host.clone()];
            let message =
                format!("this dump is taken as that of '{host}', in the order of --hosts");
            let note = Diagnostic::note("--hosts", message).at(found.dump.line, 0);
            remarks.push((found.file.clone(), note));
        }
        return true;
    }
    let message = format!(
        "it names {} for {}{}",
        counted(hosts.len(), "host"),
        counted(found.len(), "dump"),
        if found.iter().all(weak) { "" } else { " that have names" }
    );
    let help =
        "--hosts goes with a single dump, or with as many dumps without names as it has hosts";
    remarks.push((String::new(), Diagnostic::error("--hosts", message).help(help)));
    false
}

/// The mend for a dump without a name; with the hosts that the other sources know.
fn unnamed_help(gathered: &Gathered) -> String {
    let mut names: Vec<&str> =
        gathered.leaves.keys().chain(gathered.nodes.keys()).map(String::as_str).collect();
    names.sort_by_cached_key(|name| super::types::natural(name));
    names.dedup();
    if names.is_empty() {
        return "give its name with --hosts".to_owned();
    }
    format!("give the names with --hosts; the other files know '{}'", hostlist::compress(names))
}
