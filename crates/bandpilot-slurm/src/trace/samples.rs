//! Samples of the queue, for sites without accounts: a line of JSON for each, behind a header with a version.
//!
//! Slurm tells when a job was submitted and when it started, so these are exact. It forgets a job some minutes after its end
//! (`MinJobAge`): with samples closer than that the end is exact as well, else it lies between two samples.

use std::collections::BTreeMap;

use bandpilot_manager::exchange::Runner;
use bandpilot_readers::{Diagnostic, Parsed, hostlist};
use serde_json::{Map, Value, json};

use super::{MAX_S, Run, gpus_of_tres};
use crate::observe::{Asking, JSON_JOBS, Reader, TEXT_JOBS};
use crate::{Job, JobState, Remark, gres, json as json_form, text};

/// The first line of a file of samples.
pub const HEADER: &str = r#"{"format":"bandpilot-slurm-samples","version":1}"#;
const FORMAT: &str = "bandpilot-slurm-samples";
/// More wrong lines than these are only counted.
const MAX_REMARKS: usize = 100;

/// A sample: its line, how many jobs are in it, and what there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken, seconds since 1970.
    pub at_s: i64,
    /// One line of JSON without its end.
    pub line: String,
    /// Jobs that run.
    pub running: usize,
    /// Jobs, or arrays of tasks, that wait.
    pub waiting: usize,
    /// Remarks, each with the command whose output it is about.
    pub remarks: Vec<Remark>,
}

/// Asks for the jobs of this moment.
///
/// # Errors
/// If Slurm does not answer, with the reasons.
pub fn take(runner: &mut dyn Runner) -> Result<Sample, Vec<Remark>> {
    let mut asking = Asking::new(runner);
    let ways: [(&[&str], Reader<Vec<Job>>); 2] =
        [(JSON_JOBS, json_form::jobs), (TEXT_JOBS, text::jobs)];
    let jobs = asking.first_of(&ways);
    let (at_s, remarks) = (asking.at_s.unwrap_or_default(), asking.remarks);
    let Some(jobs) = jobs else { return Err(remarks) };
    let count = |state: &[JobState]| jobs.iter().filter(|job| state.contains(&job.state)).count();
    let waiting = count(&[JobState::Pending]);
    let running = count(&[JobState::Running, JobState::Suspended]);
    let list: Vec<Value> = jobs.iter().map(entry).collect();
    let line = json!({"at_s": at_s, "jobs": list}).to_string();
    Ok(Sample { at_s, line, running, waiting, remarks })
}

/// A job as an entry of a sample; what is not set is left out.
fn entry(job: &Job) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() && value != "" && value != 0 {
            map.insert(key.to_owned(), value);
        }
    };
    let name = match (&job.het, &job.array) {
        (Some(het), _) => het.leader.to_string(),
        (None, Some(_)) => job.label(),
        (None, None) => String::new(),
    };
    put("id", job.id.into());
    put("name", name.into());
    put("component", job.het.map_or(Value::Null, |het| format!("{}", het.offset).into()));
    put("user", job.user.as_str().into());
    put("account", job.account.as_str().into());
    put("partition", job.partition.as_str().into());
    put("qos", job.qos.as_str().into());
    put("state", state_word(job.state).into());
    put("submit_s", job.submit_s.into());
    put("eligible_s", job.eligible_s.into());
    if job.state != JobState::Pending && !job.hosts.is_empty() {
        put("start_s", job.start_s.into());
        put("end_s", job.end_s.into());
        put("hosts", hostlist::compress(job.hosts.iter().map(String::as_str)).into());
        let named: Vec<u32> = job.gpus.iter().map(|(_, mask)| mask.count() as u32).collect();
        let gpus = gpus(job, named.iter().sum());
        put("gpus", gpus.into());
        if job.unnamed_gpus == 0 && !named.is_empty() {
            put("by_host", named.into());
        }
    }
    Value::Object(map)
}

const fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Pending => "pending",
        JobState::Running => "running",
        JobState::Suspended => "suspended",
        JobState::Completing => "completing",
        JobState::Finished => "finished",
    }
}

