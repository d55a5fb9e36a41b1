//! `bandpilot slurm`: from a recording, and on a real cluster.

use bandpilot_testcluster::SlurmCluster;

use crate::{bandpilot, folder_with, refused, run, run_json};

pub const RECORDING: &str =
    include_str!("../../../bandpilot-slurm/tests/recordings/slurm-22.05.jsonl");

/// The cluster that was recorded, and a host that it has not.
pub const CLUSTER: &str = r#"name = "test"
[[host_type]]
name = "dgx"
gpu_model = "H100"
gpus = 8
links = "nvswitch"
rails = { gbit_per_s = 400 }
[[hosts]]
names = "h[1-4]"
type = "dgx"
"#;

const STATE: &str = r#"unavailable = "h3:0-7,h4:0-7"

[[job]]
name = "1"
placement = "h2:3,6"

[[job]]
name = "2"
placement = "h1:0-1,h2:0-1"

[[job]]
name = "3"
placement = "h1:5,h2:7"
"#;

#[test]
fn a_recording_becomes_a_state_that_dispatch_reads() {
    let folder = folder_with(&[("s.jsonl", RECORDING), ("c.toml", CLUSTER)]);
    let path = folder.path();
    let args = ["slurm", "state", "--replay", "s.jsonl", "--cluster", "c.toml", "--out", "s.toml"];
    let (code, out, err) = run(path, &args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read_to_string(path.join("s.toml")).unwrap(), STATE);
    assert!(err.contains("h3 is not free: DRAIN, fan is loud"), "{err}");
    assert!(err.contains("Slurm does not know h4"), "{err}");
    for line in [
        "Slurm 22.05.8 at 2026-",
        " 3 hosts, 24 GPUs, 8 in use",
        "0-1 by 2, 3,6 by 1, 7 by 3+1",
        "idle+drain (fan is loud)",
        "6_[1-3]",
        "written: s.toml",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let dispatch = ["dispatch", "--cluster", "c.toml", "--state", "s.toml", "--gpus", "8"];
    let (code, answer) = run_json(path, &dispatch);
    assert_eq!(code, 0, "{answer}");
    let hosts: Vec<&String> = answer["placement"].as_object().unwrap().keys().collect();
    assert_eq!(hosts, ["h1", "h2"]);
    assert_eq!(run_json(path, &args), run_json(path, &args));
}

#[test]
fn what_is_wrong_is_refused() {
    let cut: String = RECORDING.split_inclusive('\n').take(2).collect();
    let sick = RECORDING.replace("gpu:g2:1", "gpu:g2:x");
    let files =
        [("cut.jsonl", cut.as_str()), ("c.toml", CLUSTER), ("sick.jsonl", &sick), ("x", "x\n")];
    let folder = folder_with(&files);
    let path = folder.path();
    let state = |more: &[&'static str]| [&["slurm", "state"], more].concat();
    let (said, _) = refused(path, &state(&["--replay", "x"]), 3);
    assert!(said.contains("x:1: error: is not a line of JSON"), "{said}");
    let (said, _) = refused(path, &state(&["--replay", "cut.jsonl"]), 3);
    assert!(said.contains("the recording has no further answer to it"), "{said}");
    refused(path, &state(&["--replay", "none"]), 5);
    refused(path, &state(&["--cluster", "c.toml"]), 2);
    let out = ["--replay", "sick.jsonl", "--cluster", "c.toml", "--out", "s.toml"];
    let (code, _, said) = run(path, &state(&out));
    assert_eq!(code, 6);
    assert!(said.contains("sinfo --json: error: nodes[0].gres: h1: 'gpu:g2:x"), "{said}");
    // Hosts whose GPUs are not known have nothing to give.
    let written = std::fs::read_to_string(path.join("s.toml")).unwrap();
    assert!(
        written.starts_with("unavailable = \"h1:2-4,6-7,h2:2,4-5,h3:0-7,h4:0-7\""),
        "{written}"
    );
}

#[test]
fn a_real_cluster_is_shown_recorded_and_replayed() {
    let test = "a_real_cluster_is_shown_recorded_and_replayed";
    let Some(slurm) = SlurmCluster::start(test, 2, 8) else { return };
    let job = slurm.submit(&["-w", "h2", "--gres=gpu:g3:1,gpu:g6:1"]);
    slurm.await_state(job, "RUNNING");
    let folder = folder_with(&[("c.toml", CLUSTER)]);
    let ask = |args: &[&str]| {
        let mut command = bandpilot(folder.path());
        let command = command.envs(slurm.env()).args(["slurm", "state"]).args(args);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let files = ["--cluster", "c.toml", "--out", "s.toml"];
    let seen = ask(&[&files[..], &["--record", "r.jsonl"]].concat());
    assert_eq!(seen.0, Some(0), "{}", seen.1);
    assert!(seen.1.contains(&format!("3,6 by {job}")), "{}", seen.1);
    let written = std::fs::read_to_string(folder.path().join("s.toml")).unwrap();
    assert!(written.contains("placement = \"h2:3,6\""), "{written}");
    drop(slurm);
    let (code, out, _) =
        run(folder.path(), &[&["slurm", "state", "--replay", "r.jsonl"], &files[..]].concat());
    assert_eq!((Some(code), out), seen);
}
