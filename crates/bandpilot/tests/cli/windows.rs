use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{bandpilot, folder_with, run, run_json};

/// Windows of 100 s. In number 0 first-fit scatters two halves, so that a whole host is missing from 32 to 64; 1 has a single job; in 2
/// nobody waits; in 3 the second job waits on one host, and does not on two.
const TRACE: &str = "submit_s,duration_s,gpus\n0,16,8\n0,16,4\n0,64,4\n16,64,4\n32,64,8\n\
    150,10,8\n200,10,8\n210,20,4\n300,90,8\n310,10,8\n";

const ARGS: [&str; 7] = ["windows", "--trace", "t.csv", "--window", "100s", "--least-jobs", "2"];

fn study(more: &[&str]) -> (i32, Value) {
    let folder = folder_with(&[("t.csv", TRACE)]);
    run_json(folder.path(), &[&ARGS[..], more].concat())
}

#[test]
fn sizes_figures_and_wins_are_those_worked_out_by_hand() {
    let policy = ["--policy", "fifo/best-fit,fifo/first-fit,fifo/repack,fifo/counting"];
    let (code, value) = study(&policy);
    assert_eq!(code, 0);
    assert_eq!((&value["windows"], &value["few_jobs"]), (&json!(4), &json!([1])));
    assert_eq!(value["judged"], "fifo/best-fit");
    let etas = value["etas"].as_array().unwrap();
    let sizes: Vec<_> = etas
        .iter()
        .map(|of| {
            (
                of["eta"].as_f64(),
                of["no_waiting"].clone(),
                of["fewest_hosts"].as_u64(),
                of["most_hosts"].as_u64(),
            )
        })
        .collect();
    // Number 3: 16 GPUs are wanted for a tenth of the time.
    assert_eq!(
        sizes,
        [
            (Some(0.85), json!([2]), Some(1), Some(2)),
            (Some(0.9), json!([2]), Some(1), Some(2)),
            (Some(0.95), json!([2, 3]), Some(1), Some(2)),
        ]
    );
    let row = |policy: usize| {
        let keys = [
            "avg_jct_s",
            "afr",
            "agu",
            "n_sif_mean",
            "n_sif_max",
            "enl_mean",
            "head_blocked_s",
            "migrations",
            "wcc_throughout",
        ];
        keys.map(|key| etas[1]["policies"][policy][key].as_f64())
    };
    let number = |numbers: [f64; 9]| numbers.map(Some);
    // Nobody waits in number 0: AFR is 0 there, and there is no AGU.
    assert_eq!(row(0), number([67.4, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]));
    assert_eq!(row(1), number([70.6, 0.5, 0.75, 1.0, 2.0, 0.5, 16.0, 0.0, 1.0]));
    let counting = row(3);
    assert_eq!(
        (counting[0], counting[1], counting[4], counting[8]),
        (Some(67.4), None, None, None)
    );
    // Neither repack nor counting is what a policy is measured by.
    let of = &etas[1];
    let counts =
        ["windows", "compared", "afr_lowest", "afr_lowest_alone", "jct_no_worse", "jct_close"];
    assert_eq!(counts.map(|key| of[key].as_u64().unwrap()), [2, 2, 2, 1, 2, 2]);
    let expected = json!({
        "window": 0, "from_s": 0.0, "jobs": 5, "hosts": 2, "wcc_throughout": true,
        "afr": 0.0, "least_afr": 1.0, "least_afr_policy": "fifo/first-fit",
        "avg_jct_s": 44.8, "least_avg_jct_s": 51.2, "least_avg_jct_policy": "fifo/first-fit",
    });
    assert_eq!(of["matches"][0], expected);
    // The other way round it loses number 0, and one cluster of the whole trace is of one size.
    let (_, value) = study(&[
        "--policy",
        "fifo/best-fit,fifo/first-fit",
        "--judge",
        "fifo/first-fit",
        "--eta",
        "90%",
        "--size-by",
        "trace",
    ]);
    let of = &value["etas"][0];
    assert_eq!(counts.map(|key| of[key].as_u64().unwrap()), [1, 1, 0, 0, 0, 0]);
    assert_eq!((&of["fewest_hosts"], &of["most_hosts"]), (&json!(2), &json!(2)));
    assert_eq!(of["no_waiting"], json!([2, 3]));
}