/// GPUs that a job has or had. When it is over Slurm tells no indexes any more, and counts only where its accounts count GPUs.
fn gpus(job: &Job, named: u32) -> u32 {
    let held = named.saturating_add(job.unnamed_gpus as u32);
    let counted = || gpus_of_tres(&job.tres).unwrap_or(0);
    let asked = || {
        let sum = |text: &str| -> u32 {
            gres::gpus(text).map_or(0, |list| list.iter().map(|entry| entry.count as u32).sum())
        };
        let each = sum(&job.request.tres_per_host).saturating_mul(job.hosts.len() as u32);
        each.max(sum(&job.request.tres_per_job))
    };
    [held, counted(), asked()].into_iter().find(|gpus| *gpus > 0).unwrap_or(0)
}

/// How many samples there are and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sampled {
    /// Samples.
    pub samples: usize,
    /// When the first was taken, seconds since 1970.
    pub first_s: i64,
    /// When the last was taken, seconds since 1970.
    pub last_s: i64,
    /// The longest time between two, seconds.
    pub longest_gap_s: i64,
}

/// Runs of a file of samples. A line that cannot be read is left out and said.
pub fn runs(text: &str) -> Parsed<(Vec<Run>, Sampled)> {
    let mut diagnostics = Vec::new();
    let mut samples: Vec<(i64, Vec<Seen>)> = Vec::new();
    let mut headed = false;
    let mut wrong = 0;
    for (line, at) in text.lines().zip(1_u32..).filter(|(line, _)| !line.trim().is_empty()) {
        let value: Option<Value> = serde_json::from_str(line).ok();
        if !headed {
            headed = true;
            if let Some(reason) = refused_header(value.as_ref()) {
                diagnostics.push(Diagnostic::error("", reason).at(at, 0));
                break;
            }
            continue;
        }
        let sample = value.as_ref().ok_or("is not a line of JSON".to_owned()).and_then(sample);
        match sample {
            Ok(sample) => samples.push(sample),
            Err(reason) => {
                wrong += 1;
                if wrong <= MAX_REMARKS {
                    let help = "the sample is left out";
                    diagnostics.push(Diagnostic::error("", reason).at(at, 0).help(help));
                }
            }
        }
    }
    if !headed {
        diagnostics.push(Diagnostic::error("", "the file is empty"));
    }
    samples.sort_by_key(|(at_s, _)| *at_s);
    let times: Vec<i64> = samples.iter().map(|(at_s, _)| *at_s).collect();
    let sampled = Sampled {
        samples: samples.len(),
        first_s: times.first().copied().unwrap_or(0),
        last_s: times.last().copied().unwrap_or(0),
        longest_gap_s: times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0),
    };
    Parsed { value: (join(&times, samples), sampled), diagnostics }
}

fn refused_header(value: Option<&Value>) -> Option<&'static str> {
    let value = value.unwrap_or(&Value::Null);
    if value["format"] != FORMAT {
        Some("is no file of samples: its first line does not say bandpilot-slurm-samples")
    } else if value["version"] != 1 {
        Some("is a file of samples of another version")
    } else {
        None
    }
}

/// A job in a sample.
struct Seen {
    id: u64,
    over: bool,
    end_s: Option<i64>,
    run: Run,
}

fn sample(value: &Value) -> Result<(i64, Vec<Seen>), String> {
    let at_s = value["at_s"].as_i64().filter(|s| (1..=MAX_S).contains(s));
    let at_s = at_s.ok_or("has no time 'at_s'")?;
    let jobs = value["jobs"].as_array().ok_or("has no list 'jobs'")?;
    let seen: Result<Vec<Seen>, String> = jobs.iter().map(seen).collect();
    Ok((at_s, seen?))
}

