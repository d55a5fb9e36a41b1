use std::fs;

use serde_json::json;

use crate::{docs_folder, folder_with, run, run_json};

const FIT: [&str; 7] =
    ["fit", "--measurements", "store", "--cluster", "cluster.toml", "--out", "model"];

/// The examples of the documentation with their logs imported as `store`.
fn prepared() -> tempfile::TempDir {
    let folder = docs_folder();
    let args = ["measure", "import", "nccl-a1.txt", "nccl-a1-a2.txt", "--out", "store"];
    assert_eq!(run(folder.path(), &args).0, 0);
    folder
}

#[test]
fn a_fitted_model_gives_back_what_was_measured() {
    let folder = prepared();
    let (code, report) = run_json(folder.path(), &FIT);
    assert_eq!(code, 0);
    assert_eq!(report["readings_used"], 16);
    assert_eq!((&report["local_sets"], &report["cross_sets"]), (&json!(8), &json!(8)));
    assert_eq!(report["cross_validation"], json!(null));
    let args = ["dispatch", "--cluster", "cluster.toml", "--model", "model", "--gpus", "16"];
    let (_, answer) = run_json(folder.path(), &args);
    assert_eq!(answer["evidence"], "measured");
    let isolated = answer["busbw_gbytes_per_s"]["isolated"].as_f64().unwrap();
    assert!((isolated - 189.64).abs() < 1e-9, "{isolated}");
}

#[test]
fn the_same_measurements_give_the_same_model() {
    let folder = prepared();
    let path = folder.path();
    let mut texts = Vec::new();
    for _ in 0..2 {
        assert_eq!(run(path, &FIT).0, 0);
        texts.push(fs::read(path.join("model")).unwrap());
    }
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn wrong_arguments_write_no_model() {
    let folder = prepared();
    let path = folder.path();
    fs::write(path.join("other"), "hello\n").unwrap();
    fs::write(path.join("new"), "# bandpilot measurements v9\n").unwrap();
    let other_hosts = fs::read_to_string(path.join("cluster.toml")).unwrap().replace("a[", "b[");
    fs::write(path.join("b.toml"), other_hosts).unwrap();
    let line = r#"{"op":"all_reduce","bytes":8,"placement":"a1:0-3","busbw_gbytes_per_s":-1,"source":"t","line":4}"#;
    fs::write(path.join("negative"), format!("# bandpilot measurements v1\n{line}\n")).unwrap();
    for (option, value, code, part) in [
        ("--op", "all", 2, "'all' is not a collective"),
        ("--folds", "-1", 2, "error: "),
        ("--folds", "101", 2, "error: invalid value '101' for '--folds <K>'"),
        ("--measurements", "none", 5, "none: error: failed to read it"),
        ("--measurements", "other", 3, "other:1:1: error: the file is not a measurement store"),
        ("--measurements", "new", 3, "new:1:1: error: the store is of version '9'"),
        ("--measurements", "negative", 3, "negative:2: error: busbw_gbytes_per_s"),
        ("--cluster", "other", 3, "other:1:"),
        ("--cluster", "b.toml", 3, "store: error: no measurement fits: 16 of them name hosts"),
        ("--op", "alltoall", 3, "16 are of another collective"),
        ("--out", "none/model", 5, "none/model: error: failed to write it"),
    ] {
        let mut args = FIT.to_vec();
        match args.iter().position(|arg| *arg == option) {
            Some(at) => args[at + 1] = value,
            None => args.extend([option, value]),
        }
        let (found, out, err) = run(path, &args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}\n{err}");
        assert!(err.contains(part), "{args:?}\n{err}");
        assert!(!path.join("model").exists(), "{args:?}");
        let (found, answer) = run_json(path, &args);
        assert_eq!(found, code);
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

#[test]
fn readings_that_do_not_fit_the_cluster_are_counted() {
    let folder = prepared();
    let path = folder.path();
    let store = fs::read_to_string(path.join("store")).unwrap();
    fs::write(path.join("store"), store.replace("a2:0-7", "b2:0-7")).unwrap();
    let (code, out, err) = run(path, &FIT);
    assert_eq!(code, 0);
    assert!(
        err.contains("store: warning: 8 readings name hosts or GPUs that the cluster lacks"),
        "{err}"
    );
    assert!(out.contains("left out: 8 of unknown hosts or GPUs"), "{out}");
}

#[test]
fn an_old_model_stays_if_the_new_one_fails() {
    let folder = prepared();
    let path = folder.path();
    fs::write(path.join("model"), "old").unwrap();
    fs::write(path.join("store"), "torn").unwrap();
    assert_eq!(run(path, &FIT).0, 3);
    assert_eq!(fs::read_to_string(path.join("model")).unwrap(), "old");
}

#[test]
fn an_empty_store_gives_the_closed_form() {
    let folder = folder_with(&[("store", "")]);
    let example = docs_folder();
    fs::copy(example.path().join("cluster.toml"), folder.path().join("cluster.toml")).unwrap();
    let (code, report) = run_json(folder.path(), &FIT);
    assert_eq!((code, &report["readings_used"]), (0, &json!(0)));
    let args = ["dispatch", "--cluster", "cluster.toml", "--model", "model", "--gpus", "16"];
    let (_, answer) = run_json(folder.path(), &args);
    assert_eq!(answer["evidence"], "closed_form");
}

/// A store or cluster file named by mistake must not be replaced by a model.
#[test]
fn only_a_model_is_written_over() {
    let folder = prepared();
    let path = folder.path();
    for out in ["store", "cluster.toml", "state.toml"] {
        let before = fs::read(path.join(out)).unwrap();
        let mut args = FIT.to_vec();
        args[6] = out;
        let (code, shown, err) = run(path, &args);
        assert_eq!((code, shown.as_str()), (3, ""), "{out}");
        assert!(err.contains("it is there already and is no model file"), "{err}");
        assert_eq!(fs::read(path.join(out)).unwrap(), before, "{out}");
    }
    assert_eq!(run(path, &FIT).0, 0);
    assert_eq!(run(path, &FIT).0, 0);
}

#[test]
fn an_empty_store_gives_the_closed_form_and_a_warning() {
    let folder = docs_folder();
    fs::write(folder.path().join("store"), "").unwrap();
    let (code, _, err) = run(folder.path(), &FIT);
    assert_eq!(code, 0);
    assert!(err.contains("the store has no readings"), "{err}");
}
