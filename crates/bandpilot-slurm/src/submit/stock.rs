//! What Slurm itself would choose, for comparison.
//!
//! `sbatch --test-only` names the hosts and not the GPUs: which indexes a job gets of a host depends on where its cores are.
//! So all sets that it could be are valued.

use bandpilot_core::{GpuMask, HostId, Placement};
use bandpilot_dispatch::Scene;
use bandpilot_model::VirtualMerge;
use bandpilot_readers::hostlist;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::admit::{Gate, When};
use super::ask::Ask;
use super::clock::Clock;
use super::ground::Ground;
use super::plan::Given;
use super::refused::Refused;
use super::shape::{Shape, Span, shapes};
use crate::time;

/// So many sets are valued at most.
const MOST_SETS: usize = 2_000;
/// So many ways to spread GPUs over hosts are looked at.
const MOST_SPREADS: usize = 10_000;

/// What `sbatch --test-only` announces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StockChoice {
    /// When the job would start, seconds since 1970, if it could be read.
    pub at_s: Option<i64>,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Its partition.
    pub partition: String,
}

/// What the announced hosts are worth, over all sets of GPUs that the job could get of them.
#[derive(Debug, Clone, PartialEq)]
pub struct StockWorth {
    /// Number of such sets; `None` if they are too many to count.
    pub sets: Option<u64>,
    /// Number of sets that were valued; less than all of them is a sample, the same on every run.
    pub valued: usize,
    /// Least effective bandwidth of a valued set, GB/s.
    pub least: f64,
    /// Mean of the valued sets, GB/s.
    pub mean: f64,
    /// Greatest, GB/s.
    pub best: f64,
}

/// Reads what `sbatch --test-only` says (on its error output; with `TZ=UTC`).
///
/// ```
/// let said = "sbatch: Job 6 to start at 2026-11-30T19:59:12 using 2 processors on nodes n[1-2] in partition gpu";
/// let choice = bandpilot_slurm::submit::stock::read(said).unwrap();
/// assert_eq!((choice.hosts.join(" ").as_str(), choice.partition.as_str()), ("n1 n2", "gpu"));
/// ```
///
/// # Errors
/// What Slurm says if it would not start the job, or that its words were not understood.
pub fn read(said: &str) -> Result<StockChoice, String> {
    for line in said.lines().map(str::trim) {
        let Some((_, rest)) = line.split_once(" to start at ") else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let behind = |word: &str| {
            let at = words.iter().position(|other| *other == word)?;
            words.get(at + 1).copied()
        };
        let list = behind("nodes").unwrap_or("");
        let hosts = hostlist::expand(list)
            .map_err(|reason| format!("Slurm names hosts '{list}': {}", reason.message))?;
        return Ok(StockChoice {
            at_s: words.first().and_then(|stamp| time::stamp(stamp)),
            hosts,
            partition: behind("partition").unwrap_or("").to_owned(),
        });
    }
    let failure = said.lines().map(str::trim).find(|line| !line.is_empty());
    Err(match failure {
        Some(line) => {
            let bare = line.trim_start_matches("sbatch: ").trim_start_matches("error: ");
            bare.trim_start_matches("allocation failure: ").to_owned()
        }
        None => "sbatch --test-only said nothing".to_owned(),
    })
}

/// Values what Slurm would give on the hosts that it announced. Hosts that the cluster file lacks are an error, as are counts
/// that the hosts do not hold.
///
/// # Errors
/// If the job does not fit on these hosts by what the snapshot says.
pub fn worth(given: &Given<'_>, ask: &Ask, choice: &StockChoice) -> Result<StockWorth, Refused> {
    let mut there = ask.clone();
    there.named_hosts.clone_from(&choice.hosts);
    there.hosts = None;
    if !choice.partition.is_empty() {
        there.partitions = vec![choice.partition.clone()];
    }
    let clock = Clock::new(given.snapshot, given.site);
    let ground = Ground::new(given, &there, &clock)?;
    let from = choice.at_s.unwrap_or(clock.now).max(clock.now);
    let way = &ground.variants[0];
    let free = free(&way.gate, When { from, yields: false });
    let shape = shape(&there, free.len())?;
    let spreads = if way.gate.whole_hosts {
        vec![free.iter().map(|(_, gpus)| gpus.count()).collect()]
    } else {
        spreads(&free, &shape)
    };
    if spreads.is_empty() || free.is_empty() {
        return Err(Refused::options(
            "nodelist",
            format!(
                "{} have not the GPUs that Slurm would give",
                hostlist::compress(choice.hosts.iter().map(String::as_str))
            ),
            "Slurm and the cluster file may not agree: `bandpilot slurm state` shows both",
        ));
    }
    let mut state = ground.running.clone();
    state.jobs = ground.jobs_at(from);
    let scene = Scene::new(given.predictor, &VirtualMerge, &state);
    let sets = count(&free, &spreads);
    let all = sets.is_some_and(|sets| sets <= MOST_SETS as u64);
    let candidates = if all { every(&free, &spreads) } else { sample(&free, &spreads) };
    let values: Vec<f64> = candidates.iter().map(|set| scene.effective(set).effective).collect();
    Ok(StockWorth {
        sets: sets.filter(|_| spreads.len() < MOST_SPREADS),
        valued: values.len(),
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
        best: values.iter().copied().fold(0.0, f64::max),
    })
}

