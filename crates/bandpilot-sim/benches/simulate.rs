//! Time of whole runs on one core.
//!
//! `cargo bench -p bandpilot-sim` prints a table; times are processor time of the thread, so that a loaded machine does not
//! show. Rows of real traces are left out where the data is missing.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

use std::fmt::Write as _;
use std::io::Read as _;

use bandpilot_core::ClusterBuilder;
use bandpilot_model::{BandwidthModel, Predictor};
use bandpilot_readers::trace_file;
use bandpilot_sim::{Hosts, Metrics, Network, Options, Policy, Setting, Workload, simulate};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use rustix::time::{ClockId, clock_gettime};

fn thread_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn real(file: &str) -> Option<String> {
    let path = bandpilot_testdata::data_dir()?.join("traces").join(file);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).ok()?).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The same trace, all jobs with this communication share.
fn with_comm_share(text: &str, share: f64) -> String {
    let mut lines = text.lines();
    let mut with = format!("{},comm_share\n", lines.next().unwrap_or_default());
    for line in lines {
        writeln!(with, "{line},{share}").unwrap();
    }
    with
}

/// Jobs of 1 to 64 GPUs that ask for 95 % of 10,000 GPUs.
fn synthetic(jobs: usize) -> String {
    const GPUS: [u32; 12] = [1, 1, 1, 1, 1, 2, 2, 4, 8, 8, 16, 64];
    let mean_gpu_s = 9.083 * 3_650.0;
    let between_s = mean_gpu_s / (0.95 * 10_000.0);
    let mut rng = Pcg64::seed_from_u64(1);
    let mut text = "submit_s,duration_s,gpus\n".to_owned();
    let mut now_s = 0.0;
    for _ in 0..jobs {
        now_s += rng.random_range(0.0..2.0 * between_s);
        let gpus = GPUS[rng.random_range(0..GPUS.len())];
        let duration_s = rng.random_range(100..7_200);
        writeln!(text, "{now_s:.0},{duration_s},{gpus}").unwrap();
    }
    text
}

#[expect(clippy::print_stdout, reason = "a table for people")]
fn row(name: &str, text: &str, hosts: usize, policy: &str) {
    let builder = ClusterBuilder::new("bench").host_type("host", "H100", 8).nvswitch().rails(400.0);
    let cluster = builder.hosts("h", 1, hosts).build();
    let hosts_of = Hosts::new(&cluster).unwrap();
    let start_s = thread_s();
    let read = trace_file::read(text).value;
    let read_s = thread_s() - start_s;
    let workload = Workload::new(&read, &hosts_of);
    drop(read);
    let policy = Policy::parse(policy).unwrap();
    let options = Options::default();
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, &cluster, 2 << 30);
    let setting = Setting::new(&hosts_of, &workload, &options, 1);
    let setting = setting.with_network(Network::new(&predictor));
    // The least of several runs of what is short.
    let mut least_s = f64::INFINITY;
    let mut spent_s = 0.0;
    for _ in 0..5 {
        if spent_s > 1.0 {
            break;
        }
        let start_s = thread_s();
        let outcome = simulate(&setting, policy).unwrap();
        let metrics = Metrics::new(&workload, &outcome);
        let run_s = thread_s() - start_s;
        least_s = least_s.min(run_s);
        spent_s += run_s;
        assert_eq!(metrics.refused, 0);
    }
    println!(
        "| {name} | {hosts} x 8 | {policy} | {} | {:.1} | {:.1} |",
        workload.len(),
        read_s * 1e3,
        least_s * 1e3,
    );
}

#[expect(clippy::print_stdout, reason = "a table for people")]
fn main() {
    // `cargo test --benches` only wants to see that it runs.
    let small = std::env::args().any(|argument| argument == "--test");
    println!("{} bytes a job by the sizes of the types", Metrics::BYTES_PER_JOB);
    println!("| trace | hosts | policy | jobs | reading ms | run ms |");
    println!("|---|---|---|---:|---:|---:|");
    if small {
        return row("synthetic", &synthetic(1_000), 1_250, "fifo/best-fit");
    }
    if let Some(text) = real("philly-vc-ee9e8c-1511.csv.gz") {
        for policy in [
            "fifo/counting",
            "srtf/counting",
            "easy/counting",
            "srtf/best-fit",
            "las/counting",
            "las/best-fit",
            "two-stage/counting",
            "priority/counting",
        ] {
            row("philly-vc-ee9e8c", &text, 16, policy);
        }
    }
    if let Some(text) = real("philly-2017-82k.csv.gz") {
        for policy in [
            "fifo/counting",
            "fifo-skip/counting",
            "sjf-skip/best-fit",
            "srtf/counting",
            "easy/best-fit",
            "fifo/random",
            "las/counting",
            "las/best-fit",
            "two-stage/counting",
            "priority/counting",
        ] {
            row("philly-2017", &text, 64, policy);
        }
        let exchanging = with_comm_share(&text, 0.3);
        for policy in ["fifo/bandpilot", "fifo/bandpilot-whole"] {
            row("philly-2017", &text, 64, policy);
            row("philly-2017, comm share 0.3", &exchanging, 64, policy);
        }
    }
    let text = synthetic(1_000_000);
    for policy in ["fifo/best-fit", "fifo-skip/best-fit", "easy/best-fit"] {
        row("synthetic", &text, 1_250, policy);
    }
}
