//! `bandpilot slurm doctor` on real clusters, good ones and bad ones.

use bandpilot_testcluster::{Gres, Setup, SlurmCluster};
use serde_json::Value;

use crate::slurm::CLUSTER;
use crate::{bandpilot, folder_with, run_json};

/// The exit code and all checks of a cluster.
fn examined(slurm: &SlurmCluster, folder: &std::path::Path, options: &[&str]) -> (i32, Value) {
    let mut command = bandpilot(folder);
    let command = command.envs(slurm.env()).args(["slurm", "doctor", "--json"]).args(options);
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}"));
    (output.status.code().unwrap(), value)
}

fn check<'v>(value: &'v Value, id: &str) -> (&'v str, &'v str) {
    let checks = value["checks"].as_array().unwrap();
    let one = checks.iter().find(|check| check["id"] == id).unwrap();
    (one["state"].as_str().unwrap(), one["found"].as_str().unwrap())
}

fn errors(value: &Value) -> Vec<&str> {
    let checks = value["checks"].as_array().unwrap().iter();
    checks.filter(|c| c["state"] == "error").map(|c| c["id"].as_str().unwrap()).collect()
}

#[test]
fn a_good_cluster_has_no_errors() {
    let test = "a_good_cluster_has_no_errors";
    let Some(slurm) = SlurmCluster::start(test, 4, 8) else { return };
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let options = ["--cluster", "c.toml", "--record", "r.jsonl"];
    let (code, value) = examined(&slurm, folder.path(), &options);
    assert_eq!((code, errors(&value)), (0, vec![]), "{value:#}");
    for id in [
        "answers",
        "version",
        "commands",
        "clock",
        "select-type",
        "memory-default",
        "gres-types",
        "gpu-types",
        "gpu-types-alike",
        "auto-detect",
        "device-order",
        "min-job-age",
        "scheduler",
        "het-jobs",
        "partitions",
        "cluster-hosts",
        "cluster-gpus",
    ] {
        assert_eq!(check(&value, id).0, "ok", "{id} {value:#}");
    }
    // The GPUs of these clusters are all /dev/null.
    assert!(check(&value, "devices").1.contains("has the minor number 3"), "{value:#}");
    for id in ["constrain-devices", "proctrack", "task-plugin", "accounting"] {
        assert_eq!(check(&value, id).0, "warning", "{id} {value:#}");
    }
    drop(slurm);
    let replay = ["slurm", "doctor", "--cluster", "c.toml", "--replay", "r.jsonl"];
    let (code, replayed) = run_json(folder.path(), &replay);
    assert_eq!(code, 0);
    assert_eq!(check(&replayed, "gpu-types"), check(&value, "gpu-types"));
    assert_eq!(check(&replayed, "devices").0, "unknown");
}

#[test]
fn each_fault_of_a_bad_cluster_is_named() {
    let test = "each_fault_of_a_bad_cluster_is_named";
    let conf =
        "SelectType=select/cons_res\nSchedulerType=sched/builtin\nDefMemPerCPU=0\nMinJobAge=5\n";
    let setup = Setup {
        gres: Gres::Counted,
        conf: conf.to_owned(),
        partitions: Some(
            "PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE".to_owned(),
        ),
        ..Setup::new(1, 8)
    };
    let Some(slurm) = setup.start(test) else { return };
    // A regular file in the place of a device.
    let device = slurm.path("dev/nvidia5");
    std::fs::remove_file(&device).unwrap();
    std::fs::write(&device, "").unwrap();
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let (code, value) = examined(&slurm, folder.path(), &["--cluster", "c.toml"]);
    assert_eq!(code, 6, "{value:#}");
    assert_eq!(errors(&value), ["select-type", "gpu-types", "devices", "scheduler"], "{value:#}");
    assert!(check(&value, "devices").1.contains("nvidia5: is a regular file"), "{value:#}");
    assert!(check(&value, "gpu-types").1.starts_with("h1: GPUs have no type"), "{value:#}");
    for (id, words) in [
        ("memory-default", "in all a job without --mem takes all memory"),
        ("min-job-age", "after 5 s"),
        ("partitions", "all gives whole hosts only"),
        ("cluster-hosts", "h[2-4] have no GPUs in Slurm"),
    ] {
        let (state, found) = check(&value, id);
        assert!(state == "warning" && found.contains(words), "{id} {value:#}");
    }
}

#[test]
fn without_slurm_it_says_so() {
    let folder = folder_with(&[("e.jsonl", "{\"format\":\"bandpilot-exchange\",\"version\":1}\n")]);
    let (code, value) = run_json(folder.path(), &["slurm", "doctor", "--replay", "e.jsonl"]);
    assert_eq!(code, 6);
    assert_eq!(errors(&value), ["answers", "commands"]);
    assert_eq!(check(&value, "gpu-types").0, "unknown");
}
