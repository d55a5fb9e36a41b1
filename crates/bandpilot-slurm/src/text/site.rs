//! What `scontrol show config` and `scontrol show partition` print.

use bandpilot_readers::{Diagnostic, Parsed};

use super::record::Record;
use super::{list, memory_mib, read, unreadable};
use crate::site::{Config, Consumable, Cores, Defaults, Partition, Sharing};
use crate::time;

/// The settings of `scontrol show config` that a plan depends on.
///
/// ```
/// let text = "SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\nMinJobAge = 300 sec\n";
/// let config = bandpilot_slurm::text::config(text).value;
/// assert!(config.consumable.memory && !config.consumable.whole_hosts);
/// assert_eq!(config.min_job_age_s, Some(300));
/// ```
pub fn config(text: &str) -> Parsed<Config> {
    let mut settings = Settings { text, remarks: Vec::new() };
    let select = settings.value("SelectType");
    let parameters = settings.value("SelectTypeParameters");
    let config = Config {
        version: settings.value("SLURM_VERSION"),
        consumable: settings.consumable(&select, &parameters),
        defaults: Defaults {
            memory_mib_per_host: settings.memory("DefMemPerNode"),
            memory_mib_per_cpu: settings.memory("DefMemPerCPU"),
            most_memory_mib_per_host: settings.memory("MaxMemPerNode"),
            most_memory_mib_per_cpu: settings.memory("MaxMemPerCPU"),
            ..job_defaults(&settings.value("JobDefaults"))
        },
        min_job_age_s: settings.seconds("MinJobAge"),
        gres_types: list(&settings.value("GresTypes")),
        scheduler: settings.value("SchedulerType"),
        priority: settings.value("PriorityType"),
        select,
    };
    if config.select.is_empty() {
        let reason = unreadable("has no SelectType: it does not say what jobs share");
        settings.remarks.push(reason);
    }
    Parsed { value: config, diagnostics: settings.remarks }
}

/// Partitions of `scontrol show partition`, in many lines or (`-o`) one for each.
pub fn partitions(text: &str) -> Parsed<Vec<Partition>> {
    read(text, "PartitionName", partition)
}

struct Settings<'t> {
    text: &'t str,
    remarks: Vec<Diagnostic>,
}

impl Settings<'_> {
    /// What stands behind `key = `, without Slurm's words for nothing.
    fn value(&self, key: &str) -> String {
        let of_line = |line: &str| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        };
        let found = self.text.lines().find_map(of_line).unwrap_or_default();
        if matches!(found.as_str(), "(null)" | "N/A" | "NONE") { String::new() } else { found }
    }

    fn memory(&mut self, key: &str) -> Option<u64> {
        let value = self.value(key);
        let read = memory_mib(&value);
        let said = !matches!(value.to_ascii_uppercase().as_str(), "" | "UNLIMITED" | "0");
        if read.is_none() && said {
            self.wrong(key, &value, "a number of MiB");
        }
        read
    }

    fn seconds(&mut self, key: &str) -> Option<u64> {
        let value = self.value(key);
        let read = value.split(' ').next().and_then(|number| number.parse().ok());
        if read.is_none() && !value.is_empty() {
            self.wrong(key, &value, "a number of seconds");
        }
        read
    }

    fn consumable(&mut self, select: &str, parameters: &str) -> Consumable {
        let words: Vec<String> =
            parameters.split(',').map(|word| word.trim().to_ascii_uppercase()).collect();
        // Words such as CR_ONE_TASK_PER_CORE give out nothing.
        let given = |word: &&String| !word.contains("_TASK_") && !word.contains("_DEFAULT_");
        let part = |what: &str| {
            words.iter().filter(given).any(|word| word.split('_').any(|part| part == what))
        };
        let whole_hosts = select.ends_with("/linear");
        if part("SOCKET") {
            let message = "SelectTypeParameters gives out whole sockets, which is not known here";
            let help = "a job may get more cores than planned, and wait for them";
            self.remarks.push(Diagnostic::warning("SelectTypeParameters", message).help(help));
        }
        Consumable {
            whole_hosts,
            cores: if !whole_hosts && (part("CORE") || part("SOCKET")) {
                Cores::Whole
            } else if !whole_hosts && words.iter().any(|word| word.starts_with("CR_CPU")) {
                Cores::Threads
            } else {
                Cores::Uncounted
            },
            memory: part("MEMORY"),
        }
    }

    fn wrong(&mut self, key: &str, value: &str, what: &str) {
        let line = self.text.lines().position(|line| line.trim_start().starts_with(key));
        let reason = Diagnostic::error(key, format!("'{value}' is not {what}: it is not used"));
        self.remarks.push(reason.at(line.map_or(0, |at| at as u32 + 1), 0));
    }
}

