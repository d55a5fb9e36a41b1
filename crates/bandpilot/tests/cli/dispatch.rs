use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::{docs_folder, folder_with, run, run_json, table};

pub const H100: &str = r#"name = "h100-32"
[[host_type]]
name = "h100"
gpu_model = "H100"
gpus = 8
links = "nvswitch"
rails = { gbit_per_s = 400 }
[[hosts]]
names = "h[1-4]"
type = "h100"
"#;
const TWO_HOLES: &str = "h1:0-6,h2:0-7,h3:0-7,h4:0-6";

/// Counts by host of the chosen set, largest first.
pub fn counts(answer: &Value) -> Vec<usize> {
    let placement = answer["placement"].as_object().unwrap();
    let mut counts: Vec<usize> =
        placement.values().map(|gpus| gpus.as_array().unwrap().len()).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

pub fn near(value: &Value, expected: f64, share: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() <= share, "{value}, not {expected}");
}

fn most_compact(answer: &Value) -> &Value {
    let all = answer["alternatives"].as_array().unwrap();
    all.iter().find(|set| set["kind"] == "most_compact").unwrap()
}

/// Imports tables under the given host names and fits a model; the folder has `store`, `cluster` and `model`.
fn fitted(
    cluster: &str,
    tables: &[(&str, &str)],
    data: &Path,
    extra: &[&str],
) -> tempfile::TempDir {
    let folder = folder_with(&[("cluster", cluster)]);
    let path = folder.path();
    for (name, hosts) in tables {
        let file = table(data, name).to_string_lossy().into_owned();
        let args = ["measure", "import", &file, "--out", "store", "--hosts", hosts];
        let (code, _, err) = run(path, &[&args, extra].concat());
        assert_eq!((code, err.contains("error")), (0, false), "{err}");
    }
    let args = ["fit", "--measurements", "store", "--cluster", "cluster", "--out", "model"];
    let (code, _, err) = run(path, &[&args[..], &["--folds", "0"]].concat());
    assert_eq!(code, 0, "{err}");
    folder
}

/// The model of the published H100 tables, made once.
static FITTED_H100: LazyLock<Option<tempfile::TempDir>> = LazyLock::new(|| {
    let data = bandpilot_testdata::data_dir()?;
    let tables = [
        ("cross_H100_32gpu.csv", "h[1-4]"),
        ("host_H100_26.csv", "H100_26=h1"),
        ("host_H100_27.csv", "H100_27=h2"),
        ("host_H100_28.csv", "H100_28=h3"),
        ("host_H100_29.csv", "H100_29=h4"),
    ];
    Some(fitted(H100, &tables, &data, &[]))
});

fn fitted_h100(test: &str) -> Option<&'static Path> {
    bandpilot_testdata::require_data(test)?;
    FITTED_H100.as_ref().map(tempfile::TempDir::path)
}

#[test]
fn nine_gpus_are_split_five_and_four_by_the_built_in_model() {
    let folder = folder_with(&[]);
    let (code, answer) = run_json(folder.path(), &["dispatch", "--free", TWO_HOLES, "--gpus", "9"]);
    assert_eq!((code, counts(&answer)), (0, vec![5, 4]));
    near(&answer["busbw_gbytes_per_s"]["isolated"], 342.1, 0.04);
    assert_eq!(answer["evidence"], "closed_form");
    assert_eq!(answer["gap"], 0.0);
}

#[test]
fn nine_gpus_are_worth_what_was_measured_by_a_fitted_model() {
    let Some(path) = fitted_h100("cli::nine_gpus_fitted") else { return };
    let args = ["dispatch", "--cluster", "cluster", "--model", "model"];
    let (code, answer) =
        run_json(path, &[&args[..], &["--free", TWO_HOLES, "--gpus", "9"]].concat());
    assert_eq!((code, counts(&answer)), (0, vec![5, 4]));
    near(&answer["busbw_gbytes_per_s"]["isolated"], 342.1, 0.01);
    near(&most_compact(&answer)["isolated_gbytes_per_s"], 78.8, 0.01);
    assert_eq!(answer["evidence"], "measured");
}

#[test]
fn the_message_size_changes_the_choice() {
    let Some(path) = fitted_h100("cli::message_size") else { return };
    let chosen = |bytes: &str| {
        let args = ["dispatch", "--cluster", "cluster", "--model", "model", "--gpus", "12"];
        let (code, answer) = run_json(path, &[&args[..], &["--bytes", bytes]].concat());
        assert_eq!(code, 0);
        (counts(&answer), answer["busbw_gbytes_per_s"]["isolated"].clone())
    };
    let (large, value) = chosen("2GiB");
    assert_eq!(large, [6, 6]);
    near(&value, 440.2, 0.01);
    let (small, value) = chosen("16MiB");
    assert_eq!(small, [8, 4]);
    near(&value, 141.3, 0.01);
}

