//! One line of the file.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::GpuMask;
use bandpilot_readers::Diagnostic;
use serde_json::{Map, Value, json};

use super::{Entry, HostGpus, Planned, Predicted, Seen, Source, Start, What};

type Object = Map<String, Value>;

/// The keys that each kind of line has beside `what`, `plan` and `at_s`.
const KEYS: [(&str, &[&str]); 5] = [
    (
        "plan",
        &[
            "user",
            "program",
            "asked",
            "gpus",
            "whole_hosts",
            "start",
            "predicted",
            "model",
            "snapshot_at_s",
            "array_task",
        ],
    ),
    ("submitted", &["job"]),
    ("withdrawn", &["job", "why", "replaced_by"]),
    ("failed", &["why"]),
    ("fact", &["job", "source", "gpus", "agrees", "differs"]),
];

/// Without its end. Keys stand in the documented order, so equal entries give equal lines.
pub fn write(entry: &Entry) -> String {
    let (what, pairs) = match &entry.what {
        What::Plan(planned) => ("plan", planned_pairs(planned)),
        What::Submitted { job } => ("submitted", vec![("job", json!(job))]),
        What::Withdrawn { job, why, replaced_by } => (
            "withdrawn",
            vec![("job", json!(job)), ("why", json!(why)), ("replaced_by", json!(replaced_by))],
        ),
        What::Failed { why } => ("failed", vec![("why", json!(why))]),
        What::Fact(seen) => ("fact", seen_pairs(seen)),
    };
    let head = [("what", json!(what)), ("plan", json!(entry.plan)), ("at_s", json!(entry.at_s))];
    let pairs = head.iter().chain(&pairs).map(|(key, value)| format!("\"{key}\":{value}"));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

fn planned_pairs(planned: &Planned) -> Vec<(&'static str, Value)> {
    let start = match &planned.start {
        Start::Now => json!("now"),
        Start::After(jobs) => json!(jobs),
    };
    let predicted = planned.predicted.map(|predicted| {
        let Predicted { gbytes_per_s, low, high } = predicted;
        json!({"gbytes_per_s": gbytes_per_s, "low": low, "high": high})
    });
    vec![
        ("user", json!(planned.user)),
        ("program", json!(planned.program)),
        ("asked", json!(planned.asked)),
        ("gpus", gpus_json(&planned.gpus)),
        ("whole_hosts", json!(planned.whole_hosts)),
        ("start", start),
        ("predicted", json!(predicted)),
        ("model", json!(planned.model)),
        ("snapshot_at_s", json!(planned.snapshot_at_s)),
        ("array_task", json!(planned.array_task)),
    ]
}

fn seen_pairs(seen: &Seen) -> Vec<(&'static str, Value)> {
    vec![
        ("job", json!(seen.job)),
        ("source", json!(seen.source.word())),
        ("gpus", seen.gpus.as_deref().map_or(Value::Null, gpus_json)),
        ("agrees", json!(seen.agrees)),
        ("differs", json!(seen.differs)),
    ]
}

fn gpus_json(list: &[HostGpus]) -> Value {
    let one = |one: &HostGpus| {
        let uuids: Object =
            one.uuids.iter().map(|(at, uuid)| (at.to_string(), json!(uuid))).collect();
        json!({"host": one.host, "gpus": one.gpus.to_string(), "uuids": uuids})
    };
    list.iter().filter(|one| !one.gpus.is_empty()).map(one).collect()
}

/// An entry and the keys of its line that are not known.
pub fn read(text: &str) -> Result<(Entry, Vec<String>), Diagnostic> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Diagnostic::error("", format!("not a line of JSON: {error}")))?;
    let Value::Object(object) = value else {
        return Err(Diagnostic::error("", "not a JSON object"));
    };
    let word = string(&object, "what")?;
    let Some((_, keys)) = KEYS.iter().find(|(what, _)| *what == word) else {
        let known = KEYS.map(|(what, _)| what).join(", ");
        return Err(Diagnostic::error("what", format!("is '{word}', none of {known}")));
    };
    let what = match word.as_str() {
        "plan" => What::Plan(Box::new(planned(&object)?)),
        "submitted" => What::Submitted { job: job(&object)? },
        "withdrawn" => What::Withdrawn {
            job: job(&object)?,
            why: string(&object, "why")?,
            replaced_by: match object.get("replaced_by") {
                None | Some(Value::Null) => None,
                Some(_) => Some(string(&object, "replaced_by")?),
            },
        },
        "failed" => What::Failed { why: string(&object, "why")? },
        _ => What::Fact(seen(&object)?),
    };
    let plan = string(&object, "plan")?;
    if plan.is_empty() {
        return Err(Diagnostic::error("plan", "is empty"));
    }
    let known = |key: &&String| {
        ["what", "plan", "at_s"].contains(&key.as_str()) || keys.contains(&key.as_str())
    };
    let unknown = object.keys().filter(|key| !known(key)).cloned().collect();
    Ok((Entry { plan, at_s: whole(&object, "at_s")?, what }, unknown))
}

