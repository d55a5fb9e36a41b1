//! Whole runs: reference digits, comparison with a naive model, conservation, and the units one by one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fill;
mod naive;
mod reference;
mod runs;
mod stepping;

use std::fmt::Write as _;

use bandpilot_core::{Cluster, ClusterBuilder};
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::{Hosts, Metrics, Outcome, Policy, Workload, simulate};

/// Hosts of this many GPUs each.
fn cluster(gpus: &[usize]) -> Cluster {
    let one = |builder: ClusterBuilder, (at, gpus): (usize, &usize)| {
        builder.host_type(&format!("t{at}"), "", *gpus).nvswitch().host(&format!("h{at}"))
    };
    gpus.iter().enumerate().fold(ClusterBuilder::new("test"), one).build()
}

fn hosts(gpus: &[usize]) -> Hosts {
    Hosts::new(&cluster(gpus)).unwrap()
}

/// A trace of (submit, duration, GPUs).
fn trace(jobs: &[(u32, u32, u32)]) -> Trace {
    let mut text = "submit_s,duration_s,gpus\n".to_owned();
    for (submit_s, duration_s, gpus) in jobs {
        writeln!(text, "{submit_s},{duration_s},{gpus}").unwrap();
    }
    let read = trace_file::read(&text);
    assert_eq!(read.diagnostics, []);
    read.value
}

fn run(hosts: &Hosts, trace: &Trace, policy: &str) -> (Outcome, Metrics) {
    let workload = Workload::new(trace, hosts);
    let outcome = simulate(hosts, &workload, Policy::parse(policy).unwrap(), 1).unwrap();
    let metrics = Metrics::new(&workload, &outcome);
    (outcome, metrics)
}

fn finishes(outcome: &Outcome) -> Vec<Option<f64>> {
    outcome.jobs.iter().map(|job| job.finish_s).collect()
}
