//! What `sinfo --json`, `scontrol show nodes --json` and `squeue --json` print.
//!
//! Two forms are known: that of 22.05 (numbers are numbers, states are words), and that of 23.11 and later (numbers
//! may be `{"set":, "infinite":, "number":}`, states are lists of words). Keys that are not known are passed over.

use bandpilot_core::GpuMask;
use bandpilot_readers::{Diagnostic, Parsed, hostlist};
use serde_json::{Map, Value};

use crate::gres;
use crate::snapshot::{ArrayTasks, HetPart, Host, Job, JobState, Limit, Request, job_state};
use crate::text::{state_words, unreadable};

/// Most hosts that one list of hosts of a job may stand for.
const MAX_HOSTS: usize = 100_000;

/// Hosts: the list `nodes`.
pub fn hosts(text: &str) -> Parsed<Vec<Host>> {
    read(text, "nodes", host)
}

/// Jobs: the list `jobs`.
///
/// ```
/// let text = r#"{"jobs": [{"job_id": 7, "job_state": ["RUNNING"], "nodes": "h[1-2]",
///     "gres_detail": ["gpu:2(IDX:0-1)", "gpu:1(IDX:5)"], "time_limit": {"set": true, "infinite": false, "number": 30}}]}"#;
/// let job = &bandpilot_slurm::json::jobs(text).value[0];
/// assert_eq!(job.gpus[1].0, "h2");
/// assert_eq!(job.gpus[1].1.to_string(), "5");
/// ```
pub fn jobs(text: &str) -> Parsed<Vec<Job>> {
    read(text, "jobs", job)
}

fn read<T>(text: &str, key: &str, make: impl Fn(&mut Entry<'_>) -> Option<T>) -> Parsed<Vec<T>> {
    let none = |reason: Diagnostic| Parsed { value: Vec::new(), diagnostics: vec![reason] };
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(reason) => {
            let place = (reason.line() as u32, reason.column() as u32);
            let shown = reason.to_string();
            let message = shown.split(" at line ").next().unwrap_or("").to_owned();
            return none(unreadable(format!("is not JSON: {message}")).at(place.0, place.1));
        }
    };
    let Some(Value::Array(list)) = document.get(key) else {
        return none(unreadable(format!("has no list '{key}'")));
    };
    let mut diagnostics = Vec::new();
    for reason in document.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let said = ["error", "description"].iter().find_map(|key| reason.get(key)?.as_str());
        let said = said.map_or_else(|| reason.to_string(), ToOwned::to_owned);
        diagnostics.push(Diagnostic::error("errors", said));
    }
    let mut value = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let path = format!("{key}[{index}]");
        let Value::Object(map) = item else {
            diagnostics.push(Diagnostic::error(path, "is not an object, not used"));
            continue;
        };
        let mut entry = Entry { map, path, remarks: Vec::new() };
        value.extend(make(&mut entry));
        diagnostics.append(&mut entry.remarks);
    }
    Parsed { value, diagnostics }
}

/// One host or job.
struct Entry<'v> {
    map: &'v Map<String, Value>,
    path: String,
    remarks: Vec<Diagnostic>,
}

/// A number that may be missing or without bound.
#[derive(Clone, Copy, PartialEq)]
enum Number {
    Unset,
    Infinite,
    Is(i64),
}

