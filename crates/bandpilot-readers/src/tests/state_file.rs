use bandpilot_core::ClusterBuilder;
use proptest::prelude::*;

use super::*;

fn cluster() -> Cluster {
    let mut cluster =
        ClusterBuilder::new("demo").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
    cluster.hosts[2].unhealthy_gpus = GpuMask(0b1000_0000);
    cluster
}

fn shown(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(|d| d.display("s.toml").to_string()).collect();
    lines.join("\n")
}

fn free(state: &ClusterState) -> Vec<String> {
    state.free.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_unnamed_is_free() {
    let text = "unavailable = 'h3:0-1'\n[[job]]\nname = 'a'\nplacement = 'h[1-2]:0-3'\ndemand = 0.5\n[[job]]\nname = 'b'\nplacement = 'h1:4'\ndemand_gbytes_per_s = 40\n";
    let read = read(text, &cluster());
    assert_eq!(shown(&read.diagnostics), "");
    assert_eq!(free(&read.value), ["5-7", "4-7", "2-6"]);
    assert_eq!(read.value.jobs[0].demand, Demand::Fraction(0.5));
    assert_eq!(read.value.jobs[1].demand, Demand::GBytesPerS(40.0));
    assert_eq!(super::read("", &cluster()).value, ClusterState::idle(&cluster()));
}

#[test]
fn with_free_the_rest_is_unavailable() {
    let read = read("free = 'h1:0-6'\njob = [{ name = 'a', placement = 'h2' }]", &cluster());
    assert_eq!(shown(&read.diagnostics), "");
    assert_eq!(free(&read.value), ["0-6", "", ""]);
    assert_eq!(read.value.jobs[0].placement.gpus(), 8);
}

#[test]
fn says_what_clashes() {
    let job = |name: &str, placement: &str| {
        format!("[[job]]\nname = '{name}'\nplacement = '{placement}'\n")
    };
    let cases = [
        (
            job("a", "h1:0-3") + &job("b", "h1:3-4"),
            "s.toml:6:13: error: job.placement: h1:3 is also in job 'a'",
        ),
        (
            "free = 'h1:0'\n".to_owned() + &job("a", "h1:0"),
            "s.toml:1:8: error: free: h1:0 is also in job 'a'",
        ),
        (
            "free = 'h1:0'\nunavailable = 'h1:0'\n".to_owned(),
            "s.toml:1:8: error: free: h1:0 is also unavailable",
        ),
        ("free = 'h3:6-7'\n".to_owned(), "s.toml:1:8: error: free: h3:7 is unhealthy"),
        (job("a", "h3:7"), "s.toml:3:13: warning: job.placement: h3:7 is unhealthy"),
        (job("a", "h1:0") + &job("a", "h2:0"), "s.toml:5:8: error: job.name: job 'a' stands twice"),
        (
            job("a", "h9:0"),
            "s.toml:3:14: error: job.placement: h9:0: host 'h9' is not in cluster 'demo'",
        ),
        (job("a", "h1:0,h2:8"), "s.toml:3:19: error: job.placement: h2:8: host 'h2' has no GPU 8"),
        (job("a", "h1") + "demand = 1.5\n", "s.toml:4:10: error: job.demand: 1.5 is out of range"),
        (
            job("a", "h1") + "demand = -0.1\n",
            "s.toml:4:10: error: job.demand: -0.1 is out of range",
        ),
        (
            job("a", "h1") + "demand = 1\ndemand_gbytes_per_s = 3\n",
            "s.toml:4:10: error: job.demand: stands beside",
        ),
        (
            job("a", "h1:0-3,h2:0-5") + "instance_gpus = 4\n",
            "s.toml:4:17: error: job.instance_gpus: 4 does not divide the 6 GPUs on h2",
        ),
        (
            job("a", "h1") + "instance_gpus = 0\n",
            "s.toml:4:17: error: job.instance_gpus: 0 is out of range\n  help: it must be 1..=64",
        ),
        (
            job("a", "h1") + "instance_gpus = 2.5\n",
            "s.toml:4:17: error: job.instance_gpus: is a float, not a whole number",
        ),
        (
            job("a", "h1") + "pinned = 'yes'\n",
            "s.toml:4:10: error: job.pinned: is a string, not true or false",
        ),
        (
            job("a", "h1") + "free = 'h2'\n",
            "s.toml:4:1: warning: job.free: unknown key, not used\n  help: known keys of a job",
        ),
    ];
    for (text, expected) in cases {
        let read = read(&text, &cluster());
        assert!(
            shown(&read.diagnostics).contains(expected),
            "{text}\n{}",
            shown(&read.diagnostics)
        );
        assert_keeps_rules(&read.value);
    }
}

#[test]
fn free_form_refuses_unhealthy_gpus() {
    let read = free_form("h1:0-6,h2:0-7", &cluster());
    assert_eq!(shown(&read.diagnostics), "");
    assert_eq!(free(&read.value), ["0-6", "0-7", ""]);
    let sick = free_form("h3:0-7", &cluster());
    assert!(shown(&sick.diagnostics).contains("error: h3:7 is unhealthy"));
    assert_eq!(free(&sick.value), ["", "", "0-6"]);
}

fn assert_keeps_rules(state: &ClusterState) {
    let cluster = cluster();
    for host in cluster.host_ids() {
        let mut taken = state.free[host.index()];
        assert!(taken.is_subset_of(cluster.healthy_gpus(host)));
        for job in &state.jobs {
            assert!(taken.intersection(job.placement.on(host)).is_empty());
            taken = taken.union(job.placement.on(host));
        }
    }
}

proptest! {
    #[test]
    fn the_value_keeps_the_rules_whatever_is_wrong(
        jobs in prop::collection::vec("h[0-4]:[0-9](-[0-9])?(,h[1-3]:[0-7])?", 0..5),
        free in prop::option::of("h[1-3]:[0-7](-[5-7])?"),
        unavailable in prop::option::of("h[1-3](:[0-8])?"),
    ) {
        use std::fmt::Write as _;
        let mut text = String::new();
        if let Some(free) = free { writeln!(text, "free = '{free}'").unwrap(); }
        if let Some(gone) = unavailable { writeln!(text, "unavailable = '{gone}'").unwrap(); }
        for (at, job) in jobs.iter().enumerate() {
            writeln!(text, "[[job]]\nname = 'j{at}'\nplacement = '{job}'").unwrap();
        }
        assert_keeps_rules(&read(&text, &cluster()).value);
    }
}

#[test]
fn jobs_have_instances_and_may_be_pinned() {
    let text =
        "[[job]]\nname = 'a'\nplacement = 'h1:0,2-3,5,h2:0-1'\ninstance_gpus = 2\npinned = true\n
        [[job]]\nname = 'b'\nplacement = 'h1:6-7,h2:6'\npinned = false\n";
    let jobs = read(text, &cluster()).into_result().unwrap().0.jobs;
    let instances = |at: usize| {
        let of = jobs[at].instances().map(|(host, mask)| format!("h{}:{mask}", host.0 + 1));
        of.collect::<Vec<_>>()
    };
    assert_eq!(instances(0), ["h1:0,2", "h1:3,5", "h2:0-1"]);
    assert_eq!(instances(1), ["h1:6-7", "h2:6"]);
    assert_eq!((jobs[0].pinned, jobs[1].pinned), (true, false));
}

#[test]
fn what_is_written_is_read_again() {
    let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
    let text = "unavailable = 'h3:0-1'\n
        [[job]]\nname = 'a \"quoted\" name'\nplacement = 'h1:0-3,h2:5'\ndemand = 0.25\n
        [[job]]\nname = '7'\nplacement = 'h[1-2]:6-7'\n
        [[job]]\nname = 'x'\nplacement = 'h3:4-7'\ndemand_gbytes_per_s = 40.5\ninstance_gpus = 2\npinned = true\n";
    let state = read(text, &cluster).into_result().unwrap().0;
    assert_eq!(read(&write(&state, &cluster), &cluster).into_result().unwrap().0, state);
    assert_eq!(write(&ClusterState::idle(&cluster), &cluster), "");
}
