//! The `[[host_type]]` entries.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{
    GpuMask, GpuMaskError, HostType, HostTypeId, LinkClass, Links, MAX_GPUS_PER_HOST, Nic,
    parse_bytes,
};

use crate::links::{MatrixError, matrix};
use crate::toml_walk::{Table, Text, Walk};

const KEYS: [&str; 8] = ["name", "gpu_model", "gpus", "links", "nics", "rails", "cores", "memory"];

/// Most host types in one file.
const MAX_TYPES: usize = 1000;
/// Most NICs of one host type.
const MAX_NICS: usize = 256;

/// Every name that was given to a type, with its id if the type was understood.
pub(super) type TypeIds = BTreeMap<String, Option<HostTypeId>>;

pub(super) fn read<'t>(walk: &mut Walk<'t>, root: &Table<'_, 't>) -> (Vec<HostType>, TypeIds) {
    let mut host_types = Vec::new();
    let mut ids = TypeIds::new();
    for (count, table) in walk.tables(root, "host_type").iter().enumerate() {
        if count == MAX_TYPES {
            let message = format!("more than {MAX_TYPES} host types");
            walk.error(table.span.start, "host_type", message, "join types that are alike");
            break;
        }
        let Some(name) = walk.required_string(table, "name") else {
            continue;
        };
        if ids.contains_key(&name.value) {
            let message = format!("host type '{}' stands twice", name.value);
            walk.error(name.span.start, &table.field("name"), message, "rename one of them");
            continue;
        }
        let host_type = read_one(walk, table, name.value.clone());
        let id = host_type.is_some().then_some(HostTypeId(host_types.len() as u16));
        ids.insert(name.value, id);
        host_types.extend(host_type);
    }
    (host_types, ids)
}

fn read_one<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>, name: String) -> Option<HostType> {
    walk.unknown_keys(table, &KEYS, "");
    let gpu_model = walk.required_string(table, "gpu_model");
    if !table.has("gpus") {
        walk.missing(table, "gpus");
    }
    let gpus = walk.integer(table, "gpus", 1..MAX_GPUS_PER_HOST as u64 + 1);
    let cores = walk.integer(table, "cores", 1..1 << 20).map(|n| n as u32);
    let memory_bytes = read_memory(walk, table);
    let gpus = gpus? as usize;
    let links = read_links(walk, table, gpus);
    let nics = read_nics(walk, table, gpus);
    Some(HostType {
        name,
        gpu_model: gpu_model?.value,
        gpus,
        links: links?,
        nics: nics?,
        cores,
        memory_bytes,
    })
}

fn read_memory<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>) -> Option<u64> {
    let text = walk.string(table, "memory")?;
    match parse_bytes(&text.value) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let message = format!("'{}' is not a size: {}", text.value, error.reason);
            let help = "write for example \"512GiB\" or \"2TiB\"";
            walk.error(text.span.start, &table.field("memory"), message, help);
            None
        }
    }
}

fn read_links<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>, gpus: usize) -> Option<Links> {
    let field = table.field("links");
    let Some(value) = table.get("links") else {
        if gpus == 1 {
            return Some(Links::Matrix(vec![LinkClass::Sys]));
        }
        walk.missing(table, "links");
        return None;
    };
    if value.get_ref().is_array() {
        let rows = walk.strings(table, "links")?;
        let words: Vec<Vec<&str>> =
            rows.iter().map(|row| row.value.split_whitespace().collect()).collect();
        return match matrix(&words, gpus) {
            Ok(cells) => Some(Links::Matrix(cells)),
            Err(error) => {
                let at = rows.get(error.row).map_or(value.span().start, |row| {
                    walk.inner_start(row) + word_offset(&row.value, error.cell)
                });
                walk.error(at, &field, error.message, &error.help);
                None
            }
        };
    }
    let text = walk.string(table, "links")?;
    if text.value.trim().eq_ignore_ascii_case("nvswitch") {
        return Some(Links::NvSwitch);
    }
    if !text.value.trim().contains(char::is_whitespace) && text.value.trim() != "X" {
        let message = format!("'{}' is neither nvswitch nor a matrix", text.value.trim());
        let help = "write \"nvswitch\" or one row a GPU as nvidia-smi topo -m prints it";
        walk.error(text.span.start, &field, message, help);
        return None;
    }
    match matrix_of_lines(&text, gpus) {
        Ok(cells) => Some(Links::Matrix(cells)),
        Err((offset, error)) => {
            let at = walk.inner_start(&text) + offset;
            walk.error(at, &field, error.message, &error.help);
            None
        }
    }
}