impl Entry<'_> {
    fn wrong(&mut self, key: &str, message: impl Into<String>) {
        self.remarks.push(Diagnostic::error(format!("{}.{key}", self.path), message));
    }

    fn warn(&mut self, key: &str, message: impl Into<String>) {
        self.remarks.push(Diagnostic::warning(format!("{}.{key}", self.path), message));
    }

    /// A text; lists of words are joined with commas.
    fn text(&mut self, key: &str) -> String {
        match self.map.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if text == "(null)" => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(_)) => self.words(key).join(","),
            Some(_) => {
                self.wrong(key, "is not a text");
                String::new()
            }
        }
    }

    /// Words in a list or between commas.
    fn words(&mut self, key: &str) -> Vec<String> {
        let owned = |word: &str| Some(word.trim()).filter(|w| !w.is_empty()).map(ToOwned::to_owned);
        match self.map.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => text.split(',').filter_map(owned).collect(),
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
                list.iter().filter_map(Value::as_str).filter_map(owned).collect()
            }
            Some(_) => {
                self.wrong(key, "is not a list of words");
                Vec::new()
            }
        }
    }

    fn number(&mut self, key: &str) -> Number {
        let number = match self.map.get(key) {
            None | Some(Value::Null) => Some(Number::Unset),
            Some(Value::Object(parts)) => {
                let is = |part: &str| parts.get(part).and_then(Value::as_bool);
                if is("infinite") == Some(true) {
                    Some(Number::Infinite)
                } else if is("set") == Some(false) {
                    Some(Number::Unset)
                } else {
                    parts.get("number").and_then(whole).map(Number::Is)
                }
            }
            Some(value) => whole(value).map(Number::Is),
        };
        if number.is_none() {
            self.wrong(key, "is not a number");
        }
        number.unwrap_or(Number::Unset)
    }

    /// A count; what is missing is `None`, what does not fit is reported.
    fn count<T: TryFrom<i64>>(&mut self, key: &str) -> Option<T> {
        let Number::Is(number) = self.number(key) else { return None };
        let fits = T::try_from(number).ok();
        if fits.is_none() {
            self.wrong(key, format!("{number} is out of range"));
        }
        fits
    }

    /// Ids and times, of which 0 is none.
    fn above_zero<T: TryFrom<i64> + PartialEq + Default>(&mut self, key: &str) -> Option<T> {
        self.count(key).filter(|number| *number != T::default())
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        // Weights and loads may have a fraction.
        _ => value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)),
    }
}

fn host(entry: &mut Entry<'_>) -> Option<Host> {
    let name = entry.text("name");
    if !hostlist::is_host_name(&name) {
        entry.wrong("name", format!("'{name}' is not the name of a host"));
        return None;
    }
    let mut words = entry.words("state");
    words.extend(entry.words("state_flags"));
    if words.is_empty() {
        entry.wrong("state", format!("{name} has none: it counts as closed"));
    }
    let (state, flags) = state_words(words.iter().map(String::as_str));
    let (has, taken) = (entry.text("gres"), entry.text("gres_used"));
    let gpus = match gres::inventory(&has, &taken) {
        Ok((gpus, warning)) => {
            if let Some(warning) = warning {
                entry.warn("gres_used", format!("{name}: {warning}"));
            }
            gpus
        }
        Err(reason) => {
            entry.wrong("gres", format!("{name}: {reason}: it has no GPUs here"));
            Vec::new()
        }
    };
    // Some may be set aside for the system.
    let cpus: u32 = entry.count("cpus").unwrap_or(0);
    let effective = entry.above_zero("effective_cpus");
    let memory: u64 = entry.count("real_memory").unwrap_or(0);
    let aside = entry.count("specialized_memory").unwrap_or(0);
    Some(Host {
        state,
        flags,
        reason: entry.text("reason"),
        cpus: effective.unwrap_or(cpus).min(cpus),
        threads_per_core: entry.count("threads").unwrap_or(1),
        cpus_in_use: entry.count("alloc_cpus").unwrap_or(0),
        memory_mib: memory.saturating_sub(aside),
        memory_in_use_mib: entry.count("alloc_memory").unwrap_or(0),
        features: entry.words("active_features"),
        partitions: entry.words("partitions"),
        name,
        gpus,
    })
}