/// The mixed cluster with the links of the published `topo_*.csv` files.
fn mixed_cluster(data: &Path) -> String {
    let mut text = "name = \"het-4mix\"\n".to_owned();
    let models = ["4090", "V100", "A6000", "A800"];
    for model in models {
        let links = fs::read_to_string(table(data, &format!("topo_{model}.csv"))).unwrap();
        let rows = links.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').skip(1).collect();
            cells.join(" ")
        });
        let rows = rows.collect::<Vec<_>>().join("\n");
        write!(
            text,
            "[[host_type]]\nname = \"{model}\"\ngpu_model = \"{model}\"\ngpus = 8\nlinks = \"\"\"\n{rows}\n\"\"\"\nrails = {{ gbit_per_s = 400 }}\n"
        )
        .unwrap();
    }
    for model in models {
        write!(text, "[[hosts]]\nnames = \"{model}\"\ntype = \"{model}\"\n").unwrap();
    }
    text
}

#[test]
fn twelve_gpus_of_four_unlike_hosts() {
    let Some(data) = bandpilot_testdata::require_data("cli::twelve_of_unlike_hosts") else {
        return;
    };
    let tables = ["4090", "V100", "A6000", "A800"].map(|host| (format!("host_{host}.csv"), host));
    let tables: Vec<(&str, &str)> =
        tables.iter().map(|(file, host)| (file.as_str(), *host)).collect();
    let folder = fitted(&mixed_cluster(&data), &tables, &data, &["--bytes", "unknown"]);
    let args = ["dispatch", "--cluster", "cluster", "--model", "model", "--gpus", "12"];
    let free = ["--free", "4090:0-7,V100:0-6,A6000:0-6,A800:0-7"];
    let (code, answer) = run_json(folder.path(), &[&args[..], &free].concat());
    assert_eq!(code, 0);
    let placement = answer["placement"].as_object().unwrap();
    let hosts: Vec<(&str, usize)> = placement
        .iter()
        .map(|(host, gpus)| (host.as_str(), gpus.as_array().unwrap().len()))
        .collect();
    assert_eq!(hosts, [("A800", 8), ("V100", 4)]);
    let isolated = answer["busbw_gbytes_per_s"]["isolated"].as_f64().unwrap();
    assert!((74.0..75.0).contains(&isolated), "{isolated}");
    assert!(answer["bottleneck"].as_str().unwrap().contains("V100"), "{answer}");
}

/// Requests that no set of the example cluster (24 GPUs free: 8, 8, 4, 4) meets, and the option that binds.
const IMPOSSIBLE: [(&[&str], &str); 15] = [
    (&["--gpus", "0"], "--gpus"),
    (&["--gpus", "25"], "--gpus"),
    (&["--gpus", "18446744073709551615"], "--gpus"),
    (&["--gpus", "1", "--gpu-model", "A100"], "--gpu-model"),
    (&["--gpus", "9", "--include", "h1"], "--include"),
    (&["--gpus", "17", "--exclude", "h1"], "--exclude"),
    (&["--gpus", "1", "--include", "h1", "--exclude", "h1"], "--exclude"),
    (&["--gpus", "12", "--hosts", "1"], "--hosts"),
    (&["--gpus", "3", "--hosts", "4"], "--hosts"),
    (&["--gpus", "3", "--hosts", "18446744073709551615"], "--hosts"),
    (&["--gpus", "17", "--max-hosts", "2"], "--max-hosts"),
    (&["--gpus", "11", "--uniform"], "--uniform"),
    (&["--gpus", "18", "--uniform", "--hosts", "3"], "--uniform"),
    (&["--gpus", "12", "--min-busbw", "500"], "--min-busbw"),
    (&["--gpus", "1", "--min-busbw", "1e308"], "--min-busbw"),
];

