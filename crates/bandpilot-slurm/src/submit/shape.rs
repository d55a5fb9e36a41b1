//! What the counts of an [`Ask`] come to: GPUs in all and on each host, hosts, tasks.
//!
//! Slurm's own rules, in short: a job without `-N` has as many hosts as it needs, without `-n` one task on each; `--gres` and
//! `--gpus-per-node` count on every host, `--gpus` in all, `--gpus-per-task` for every task; `--ntasks-per-node` beside
//! `-n` is the most. Where tasks and GPUs of the whole job are multiples of each other, a task has its GPUs on its own host.

use bandpilot_core::counted;

use super::ask::{Ask, GpuCount};

/// How many tasks a host has, by its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// So many on every host.
    PerHost(usize),
    /// One for so many GPUs.
    ForGpus(usize),
    /// So many for every GPU.
    PerGpu(usize),
}

impl Tasks {
    /// Tasks of a host that gives so many GPUs.
    pub const fn on(self, gpus: usize) -> usize {
        match self {
            Self::PerHost(tasks) => tasks,
            Self::ForGpus(each) => gpus / each,
            Self::PerGpu(each) => gpus * each,
        }
    }
}

/// One way to spread a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// GPUs in all.
    pub gpus: usize,
    /// Every host gives a multiple of so many.
    pub unit: usize,
    /// Every host gives as many.
    pub uniform: bool,
    /// Hosts at least, from 1.
    pub least_hosts: usize,
    /// Hosts at most.
    pub most_hosts: usize,
    /// GPUs of one host at most.
    pub most_on_host: usize,
    /// Tasks.
    pub tasks: Tasks,
}

/// Counts that do not go together: which option, what is wrong, what would be possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The option.
    pub option: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be possible.
    pub possible: String,
}

/// Numbers of hosts that a job may have.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// At least, from 1.
    pub least: usize,
    /// At most.
    pub most: usize,
    /// They come from the job, not only from its partition.
    pub asked: bool,
}

/// The ways to spread a job over the hosts of `span`, the preferred first.
///
/// # Errors
/// If there is none.
pub fn shapes(ask: &Ask, span: Span) -> Result<Vec<Shape>, Misfit> {
    let zero = matches!(ask.gpus, GpuCount::Total(0) | GpuCount::PerHost(0) | GpuCount::PerTask(0))
        || [ask.tasks, ask.tasks_per_host, ask.tasks_per_gpu].contains(&Some(0));
    if zero {
        return Err(misfit(
            "gpus",
            "a job without GPUs or tasks was asked for",
            "at least one GPU",
        ));
    }
    match ask.gpus {
        GpuCount::PerHost(each) => per_host(ask, span, each),
        GpuCount::Total(gpus) => total(ask, span, gpus).map(|shape| vec![shape]),
        GpuCount::PerTask(each) => {
            let tasks = known_tasks(ask, span).unwrap_or(span.least);
            for_tasks(ask, span, each, tasks).map(|shape| vec![shape])
        }
    }
}

fn misfit(option: &'static str, message: impl Into<String>, possible: impl Into<String>) -> Misfit {
    Misfit { option, message: message.into(), possible: possible.into() }
}

/// Tasks in all, where the counts say it.
fn known_tasks(ask: &Ask, span: Span) -> Option<usize> {
    let of_hosts = ask.tasks_per_host.filter(|_| span.asked && span.least == span.most);
    let of_gpus = match ask.gpus {
        GpuCount::Total(gpus) => ask.tasks_per_gpu.map(|each| gpus.saturating_mul(each)),
        _ => None,
    };
    ask.tasks.or(of_gpus).or(of_hosts.map(|each| each.saturating_mul(span.least)))
}

