//! Jobs of runs.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::Cluster;
use bandpilot_readers::Diagnostic;

use super::{MAX_S, Run};

/// Which jobs are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Those that could start from then on, seconds since 1970.
    pub since_s: Option<i64>,
    /// Those that could start before, seconds since 1970.
    pub until_s: Option<i64>,
    /// Those of these partitions; of all if empty.
    pub partitions: Vec<String>,
}

/// A job that had GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastJob {
    /// Name, unique in the history.
    pub name: String,
    /// When it could have started first, seconds since 1970.
    pub submit_s: i64,
    /// How long it waited from then to its first start, seconds.
    pub wait_s: i64,
    /// How long its last run took, seconds.
    pub duration_s: i64,
    /// When its last run was over, or was last seen, seconds since 1970.
    pub end_s: i64,
    /// The end is known to so many seconds up or down.
    pub uncertain_s: i64,
    /// True if it had not ended.
    pub open: bool,
    /// GPUs in all.
    pub gpus: u32,
    /// GPUs of each host, the last may have had fewer; `None` if hosts differed otherwise, or that is not known.
    pub gpus_per_instance: Option<u32>,
    /// GPU models of its hosts, `|` between several; empty if not known.
    pub gpu_models: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Owner.
    pub user: String,
    /// Account that pays.
    pub account: String,
    /// Partition.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// Slurm's word for how it ended.
    pub state: String,
    /// Components, if it was heterogeneous.
    pub components: usize,
}

/// Jobs that are not in the trace, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// They ran without a GPU.
    pub without_gpus: usize,
    /// They were over before they started.
    pub never_started: usize,
    /// They wait.
    pub waiting: usize,
    /// They are of other partitions.
    pub other_partition: usize,
    /// They could start outside the span of time.
    pub other_time: usize,
    /// They waited in one sample and were gone in the next: cancelled, or over in between.
    pub unseen: usize,
}

/// Runs that were begun again.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Requeued {
    /// Jobs with more than one run.
    pub jobs: usize,
    /// GPU hours of all runs but the last.
    pub gpu_hours: f64,
}

/// How long jobs waited, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// Mean.
    pub mean_s: f64,
    /// 95 % waited no longer.
    pub p95_s: i64,
    /// The longest.
    pub max_s: i64,
}

/// What ran, and what was left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Jobs with GPUs, in order of submission.
    pub jobs: Vec<PastJob>,
    /// What is not among them.
    pub left_out: LeftOut,
    /// What was done twice.
    pub requeued: Requeued,
}

/// States behind which the same job may run again.
const AGAIN: [&str; 9] = [
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "SPECIAL_EXIT",
    "PREEMPTED",
    "NODE_FAIL",
    "BOOT_FAIL",
    "LAUNCH_FAILED",
    "RESIZING",
];

impl History {
    /// Makes jobs of runs: runs of a job that was requeued are one job, and so are components of a heterogeneous one.
    pub fn of(mut runs: Vec<Run>, choice: &Choice) -> Self {
        runs.sort_by(|a, b| {
            let key = |run: &Run| (run.submit_s, run.start_s.unwrap_or(i64::MAX));
            (&a.name, a.component, key(a)).cmp(&(&b.name, b.component, key(b)))
        });
        // An id is used again after a while; then it is another job.
        let mut chains: Vec<(usize, Vec<Run>)> = Vec::new();
        for run in runs {
            match chains.last_mut() {
                Some((use_of_id, chain))
                    if chain.last().is_some_and(|last| same_id(last, &run)) =>
                {
                    if chain.last().is_some_and(|last| goes_on(last, &run)) {
                        chain.push(run);
                    } else {
                        let next = *use_of_id + 1;
                        chains.push((next, vec![run]));
                    }
                }
                _ => chains.push((1, vec![run])),
            }
        }
        let mut history = Self::default();
        let mut jobs: BTreeMap<(String, usize), Vec<Part>> = BTreeMap::new();
        for (use_of_id, chain) in chains {
            let Some(part) = Part::of(chain) else { continue };
            jobs.entry((part.last.name.clone(), use_of_id)).or_default().push(part);
        }
        for ((name, use_of_id), parts) in jobs {
            let name = if use_of_id > 1 { format!("{name}.{use_of_id}") } else { name };
            history.take(name, &parts, choice);
        }
        history
            .jobs
            .sort_by(|a, b| a.submit_s.cmp(&b.submit_s).then(by_number(a).cmp(&by_number(b))));
        history
    }