#[test]
fn a_request_that_cannot_be_met_names_the_option_that_binds() {
    let folder = folder_with(&[]);
    for (extra, option) in IMPOSSIBLE {
        let args = [&["dispatch"], extra].concat();
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!((code, out.as_str()), (4, ""), "{args:?}");
        assert!(err.starts_with(&format!("bandpilot: error: {option}: ")), "{args:?}\n{err}");
        assert!(err.contains("\n  help: possible: "), "{args:?}\n{err}");
        let (code, answer) = run_json(folder.path(), &args);
        assert_eq!(code, 4);
        assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"]);
        let error = &answer["error"];
        assert_eq!((&error["kind"], &error["field"]), (&json!("impossible"), &json!(option)));
    }
}

#[test]
fn odd_numbers_are_refused_in_words() {
    let folder = folder_with(&[]);
    for extra in [
        &["--gpus", "-1"][..],
        &["--gpus", "NaN"],
        &["--gpus", "1.5"],
        &["--gpus", "18446744073709551616"],
        &["--gpus", "8", "--hosts", "-1"],
        &["--gpus", "8", "--deadline-ms", "-1"],
        &["--gpus", "8", "--min-busbw", "NaN"],
        &["--gpus", "8", "--min-busbw", "-1"],
        &["--gpus", "8", "--min-busbw", "inf"],
        &["--gpus", "8", "--bytes", "0"],
        &["--gpus", "8", "--bytes", "-1"],
        &["--gpus", "8", "--bytes", "NaN"],
        &["--gpus", "8", "--bytes", "1024TiB"],
        &["--gpus", "8", "--free", "h1", "--state", "s"],
        &[],
    ] {
        let args = [&["dispatch"], extra].concat();
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains("error: ") && !err.contains("panicked"), "{args:?}\n{err}");
        let (code, answer) = run_json(folder.path(), &args);
        assert_eq!((code, &answer["error"]["kind"]), (2, &json!("usage")), "{args:?}");
    }
}

#[test]
fn extreme_but_sound_requests_are_met() {
    let folder = folder_with(&[]);
    for extra in [
        &["--gpus", "24"][..],
        &["--gpus", "12", "--bytes", "1"],
        &["--gpus", "12", "--bytes", "1023TiB"],
        &["--gpus", "12", "--min-busbw", "0"],
        &["--gpus", "12", "--max-hosts", "18446744073709551615"],
        &["--gpus", "12", "--deadline-ms", "18446744073709551615"],
    ] {
        let (code, answer) = run_json(folder.path(), &[&["dispatch"], extra].concat());
        assert_eq!(code, 0, "{extra:?}\n{answer}");
        let busbw = &answer["busbw_gbytes_per_s"];
        let value = |key: &str| busbw[key].as_f64().unwrap();
        assert!(value("low") <= value("effective") && value("effective") <= value("high"));
        assert!(value("effective") <= value("isolated"), "{answer}");
        assert!(value("effective") <= answer["upper_bound_gbytes_per_s"].as_f64().unwrap());
    }
}

#[test]
fn constraints_are_kept() {
    let folder = folder_with(&[]);
    let chosen = |extra: &[&str]| {
        let (code, answer) = run_json(folder.path(), &[&["dispatch"], extra].concat());
        assert_eq!(code, 0, "{extra:?}\n{answer}");
        answer
    };
    assert_eq!(counts(&chosen(&["--gpus", "16", "--uniform", "--hosts", "4"])), [4, 4, 4, 4]);
    assert_eq!(counts(&chosen(&["--gpus", "9", "--uniform"])), [3, 3, 3]);
    assert_eq!(counts(&chosen(&["--gpus", "16", "--max-hosts", "2"])), [8, 8]);
    let only = chosen(&["--gpus", "6", "--include", "h3,h4", "--exclude", "h3:0"]);
    assert_eq!(counts(&only), [3, 3]);
    assert_eq!(only["placement"]["h3"], json!([1, 2, 3]));
    let sure = chosen(&["--gpus", "12", "--min-busbw", "300", "--gpu-model", "h100"]);
    assert!(sure["busbw_gbytes_per_s"]["low"].as_f64().unwrap() >= 300.0);
}

#[test]
fn torchrun_lines_need_equal_counts() {
    let folder = folder_with(&[]);
    let (_, even) = run_json(folder.path(), &["dispatch", "--gpus", "12", "--uniform"]);
    assert_eq!(even["launch"]["torchrun"].as_object().unwrap().len(), 2);
    let (_, uneven) = run_json(folder.path(), &["dispatch", "--gpus", "9", "--free", TWO_HOLES]);
    assert_eq!(uneven["launch"]["torchrun"], json!({}));
    assert_eq!(uneven["launch"]["ranks"].as_array().unwrap().len(), 9);
}

