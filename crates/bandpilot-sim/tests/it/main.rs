//! Whole runs: reference digits, comparison with a naive model, conservation, and the units one by one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attained;
mod compass;
mod conditions;
mod fill;
mod hosts;
mod moving;
mod naive;
mod reference;
mod runs;
mod shares;
mod stepping;
mod watching;

use std::fmt::Write as _;

use bandpilot_core::{Cluster, ClusterBuilder, HostId};
use bandpilot_model::{BandwidthModel, Predictor};
use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::policy::{ORDERS, PLACEMENTS};
use bandpilot_sim::{
    Broken, Hosts, Metrics, Network, Options, Outcome, Policy, Scheduler, Setting, Workload,
    simulate,
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

/// A setting with bandwidths: behind NVSwitch, one NIC of 400 Gbit/s a GPU.
fn with_setting<T>(
    hosts: &Hosts,
    workload: &Workload,
    seed: u64,
    use_it: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    let mut builder = ClusterBuilder::new("test");
    let mut before = 0;
    for at in 0..hosts.len() as u32 {
        let most = 64 - hosts.healthy(HostId(at)).0.leading_zeros() as usize;
        if most != before {
            builder = builder.host_type(&format!("t{at}"), "H100", most).nvswitch().rails(400.0);
            before = most;
        }
        builder = builder.host(&format!("h{at}"));
    }
    let cluster = builder.build();
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, &cluster, 2 << 30);
    // Rounds short enough to fall into small traces.
    let options = Options { round_s: 7.0, ..Options::default() };
    let setting = Setting::new(hosts, workload, &options, seed);
    use_it(&setting.with_network(Network::new(&predictor)))
}

fn play(hosts: &Hosts, workload: &Workload, policy: &str, seed: u64) -> Result<Outcome, Broken> {
    with_setting(hosts, workload, seed, |setting| simulate(setting, Policy::parse(policy).unwrap()))
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