    fn take(&mut self, name: String, parts: &[Part], choice: &Choice) {
        let Some(first) = parts.first() else { return };
        let job = job(name, first, parts);
        let started = parts.iter().filter_map(|part| part.start_s).min();
        let inside = choice.since_s.is_none_or(|since| job.submit_s >= since)
            && choice.until_s.is_none_or(|until| job.submit_s < until);
        let left_out = &mut self.left_out;
        if !choice.partitions.is_empty() && !choice.partitions.contains(&job.partition) {
            left_out.other_partition += 1;
        } else if !inside {
            left_out.other_time += 1;
        } else if started.is_none() {
            match job.state.as_str() {
                "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" => left_out.waiting += 1,
                "" => left_out.unseen += 1,
                _ => left_out.never_started += 1,
            }
        } else if job.gpus == 0 {
            left_out.without_gpus += 1;
        } else {
            let lost: f64 = parts.iter().map(|part| part.lost_gpu_s).sum();
            if parts.iter().any(|part| part.runs > 1) {
                self.requeued.jobs += 1;
                self.requeued.gpu_hours += lost / 3600.0;
            }
            self.jobs.push(job);
        }
    }

    /// The second of 1970 that the trace counts from: the midnight (UTC) before its first job. Small numbers keep
    /// fractions of a second exact in the simulator, and hours stay hours of the day.
    pub fn origin_s(&self) -> i64 {
        let first = self.jobs.iter().map(|job| job.submit_s).min().unwrap_or(0);
        first - first.rem_euclid(86_400)
    }

    /// GPU hours of the jobs.
    pub fn gpu_hours(&self) -> f64 {
        let seconds = |job: &PastJob| f64::from(job.gpus) * job.duration_s as f64;
        self.jobs.iter().map(seconds).sum::<f64>() / 3600.0
    }

    /// How long the jobs waited; `None` if there are none.
    pub fn waits(&self) -> Option<Waits> {
        let mut waits: Vec<i64> = self.jobs.iter().map(|job| job.wait_s).collect();
        waits.sort_unstable();
        let rank = (waits.len() * 95).div_ceil(100);
        let max_s = *waits.last()?;
        let mean_s = waits.iter().map(|wait| *wait as f64).sum::<f64>() / waits.len() as f64;
        Some(Waits { mean_s, p95_s: *waits.get(rank.checked_sub(1)?)?, max_s })
    }

    /// How many jobs ended in which state.
    pub fn states(&self) -> BTreeMap<&str, usize> {
        let mut states = BTreeMap::new();
        for job in &self.jobs {
            *states.entry(job.state.as_str()).or_default() += 1;
        }
        states
    }

    /// Says on which GPU models jobs ran, by their hosts.
    pub fn name_gpu_models(&mut self, cluster: &Cluster) -> Vec<Diagnostic> {
        let mut unknown = BTreeSet::new();
        for job in &mut self.jobs {
            let mut models = BTreeSet::new();
            for name in &job.hosts {
                match cluster.find_host(name) {
                    Some(host) => {
                        models.insert(cluster.type_of(host).gpu_model.clone());
                    }
                    None => {
                        unknown.insert(name.clone());
                    }
                }
            }
            let all_known = job.hosts.iter().all(|name| !unknown.contains(name));
            if all_known {
                let models: Vec<String> =
                    models.into_iter().filter(|model| !model.is_empty()).collect();
                job.gpu_models = models.join("|");
            }
        }
        if unknown.is_empty() {
            return Vec::new();
        }
        let names = bandpilot_readers::hostlist::compress(unknown.iter().map(String::as_str));
        let message = format!("jobs ran on {names}, which the cluster file has not");
        vec![Diagnostic::warning("", message).help("these jobs name no GPU model")]
    }
}

fn same_id(a: &Run, b: &Run) -> bool {
    (&a.name, a.component) == (&b.name, b.component)
}

/// True if `next` is a further run of the same job.
fn goes_on(last: &Run, next: &Run) -> bool {
    last.user == next.user
        && (AGAIN.contains(&last.state.as_str()) || last.submit_s == next.submit_s)
}

/// Tasks of an array behind each other, as numbers.
fn by_number(job: &PastJob) -> (Vec<u64>, &str) {
    let numbers = job.name.split(|c: char| !c.is_ascii_digit());
    (numbers.filter_map(|number| number.parse().ok()).collect(), &job.name)
}

