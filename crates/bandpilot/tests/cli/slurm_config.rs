//! `bandpilot slurm config`: its files, and a real cluster that is started with them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use bandpilot_testcluster::{Gres, Setup, SlurmCluster};

use crate::slurm::CLUSTER;
use crate::{folder_with, refused, run, run_json};

const SLURM: &str = "NodeName=h[1-4] Gres=gpu:h100:8 CPUs=32\n";

#[test]
fn files_are_written_once() {
    let folder = folder_with(&[("c.toml", CLUSTER), ("slurm.conf", SLURM)]);
    let path = folder.path();
    let args = ["slurm", "config", "--slurm-conf", "slurm.conf", "--cluster", "c.toml"];
    let out = [&args[..], &["--out", "new"]].concat();
    let (code, said, err) = run(path, &out);
    assert_eq!(code, 0, "{err}");
    assert!(said.contains("new/gres.conf: 10 lines"), "{said}");
    let read = |name: &str| std::fs::read_to_string(path.join("new").join(name)).unwrap();
    let line = "NodeName=h[1-4] CPUs=32 Feature=h100 Gres=gpu:g0:1,gpu:g1:1,gpu:g2:1";
    assert!(read("slurm.conf.fragment").contains(line));
    assert!(!path.join("new/topology.conf").exists());
    let (said, _) = refused(path, &out, 3);
    assert!(said.contains("new/slurm.conf.fragment: error: --out: the file is there"), "{said}");
    std::fs::write(path.join("new/gres.conf"), "x").unwrap();
    assert_eq!(run(path, &[&out[..], &["--force"]].concat()).0, 0);
    assert!(read("gres.conf").contains("Type=g7 File=/dev/nvidia7\n"));
    let (code, shown, _) = run(path, &args);
    assert_eq!(code, 0);
    assert!(shown.contains(&read("gres.conf")), "{shown}");
    for words in ["h[1-4] (H100): g0=0 g1=1", "--gres=gpu:h100:4", "instead: --gres=gpu:4;"] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let bad = "NodeName=h[1-4] Gres=gpu:8\nNodeName=h2 Gres=gpu:8\n";
    let gres = "NodeName=h[1-4] Name=gpu File=/dev/nvidia[0-3]\n";
    let files =
        [("c.toml", CLUSTER), ("slurm.conf", SLURM), ("bad.conf", bad), ("gres.conf", gres)];
    let folder = folder_with(&files);
    let path = folder.path();
    let (said, _) = refused(path, &["slurm", "config", "--slurm-conf", "bad.conf"], 3);
    assert!(said.contains("bad.conf:2: error: NodeName: h2 stands on line 1 already"), "{said}");
    let args = ["slurm", "config", "--slurm-conf", "slurm.conf", "--gres-conf", "gres.conf"];
    let (said, _) = refused(path, &args, 3);
    assert!(said.contains("slurm.conf:1: error: Gres: h1: 8 GPUs are declared"), "{said}");
    refused(path, &["slurm", "config"], 2);
    refused(path, &["slurm", "config", "--slurm-conf", "none"], 5);
    let prefix = ["slurm", "config", "--cluster", "c.toml", "--type-prefix", "8"];
    assert!(refused(path, &prefix, 3).0.contains("--type-prefix: error"));
}

/// Starts a cluster anew with what `slurm config` makes of its own files.
fn converted(slurm: &mut SlurmCluster, gres: &str, options: &[&str]) -> serde_json::Value {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let conf = read(&slurm.path("slurm.conf"));
    let folder = folder_with(&[("slurm.conf", &conf), ("gres.conf", gres)]);
    let args = ["slurm", "config", "--slurm-conf", "slurm.conf", "--gres-conf", "gres.conf"];
    let (code, made) = run_json(folder.path(), &[&args[..], options].concat());
    assert_eq!(code, 0, "{made}");
    let text = |at: usize| made["files"][at]["text"].as_str().unwrap();
    let fragment = text(0);
    let key = |line: &str| line.split('=').next().unwrap_or("").to_ascii_lowercase();
    let keys: BTreeSet<String> = fragment.lines().map(key).collect();
    let kept = conf.lines().filter(|line| !keys.contains(&key(line)));
    let whole = kept.collect::<Vec<_>>().join("\n") + "\n" + fragment;
    slurm.configure(&whole, text(1));
    made
}