#[test]
fn a_single_gpu_exchanges_nothing() {
    let folder = folder_with(&[]);
    let (code, answer) = run_json(folder.path(), &["dispatch", "--gpus", "1"]);
    assert_eq!((code, counts(&answer)), (0, vec![1]));
    assert_eq!(answer["busbw_gbytes_per_s"]["effective"], 0.0);
    assert!(answer["bottleneck"].as_str().unwrap().starts_with("none"));
    let (_, out, _) = run(folder.path(), &["dispatch", "--gpus", "1"]);
    assert!(out.contains("  rank 0: h3, GPU 0, NIC nic0\n"), "{out}");
}

#[test]
fn a_deadline_that_has_passed_still_gives_a_set() {
    let folder = folder_with(&[("c", &many_hosts())]);
    let args =
        ["dispatch", "--gpus", "100", "--cluster", "c", "--state", "s", "--deadline-ms", "0"];
    fs::write(folder.path().join("s"), many_jobs()).unwrap();
    let (code, answer) = run_json(folder.path(), &args);
    assert_eq!((code, counts(&answer).iter().sum::<usize>()), (0, 100));
    let gap = answer["gap"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&gap), "{gap}");
}

/// 64 hosts with different numbers of free GPUs.
pub fn many_hosts() -> String {
    H100.replace("h[1-4]", "h[1-64]")
}

pub fn many_jobs() -> String {
    let mut text = String::new();
    for host in (1..64).step_by(2) {
        let first = host % 7 + 1;
        let next = host + 1;
        writeln!(text, "[[job]]\nname = \"j{host}\"\nplacement = \"h[{host}-{next}]:{first}-7\"")
            .unwrap();
    }
    text
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = docs_folder();
    fs::write(folder.path().join("c"), many_hosts()).unwrap();
    fs::write(folder.path().join("s"), many_jobs()).unwrap();
    for args in [
        &["dispatch", "--gpus", "12", "--json"][..],
        &["dispatch", "--gpus", "37", "--cluster", "c", "--state", "s", "--json"],
        &[
            "dispatch",
            "--gpus",
            "20",
            "--cluster",
            "cluster.toml",
            "--state",
            "state.toml",
            "--json",
        ],
    ] {
        let first = run(folder.path(), args);
        assert_eq!(first.0, 0, "{args:?}");
        for _ in 0..3 {
            assert_eq!(run(folder.path(), args), first, "{args:?}");
        }
    }
}

#[test]
fn running_jobs_are_spared_and_their_losses_told() {
    let folder = docs_folder();
    let base = ["dispatch", "--cluster", "cluster.toml", "--state", "state.toml", "--gpus"];
    let (_, small) = run_json(folder.path(), &[&base[..], &["12"]].concat());
    assert_eq!(small["harm"], json!([]));
    let (_, large) = run_json(folder.path(), &[&base[..], &["20"]].concat());
    let harm = &large["harm"][0];
    assert_eq!(harm["job"], "train-a");
    assert!(harm["after_gbytes_per_s"].as_f64() < harm["before_gbytes_per_s"].as_f64());
    let busbw = &large["busbw_gbytes_per_s"];
    assert!(busbw["effective"].as_f64() < busbw["isolated"].as_f64());
    assert!(large["bottleneck"].as_str().unwrap().contains("train-a"));
}

/// What is wrong with each of three files, and where.
fn bad_files() -> [(&'static str, String, u64, &'static str); 10] {
    let model = "{\n  \"format\": \"bandpilot-model\",\n  \"version\": 2,\n";
    [
        ("--cluster", H100.replace("gpus = 8", "gpus = 80"), 5, "host_type.gpus"),
        ("--cluster", H100.replace("type = \"h100\"\n", "type = \"h10\"\n"), 10, "hosts.type"),
        ("--cluster", "name = [\n".to_owned(), 1, ""),
        (
            "--state",
            "[[job]]\nname = \"a\"\nplacement = \"h9\"\n".to_owned(),
            3,
            "job.placement: h9",
        ),
        (
            "--state",
            "free = \"h1\"\n[[job]]\nname = \"a\"\nplacement = \"h1\"\n".to_owned(),
            1,
            "free",
        ),
        (
            "--state",
            "[[job]]\nname = \"a\"\nplacement = \"h1\"\ndemand = nan\n".to_owned(),
            4,
            "job.demand",
        ),
        ("--model", format!("{model}  \"colour\": 1\n}}\n"), 4, "colour"),
        ("--model", format!("{model}  \"description\": 1\n}}\n"), 4, "description"),
        ("--model", "{\"format\": \"bandpilot-model\"}\n".to_owned(), 1, "version"),
        ("--model", "hello\n".to_owned(), 1, ""),
    ]
}

