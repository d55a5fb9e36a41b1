//! `bandpilot sbatch` and `srun` as programs see them, on a real Slurm cluster.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use bandpilot_testcluster::SlurmCluster;
use serde_json::{Value, json};

use crate::json_reference::compare;
use crate::slurm::CLUSTER;
use crate::{bandpilot, folder_with, run};

/// A cluster of two hosts with a folder of files for it.
struct Site {
    slurm: SlurmCluster,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        let slurm = SlurmCluster::start(test, 2, 8)?;
        let cluster = CLUSTER.to_owned() + "leef = 1\n";
        Some(Self { slurm, folder: folder_with(&[("c.toml", &cluster)]) })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Exit code, stdout and stderr; the last word is the command of a batch job.
    fn run(&self, words: &str, command: &str) -> (i32, String, String) {
        let mut program = bandpilot(self.path());
        program.args(words.split(' ')).args(["-o", "/dev/null", "--wrap", command]);
        program.envs(self.slurm.env());
        let output = program
            .env("BANDPILOT_CLUSTER", "c.toml")
            .env("BANDPILOT_AUDIT", "audit.jsonl")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn json(&self, words: &str) -> Value {
        let (code, out, err) = self.run(&format!("{words} --json"), "sleep 600");
        assert_eq!((code, err.as_str()), (0, ""), "{words}: {out}");
        serde_json::from_str(&out).unwrap()
    }
}

/// Values in which tasks of arrays stand as plans of their own, of which they have all keys.
fn with_tasks_apart(values: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::new();
    for mut value in values {
        let mut tasks = value["tasks"].take();
        for task in tasks.as_array_mut().unwrap() {
            let index = task.as_object_mut().unwrap().remove("index").unwrap();
            all.push(std::mem::replace(task, json!({"index": index})));
        }
        value["tasks"] = tasks;
        all.push(value);
    }
    all
}

#[test]
fn every_key_of_the_json_is_documented() {
    let Some(site) = Site::start("cli::every_key_of_the_json_is_documented") else { return };
    let mut values = vec![
        site.json("sbatch --dry-run --explain --compare stock --gpus=4 --exclude=h2"),
        // Slurm itself knows no such type any more.
        site.json("sbatch --dry-run --compare stock --gpus=h100:4"),
        site.json("sbatch --gpus=10 -t 10"),
    ];
    let job = values[2]["job"].as_str().unwrap().to_owned();
    site.slurm.await_state(job.parse().unwrap(), "RUNNING");
    // The six GPUs that are left are on both hosts, beside that job.
    values.push(site.json("sbatch --dry-run --gpus=4"));
    values.push(site.json("sbatch --dry-run --array=0-9 --gpus=2 -t 5"));
    values.push(site.json("sbatch --gpus=16"));
    values.push(site.json("sbatch --dry-run --gpus=1"));
    let waits = &values[5];
    assert_eq!(waits["after_jobs"], json!([job.parse::<u32>().unwrap()]));
    assert_eq!(waits["state"]["state"], "waits");
    compare("sbatch.md", "JSON", &with_tasks_apart(values));
    let untouched = [site.json("sbatch --dry-run"), site.json("sbatch -n1")];
    assert_eq!(untouched[1]["code"], 0);
    compare("sbatch.md", "JSON of a job that is not planned", &untouched);
}

#[test]
fn wait_ends_with_the_job_and_has_its_exit_code() {
    let Some(site) = Site::start("cli::wait_ends_with_the_job_and_has_its_exit_code") else {
        return;
    };
    // An uneven set: two components.
    let (code, out, err) = site.run("sbatch --wait --gpus=9 -n9", "exit 3");
    assert_eq!((code, out.as_str()), (3, "Submitted batch job 1\n"), "{err}");
    assert!(err.contains("h1:0-4,h2:0-3") && err.contains(", is over"), "{err}");
    let (code, out, err) = site.run("sbatch -W -Q --array=1-2 --gpus=1", "true");
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let audit = fs::read_to_string(site.path().join("audit.jsonl")).unwrap();
    assert!(!audit.contains("\"failed\""), "{audit}");
    assert!(site.slurm.must(&["squeue", "-h"]).is_empty());
}

#[test]
fn a_slurm_that_goes_away_leaves_the_id() {
    let Some(mut site) = Site::start("cli::a_slurm_that_goes_away_leaves_the_id") else { return };
    let words = "sbatch --wait --timeout-s 10 --gpus=1 -o /dev/null --wrap";
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_bandpilot"));
    program.args(words.split(' ')).arg("sleep 600").current_dir(site.path()).envs(site.slurm.env());
    program.env("BANDPILOT_CLUSTER", "c.toml").env("BANDPILOT_AUDIT", "audit.jsonl");
    let submit = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let audit = site.path().join("audit.jsonl");
    site.slurm.eventually("the job is seen with its GPUs", || {
        fs::read_to_string(&audit).unwrap_or_default().contains(r#""what":"fact""#)
    });
    site.slurm.kill("slurmctld");
    let output = submit.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert_eq!(output.stdout, b"Submitted batch job 1\n", "{said}");
    assert!(said.ends_with("note: job 1 was submitted, and is left as it is\n"), "{said}");
    // Its jobs are ended with the cluster.
    site.slurm.restart("slurmctld");
}

#[test]
fn an_array_is_not_planned_anew() {
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let words = "sbatch --cluster c.toml --replan 5 --array=0-3 --gpus=2 --wrap true";
    let words: Vec<&str> = words.split(' ').collect();
    let (code, out, err) = run(folder.path(), &words);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("--replan: error: an array is not planned anew"), "{err}");
}

#[test]
fn srun_has_no_json() {
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let Some(slurm) = SlurmCluster::start("cli::srun_has_no_json", 1, 8) else { return };
    let mut program = bandpilot(folder.path());
    program.args(["srun", "--json", "--cluster", "c.toml", "--gpus=1", "true"]).envs(slurm.env());
    let output = program.output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["error"]["file"]), (Some(2), &json!("--json")));
}
