//! `bandpilot fill`.

use std::io::{self, Write};
use std::path::Path;

use bandpilot_readers::openb::{self, Rows};
use bandpilot_readers::{Diagnostic, Parsed};
use bandpilot_sim::fill::{self, Cluster, Filled, Pods, Policy, Target, WrongDemand};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::ground::Remarks;
use crate::cli::Fill;
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, Output, counted, remarks_json, table, write_table};

/// Per cent between two points of a curve.
const STEP_PCT: u32 = 10;

/// Fills a cluster with pods, once for every policy and seed.
///
/// # Errors
/// If an argument or a list cannot be used.
pub fn fill(args: &Fill) -> Result<Done, Failure> {
    let policies = policies(&args.policy)?;
    let seeds = &args.seeds.0;
    let mut remarks = Remarks::new();
    let (nodes_file, pods_file) =
        (args.nodes.display().to_string(), args.pods.display().to_string());
    let nodes = rows(&args.nodes, openb::read_nodes, "the list has no node", &mut remarks)?;
    let pods = rows(&args.pods, openb::read_pods, "the list has no pod", &mut remarks)?;
    let bad_input = |file: &str, message: String| {
        Failure::new(Code::BadInput, file, Diagnostic::error("", message))
    };
    let cluster =
        Cluster::new(&nodes.rows).map_err(|error| bad_input(&nodes_file, error.to_string()))?;
    let bad_rows = nodes.bad_rows + pods.bad_rows;
    let pods = Pods::new(&pods.rows, &cluster);
    let target = Target::new(&pods);
    let bar = ProgressBar::new((policies.len() * seeds.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left") {
        bar.set_style(style);
    }
    let runs: Vec<(&Policy, u64)> =
        policies.iter().flat_map(|policy| seeds.iter().map(|seed| (*policy, *seed))).collect();
    // Collected in the order of policies and seeds, whoever is done first.
    let runs: Result<Vec<Filled>, WrongDemand> = runs
        .into_par_iter()
        .map(|(policy, seed)| {
            let run = fill::fill(&cluster, &pods, &target, policy, args.to, seed);
            bar.inc(1);
            run
        })
        .collect();
    bar.finish_and_clear();
    let runs = runs.map_err(|error| bad_input(&pods_file, error.to_string()))?;
    let of_policies = policies.iter().zip(runs.chunks(seeds.len()));
    let shown = Report {
        nodes_file,
        pods_file,
        nodes: cluster.nodes.len(),
        gpus: cluster.gpus(),
        pods: pods.len(),
        bad_rows,
        to_pct: args.to,
        target_shapes: target.shapes().len(),
        target_pods: target.total(),
        memory_heeded: cluster.heeds_memory(),
        empty_frag_pct: cluster.fragmentation_pct(&target),
        policies: of_policies.map(|(policy, runs)| Summary::new(policy, runs, args.to)).collect(),
        seeds: seeds.clone(),
        remarks: remarks.clone(),
    };
    let code = if bad_rows > 0 { Code::Problems } else { Code::Ok };
    Ok(Done { output: Box::new(shown), remarks, code })
}

/// The rows of a list; one without any is an error.
fn rows<T>(
    path: &Path,
    read: impl Fn(&str) -> Parsed<Rows<T>>,
    none: &str,
    remarks: &mut Remarks,
) -> Result<Rows<T>, Failure> {
    let file = path.display().to_string();
    let Parsed { value, mut diagnostics } = read(&read_text(path)?);
    if value.rows.is_empty() {
        if diagnostics.is_empty() {
            diagnostics.push(Diagnostic::error("", none));
        }
        return Err(Failure::all(Code::BadInput, &file, diagnostics));
    }
    remarks.extend(diagnostics.into_iter().map(|remark| (file.clone(), remark)));
    Ok(value)
}

fn policies(names: &[String]) -> Result<Vec<&'static Policy>, Failure> {
    let wrong = |message: String| {
        let reason = Diagnostic::error("", message).help("run with --help for the list");
        Failure::new(Code::BadInput, "--policy", reason)
    };
    let mut policies: Vec<&'static Policy> = Vec::with_capacity(names.len());
    for name in names {
        let policy = Policy::parse(name).ok_or_else(|| {
            let known: Vec<&str> = fill::POLICIES.iter().map(|policy| policy.name).collect();
            wrong(format!("'{name}' is not a policy; there are {}", known.join(", ")))
        })?;
        if policies.iter().any(|known| known.name == policy.name) {
            return Err(wrong(format!("'{}' stands twice", policy.name)));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// A figure over all seeds.
struct Spread {
    mean: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn new(runs: &[Filled], value: impl Fn(&Filled) -> f64) -> Self {
        let values = || runs.iter().map(&value);
        Self {
            mean: values().sum::<f64>() / runs.len() as f64,
            min: values().fold(f64::INFINITY, f64::min),
            max: values().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    fn range(&self) -> String {
        format!("{:.2}..{:.2}", self.min, self.max)
    }

    fn json(&self) -> Value {
        json!({"mean": self.mean, "min": self.min, "max": self.max})
    }
}

/// What became of a policy.
struct Summary {
    policy: &'static str,
    /// If demand reaches the size of the cluster before the end.
    at_100: Option<Spread>,
    alloc: Spread,
    frag: Spread,
    dropped: Spread,
    /// Demand, and means of allocation and fragmentation, all in per cent.
    points: Vec<[f64; 3]>,
}

impl Summary {
    fn new(policy: &'static Policy, runs: &[Filled], to_pct: u32) -> Self {
        let marks = (STEP_PCT..to_pct).step_by(STEP_PCT as usize).map(f64::from);
        let at = |pct: f64| {
            let alloc = Spread::new(runs, |run| run.at(pct).alloc_pct).mean;
            [pct, alloc, Spread::new(runs, |run| run.at(pct).frag_pct).mean]
        };
        Self {
            policy: policy.name,
            at_100: (to_pct > 100).then(|| Spread::new(runs, |run| run.at(100.0).alloc_pct)),
            alloc: Spread::new(runs, |run| run.last().alloc_pct),
            frag: Spread::new(runs, |run| run.last().frag_pct),
            dropped: Spread::new(runs, |run| run.dropped as f64),
            points: marks.chain(Some(f64::from(to_pct))).map(at).collect(),
        }
    }

    fn json(&self) -> Value {
        let point = |[arrived, alloc, frag]: &[f64; 3]| json!({"arrived_pct": arrived, "alloc_pct": alloc, "frag_pct": frag});
        json!({
            "policy": self.policy,
            "alloc_at_100_pct": self.at_100.as_ref().map(Spread::json),
            "alloc_pct": self.alloc.json(),
            "frag_pct": self.frag.json(),
            "dropped": self.dropped.json(),
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

struct Report {
    nodes_file: String,
    pods_file: String,
    nodes: usize,
    gpus: usize,
    pods: usize,
    bad_rows: usize,
    to_pct: u32,
    seeds: Vec<u64>,
    target_shapes: usize,
    target_pods: u64,
    memory_heeded: bool,
    empty_frag_pct: f64,
    policies: Vec<Summary>,
    remarks: Remarks,
}

impl Output for Report {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let (nodes, gpus) = (counted(self.nodes, "node"), counted(self.gpus, "GPU"));
        writeln!(w, "nodes   {}: {nodes}, {gpus}", self.nodes_file)?;
        writeln!(w, "pods    {}: {}", self.pods_file, counted(self.pods, "pod"))?;
        let share = 100.0 * self.target_pods as f64 / self.pods as f64;
        let shapes = counted(self.target_shapes, "shape");
        writeln!(w, "target  {shapes}, {share:.1} % of the pods")?;
        writeln!(w, "empty   {:.2} % fragmented", self.empty_frag_pct)?;
        writeln!(
            w,
            "runs    to {} % of the GPUs, {}",
            self.to_pct,
            counted(self.seeds.len(), "seed")
        )?;
        if self.bad_rows > 0 {
            writeln!(w, "wrong rows, left out: {}", self.bad_rows)?;
        }
        let end = self.to_pct;
        let (alloc, frag) = (format!("ALLOC % AT {end}"), format!("FRAG % AT {end}"));
        let mut header = vec!["POLICY"];
        if end > 100 {
            header.extend(["ALLOC % AT 100", "RANGE"]);
        }
        header.extend([&*alloc, "RANGE", &*frag, "RANGE", "DROPPED"]);
        let mut rows = table(&header);
        for summary in &self.policies {
            let mut row = vec![summary.policy.to_owned()];
            for spread in summary.at_100.iter().chain([&summary.alloc, &summary.frag]) {
                row.extend([format!("{:.2}", spread.mean), spread.range()]);
            }
            row.push(format!("{:.0}", summary.dropped.mean));
            rows.add_row(row);
        }
        writeln!(w)?;
        write_table(w, &rows)?;
        writeln!(
            w,
            "\nmeans over the seeds, in % of all GPUs; at: demand that has arrived, placed or not"
        )
    }

    fn json(&self) -> Value {
        json!({
            "nodes_file": self.nodes_file,
            "pods_file": self.pods_file,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "pods": self.pods,
            "bad_rows": self.bad_rows,
            "memory_heeded": self.memory_heeded,
            "to_pct": self.to_pct,
            "seeds": self.seeds,
            "target": {"shapes": self.target_shapes, "pods": self.target_pods},
            "empty_frag_pct": self.empty_frag_pct,
            "policies": self.policies.iter().map(Summary::json).collect::<Vec<_>>(),
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn help_lists_every_policy() {
        let mut command = crate::cli::Cli::command();
        let help = command.find_subcommand_mut("fill").unwrap().render_long_help().to_string();
        for policy in &fill::POLICIES {
            assert!(help.contains(&format!("  {:<9} {}\n", policy.name, policy.summary)), "{help}");
        }
    }
}
