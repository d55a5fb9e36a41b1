use std::fmt::Write as _;

use serde_json::Value;

use crate::{bandpilot, folder_with, run, run_json};

const TRACE: &str = "job_id,submit_s,duration_s,gpus\na,0,100,8\nb,10,100,16\nc,20,50,4\n";

#[test]
fn faults_without_end_are_the_settings_fault() {
    let folder = folder_with(&[("t.csv", "submit_s,duration_s,gpus\n0,1000000,16\n")]);
    let args = ["simulate", "--trace", "t.csv", "--hosts", "2x8", "--policy", "fifo/packed"];
    let faults = ["--host-mtbf", "1m", "--checkpoint-every", "1h"];
    let (code, out, err) = run(folder.path(), &[&args[..], &faults].concat());
    assert_eq!((code, out.as_str()), (4, ""));
    assert!(err.contains("--host-mtbf: error: fifo/packed: hosts fail so often"), "{err}");
}

#[test]
fn the_reference_rows_of_a_real_trace() {
    let Some(data) = bandpilot_testdata::require_data("cli::simulate_real") else { return };
    let folder = folder_with(&[]);
    let trace = data.join("traces/philly-vc-ee9e8c-1511.csv.gz").to_string_lossy().into_owned();
    let policy = "fifo/counting,fifo-skip/counting,sjf-skip/counting,srtf/counting,easy/counting";
    let args = ["simulate", "--trace", &trace, "--hosts", "16x8", "--policy", policy];
    let (code, report) = run_json(folder.path(), &args);
    assert_eq!(
        (code, report["gpus"].as_u64(), report["bad_rows"].as_u64()),
        (0, Some(128), Some(0))
    );
    let rows: Vec<String> = report["policies"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "fifo/counting 1511 633446.48 541106.25 8187156 0",
            "fifo-skip/counting 1511 332916.15 240575.92 8184972 0",
            "sjf-skip/counting 1511 198869.57 106529.34 8335254 0",
            "srtf/counting 1511 156661.68 64321.45 8363157 981",
            "easy/counting 1511 456463.27 364123.04 7974595 0",
        ]
    );
    assert_eq!(report["policies"][3]["median_jct_s"], 33816.0);
    let (_, out, _) = run(folder.path(), &args);
    assert!(out.contains("633446.48") && out.contains("981"), "{out}");
}

fn row(policy: &Value) -> String {
    let number = |key: &str| policy[key].as_f64().unwrap();
    format!(
        "{} {} {:.2} {:.2} {} {}",
        policy["policy"].as_str().unwrap(),
        policy["jobs"],
        number("avg_jct_s"),
        number("avg_wait_s"),
        number("makespan_s"),
        policy["preemptions"]
    )
}

