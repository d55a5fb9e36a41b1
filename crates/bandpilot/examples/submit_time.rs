//! What planning adds to a submit, on a real Slurm of 64 hosts of 8 GPUs with 300 jobs.
//!
//! `cargo run --release -p bandpilot --example submit_time -- BANDPILOT [HOSTS [JOBS]]` with the program. Times are of whole
//! processes, one after the other: `sbatch` with GPUs named by hand, and `bandpilot sbatch`, in turn.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::Command;
use std::time::Instant;

use bandpilot_testcluster::{Setup, SlurmCluster};

const ROUNDS: usize = 40;

fn main() {
    let mut args = std::env::args().skip(1);
    let bandpilot = std::fs::canonicalize(args.next().expect("BANDPILOT")).unwrap();
    let hosts: u16 = args.next().map_or(64, |hosts| hosts.parse().expect("HOSTS"));
    let jobs: usize = args.next().map_or(300, |jobs| jobs.parse().expect("JOBS"));
    let slurm = Setup::new(hosts, 8).start("submit_time").expect("Slurm is installed");
    let cluster = format!(
        "name = \"test\"\n[[host_type]]\nname = \"dgx\"\ngpu_model = \"H100\"\ngpus = 8\nlinks = \"nvswitch\"\n\
         rails = {{ gbit_per_s = 400 }}\n[[hosts]]\nnames = \"h[1-{hosts}]\"\ntype = \"dgx\"\n"
    );
    std::fs::write(slurm.path("cluster.toml"), cluster).unwrap();
    // One GPU each, host after host; a tenth of the GPUs stays free.
    for job in 0..jobs {
        let (host, gpu) = (job % usize::from(hosts) + 1, job / usize::from(hosts));
        let (host, gres) = (format!("h{host}"), format!("--gres=gpu:g{gpu}:1"));
        slurm.submit(&["-w", &host, &gres, "-t", "60", "--mem=10"]);
    }
    let name = bandpilot.display().to_string();
    let (mut stock, mut planned) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let host = format!("h{}", round % usize::from(hosts) + 1);
        stock.push(timed(&slurm, &["sbatch", "-w", &host, "--gres=gpu:g7:1"]));
        planned.push(timed(&slurm, &[&name, "sbatch", "--gpus=1"]));
    }
    let (stock, planned) = (sorted(stock), sorted(planned));
    let at = |times: &[f64], share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    println!("{hosts} hosts of 8 GPUs, {jobs} jobs and more, {ROUNDS} submits each; ms");
    println!("| | median | 95th percentile |");
    println!("|---|---|---|");
    for (name, times) in [("sbatch", &stock), ("bandpilot sbatch", &planned)] {
        println!("| {name} | {:.0} | {:.0} |", at(times, 0.5), at(times, 0.95));
    }
    let added = at(&planned, 0.5) - at(&stock, 0.5);
    println!("| added | {added:.0} | {:.0} |", at(&planned, 0.95) - at(&stock, 0.95));
}

/// Milliseconds of a submit.
fn timed(slurm: &SlurmCluster, words: &[&str]) -> f64 {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["-o", "/dev/null", "-D", "/", "-t", "30", "--mem=10"]);
    command.args(["--wrap", "sleep 600"]).envs(slurm.env());
    command.env("BANDPILOT_CLUSTER", slurm.path("cluster.toml"));
    command.env("BANDPILOT_AUDIT", slurm.path("audit.jsonl"));
    let start = Instant::now();
    let output = command.output().unwrap();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ms
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}
