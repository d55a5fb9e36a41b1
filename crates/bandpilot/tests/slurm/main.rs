//! `bandpilot sbatch`, `srun` and `slurm verify` on real Slurm clusters.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod large;
mod race;
mod shapes;
mod stream;
mod trouble;

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use bandpilot_core::GpuMask;
use bandpilot_manager::audit::{self, Audit, Known};
use bandpilot_testcluster::{Setup, SlurmCluster};
use serde_json::Value;

/// A cluster with the files that a site has for bandpilot.
pub struct Site {
    pub slurm: SlurmCluster,
}

impl Site {
    /// `None` if Slurm is not installed, then `test` counts as skipped.
    pub fn start(test: &str, setup: &Setup) -> Option<Self> {
        let slurm = setup.start(test)?;
        let cluster = format!(
            "name = \"test\"\n[[host_type]]\nname = \"dgx\"\ngpu_model = \"H100\"\ngpus = {}\n\
             links = \"nvswitch\"\nrails = {{ gbit_per_s = 400 }}\n\
             [[hosts]]\nnames = \"h[1-{}]\"\ntype = \"dgx\"\n",
            setup.gpus, setup.hosts
        );
        std::fs::write(slurm.path("cluster.toml"), cluster).unwrap();
        Some(Self { slurm })
    }

    /// The program, told where the cluster and the files are.
    pub fn bandpilot(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bandpilot"));
        command.args(args).current_dir(self.slurm.path("")).envs(self.slurm.env());
        command.env("BANDPILOT_CLUSTER", self.slurm.path("cluster.toml"));
        command.env("BANDPILOT_AUDIT", self.slurm.path("audit.jsonl"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs it; it has to work.
    pub fn must(&self, args: &[&str]) -> Output {
        let output = self.bandpilot(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {:?}\n{said}", output.status.code());
        output
    }

    /// Submits a job with these options and gives its id.
    pub fn sbatch(&self, words: &[&str]) -> u32 {
        let output = self.must(&[&["sbatch", "--parsable", "-o", "/dev/null"], words].concat());
        let id = String::from_utf8(output.stdout).unwrap();
        id.trim().parse().unwrap_or_else(|_| panic!("'{id}' is no job id"))
    }

    pub fn audit(&self) -> Audit {
        let text = std::fs::read_to_string(self.slurm.path("audit.jsonl")).unwrap_or_default();
        audit::read(&text).into_result().expect("a sound audit").0
    }

    /// What is known of the plan of a job.
    pub fn known(&self, job: &str) -> Known {
        let mut plans = self.audit().plans.into_iter();
        plans.find(|plan| plan.job.as_deref() == Some(job)).unwrap_or_else(|| panic!("{job}"))
    }

    /// The planned GPUs of a job, `h1:0-3 h2:5`.
    pub fn planned(&self, job: u32) -> String {
        let planned = self.known(&job.to_string()).planned.unwrap();
        let one = |gpus: &audit::HostGpus| format!("{}:{}", gpus.host, gpus.gpus);
        let all: Vec<String> = planned.gpus.iter().map(one).collect();
        all.join(" ")
    }

    /// The GPUs that a job holds with all its components, `h1:0-3 h2:5`.
    pub fn held(&self, job: u32) -> String {
        let text = self.slurm.must(&["scontrol", "show", "job", "-d", &job.to_string()]);
        let mut by_host: BTreeMap<String, GpuMask> = BTreeMap::new();
        for line in text.lines().filter(|line| line.trim_start().starts_with("Nodes=")) {
            let field = |key: &str| {
                line.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap().to_owned()
            };
            let gres = field("GRES=");
            let indexes = gres.split("(IDX:").skip(1).filter_map(|rest| rest.split_once(')'));
            let masks = indexes.map(|(list, _)| GpuMask::parse(list).unwrap());
            let mask = masks.fold(GpuMask::EMPTY, GpuMask::union);
            for host in bandpilot_readers::hostlist::expand(&field("Nodes=")).unwrap() {
                let of = by_host.entry(host).or_default();
                *of = of.union(mask);
            }
        }
        let all: Vec<String> = by_host
            .iter()
            .filter(|(_, m)| !m.is_empty())
            .map(|(h, m)| format!("{h}:{m}"))
            .collect();
        all.join(" ")
    }

    pub fn state(&self, job: u32) -> String {
        let words = ["squeue", "-h", "-t", "all", "-o", "%T", "-j"];
        let text = self.slurm.must(&[&words[..], &[&job.to_string()]].concat());
        text.lines().next().unwrap_or("").to_owned()
    }

    /// Waits until a job runs, and checks that it has what was planned.
    pub fn runs_as_planned(&self, job: u32) -> String {
        self.slurm.await_state(job, "RUNNING");
        let held = self.held(job);
        assert_eq!(sorted(&self.planned(job)), sorted(&held), "job {job}");
        held
    }

    /// Ends all jobs and waits until their GPUs are free.
    pub fn clear(&self) {
        let user = self.slurm.must(&["id", "-un"]);
        self.slurm.must(&["scancel", "-u", user.trim()]);
        self.slurm.eventually("nothing is left", || self.slurm.must(&["squeue", "-h"]).is_empty());
    }

    /// `slurm verify --json`, whatever its exit code.
    pub fn verify(&self) -> (Option<i32>, Value) {
        let output = self.bandpilot(&["slurm", "verify", "--json"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
        (output.status.code(), value)
    }
}

pub fn sorted(gpus: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = gpus.split(' ').collect();
    parts.sort_unstable();
    parts
}
