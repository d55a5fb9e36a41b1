use std::fs;

use serde_json::{Value, json};

use crate::{folder_with, run, run_json};

/// The report without what depends on the machine.
fn without_times(mut report: Value) -> Value {
    for mode in report["modes"].as_object_mut().unwrap().values_mut() {
        for policy in mode.as_object_mut().unwrap().values_mut() {
            let policy = policy.as_object_mut().unwrap();
            policy.remove("dispatch_us_p50");
            policy.remove("dispatch_us_p99");
        }
    }
    report
}

#[test]
fn a_synthetic_truth_needs_no_data_and_repeats_itself() {
    let folder = folder_with(&[]);
    for cluster in ["h100-32", "het-4mix"] {
        let args = ["evaluate", "--cluster", cluster, "--repeats", "2", "--seed", "7"];
        let (code, first) = run_json(folder.path(), &args);
        assert_eq!(code, 0);
        assert!(first["truth"].as_str().unwrap().starts_with("synthetic"), "{first}");
        let (_, again) = run_json(folder.path(), &args);
        assert_eq!(without_times(first.clone()), without_times(again));
        for mode in ["idle", "intensive", "common"] {
            let of_mode = &first["modes"][mode];
            let score = |policy: &str| of_mode[policy]["mean"].as_f64().unwrap();
            for policy in ["bandpilot", "balanced", "topo", "default", "random"] {
                assert!((0.0..=100.0 + 1e-9).contains(&score(policy)), "{cluster} {mode} {policy}");
            }
            assert!(score("bandpilot") > score("random"), "{cluster} {mode}");
        }
    }
}

#[test]
fn the_published_tables_are_found_in_the_folder_or_below_it() {
    let Some(data) = bandpilot_testdata::require_data("cli::evaluate_real") else { return };
    let folder = folder_with(&[]);
    let mut reports = Vec::new();
    for at in [data.clone(), data.join("nccl-bandpilot")] {
        let at = at.to_string_lossy().into_owned();
        let args = ["evaluate", "--cluster", "h100-32", "--data", &at, "--repeats", "4"];
        let (code, report) = run_json(folder.path(), &args);
        assert_eq!(code, 0);
        assert!(report["truth"].as_str().unwrap().starts_with("measured"));
        reports.push(without_times(report));
    }
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0]["modes"]["idle"]["bandpilot"]["mean"].as_f64().unwrap() > 99.0);
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = folder_with(&[]);
    for (args, code, part) in [
        (&["--cluster", "h200"][..], 2, "invalid value 'h200' for '--cluster <CLUSTER>'"),
        (&["--cluster", "h100-32", "--repeats", "0"], 2, "invalid value '0' for '--repeats <R>'"),
        (&["--cluster", "h100-32", "--repeats", "1e9"], 2, "invalid value"),
        (&["--cluster", "h100-32", "--train", "-1"], 2, "error: "),
        (&["--cluster", "h100-32", "--seed", "x"], 2, "invalid value 'x' for '--seed <S>'"),
        (&["--cluster", "h100-32", "--data", "none"], 5, "failed to read it"),
        (&[], 2, "--cluster <CLUSTER>"),
    ] {
        let args = [&["evaluate"], args].concat();
        let (found, out, err) = run(folder.path(), &args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}\n{err}");
        assert!(err.contains(part), "{args:?}\n{err}");
        let (found, answer) = run_json(folder.path(), &args);
        assert_eq!(found, code);
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

#[test]
fn tables_that_are_wrong_or_not_complete_are_refused() {
    let header = "row,message_bytes,n0,n1,gpus_h0,gpus_h1,busbw_GBps\n";
    for (text, part) in [
        ("hello\n", "cross_H100_32gpu.csv: "),
        (&format!("{header}1,2147483648,1,1,0,0,47\n"), "host_H100_26.csv"),
    ] {
        let folder = folder_with(&[("cross_H100_32gpu.csv", text)]);
        let args = ["evaluate", "--cluster", "h100-32", "--data", "."];
        let (code, out, err) = run(folder.path(), &args);
        assert!(matches!(code, 3 | 5) && out.is_empty(), "{code} {out}\n{err}");
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn no_training_vector_is_the_closed_form_alone() {
    let Some(data) = bandpilot_testdata::require_data("cli::evaluate_untrained") else { return };
    let folder = folder_with(&[]);
    let data = data.to_string_lossy().into_owned();
    let args = ["evaluate", "--cluster", "het-4mix", "--data", &data, "--repeats", "1"];
    let (code, report) = run_json(folder.path(), &[&args[..], &["--train", "0"]].concat());
    assert_eq!((code, &report["train"]), (0, &json!(0)));
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "evaluate wrote a file");
}