fn planned(object: &Object) -> Result<Planned, Diagnostic> {
    Ok(Planned {
        user: string(object, "user")?,
        program: string(object, "program")?,
        asked: string(object, "asked")?,
        gpus: gpus(object.get("gpus"))?,
        whole_hosts: boolean(object, "whole_hosts")?,
        start: start(object.get("start"))?,
        predicted: predicted(object.get("predicted"))?,
        model: string(object, "model")?,
        snapshot_at_s: whole(object, "snapshot_at_s")?,
        array_task: match object.get("array_task") {
            None | Some(Value::Null) => None,
            Some(task) => {
                let task = task.as_u64().and_then(|task| u32::try_from(task).ok());
                Some(task.ok_or_else(|| wrong("array_task", "a task of an array"))?)
            }
        },
    })
}

fn seen(object: &Object) -> Result<Seen, Diagnostic> {
    let sources = [Source::Slurm, Source::Host];
    let source = string(object, "source")?;
    let source = sources.into_iter().find(|known| known.word() == source);
    Ok(Seen {
        job: job(object)?,
        source: source.ok_or_else(|| wrong("source", "'slurm' or 'host'"))?,
        gpus: match object.get("gpus") {
            Some(Value::Null) => None,
            list => Some(gpus(list)?),
        },
        agrees: match object.get("agrees") {
            Some(Value::Null) => None,
            _ => Some(boolean(object, "agrees")?),
        },
        differs: string(object, "differs")?,
    })
}

fn start(value: Option<&Value>) -> Result<Start, Diagnostic> {
    let reason = || wrong("start", "\"now\" or a list of jobs");
    match value {
        Some(Value::String(word)) if word == "now" => Ok(Start::Now),
        Some(Value::Array(jobs)) => {
            let jobs = jobs.iter().map(|job| job.as_str().map(ToOwned::to_owned));
            Ok(Start::After(jobs.collect::<Option<_>>().ok_or_else(reason)?))
        }
        _ => Err(reason()),
    }
}

fn predicted(value: Option<&Value>) -> Result<Option<Predicted>, Diagnostic> {
    let value = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let number = |key: &str| {
        let number = value.get(key).and_then(Value::as_f64).filter(|n| n.is_finite() && *n >= 0.0);
        number.ok_or_else(|| wrong(&format!("predicted.{key}"), "a bandwidth in GB/s"))
    };
    Ok(Some(Predicted {
        gbytes_per_s: number("gbytes_per_s")?,
        low: number("low")?,
        high: number("high")?,
    }))
}

fn gpus(value: Option<&Value>) -> Result<Vec<HostGpus>, Diagnostic> {
    let list = value.and_then(Value::as_array).ok_or_else(|| wrong("gpus", "a list of hosts"))?;
    let all: Vec<HostGpus> =
        list.iter().enumerate().map(|(at, one)| host_gpus(at, one)).collect::<Result<_, _>>()?;
    let mut hosts = BTreeSet::new();
    match all.iter().find(|one| !hosts.insert(one.host.as_str())) {
        Some(twice) => Err(Diagnostic::error("gpus", format!("{} stands twice", twice.host))),
        None => Ok(all),
    }
}

fn host_gpus(at: usize, value: &Value) -> Result<HostGpus, Diagnostic> {
    let field = |key: &str| format!("gpus[{at}].{key}");
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| wrong(&field(key), "a text"))
    };
    let mask = GpuMask::parse(text("gpus")?)
        .map_err(|reason| Diagnostic::error(field("gpus"), reason.to_string()))?;
    let mut uuids = BTreeMap::new();
    match value.get("uuids") {
        None | Some(Value::Null) => {}
        Some(Value::Object(named)) => {
            for (index, uuid) in named {
                let index = index.parse().ok().filter(|index| mask.contains(*index));
                let (Some(index), Some(uuid)) = (index, uuid.as_str()) else {
                    return Err(wrong(&field("uuids"), "a UUID for some of these GPUs"));
                };
                uuids.insert(index, uuid.to_owned());
            }
        }
        Some(_) => return Err(wrong(&field("uuids"), "an object of UUIDs")),
    }
    Ok(HostGpus { host: text("host")?.to_owned(), gpus: mask, uuids })
}

fn wrong(key: &str, want: &str) -> Diagnostic {
    Diagnostic::error(key, format!("is missing or not {want}"))
}

fn string(object: &Object, key: &str) -> Result<String, Diagnostic> {
    let text = object.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
    text.ok_or_else(|| wrong(key, "a text"))
}

fn job(object: &Object) -> Result<String, Diagnostic> {
    let text = string(object, "job")?;
    if text.is_empty() { Err(wrong("job", "a job")) } else { Ok(text) }
}

fn whole(object: &Object, key: &str) -> Result<i64, Diagnostic> {
    object.get(key).and_then(Value::as_i64).ok_or_else(|| wrong(key, "a whole number"))
}

fn boolean(object: &Object, key: &str) -> Result<bool, Diagnostic> {
    object.get(key).and_then(Value::as_bool).ok_or_else(|| wrong(key, "true or false"))
}