fn per_host(ask: &Ask, span: Span, each: usize) -> Result<Vec<Shape>, Misfit> {
    let hosts: Vec<usize> = match (span.asked, ask.tasks, ask.tasks_per_host) {
        // As many hosts as possible within the range.
        (true, ..) => (span.least..=span.most).rev().collect(),
        (false, Some(tasks), Some(most)) => vec![tasks.div_ceil(most)],
        (false, Some(tasks), None) => (1..=tasks.min(span.most)).collect(),
        (false, None, _) => vec![span.least],
    };
    let shape = |hosts: usize, tasks: usize| Shape {
        gpus: each.saturating_mul(hosts),
        unit: each,
        uniform: true,
        least_hosts: hosts,
        most_hosts: hosts,
        most_on_host: each,
        tasks: Tasks::PerHost(tasks),
    };
    let in_span = hosts.iter().copied().filter(|k| (span.least..=span.most).contains(k));
    let shapes: Vec<Shape> = in_span
        .filter_map(|hosts| match (ask.tasks, ask.tasks_per_host) {
            (Some(tasks), most) => {
                let each = tasks / hosts;
                let fits = tasks.is_multiple_of(hosts) && most.is_none_or(|most| each <= most);
                (each > 0 && fits).then(|| shape(hosts, each))
            }
            (None, of_host) => {
                let of_gpus = ask.tasks_per_gpu.map(|of_gpu| each.saturating_mul(of_gpu));
                Some(shape(hosts, of_host.or(of_gpus).unwrap_or(1)))
            }
        })
        .collect();
    if shapes.is_empty() {
        let (tasks, hosts) = (ask.tasks.unwrap_or(1), hosts.first().copied().unwrap_or(1));
        let message = format!(
            "{} do not spread evenly over {}",
            counted(tasks, "task"),
            counted(hosts, "host")
        );
        let possible = "-n that is a multiple of -N, or --ntasks-per-node instead";
        return Err(misfit("ntasks", message, possible));
    }
    Ok(shapes)
}

fn total(ask: &Ask, span: Span, gpus: usize) -> Result<Shape, Misfit> {
    let free = Shape {
        gpus,
        unit: 1,
        uniform: false,
        least_hosts: span.least,
        most_hosts: span.most.min(gpus),
        most_on_host: usize::MAX,
        tasks: Tasks::PerHost(ask.tasks_per_host.unwrap_or(1)),
    };
    let Some(tasks) = known_tasks(ask, span) else { return enough_hosts(free, span, "GPU") };
    if gpus.is_multiple_of(tasks) {
        return for_tasks(ask, span, gpus / tasks, tasks);
    }
    if tasks.is_multiple_of(gpus) {
        let each = tasks / gpus;
        let most = ask.tasks_per_host.map_or(usize::MAX, |most| most / each);
        if most == 0 {
            let message = format!("{each} tasks share a GPU, more than one host may have");
            return Err(misfit("ntasks-per-node", message, format!("at least {each}")));
        }
        let shape = Shape { tasks: Tasks::PerGpu(each), most_on_host: most, ..free };
        return enough_hosts(shape, span, "GPU");
    }
    if span.least == 1 {
        // On one host all tasks see all GPUs.
        return Ok(Shape { unit: gpus, most_hosts: 1, tasks: Tasks::PerHost(tasks), ..free });
    }
    let message = format!(
        "{} for {} on {} hosts: neither is a multiple of the other",
        counted(gpus, "GPU"),
        counted(tasks, "task"),
        span.least
    );
    let (less, more) = (gpus / tasks * tasks, gpus.div_ceil(tasks) * tasks);
    let near = if less > 0 { format!("{less} or {more}") } else { more.to_string() };
    Err(misfit("ntasks", message, format!("{near} GPUs, or one host")))
}

fn for_tasks(ask: &Ask, span: Span, each: usize, tasks: usize) -> Result<Shape, Misfit> {
    let most = ask.tasks_per_host.map_or(usize::MAX, |most| most.saturating_mul(each));
    let shape = Shape {
        gpus: each.saturating_mul(tasks),
        unit: each,
        uniform: false,
        least_hosts: span.least,
        most_hosts: span.most.min(tasks),
        most_on_host: most,
        tasks: Tasks::ForGpus(each),
    };
    enough_hosts(shape, span, "task")
}

/// Every host has at least one part.
fn enough_hosts(shape: Shape, span: Span, part: &str) -> Result<Shape, Misfit> {
    let parts = shape.gpus / shape.unit;
    if span.least > parts {
        let message = format!("{} are too few for {} hosts", counted(parts, part), span.least);
        let possible = format!("at most {}", counted(parts, "host"));
        return Err(misfit("nodes", message, possible));
    }
    let hold = shape.most_hosts.saturating_mul(shape.most_on_host);
    if hold < shape.gpus {
        let message = format!(
            "{} hold at most {} with --ntasks-per-node",
            counted(shape.most_hosts, "host"),
            counted(hold, "GPU")
        );
        return Err(misfit("ntasks-per-node", message, "more hosts, or more tasks on each"));
    }
    Ok(shape)
}

#[cfg(test)]
#[path = "../tests/shape.rs"]
mod tests;