#[test]
fn threads_and_repetition_change_nothing_and_the_seed_does() {
    let mut text = "submit_s,duration_s,gpus\n".to_owned();
    for job in 0..200_u32 {
        writeln!(text, "{},{},{}", job * 7, 50 + job * 37 % 400, 1 + job * 11 % 13).unwrap();
    }
    let folder = folder_with(&[("t.csv", &text)]);
    let printed = |threads: &str, seed: &str| {
        let policy = "fifo/random,easy/random,srtf/random,sjf-skip/random,fifo/packed";
        let args = [
            "simulate", "--trace", "t.csv", "--hosts", "4x8", "--policy", policy, "--json",
            "--seed", seed,
        ];
        let output =
            bandpilot(folder.path()).args(args).env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let one = printed("1", "7");
    assert_eq!(one, printed("8", "7"));
    assert_ne!(one, printed("8", "8"));
}

#[test]
fn wrong_rows_and_jobs_that_are_too_large_are_told() {
    let text = format!("{TRACE}d,30,soon,1\ne,40,10,17\nf,50,10,0\n");
    let folder = folder_with(&[("t.csv", &text)]);
    let args = ["simulate", "--trace", "t.csv", "--hosts", "2x8", "--policy", "fifo/best-fit"];
    let (code, out, err) = run(folder.path(), &args);
    assert_eq!(code, 6);
    assert!(err.contains("t.csv:5: error: duration_s: 'soon' is not a number of seconds"), "{err}");
    let large = "t.csv:6: warning: gpus: 'e' asks for 17 GPUs that do not fit on the idle cluster: no policy runs it";
    assert!(err.contains(large) && err.contains("jobs without a GPU, left out: 1"), "{err}");
    assert!(out.contains("wrong rows of the trace, left out: 1"), "{out}");
    let (code, report) = run_json(folder.path(), &args);
    assert_eq!((code, report["bad_rows"].as_u64(), report["jobs"].as_u64()), (6, Some(1), Some(4)));
    assert_eq!(report["left_out"]["without_gpus"], 1);
    assert_eq!(
        (&report["policies"][0]["jobs"], &report["policies"][0]["refused"]),
        (&3.into(), &1.into())
    );
}

#[test]
fn a_cluster_file_and_stdin_do_too() {
    let folder = crate::docs_folder();
    let args = [
        "simulate",
        "--trace",
        "-",
        "--cluster",
        "cluster.toml",
        "--policy",
        "srtf/first-fit",
        "--json",
    ];
    let output = bandpilot(folder.path()).args(args).write_stdin(TRACE).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["policies"][0]["jobs"], 3);
}