#[test]
fn bad_files_are_named_with_line_and_field() {
    for (option, text, line, field) in bad_files() {
        let folder = folder_with(&[("good", H100), ("bad", &text)]);
        let args = if option == "--cluster" {
            vec!["dispatch", "--gpus", "8", "--cluster", "bad"]
        } else {
            vec!["dispatch", "--gpus", "8", "--cluster", "good", option, "bad"]
        };
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!((code, out.as_str()), (3, ""), "{args:?}");
        assert!(err.starts_with(&format!("bad:{line}:")), "{text}\n{err}");
        let (code, answer) = run_json(folder.path(), &args);
        let error = &answer["error"];
        assert_eq!((code, error["file"].as_str()), (3, Some("bad")));
        assert_eq!(error["line"].as_u64(), Some(line), "{text}\n{error}");
        assert_eq!(error["field"].as_str().unwrap_or(""), field, "{text}\n{error}");
        assert_eq!(error["kind"], "bad_input");
    }
}

#[test]
fn files_that_are_not_there_are_5() {
    let folder = folder_with(&[]);
    for option in ["--cluster", "--model", "--state"] {
        let (code, answer) = run_json(folder.path(), &["dispatch", "--gpus", "8", option, "none"]);
        assert_eq!((code, &answer["error"]["file"]), (5, &json!("none")), "{option}");
    }
}

#[test]
fn a_model_of_another_cluster_is_said_to_be() {
    let folder = docs_folder();
    let path = folder.path();
    let imported =
        run(path, &["measure", "import", "nccl-a1.txt", "nccl-a1-a2.txt", "--out", "store"]);
    assert_eq!(imported.0, 0);
    let args = ["fit", "--measurements", "store", "--cluster", "cluster.toml", "--out", "model"];
    assert_eq!(run(path, &args).0, 0);
    let (code, _, err) = run(path, &["dispatch", "--gpus", "8", "--model", "model"]);
    assert_eq!(code, 0);
    assert!(err.contains("model: warning: "), "{err}");
    assert!(err.contains("dgx-a100"), "{err}");
}

#[test]
fn notations_are_refused_where_they_are_wrong() {
    let folder = folder_with(&[]);
    for (option, text, part) in [
        ("--free", "h1:0-9", "--free:1:"),
        ("--free", "", "--free:1:1: error: a host name is missing"),
        ("--include", "h9", "--include:1:1: error: h9: host 'h9' is not in cluster"),
        ("--exclude", "h1:1-0", "--exclude:1:"),
    ] {
        let (code, out, err) = run(folder.path(), &["dispatch", "--gpus", "1", option, text]);
        assert_eq!((code, out.as_str()), (3, ""), "{option} {text}");
        assert!(err.starts_with(part), "{option} {text}\n{err}");
    }
}

#[test]
fn a_cluster_can_come_from_stdin() {
    let folder = folder_with(&[]);
    let args = ["dispatch", "--gpus", "8", "--cluster", "-", "--json"];
    let output = crate::bandpilot(folder.path()).args(args).write_stdin(H100).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["placement"].as_object().unwrap().len(), 1);
}

#[test]
fn launch_lines_name_the_gpus_that_were_chosen() {
    let folder = folder_with(&[]);
    let (_, answer) = run_json(folder.path(), &["dispatch", "--gpus", "12"]);
    let launch = &answer["launch"];
    assert_eq!(launch["hostfile"], "h1 slots=6\nh2 slots=6\n");
    let variables = launch["environment"]["h1"].as_str().unwrap();
    assert!(variables.ends_with("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5"), "{variables}");
    let ranks: Vec<u64> = launch["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| rank["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(ranks, (0..12).collect::<Vec<_>>());
}

#[test]
fn a_host_without_a_nic_is_said_to_have_none() {
    let folder = crate::folder_with(&[(
        "c.toml",
        "name = 'n'\n[[host_type]]\nname = 'g'\ngpu_model = 'A100'\ngpus = 4\nlinks = 'nvswitch'\n[[hosts]]\nnames = 'g[1-2]'\ntype = 'g'\n",
    )]);
    let args = ["dispatch", "--cluster", "c.toml", "--gpus", "8"];
    let (code, out, err) = run(folder.path(), &args);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("has no usable NIC: 10 Gbit/s Ethernet is assumed"), "{out}");
}
