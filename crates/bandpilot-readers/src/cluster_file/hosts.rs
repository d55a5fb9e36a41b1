//! The `[[hosts]]` entries.

use std::collections::BTreeSet;

use bandpilot_core::{GpuIdentity, GpuMask, Host, HostType, HostTypeId};

use super::host_types::{TypeIds, gpu_set};
use crate::hostlist;
use crate::near::nearest;
use crate::toml_walk::{Table, Text, Walk};

const KEYS: [&str; 7] =
    ["names", "type", "leaf", "unhealthy_gpus", "unhealthy_nics", "pci_bus_ids", "uuids"];

pub(super) fn read<'t>(
    walk: &mut Walk<'t>,
    root: &Table<'_, 't>,
    host_types: &[HostType],
    ids: &TypeIds,
) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for table in walk.tables(root, "hosts") {
        walk.unknown_keys(&table, &KEYS, "");
        let names = read_names(walk, &table, hostlist::MAX_HOSTS - hosts.len());
        let host_type = read_type(walk, &table, ids);
        let (Some((text, names)), Some(id)) = (names, host_type) else { continue };
        let Some(host_type) = host_types.get(id.0 as usize) else { continue };
        let Some(pattern) = read_pattern(walk, &table, id, host_type, names.len()) else {
            continue;
        };
        let mut twice = Vec::new();
        for name in names {
            if known.insert(name.clone()) {
                hosts.push(Host { name, ..pattern.clone() });
            } else {
                twice.push(name);
            }
        }
        report_twice(walk, &table, &text, &twice);
    }
    hosts
}

fn report_twice<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>, text: &Text, twice: &[String]) {
    if twice.is_empty() {
        return;
    }
    let names = hostlist::compress(twice.iter().take(20).map(String::as_str));
    let message = format!("host {names} stands twice in the file");
    walk.error(text.span.start, &table.field("names"), message, "name each host once");
}

fn read_names<'t>(
    walk: &mut Walk<'t>,
    table: &Table<'_, 't>,
    room: usize,
) -> Option<(Text, Vec<String>)> {
    let text = walk.required_string(table, "names")?;
    match hostlist::expand_up_to(&text.value, room) {
        Ok(names) => Some((text, names)),
        Err(diagnostic) => {
            walk.inside(&text, &table.field("names"), vec![diagnostic]);
            None
        }
    }
}

fn read_type<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>, ids: &TypeIds) -> Option<HostTypeId> {
    let text = walk.required_string(table, "type")?;
    if let Some(id) = ids.get(&text.value) {
        return *id;
    }
    let known = || ids.keys().map(String::as_str);
    let near = nearest(&text.value, known(), 3);
    let help = if !near.is_empty() {
        format!("did you mean '{}'?", near.join("' or '"))
    } else if ids.is_empty() {
        "describe it in a [[host_type]] entry".to_owned()
    } else {
        format!("the types are {}", known().take(20).collect::<Vec<_>>().join(", "))
    };
    let message = format!("'{}' is not a host type of this file", text.value);
    walk.error(text.span.start, &table.field("type"), message, &help);
    None
}

/// Everything but the name, which all hosts of the entry share.
fn read_pattern<'t>(
    walk: &mut Walk<'t>,
    table: &Table<'_, 't>,
    id: HostTypeId,
    host_type: &HostType,
    hosts: usize,
) -> Option<Host> {
    let leaf = walk.string(table, "leaf").map(|text| text.value);
    let unhealthy_gpus = match walk.string(table, "unhealthy_gpus") {
        Some(text) => gpu_set(walk, &text, &table.field("unhealthy_gpus"), host_type.gpus)?,
        None if table.has("unhealthy_gpus") => return None,
        None => GpuMask::EMPTY,
    };
    let unhealthy_nics = read_nics(walk, table, host_type)?;
    let gpu_ids = read_ids(walk, table, host_type.gpus, hosts)?;
    Some(Host { name: String::new(), host_type: id, leaf, unhealthy_gpus, unhealthy_nics, gpu_ids })
}

fn read_nics<'t>(
    walk: &mut Walk<'t>,
    table: &Table<'_, 't>,
    host_type: &HostType,
) -> Option<Vec<usize>> {
    if !table.has("unhealthy_nics") {
        return Some(Vec::new());
    }
    let field = table.field("unhealthy_nics");
    let mut found = Vec::new();
    for text in walk.strings(table, "unhealthy_nics")? {
        let Some(index) = host_type.nics.iter().position(|nic| nic.name == text.value) else {
            let names: Vec<&str> = host_type.nics.iter().map(|nic| nic.name.as_str()).collect();
            let message = format!("type '{}' has no NIC '{}'", host_type.name, text.value);
            let help = if names.is_empty() {
                "the type has no NICs at all".to_owned()
            } else {
                format!("its NICs are {}", names.join(", "))
            };
            walk.error(text.span.start, &field, message, &help);
            return None;
        };
        if found.contains(&index) {
            let message = format!("NIC '{}' stands twice", text.value);
            walk.error(text.span.start, &field, message, "name each NIC once");
            return None;
        }
        found.push(index);
    }
    Some(found)
}

fn read_ids<'t>(
    walk: &mut Walk<'t>,
    table: &Table<'_, 't>,
    gpus: usize,
    hosts: usize,
) -> Option<Vec<GpuIdentity>> {
    let mut ids = vec![GpuIdentity::default(); gpus];
    let mut any = false;
    for key in ["pci_bus_ids", "uuids"] {
        if !table.has(key) {
            continue;
        }
        any = true;
        let field = table.field(key);
        if hosts != 1 {
            let message = format!("stands in an entry of {hosts} hosts");
            walk.error(table.at(key), &field, message, "give such a host an entry of its own");
            return None;
        }
        let texts = walk.strings(table, key)?;
        if texts.len() != gpus {
            let message = format!("has {} values for {gpus} GPUs", texts.len());
            walk.error(table.at(key), &field, message, "give one value a GPU, \"\" if unknown");
            return None;
        }
        let mut seen = BTreeSet::new();
        for (id, text) in ids.iter_mut().zip(texts) {
            if text.value.is_empty() {
                continue;
            }
            if !seen.insert(text.value.clone()) {
                let message = format!("'{}' stands twice", text.value);
                walk.error(text.span.start, &field, message, "give each GPU its own");
                return None;
            }
            if key == "uuids" {
                id.uuid = Some(text.value);
            } else {
                id.pci_bus_id = Some(text.value);
            }
        }
    }
    Some(if any { ids } else { Vec::new() })
}