/// A job or a component of one: what its runs come to.
struct Part {
    submit_s: i64,
    start_s: Option<i64>,
    last: Run,
    runs: usize,
    lost_gpu_s: f64,
}

impl Part {
    fn of(chain: Vec<Run>) -> Option<Self> {
        let first = chain.first()?;
        let start_s = chain.iter().filter_map(|run| run.start_s).min();
        let eligible_s = first.eligible_s.unwrap_or(first.submit_s).max(first.submit_s);
        // A job that was let go early has a time to start that lies behind its start.
        let submit_s = start_s.map_or(eligible_s, |start| eligible_s.min(start));
        let (mut runs, mut lost_gpu_s) = (0, 0.0);
        let mut last: Option<Run> = None;
        for run in chain {
            let Some(mut earlier) = last else {
                runs += usize::from(run.start_s.is_some());
                last = Some(run);
                continue;
            };
            if run.start_s.is_none() {
                last = Some(earlier);
                continue;
            }
            runs += 1;
            let mut run = run;
            if earlier.state == "RESIZING" {
                // The work goes on, on other hosts.
                runs -= 1;
                run.duration_s = run.duration_s.saturating_add(earlier.duration_s).min(MAX_S);
                if earlier.gpus > run.gpus {
                    std::mem::swap(&mut run.gpus, &mut earlier.gpus);
                    run.host_count = earlier.host_count;
                    run.by_host = std::mem::take(&mut earlier.by_host);
                    run.hosts = std::mem::take(&mut earlier.hosts);
                }
            } else if earlier.start_s.is_some() {
                lost_gpu_s += f64::from(earlier.gpus) * earlier.duration_s as f64;
            }
            last = Some(run);
        }
        Some(Self { submit_s, start_s, last: last?, runs, lost_gpu_s })
    }
}

fn job(name: String, first: &Part, parts: &[Part]) -> PastJob {
    let runs = || parts.iter().map(|part| &part.last);
    let submit_s = parts.iter().map(|part| part.submit_s).min().unwrap_or(0);
    let start_s = parts.iter().filter_map(|part| part.start_s).min();
    let end = |run: &Run| Some(run.start_s?.saturating_add(run.duration_s));
    let total: u64 = runs().map(|run| u64::from(run.gpus)).sum();
    let most = bandpilot_readers::trace_file::MAX_JOB_GPUS;
    let gpus = u32::try_from(total).unwrap_or(most).min(most);
    let open = runs().any(|run| run.open);
    // A component that is still there says more than one that is over.
    let state = runs().find(|run| run.open).map_or(&first.last.state, |run| &run.state);
    PastJob {
        name,
        submit_s,
        wait_s: start_s.map_or(0, |start| (start - submit_s).max(0)),
        duration_s: runs().map(|run| run.duration_s).max().unwrap_or(0),
        end_s: runs().filter_map(end).max().unwrap_or(submit_s),
        uncertain_s: runs().map(|run| run.uncertain_s).max().unwrap_or(0),
        open,
        gpus,
        gpus_per_instance: instance(runs()),
        gpu_models: String::new(),
        hosts: runs().flat_map(|run| run.hosts.iter().cloned()).collect(),
        user: first.last.user.clone(),
        account: first.last.account.clone(),
        partition: first.last.partition.clone(),
        qos: first.last.qos.clone(),
        state: state.clone(),
        components: if parts.iter().any(|part| part.last.component.is_some()) {
            parts.len()
        } else {
            0
        },
    }
}

/// GPUs of each host if they are all alike, one may have fewer.
fn instance<'r>(runs: impl Iterator<Item = &'r Run>) -> Option<u32> {
    let mut shares: BTreeMap<u32, u64> = BTreeMap::new();
    for run in runs.filter(|run| run.gpus > 0) {
        let told: u64 = run.by_host.iter().map(|share| u64::from(*share)).sum();
        if told == u64::from(run.gpus) {
            let some = run.by_host.iter().filter(|share| **share > 0);
            some.for_each(|share| *shares.entry(*share).or_default() += 1);
        } else if run.host_count > 0 && run.gpus.is_multiple_of(run.host_count) {
            // How they spread is not told: evenly, as a request for each host would have it.
            *shares.entry(run.gpus / run.host_count).or_default() += u64::from(run.host_count);
        } else {
            return None;
        }
    }
    let (size, _) = shares.pop_last()?;
    (shares.values().sum::<u64>() <= 1).then_some(size)
}