#[test]
fn orders_take_their_numbers() {
    // The first job sinks, or not, after 50 s of eight GPUs; the last one has a level more than the second, which is 30 s older.
    let text = "submit_s,duration_s,gpus,priority\n0,100,8,0\n10,20,8,0\n40,20,8,1\n";
    let folder = folder_with(&[("t.csv", text)]);
    for (policy, numbers, mean_s) in [
        ("las/best-fit", &[][..], (100.0 + 110.0 + 100.0) / 3.0),
        ("las/best-fit", &["--las-thresholds", "400"], (140.0 + 60.0 + 50.0) / 3.0),
        ("two-stage/best-fit", &["--two-stage-theta", "50s"], (140.0 + 60.0 + 50.0) / 3.0),
        ("priority/best-fit", &[], (100.0 + 130.0 + 80.0) / 3.0),
        ("priority/best-fit", &["--aging", "20s"], (100.0 + 110.0 + 100.0) / 3.0),
        ("priority/best-fit", &["--aging", "never"], (100.0 + 130.0 + 80.0) / 3.0),
    ] {
        let args = ["simulate", "--trace", "t.csv", "--hosts", "1x8", "--policy", policy];
        let (code, report) = run_json(folder.path(), &[&args, numbers].concat());
        let found_s = report["policies"][0]["avg_jct_s"].as_f64();
        assert_eq!((code, found_s), (0, Some(mean_s)), "{policy} {numbers:?}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let empty = "submit_s,duration_s,gpus\n";
    let folder = folder_with(&[("t.csv", TRACE), ("empty.csv", empty), ("bad.csv", "a,b\n1,2\n")]);
    for (args, code, part) in [
        (&["t.csv", "--hosts", "2x8"][..], 2, "--policy"),
        (&["t.csv", "--policy", "fifo/counting"], 2, "--hosts"),
        (
            &["t.csv", "--hosts", "2x8", "--cluster", "c", "--policy", "fifo/counting"],
            2,
            "cannot be used",
        ),
        (
            &["t.csv", "--hosts", "2by8", "--policy", "fifo/counting"],
            3,
            "--hosts: error: '2by8' is not",
        ),
        (&["t.csv", "--hosts", "2x80", "--policy", "fifo/counting"], 3, "1 to 64 GPUs"),
        (&["t.csv", "--hosts", "2x8", "--policy", "fifo"], 3, "'fifo' is not ORDER/PLACEMENT"),
        (&["t.csv", "--hosts", "2x8", "--policy", "lifo/counting"], 3, "there are fifo, fifo-skip"),
        (&["t.csv", "--hosts", "2x8", "--policy", "fifo/x"], 3, "there are counting, first-fit"),
        (&["t.csv", "--hosts", "2x8", "--policy", "easy/packed,easy/packed"], 3, "stands twice"),
        (&["none.csv", "--hosts", "2x8", "--policy", "fifo/counting"], 5, "failed to read it"),
        (&["empty.csv", "--hosts", "2x8", "--policy", "fifo/counting"], 3, "the trace has no job"),
        (&["bad.csv", "--hosts", "2x8", "--policy", "fifo/counting"], 3, "no such column"),
        (&["t.csv", "--hosts", "2x8", "--policy", "fifo/random", "--seed", "-1"], 2, "error: "),
        (
            &["t.csv", "--hosts", "2x8", "--policy", "las/counting", "--las-thresholds", "9,8"],
            2,
            "'9,8' for '--las-thresholds <GPU_S,..>': 8 is not above 9",
        ),
    ] {
        let args = [&["simulate", "--trace"], args].concat();
        let (found, out, err) = run(folder.path(), &args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}\n{err}");
        assert!(err.contains(part), "{args:?}\n{err}");
        let (found, answer) = run_json(folder.path(), &args);
        assert_eq!(found, code);
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

#[test]
fn a_theta_that_was_chosen_is_said() {
    let folder = folder_with(&[("t.csv", TRACE)]);
    let args = ["simulate", "--trace", "t.csv", "--hosts", "2x8", "--policy"];
    let (code, _, err) = run(folder.path(), &[&args[..], &["two-stage/best-fit"]].concat());
    assert!(code == 0 && err.contains("--two-stage-theta: note: chosen by the durations"), "{err}");
    let named = ["two-stage/best-fit", "--two-stage-theta", "60"];
    assert_eq!(run(folder.path(), &[&args[..], &named].concat()).2, "");
    assert_eq!(run(folder.path(), &[&args[..], &["las/best-fit"]].concat()).2, "");
}

#[test]
fn why_a_job_fits_nowhere_is_said() {
    let rows = "job_id,submit_s,duration_s,gpus,gpus_per_instance,gpu_type\na,0,1,8,,\nb,0,1,18,9,\nc,0,1,2,,Z9\n";
    let folder = crate::docs_folder();
    std::fs::write(folder.path().join("u.csv"), rows).unwrap();
    let args = ["simulate", "--trace", "u.csv", "--cluster", "cluster.toml", "--policy"];
    let policies =
        "fifo/best-fit,easy/best-fit,srtf/best-fit,las/best-fit,sjf-skip/packed,fifo/counting";
    let (code, _, err) = run(folder.path(), &[&args[..], &[policies]].concat());
    assert_eq!(code, 6);
    let instance = "u.csv:3: warning: gpus_per_instance: 'b' asks for an instance of 9 GPUs, and the largest host has 8: not run by 5 of 6 policies: fifo/best-fit, easy/best-fit, srtf/best-fit, las/best-fit and 1 more";
    let model = "u.csv:4: warning: gpu_type: 'c' asks for GPUs of the model 'Z9', which no healthy host has: ";
    assert!(err.contains(instance) && err.contains(model), "{err}");
}

#[test]
fn a_trace_that_is_damaged_or_no_table_is_said_to_be() {
    let folder = folder_with(&[("t.csv", &TRACE.replace(',', ";"))]);
    std::fs::write(folder.path().join("d.csv.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xff\xff")
        .unwrap();
    for (trace, code, part) in [
        ("t.csv", 3, "its columns are separated by ';', not by commas"),
        ("d.csv.gz", 5, "its gzip is damaged"),
    ] {
        let args = ["simulate", "--trace", trace, "--hosts", "2x8", "--policy", "fifo/packed"];
        let (found, _, err) = run(folder.path(), &args);
        assert!(found == code && err.contains(part) && !err.contains("permissions"), "{err}");
    }
}
