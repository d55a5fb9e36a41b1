//! Whole runs: reference digits, comparison with a naive model, conservation, and the units one by one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attained;
mod conditions;
mod fill;
mod naive;
mod reference;
mod runs;
mod shares;
mod stepping;
mod watching;

use std::fmt::Write as _;

use bandpilot_core::{Cluster, ClusterBuilder};
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::policy::{ORDERS, PLACEMENTS};
use bandpilot_sim::{
    Broken, Hosts, Metrics, Options, Outcome, Policy, Scheduler, Setting, Workload, simulate,
};

/// All pairs of an order and a placement.
fn policies() -> impl Iterator<Item = String> {
    let pairs = ORDERS.iter().flat_map(|order| PLACEMENTS.iter().map(move |rule| (order, rule)));
    pairs.map(|(order, rule)| format!("{}/{}", order.name, rule.name))
}

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

fn play(hosts: &Hosts, workload: &Workload, policy: &str, seed: u64) -> Result<Outcome, Broken> {
    let options = Options::default();
    simulate(&Setting::new(hosts, workload, &options, seed), Policy::parse(policy).unwrap())
}

/// The scheduler of a policy that looks at nothing but hosts.
fn scheduler(hosts: &Hosts, policy: &str) -> Scheduler<'static> {
    let policy = Policy::parse(policy).unwrap();
    let (workload, options) = (Box::leak(Box::default()), Box::leak(Box::default()));
    policy
        .scheduler(&Setting::new(Box::leak(Box::new(hosts.clone())), workload, options, 1))
        .unwrap()
}

fn run(hosts: &Hosts, trace: &Trace, policy: &str) -> (Outcome, Metrics) {
    let workload = Workload::new(trace, hosts);
    let outcome = play(hosts, &workload, policy, 1).unwrap();
    let metrics = Metrics::new(&workload, &outcome);
    (outcome, metrics)
}

fn finishes(outcome: &Outcome) -> Vec<Option<f64>> {
    outcome.jobs().map(|job| job.finish_s).collect()
}
