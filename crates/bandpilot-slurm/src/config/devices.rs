//! `gres.conf`: the device of each GPU with all that is said of it.

use std::collections::BTreeMap;

use bandpilot_core::MAX_GPUS_PER_HOST;
use bandpilot_readers::slurm::lines::{Entry, entries};
use bandpilot_readers::{Diagnostic, hostlist};

use super::Text;
use super::nodes::MAX_NAMES;
use crate::Remark;

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device {
    /// Number in the name of its file.
    pub(crate) number: usize,
    /// Its file.
    pub(crate) file: String,
    /// Its type as it was.
    pub(crate) kind: Option<String>,
    /// `Cores=`, `Links=`, `Flags=` as they were, in this order.
    pub(crate) kept: Vec<(String, String)>,
}

impl Device {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.kept.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// What is taken of a `gres.conf`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    /// GPUs by host, in the order of their numbers.
    pub(crate) by_host: BTreeMap<String, Vec<Device>>,
    /// GPUs of lines without `NodeName`: they hold for every host that has no lines of its own.
    pub(crate) everywhere: Vec<Device>,
    /// Lines of other resources.
    pub(crate) others: Vec<String>,
    /// Line of an `AutoDetect` that is not off.
    pub(crate) detected: Option<u32>,
}

pub(crate) fn read(text: Text, remarks: &mut Vec<Remark>) -> Found {
    let mut found = Found::default();
    let mut room = MAX_NAMES;
    for entry in entries(text.text) {
        let mut say =
            |remark: Diagnostic| remarks.push((text.file.to_owned(), remark.at(entry.line, 0)));
        if let Some(file) = &entry.include {
            say(Diagnostic::warning("Include", format!("{file} is not read")));
        }
        if let Some(method) = entry.get("autodetect").filter(|m| !m.eq_ignore_ascii_case("off")) {
            found.detected = found.detected.or(Some(entry.line));
            let message = format!(
                "AutoDetect={method} allows no type of one's own: a type has to be part of the name of the device"
            );
            say(Diagnostic::warning("AutoDetect", message).help(
                "it becomes off; take File, Cores and Links of each GPU from slurmd -G on the host before",
            ));
        }
        let Some(name) = entry.get("name") else { continue };
        if !name.eq_ignore_ascii_case("gpu") {
            found.others.push(written(&entry));
            continue;
        }
        let devices = match devices(&entry) {
            Ok(devices) => devices,
            Err(reason) => {
                say(reason);
                continue;
            }
        };
        let Some(list) = entry.get("nodename") else {
            add(&mut found.everywhere, &devices, &mut say);
            continue;
        };
        match hostlist::expand(list) {
            Ok(hosts) if hosts.len() <= room => {
                room -= hosts.len();
                for (at, host) in hosts.into_iter().enumerate() {
                    let of_host = found.by_host.entry(host).or_default();
                    // What is wrong with a line is said once.
                    add(of_host, &devices, &mut |remark| {
                        if at == 0 {
                            say(remark);
                        }
                    });
                }
            }
            Ok(_) => say(Diagnostic::error("NodeName", format!("more than {MAX_NAMES} hosts"))),
            Err(reason) => say(Diagnostic { field: "NodeName".to_owned(), ..reason }),
        }
    }
    found
}

fn add(devices: &mut Vec<Device>, more: &[Device], say: &mut dyn FnMut(Diagnostic)) {
    for device in more {
        if devices.iter().any(|other| other.file == device.file) {
            say(Diagnostic::error("File", format!("{} stands twice", device.file)));
        } else if devices.len() == MAX_GPUS_PER_HOST {
            say(Diagnostic::error("File", format!("more than {MAX_GPUS_PER_HOST} GPUs of a host")));
            return;
        } else {
            devices.push(device.clone());
        }
    }
    devices.sort();
}

/// The GPUs of one line.
fn devices(entry: &Entry) -> Result<Vec<Device>, Diagnostic> {
    let help = "write for example File=/dev/nvidia[0-7]";
    let Some(file) = entry.get("file").or_else(|| entry.get("multiplefiles")) else {
        // A line that only turns the detection on or off.
        if entry.get("count").is_none() && entry.get("autodetect").is_some() {
            return Ok(Vec::new());
        }
        return Err(Diagnostic::error("File", "the GPUs have no device").help(help));
    };
    let kind = entry.get("type").filter(|kind| !kind.is_empty()).map(ToOwned::to_owned);
    let kept: Vec<(String, String)> = ["Cores", "Links", "Flags"]
        .iter()
        .filter_map(|key| {
            // An old name of the same key.
            let value = entry.get(key).or_else(|| (*key == "Cores").then(|| entry.get("cpus"))?);
            Some(((*key).to_owned(), value?.to_owned()))
        })
        .collect();
    let refuse = |message: String| Diagnostic::error("File", message).help(help);
    let (folder, names) =
        file.rsplit_once('/').ok_or_else(|| refuse("is not a path".to_owned()))?;
    let names = hostlist::expand(names).map_err(|reason| refuse(reason.message))?;
    if names.len() > 1 && kept.iter().any(|(key, _)| key == "Links") {
        let reason = "Links on a line of several GPUs does not say whose they are";
        return Err(Diagnostic::error("Links", reason).help("write a line for each GPU"));
    }
    names
        .into_iter()
        .map(|name| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let number = digits.parse().map_err(|_| refuse(format!("'{name}' has no number")))?;
            let file = format!("{folder}/{name}");
            Ok(Device { number, file, kind: kind.clone(), kept: kept.clone() })
        })
        .collect()
}

fn written(entry: &Entry) -> String {
    let pairs = entry.pairs.iter().map(|pair| super::render::pair(&pair.key, &pair.value));
    pairs.collect::<Vec<_>>().join(" ")
}