/// What a job sees and what slurmctld says it has.
fn devices(slurm: &SlurmCluster, options: &[&str]) -> (String, String) {
    let mut argv = vec!["timeout", "60", "srun", "-N1", "-t", "5"];
    argv.extend(options);
    let script = "echo $CUDA_VISIBLE_DEVICES; scontrol show job -d $SLURM_JOB_ID | grep -o 'GRES=.*' | tail -1";
    argv.extend(["bash", "-c", script]);
    let said = slurm.must(&argv);
    let mut lines = said.lines().map(ToOwned::to_owned);
    (lines.next().unwrap(), lines.next().unwrap_or_default())
}

#[test]
fn a_counted_cluster_gets_nameable_gpus() {
    let test = "a_counted_cluster_gets_nameable_gpus";
    let setup = Setup { gres: Gres::Counted, ..Setup::new(2, 4) };
    let Some(mut slurm) = setup.start(test) else { return };
    let gres = std::fs::read_to_string(slurm.path("gres.conf")).unwrap();
    let made = converted(&mut slurm, &gres, &[]);
    assert_eq!(made["groups"][0]["types"].as_array().unwrap().len(), 4);
    let (seen, told) = devices(&slurm, &["-w", "h2", "--gres=gpu:g1:1,gpu:g3:1"]);
    assert_eq!(seen, "1,3");
    assert!(told.contains("gpu:g1:1(IDX:1),gpu:g3:1(IDX:3)"), "{told}");
    // What the page says of those who do not name GPUs.
    for options in ["--gres=gpu:4", "--gpus=4", "--gpus-per-node=4"] {
        assert_eq!(devices(&slurm, &[options]).0, "0,1,2,3", "{options}");
    }
    assert_eq!(devices(&slurm, &["--exclusive", "--gpus=4"]).0, "0,1,2,3");
    let refused = |options: &[&str]| {
        let argv = [&["timeout", "60", "srun", "-N1"], options, &["true"]].concat();
        let output = slurm.run(&argv);
        assert!(!output.status.success(), "{options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--exclusive", "--gres=gpu:4"]);
    assert!(said.contains("Invalid generic resource (gres) specification"), "{said}");
    let said = refused(&["--gres=gpu:h100:1"]);
    assert!(said.contains("Requested node configuration is not available"), "{said}");
    let said = refused(&["--gres=gpu:g0:1,gpu:1"]);
    assert!(said.contains("with and without type identification"), "{said}");
    // Its feature takes the place of the type.
    assert_eq!(devices(&slurm, &["--gres=gpu:1", "-C", "h100"]).0, "0");
}

#[test]
fn islands_are_given_exactly() {
    let test = "islands_are_given_exactly";
    let setup = Setup { gres: Gres::Counted, ..Setup::new(1, 4) };
    let Some(mut slurm) = setup.start(test) else { return };
    let mut gres = String::new();
    for (gpu, links) in ["-1,4,0,0", "4,-1,0,0", "0,0,-1,4", "0,0,4,-1"].iter().enumerate() {
        let file = slurm.path(&format!("dev/nvidia{gpu}")).display().to_string();
        writeln!(gres, "Name=gpu File={file} Links={links}").unwrap();
    }
    let options = ["--granularity", "island", "--type-prefix", "pair"];
    let made = converted(&mut slurm, &gres, &options);
    let types = &made["groups"][0]["types"];
    assert_eq!(types[1]["gpus"], serde_json::json!([2, 3]), "{types}");
    let (seen, told) = devices(&slurm, &["--gres=gpu:pair1:2"]);
    assert_eq!(seen, "2,3");
    assert!(told.contains("gpu:pair1:2(IDX:2-3)"), "{told}");
    assert_eq!(devices(&slurm, &["--gres=gpu:pair0:2"]).0, "0,1");
}