/// The hosts with the GPUs that are free then.
fn free(gate: &Gate<'_>, when: When) -> Vec<(HostId, GpuMask)> {
    let hosts = gate.hosts.iter().enumerate();
    hosts
        .filter_map(|(at, id)| {
            let host = &gate.snapshot.hosts[at];
            let left = gate.clock.left(at, host, when.from, when.from + 1, when.yields);
            let id = *id.as_ref().ok()?;
            Some((id, left.gpus.intersection(gate.cluster.healthy_gpus(id))))
        })
        .collect()
}

fn shape(ask: &Ask, hosts: usize) -> Result<Shape, Refused> {
    let span = Span { least: hosts, most: hosts, asked: true };
    Ok(shapes(ask, span)?[0])
}

/// GPUs on each host, in every way that the shape allows.
fn spreads(free: &[(HostId, GpuMask)], shape: &Shape) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut counts = Vec::new();
    fill(free, shape, shape.gpus, &mut counts, &mut all);
    all
}

fn fill(
    free: &[(HostId, GpuMask)],
    shape: &Shape,
    left: usize,
    counts: &mut Vec<usize>,
    all: &mut Vec<Vec<usize>>,
) {
    if all.len() >= MOST_SPREADS {
        return;
    }
    let Some((_, gpus)) = free.get(counts.len()) else {
        if left == 0 {
            all.push(counts.clone());
        }
        return;
    };
    // What is left must fit into the hosts that follow, and leave something for each of them.
    let after = &free[counts.len() + 1..];
    let room: usize = after.iter().map(|(_, gpus)| gpus.count().min(shape.most_on_host)).sum();
    let most = gpus.count().min(shape.most_on_host).min(left);
    for count in (shape.unit..=most).rev().filter(|c| c.is_multiple_of(shape.unit)) {
        let rest = left - count;
        if rest <= room && rest >= after.len() * shape.unit {
            counts.push(count);
            fill(free, shape, rest, counts, all);
            counts.pop();
        }
    }
}

fn count(free: &[(HostId, GpuMask)], spreads: &[Vec<usize>]) -> Option<u64> {
    spreads.iter().try_fold(0_u64, |sum, spread| {
        let ways = free.iter().zip(spread).map(|((_, gpus), count)| gpus.subset_count(*count));
        let product = ways.into_iter().try_fold(1_u64, u64::checked_mul)?;
        sum.checked_add(product)
    })
}

fn every(free: &[(HostId, GpuMask)], spreads: &[Vec<usize>]) -> Vec<Placement> {
    let mut all = Vec::new();
    for spread in spreads {
        let mut sets: Vec<Vec<(HostId, GpuMask)>> = vec![Vec::new()];
        for ((host, gpus), count) in free.iter().zip(spread) {
            let with = |set: &Vec<(HostId, GpuMask)>| {
                let set = set.clone();
                gpus.subsets(*count).map(move |mask| [set.as_slice(), &[(*host, mask)]].concat())
            };
            sets = sets.iter().flat_map(with).collect();
        }
        all.extend(sets.into_iter().map(Placement::new));
    }
    all
}

/// Some sets: first how many GPUs each host gives, then which, each with equal chance.
fn sample(free: &[(HostId, GpuMask)], spreads: &[Vec<usize>]) -> Vec<Placement> {
    let mut rng = Pcg64::seed_from_u64(0);
    let one = |_| {
        let spread = &spreads[rng.random_range(0..spreads.len())];
        let shares = free.iter().zip(spread).map(|((host, gpus), count)| {
            let mut indexes: Vec<usize> = gpus.iter().collect();
            for at in 0..*count {
                let other = rng.random_range(at..indexes.len());
                indexes.swap(at, other);
            }
            let chosen = indexes[..*count].iter().map(|index| GpuMask::single(*index));
            (*host, chosen.fold(GpuMask::EMPTY, GpuMask::union))
        });
        Placement::new(shares)
    };
    (0..MOST_SETS).map(one).collect()
}

#[cfg(test)]
#[path = "../tests/stock.rs"]
mod tests;