#[test]
fn threads_change_nothing_and_every_seed_has_its_own_mix() {
    let mut text = "submit_s,duration_s,gpus\n".to_owned();
    for job in 0..300_u32 {
        writeln!(text, "{},{},{}", job * 7, 50 + job * 37 % 400, 1 + job * 11 % 13).unwrap();
    }
    let folder = folder_with(&[("t.csv", &text)]);
    let printed = |threads: &str, more: &[&str]| {
        let policy =
            ["--policy", "fifo/random,fifo/packed,fifo/drain", "--json", "--window", "10m"];
        let args = [&["windows", "--trace", "t.csv"], &policy[..], more].concat();
        let output =
            bandpilot(folder.path()).args(args).env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let one = printed("1", &["--mix", "20%", "--seeds", "3"]);
    assert_eq!(one, printed("8", &["--mix", "20%", "--seeds", "3"]));
    assert_ne!(one, printed("8", &["--mix", "20%", "--seeds", "4-6"]));
    assert_ne!(one, printed("8", &["--seeds", "3"]));
}

#[test]
fn files_are_kept_and_not_overwritten() {
    let folder = folder_with(&[("t.csv", TRACE)]);
    let policy = ["--policy", "fifo/first-fit,fifo/best-fit", "--out", "o", "--report", "r.html"];
    let args = [&ARGS[..], &policy].concat();
    let (code, out, err) = run(folder.path(), &args);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "trace   t.csv: 10 jobs in 4 windows of",
        "not played, as they have fewer than 2 jobs: windows 1\n",
        "eta 0.9: 2 windows in which jobs wait on 1 to 2 hosts\nleft out, as nobody waits: windows 2\n",
        "fifo/first-fit against fifo/best-fit: of 2 windows its AFR is the lowest in 1 (50.0 %), in 0 alone;",
        "written o/windows.csv, o/summary.json, o/report.html, r.html",
    ] {
        let flat = out.replace('\n', " ");
        assert!(out.contains(part) || flat.contains(part), "{part}: {out}");
    }
    let mut reader = csv::Reader::from_path(folder.path().join("o/windows.csv")).unwrap();
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let page = crate::repository().join("docs/reference/windows.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Rows of `windows.csv`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let told: Vec<&str> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(names[..told.len()], told);
    let simulated = run_json(
        folder.path(),
        &["simulate", "--trace", "t.csv", "--hosts", "2x8", "--policy", "fifo/best-fit"],
    )
    .1;
    let figures = simulated["policies"][0]["runs"][0].as_object().unwrap();
    let rest: std::collections::BTreeSet<&str> =
        names[told.len()..].iter().map(|name| &**name).collect();
    let keys: std::collections::BTreeSet<&str> =
        figures.keys().map(|key| &**key).filter(|key| *key != "seed").collect();
    assert_eq!(rest, keys);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    // Three sizes, three windows, two policies.
    assert_eq!(rows.len(), 18);
    let first: Vec<&str> = rows[0].iter().take(6).collect();
    assert_eq!(first, ["0.85", "0", "0", "2", "fifo/first-fit", "1"]);
    for name in ["o/report.html", "r.html"] {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>")).unwrap();
        assert!(page.contains("AFR of each window"));
    }
    let (code, _, err) = run(folder.path(), &args);
    assert_eq!(code, 3);
    assert!(err.contains("o/windows.csv: error: there is a file of this name"), "{err}");
    let (code, ..) = run(folder.path(), &[&args[..], &["--force"]].concat());
    assert_eq!(code, 0);
}

#[test]
fn what_cannot_be_is_told() {
    let folder = folder_with(&[
        ("t.csv", TRACE),
        ("l.csv", "submit_s,duration_s,instances,gpus_per_instance\n0,9,1,9\n1,9,1,8\n2,9,1,8\n"),
    ]);
    let told = |args: &[&str], expected: i32, part: &str| {
        let (code, _, err) = run(folder.path(), &[&["windows"], args].concat());
        assert_eq!(code, expected, "{err}");
        assert!(err.contains(part), "{part}: {err}");
    };
    let t = ["--trace", "t.csv", "--policy", "fifo/best-fit"];
    told(
        &[&t[..], &["--judge", "fifo/fgd"]].concat(),
        3,
        "--judge: error: 'fifo/fgd' is none of --policy",
    );
    told(&[&t[..], &["--eta", "90"]].concat(), 2, "--eta");
    told(&[&t[..], &["--host-gpus", "65"]].concat(), 2, "--host-gpus");
    told(&["--trace", "t.csv", "--policy", "fifo/best"], 3, "'best' is not a placement rule");
    told(&["--trace", "none.csv", "--policy", "fifo/fgd"], 5, "none.csv");
    let large = ["--trace", "l.csv", "--policy", "fifo/best-fit", "--least-jobs", "1"];
    told(&large, 6, "l.csv: warning: gpus: jobs that fit on no cluster, with some policy: 1");
}
