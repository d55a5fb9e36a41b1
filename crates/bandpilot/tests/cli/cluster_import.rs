use std::fs;
use std::io::Write as _;

use serde_json::Value;

use crate::{bandpilot, docs_folder, folder_with, run, run_json};

const PAIR: &str = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tPIX\t0-31\nGPU1\tNV4\t X \tPIX\t0-31\nNIC0\tPIX\tPIX\t X \n";
/// Options that leave nothing open for `PAIR`.
const TOLD: [&str; 4] = ["--gpu-model", "A6000", "--nic-gbit-per-s", "100"];

fn import<'a>(files: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["cluster", "import"], files, &TOLD, more].concat()
}

#[test]
fn a_dump_becomes_a_cluster_file_that_checks() {
    let folder = folder_with(&[("h1.txt", PAIR)]);
    let path = folder.path();
    let (code, out, err) = run(path, &import(&["h1.txt"], &["--hosts", "h[1-4]"]));
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("name = \"imported\"\n"), "{out}");
    assert!(err.contains("h1.txt:1: note: --hosts: this one dump stands for 4 hosts"), "{err}");
    let args = import(&["h1.txt"], &["--hosts", "h[1-4]", "--name", "lab", "--out", "c.toml"]);
    let (code, out, _) = run(path, &args);
    assert_eq!(code, 0);
    assert_eq!(out, "c.toml: cluster 'lab': 4 hosts, 1 host type, 8 GPUs, 0 leaf switches\n");
    let (code, out, _) = run(path, &["cluster", "check", "c.toml"]);
    assert_eq!(code, 0, "{out}");
    let (code, out, _) = run(path, &["dispatch", "--gpus", "4", "--cluster", "c.toml"]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn a_file_that_is_there_is_never_overwritten_unasked() {
    let folder = folder_with(&[("h1.txt", PAIR), ("c.toml", "mine\n")]);
    let path = folder.path();
    let (code, out, err) = run(path, &import(&["h1.txt"], &["--out", "c.toml"]));
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("c.toml: error: --out: the file is there already"), "{err}");
    assert_eq!(fs::read_to_string(path.join("c.toml")).unwrap(), "mine\n");
    let (code, _, err) = run(path, &import(&["h1.txt"], &["--out", "c.toml", "--force"]));
    assert_eq!(code, 0, "{err}");
    assert!(fs::read_to_string(path.join("c.toml")).unwrap().contains("NV4"));
    let (code, _, err) = run(path, &import(&["h1.txt"], &["--out", "none/c.toml"]));
    assert_eq!(code, 5, "{err}");
    let left: Vec<_> = fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_is_refused_writes_nothing_unless_told_to_go_on() {
    let cut = PAIR.split_inclusive('\n').next().unwrap();
    let folder = folder_with(&[("notes.txt", "hello\n")]);
    let path = folder.path();
    fs::create_dir(path.join("dumps")).unwrap();
    for (name, text) in [("h1.txt", PAIR), ("h2.txt", PAIR), ("h3.txt", cut), (".hidden", "x")] {
        fs::write(path.join("dumps").join(name), text).unwrap();
    }
    let (code, out, err) = run(path, &import(&["dumps"], &["--out", "c.toml"]));
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("dumps/h3.txt:1: error: the header has no row below it"), "{err}");
    assert!(
        err.ends_with(
            "bandpilot: note: nothing was written; --keep-going leaves out what is refused\n"
        ),
        "{err}"
    );
    assert!(!path.join("c.toml").exists());
    let (code, out, err) = run(path, &import(&["dumps"], &["--keep-going"]));
    assert_eq!(code, 6, "{err}");
    assert!(out.contains("names = \"h[1-2]\""), "{out}");
    let (code, json) = run_json(path, &import(&["dumps"], &[]));
    assert_eq!((code, json["error"]["file"].as_str()), (3, Some("dumps/h3.txt")));
    let (code, _, err) = run(path, &import(&["notes.txt"], &["--keep-going"]));
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("notes.txt: error: it is of no kind that is read here"), "{err}");
    let (code, _, err) = run(path, &import(&["none.txt"], &[]));
    assert_eq!(code, 5, "{err}");
    fs::create_dir(path.join("empty")).unwrap();
    let (code, _, err) = run(path, &import(&["empty"], &[]));
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("empty: error: failed to read it: the folder has no file"), "{err}");
}