fn job(entry: &mut Entry<'_>) -> Option<Job> {
    let Some(id) = entry.above_zero("job_id") else {
        entry.wrong("job_id", "is missing: the job is not used");
        return None;
    };
    let words = entry.words("job_state");
    let Some(state) = job_state(words.iter().map(String::as_str)) else {
        let message = format!("'{}' of job {id} is unknown: it is not used", words.join(","));
        entry.wrong("job_state", message);
        return None;
    };
    let names = entry.text("nodes");
    let hosts = host_names(entry, &names);
    let holds = !matches!(state, JobState::Pending | JobState::Finished);
    let (gpus, unnamed_gpus) = if holds { gpus_of(entry, &hosts) } else { (Vec::new(), 0) };
    Some(Job {
        id,
        name: entry.text("name"),
        user: entry.text("user_name"),
        account: entry.text("account"),
        partition: entry.text("partition"),
        qos: entry.text("qos"),
        reservation: entry.text("resv_name"),
        state,
        reason: Some(entry.text("state_reason")).filter(|r| r != "None").unwrap_or_default(),
        priority: entry.count("priority").unwrap_or(0),
        hosts,
        gpus,
        unnamed_gpus,
        tres: entry.text("tres_alloc_str"),
        request: request(entry),
        submit_s: entry.above_zero("submit_time"),
        eligible_s: entry.above_zero("eligible_time"),
        start_s: entry.above_zero("start_time"),
        end_s: entry.above_zero("end_time"),
        array: entry.above_zero("array_job_id").map(|job| ArrayTasks {
            job,
            tasks: match entry.count::<u32>("array_task_id") {
                Some(task) => task.to_string(),
                None => entry.text("array_task_string"),
            },
        }),
        het: entry
            .above_zero("het_job_id")
            .map(|leader| HetPart { leader, offset: entry.count("het_job_offset").unwrap_or(0) }),
    })
}

fn request(entry: &mut Entry<'_>) -> Request {
    Request {
        hosts: entry.count("node_count").unwrap_or(0),
        cpus: entry.count("cpus").unwrap_or(0),
        tasks: entry.count("tasks"),
        memory_mib_per_host: entry.above_zero("memory_per_node"),
        memory_mib_per_cpu: entry.above_zero("memory_per_cpu"),
        tres_per_host: entry.text("tres_per_node"),
        tres_per_job: entry.text("tres_per_job"),
        features: entry.text("features"),
        named_hosts: entry.text("required_nodes"),
        excluded_hosts: entry.text("excluded_nodes"),
        time_limit: match entry.number("time_limit") {
            Number::Infinite => Limit::Unlimited,
            Number::Is(minutes) if minutes >= 0 => {
                Limit::Seconds((minutes as u64).saturating_mul(60))
            }
            // 22.05 writes null for a job without limit as well as for one that was given none.
            _ => Limit::Unset,
        },
        dependency: entry.text("dependency"),
    }
}

fn host_names(entry: &mut Entry<'_>, list: &str) -> Vec<String> {
    if list.is_empty() {
        return Vec::new();
    }
    match hostlist::expand(list) {
        Ok(names) if names.len() <= MAX_HOSTS => names,
        Ok(_) => Vec::new(),
        Err(reason) => {
            entry.wrong("nodes", reason.message);
            Vec::new()
        }
    }
}

/// GPUs by host: `gres_detail` has one text for each host of the job, in its order.
fn gpus_of(entry: &mut Entry<'_>, hosts: &[String]) -> (Vec<(String, GpuMask)>, usize) {
    let details: Vec<String> = match entry.map.get("gres_detail") {
        None | Some(Value::Null) => Vec::new(),
        // The texts have commas of their own.
        Some(Value::Array(list)) => {
            list.iter().map(|text| text.as_str().unwrap_or("?").to_owned()).collect()
        }
        Some(_) => {
            entry.wrong("gres_detail", "is not a list of texts");
            return (Vec::new(), 1);
        }
    };
    if !details.is_empty() && details.len() != hosts.len() {
        let message = format!("has {} entries for {} hosts", details.len(), hosts.len());
        entry.wrong("gres_detail", message);
        return (Vec::new(), details.len());
    }
    let (mut by_host, mut unnamed) = (Vec::new(), 0);
    for (host, detail) in hosts.iter().zip(&details) {
        match gres::named(detail) {
            Ok((mask, more)) => {
                unnamed += more;
                if !mask.is_empty() {
                    by_host.push((host.clone(), mask));
                }
            }
            Err(reason) => {
                entry.wrong("gres_detail", reason);
                unnamed += 1;
            }
        }
    }
    (by_host, unnamed)
}

#[cfg(test)]
#[path = "tests/json.rs"]
mod tests;