/// `DefCpuPerGPU=4,DefMemPerGPU=8192`.
fn job_defaults(text: &str) -> Defaults {
    let mut defaults = Defaults::default();
    for (key, value) in text.split(',').filter_map(|item| item.split_once('=')) {
        match key.trim().to_ascii_lowercase().as_str() {
            "defcpupergpu" => defaults.cpus_per_gpu = value.trim().parse().ok(),
            "defmempergpu" => defaults.memory_mib_per_gpu = memory_mib(value.trim()),
            _ => {}
        }
    }
    defaults
}

/// A list of accounts; `ALL` stands for every one.
fn accounts(text: &str) -> Option<Vec<String>> {
    (!text.is_empty() && !text.eq_ignore_ascii_case("all")).then(|| list(text))
}

fn partition(record: &mut Record) -> Option<Partition> {
    let name = record.text("PartitionName");
    if name.is_empty() {
        record.error("PartitionName", "is empty: the partition is not used");
        return None;
    }
    let mut count = |key: &str| -> Option<usize> {
        let value = record.text(key);
        if matches!(value.as_str(), "" | "UNLIMITED") {
            return None;
        }
        let number = value.parse().ok();
        if number.is_none() {
            record.error(key, format!("'{value}' is not a number: it is not used"));
        }
        number
    };
    let least_hosts = count("MinNodes");
    let most_hosts = count("MaxNodes");
    let most_cpus_per_host = count("MaxCPUsPerNode");
    let nodes = record.text("Nodes");
    let sharing = record.text("OverSubscribe");
    let memory = |record: &mut Record, key: &str| memory_mib(&record.text(key));
    let defaults = Defaults {
        memory_mib_per_host: memory(record, "DefMemPerNode"),
        memory_mib_per_cpu: memory(record, "DefMemPerCPU"),
        most_memory_mib_per_host: memory(record, "MaxMemPerNode"),
        most_memory_mib_per_cpu: memory(record, "MaxMemPerCPU"),
        ..job_defaults(&record.text("JobDefaults"))
    };
    Some(Partition {
        default: record.text("Default") == "YES",
        hosts: record.hosts("Nodes", &nodes),
        state: record.text("State").to_ascii_uppercase(),
        default_time: time::limit(&record.text("DefaultTime")),
        max_time: time::limit(&record.text("MaxTime")),
        least_hosts: least_hosts.unwrap_or(0),
        most_hosts,
        most_cpus_per_host,
        sharing: match sharing.split(':').next().unwrap_or("") {
            "EXCLUSIVE" => Sharing::Exclusive,
            "FORCE" => Sharing::Forced,
            "YES" => Sharing::Asked,
            _ => Sharing::No,
        },
        defaults,
        allowed_accounts: accounts(&record.text("AllowAccounts")),
        denied_accounts: accounts(&record.text("DenyAccounts")).unwrap_or_default(),
        allowed_groups: accounts(&record.text("AllowGroups")),
        wants_reservation: record.text("ReqResv") == "YES",
        name,
    })
}