#[test]
fn wrong_options_are_named() {
    let folder = folder_with(&[("h1.txt", PAIR)]);
    for (args, part) in [
        (vec!["--hosts", "h[2-1]"], "bandpilot:1:3: error: --hosts: range '2-1' runs backwards"),
        (vec!["--hosts", "h1,h1"], "error: --hosts: a host stands twice in it"),
        (vec!["--nic-gbit-per-s", "0"], "error: --nic-gbit-per-s: is not a rate above 0"),
        (vec!["--nic-gbit-per-s", "nan"], "error: --nic-gbit-per-s: is not a rate above 0"),
        (vec!["--gpu-model", " "], "error: --gpu-model: is empty"),
        (
            vec!["--nics", "mlx5_7", "--nic-gbit-per-s", "9"],
            "error: --nics: the dump has no NIC 'mlx5_7'",
        ),
        (vec![], "error: gpu_model: nothing tells the GPU model"),
    ] {
        let all = [&["cluster", "import", "h1.txt"][..], &args].concat();
        let (code, out, err) = run(folder.path(), &all);
        assert_eq!((code, out.as_str()), (3, ""), "{args:?} {err}");
        assert!(err.contains(part), "{part}\n{err}");
    }
    for args in [vec!["--force"], vec!["--rails", "--nics", "a"], vec!["--nic-gbit-per-s", "x"]] {
        let (code, _, _) =
            run(folder.path(), &[&["cluster", "import", "h1.txt"][..], &args].concat());
        assert_eq!(code, 2, "{args:?}");
    }
}

#[test]
fn stdin_with_the_names_of_the_hosts_in_front() {
    let lines = PAIR.lines().map(|line| format!("g1: {line}\ng2: {line}\n"));
    let text = lines.collect::<Vec<_>>().concat();
    let folder = folder_with(&[]);
    let output =
        bandpilot(folder.path()).args(import(&["-"], &[])).write_stdin(text).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(out.contains("names = \"g[1-2]\""), "{out}");
}

#[test]
fn the_real_leaf_map_with_one_dump_for_all() {
    let Some(data) = bandpilot_testdata::require_data("cli::the_real_leaf_map") else { return };
    let map = data.join("traces/nodes/lingjun-2023-topo-847-hosts.csv.gz");
    let folder = docs_folder();
    let args = [
        "cluster",
        "import",
        "topo-a1.txt",
        map.to_str().unwrap(),
        "--hosts",
        "lj-[000-846]",
        "--gpu-model",
        "A100",
        "--nic-gbit-per-s",
        "200",
        "--out",
        "lingjun.toml",
    ];
    let (code, json) = run_json(folder.path(), &args);
    assert_eq!(code, 0, "{json}");
    assert_eq!((json["hosts"].as_u64(), json["leaves"].as_u64()), (Some(847), Some(48)));
    assert_eq!(json["files"][1]["kind"], "leaf map");
    assert_eq!(json["host_types"][0]["links"], "nvswitch");
    let (code, out, _) = run(folder.path(), &["cluster", "check", "lingjun.toml"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("847 hosts, 6776 GPUs"), "{out}");
}

#[test]
fn damaged_gzip_is_said() {
    let folder = folder_with(&[("h1.txt", PAIR)]);
    let mut packed = fs::File::create(folder.path().join("map.csv.gz")).unwrap();
    packed.write_all(&[0x1f, 0x8b, 8, 0, 1, 2, 3]).unwrap();
    drop(packed);
    let (code, out, err) = run(folder.path(), &import(&["h1.txt", "map.csv.gz"], &[]));
    assert_eq!((code, out.as_str()), (5, ""));
    assert!(err.contains("map.csv.gz: error: failed to read it"), "{err}");
}

#[test]
fn two_runs_give_the_same_bytes() {
    let folder = docs_folder();
    let args = ["cluster", "import", "dumps", "topology.conf", "--nic-gbit-per-s", "400"];
    let first = run(folder.path(), &args);
    assert_eq!(first, run(folder.path(), &args));
    let (_, json) = run_json(folder.path(), &args);
    assert_eq!(json["out"], Value::Null);
    assert_eq!(json["cluster_file"].as_str(), Some(first.1.as_str()));
}
