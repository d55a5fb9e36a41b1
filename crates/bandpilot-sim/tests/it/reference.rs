//! Figures of other simulators on public traces, to the printed digit.

use std::io::Read as _;

use bandpilot_readers::trace_file::{self, Trace};
use bandpilot_sim::Metrics;

use crate::{finishes, hosts, run};

pub(crate) fn load(test: &str, file: &str) -> Option<Trace> {
    let data = bandpilot_testdata::require_data(test)?;
    let packed = std::fs::File::open(data.join("traces").join(file)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let read = trace_file::read(&text);
    assert_eq!(read.diagnostics, []);
    Some(read.value)
}

/// Mean JCT, median JCT, mean wait, makespan and preemptions as they are printed; `-` for what a reference does not say.
pub(crate) fn digits(metrics: &Metrics, median: bool) -> String {
    let Metrics { avg_jct_s, median_jct_s, avg_wait_s, makespan_s, preemptions, .. } = metrics;
    let median = if median { median_jct_s.to_string() } else { "-".to_owned() };
    format!("{avg_jct_s:.2} {median} {avg_wait_s:.2} {makespan_s} {preemptions}")
}

#[test]
fn one_virtual_cluster_on_128_gpus() {
    let Some(trace) = load("reference::one_virtual_cluster", "philly-vc-ee9e8c-1511.csv.gz") else {
        return;
    };
    let hosts = hosts(&[8; 16]);
    // Agreed upon by the Tiresias simulator, AccaSim (fifo) and a counting model of twenty lines; sjf and easy by the latter.
    for (policy, median, expected) in [
        ("fifo/counting", true, "633446.48 732911 541106.25 8187156 0"),
        ("fifo-skip/counting", true, "332916.15 136771 240575.92 8184972 0"),
        ("sjf-skip/counting", false, "198869.57 - 106529.34 8335254 0"),
        ("srtf/counting", true, "156661.68 33816 64321.45 8363157 981"),
        ("easy/counting", false, "456463.27 - 364123.04 7974595 0"),
        // The consolidated ("yarn") placement of the Tiresias simulator.
        ("fifo/first-fit", true, "716636.19 825930 624295.96 8353550 0"),
    ] {
        let (_, metrics) = run(&hosts, &trace, policy);
        assert_eq!(digits(&metrics, median), expected, "{policy}");
        assert_eq!((metrics.jobs, metrics.refused), (1511, 0));
        let counts = policy.ends_with("counting");
        assert_eq!(metrics.head_blocked_s == 0.0, counts, "{policy}: a total that fits is used");
    }
}

#[test]
fn the_whole_trace_on_512_gpus() {
    let Some(trace) = load("reference::the_whole_trace", "philly-2017-82k.csv.gz") else { return };
    let (_, metrics) = run(&hosts(&[8; 64]), &trace, "fifo/counting");
    assert_eq!(metrics.jobs, 82_247);
    assert_eq!(format!("{:.2} {}", metrics.avg_jct_s, metrics.makespan_s), "488906.38 9408754");
}

#[test]
fn concrete_gpus_on_the_virtual_cluster() {
    let Some(trace) = load("reference::concrete_gpus", "philly-vc-ee9e8c-1511.csv.gz") else {
        return;
    };
    let hosts = hosts(&[8; 16]);
    for order in ["fifo", "fifo-skip", "sjf-strict", "sjf-skip", "srtf", "easy", "las", "two-stage"]
    {
        let (counting, _) = run(&hosts, &trace, &format!("{order}/counting"));
        let (compact, _) = run(&hosts, &trace, &format!("{order}/compact"));
        assert!(finishes(&counting) == finishes(&compact), "{order}");
        let (best, _) = run(&hosts, &trace, &format!("{order}/best-fit"));
        let (packed, _) = run(&hosts, &trace, &format!("{order}/packed"));
        assert!(finishes(&best) == finishes(&packed), "{order}");
    }
    for placement in ["first-fit", "best-fit", "random"] {
        let (_, metrics) = run(&hosts, &trace, &format!("fifo/{placement}"));
        assert!(metrics.avg_jct_s > 633_446.48 && metrics.head_blocked_s > 0.0, "{placement}");
    }
}
