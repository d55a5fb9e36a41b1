//! What Slurm tells of jobs that ran, as a trace for the simulator.
//!
//! Two sources give [`Run`]s: the accounts ([`sacct`]) and samples of the queue ([`samples`]). [`History::of`] makes jobs of
//! them, and [`History::write`] the trace. All of it is a function of texts.

mod history;
mod moment;
pub mod sacct;
pub mod samples;
mod table;

pub use history::{Choice, History, LeftOut, PastJob, Requeued, Waits};
pub use moment::Moment;
pub use table::Tenant;

/// Greatest time and duration of a trace, seconds.
const MAX_S: i64 = bandpilot_readers::trace_file::MAX_SECONDS as i64;

/// One time that Slurm gave a job, or a component of a heterogeneous one, its hosts; or a job that it gave none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Id as Slurm shows it, `12` or `12_3`; that of the first component for a heterogeneous job.
    pub name: String,
    /// Number of the component, if it is one.
    pub component: Option<u32>,
    /// Owner.
    pub user: String,
    /// Account that pays.
    pub account: String,
    /// Partition.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// Slurm's word for how it ended or where it stands, in capitals; empty if it is not known.
    pub state: String,
    /// When it was submitted, seconds since 1970.
    pub submit_s: i64,
    /// When it could have started first, seconds since 1970, if that is known.
    pub eligible_s: Option<i64>,
    /// When it started, seconds since 1970; `None` if it never did.
    pub start_s: Option<i64>,
    /// How long it ran, seconds, without the time that it was suspended where that is known.
    pub duration_s: i64,
    /// The end is known to so many seconds up or down; 0 where it is exact.
    pub uncertain_s: i64,
    /// True if it had not ended when Slurm was asked for the last time.
    pub open: bool,
    /// GPUs in all.
    pub gpus: u32,
    /// Hosts in all.
    pub host_count: u32,
    /// Its hosts, where their names are known.
    pub hosts: Vec<String>,
    /// GPUs of each host, where that is known.
    pub by_host: Vec<u32>,
}

/// GPUs of a list of resources, `cpu=4,gres/gpu:a100=2,gres/gpu=2`: the total, or the sum of the types where there is none.
///
/// ```
/// assert_eq!(bandpilot_slurm::trace::gpus_of_tres("node=1,gres/gpu:g0=1,gres/gpu:g5=1"), Ok(2));
/// ```
///
/// # Errors
/// A number that is none, or more GPUs than a job of a trace may have.
pub fn gpus_of_tres(text: &str) -> Result<u32, String> {
    let (mut total, mut typed) = (None, 0_u64);
    for item in text.split(',') {
        let Some((name, value)) = item.trim().split_once('=') else { continue };
        let Some(kind) =
            name.strip_prefix("gres/gpu").filter(|k| k.is_empty() || k.starts_with(':'))
        else {
            continue;
        };
        let count: u32 = value.parse().map_err(|_| format!("'{item}' is not a number of GPUs"))?;
        match kind {
            "" => total = Some(u64::from(count)),
            _ => typed += u64::from(count),
        }
    }
    let most = bandpilot_readers::trace_file::MAX_JOB_GPUS;
    let all = u32::try_from(total.unwrap_or(typed)).ok().filter(|all| *all <= most);
    all.ok_or_else(|| format!("more than {most} GPUs"))
}

#[cfg(test)]
#[path = "../tests/trace.rs"]
mod tests;