fn seen(value: &Value) -> Result<Seen, String> {
    let id = value["id"].as_u64().ok_or("has a job without 'id'")?;
    let time = |key: &str| match &value[key] {
        Value::Null => Ok(None),
        time => match time.as_i64().filter(|s| (0..=MAX_S).contains(s)) {
            Some(time) => Ok(Some(time)),
            None => Err(format!("job {id}: '{key}' is not a time")),
        },
    };
    let text = |key: &str| value[key].as_str().unwrap_or("").to_owned();
    let hosts = match value["hosts"].as_str() {
        Some(list) => hostlist::expand(list).map_err(|reason| reason.message)?,
        None => Vec::new(),
    };
    let most = u64::from(bandpilot_readers::trace_file::MAX_JOB_GPUS);
    let number = |value: &Value| value.as_u64().filter(|n| *n <= most).map(|n| n as u32);
    let by_host = value["by_host"].as_array().map_or(Vec::new(), |list| {
        let numbers: Option<Vec<u32>> = list.iter().map(number).collect();
        numbers.unwrap_or_default()
    });
    let state = text("state");
    let name = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or(id.to_string());
    let run = Run {
        name,
        component: value["component"].as_str().and_then(|offset| offset.parse().ok()),
        user: text("user"),
        account: text("account"),
        partition: text("partition"),
        qos: text("qos"),
        submit_s: time("submit_s")?.ok_or(format!("job {id} has no 'submit_s'"))?,
        eligible_s: time("eligible_s")?,
        start_s: time("start_s")?.filter(|_| !hosts.is_empty()),
        gpus: number(&value["gpus"]).unwrap_or(0),
        host_count: hosts.len() as u32,
        hosts,
        by_host,
        ..Run::default()
    };
    let over = matches!(state.as_str(), "completing" | "finished");
    Ok(Seen { id, over, end_s: time("end_s")?, run })
}

/// One start of a job through the samples.
struct Track {
    run: Run,
    /// The last sample that has it running.
    last: Option<usize>,
    /// When it ends at the latest.
    limit_s: Option<i64>,
    /// When it ended, if a sample still had it then.
    end_s: Option<i64>,
}

fn join(times: &[i64], samples: Vec<(i64, Vec<Seen>)>) -> Vec<Run> {
    let mut tracks: BTreeMap<(u64, i64), Track> = BTreeMap::new();
    let mut idle: BTreeMap<u64, (usize, bool, Run)> = BTreeMap::new();
    for (at, (_, jobs)) in samples.into_iter().enumerate() {
        for Seen { id, over, end_s, run } in jobs {
            let Some(start_s) = run.start_s else {
                idle.insert(id, (at, over, run));
                continue;
            };
            let track = tracks.entry((id, start_s)).or_insert_with(|| Track {
                run: run.clone(),
                last: None,
                limit_s: None,
                end_s: None,
            });
            if over {
                track.end_s = end_s.or(track.end_s);
            } else {
                (track.last, track.limit_s) = (Some(at), end_s);
            }
            // A job that is over has lost some of what is known of it.
            if !over || track.run.gpus == 0 {
                track.run = run;
            }
        }
    }
    let final_sample = times.len().saturating_sub(1);
    let mut runs = Vec::new();
    for (id, (at, over, mut run)) in idle {
        if tracks.range((id, i64::MIN)..=(id, i64::MAX)).next().is_none() {
            let state = match (over, at == final_sample) {
                (true, _) => "CANCELLED",
                (false, true) => "PENDING",
                (false, false) => "",
            };
            state.clone_into(&mut run.state);
            runs.push(run);
        }
    }
    let mut later: Option<u64> = None;
    for ((id, start_s), track) in tracks.into_iter().rev() {
        let again = later.replace(id) == Some(id);
        runs.push(ended(track, start_s, times, again));
    }
    runs
}

/// A track with its end.
fn ended(track: Track, start_s: i64, times: &[i64], again: bool) -> Run {
    let Track { mut run, last, limit_s, end_s } = track;
    let (mut state, mut end) = ("ENDED", start_s);
    let seen_s = last.and_then(|last| times.get(last)).copied();
    let gone_s = last.and_then(|last| times.get(last + 1)).copied();
    match (end_s, seen_s, gone_s) {
        (Some(exact), ..) => end = exact,
        (None, Some(seen), Some(gone)) => {
            let latest = limit_s.filter(|limit| (seen..gone).contains(limit)).unwrap_or(gone);
            end = seen + (latest - seen) / 2;
            run.uncertain_s = (latest - seen + 1) / 2;
        }
        (None, Some(seen), None) => {
            (state, end) = ("RUNNING", seen);
            run.open = true;
        }
        (None, None, _) => {}
    }
    run.duration_s = (end - start_s).max(0);
    (if again { "REQUEUED" } else { state }).clone_into(&mut run.state);
    run
}