/// Reads the rows of a multi-line string; an error comes with its byte offset in the string.
fn matrix_of_lines(text: &Text, gpus: usize) -> Result<Vec<LinkClass>, (usize, MatrixError)> {
    let mut at = 0;
    let mut rows: Vec<(usize, &str)> = Vec::new();
    for line in text.value.split_inclusive('\n') {
        if !line.trim().is_empty() {
            rows.push((at, line));
        }
        at += line.len();
    }
    let words: Vec<Vec<&str>> = rows.iter().map(|(_, l)| l.split_whitespace().collect()).collect();
    matrix(&words, gpus).map_err(|error| {
        let offset =
            rows.get(error.row).map_or(0, |(start, line)| start + word_offset(line, error.cell));
        (offset, error)
    })
}

/// Byte offset of a word in a line of words.
fn word_offset(line: &str, word: usize) -> usize {
    let mut words = line.split_whitespace();
    words.nth(word).map_or(0, |found| found.as_ptr() as usize - line.as_ptr() as usize)
}

fn read_nics<'t>(walk: &mut Walk<'t>, table: &Table<'_, 't>, gpus: usize) -> Option<Vec<Nic>> {
    if table.has("rails") && table.has("nics") {
        let message = "stands beside nics".to_owned();
        let help = "keep either rails (one NIC a GPU) or nics";
        walk.error(table.at("rails"), &table.field("rails"), message, help);
        return None;
    }
    if table.has("rails") {
        let rails = walk.table(table, "rails")?;
        return read_rails(walk, &rails, gpus);
    }
    let mut nics = Vec::new();
    let mut names = BTreeSet::new();
    let mut sound = true;
    for entry in walk.tables(table, "nics") {
        if nics.len() == MAX_NICS {
            let message = format!("more than {MAX_NICS} NICs");
            walk.error(entry.span.start, &table.field("nics"), message, "list fewer");
            return None;
        }
        let Some(nic) = read_nic(walk, &entry, gpus) else {
            sound = false;
            continue;
        };
        if !names.insert(nic.name.clone()) {
            let message = format!("NIC '{}' stands twice", nic.name);
            walk.error(entry.at("name"), &entry.field("name"), message, "rename one of them");
            sound = false;
        }
        nics.push(nic);
    }
    let is_list = table.get("nics").is_none_or(|value| value.get_ref().is_array());
    (sound && is_list).then_some(nics)
}

fn read_rails<'t>(walk: &mut Walk<'t>, rails: &Table<'_, 't>, gpus: usize) -> Option<Vec<Nic>> {
    walk.unknown_keys(rails, &["gbit_per_s"], "");
    if !rails.has("gbit_per_s") {
        walk.missing(rails, "gbit_per_s");
    }
    let gbit_per_s = walk.number(rails, "gbit_per_s", true)?;
    Some((0..gpus).map(|gpu| rail(gpu, gbit_per_s)).collect())
}

/// The NIC that `rails` gives to a GPU.
pub(super) fn rail(gpu: usize, gbit_per_s: f64) -> Nic {
    Nic { name: format!("nic{gpu}"), gbit_per_s, gpus: GpuMask::single(gpu) }
}

fn read_nic<'t>(walk: &mut Walk<'t>, entry: &Table<'_, 't>, gpus: usize) -> Option<Nic> {
    walk.unknown_keys(entry, &["name", "gbit_per_s", "gpus"], "");
    let name = walk.required_string(entry, "name");
    for key in ["gbit_per_s", "gpus"] {
        if !entry.has(key) {
            walk.missing(entry, key);
        }
    }
    let gbit_per_s = walk.number(entry, "gbit_per_s", true);
    let served = walk.string(entry, "gpus");
    let served = served.and_then(|text| gpu_set(walk, &text, &entry.field("gpus"), gpus));
    Some(Nic { name: name?.value, gbit_per_s: gbit_per_s?, gpus: served? })
}

/// GPUs of a host with `gpus` GPUs; the empty text is the empty set.
pub(super) fn gpu_set(
    walk: &mut Walk<'_>,
    text: &Text,
    field: &str,
    gpus: usize,
) -> Option<GpuMask> {
    let help = format!("the GPUs are {}", GpuMask::first(gpus));
    match GpuMask::parse(&text.value) {
        Ok(mask) => match mask.without(GpuMask::first(gpus)).iter().next() {
            None => Some(mask),
            Some(index) => {
                let message = format!("there is no GPU {index}");
                walk.error(text.span.start, field, message, &help);
                None
            }
        },
        Err(GpuMaskError::Empty) => Some(GpuMask::EMPTY),
        Err(error) => {
            walk.error(text.span.start, field, error.to_string(), &help);
            None
        }
    }
}
