//! What `simulate` keeps: folder, files, interruption, seeds, report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::{bandpilot, folder_with, refused, run, run_json};

const RESULTS: [&str; 6] =
    ["simulate.json", "jobs.csv", "jobs.parquet", "series.csv", "summary.json", "report.html"];

/// A trace of so many jobs, many of which wait at once.
fn trace(jobs: u32) -> String {
    let mut text = "job_id,submit_s,duration_s,gpus,tenant\n".to_owned();
    for job in 0..jobs {
        let (submit_s, duration_s) = (job * 5, 40 + job * 37 % 900);
        writeln!(text, "j{job},{submit_s},{duration_s},{},t{}", 1 + job * 11 % 13, job % 3)
            .unwrap();
    }
    text
}

fn results(folder: &Path) -> Vec<Vec<u8>> {
    RESULTS.iter().map(|name| fs::read(folder.join(name)).unwrap()).collect()
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_goes_on_where_it_was() {
    let text = trace(6_000);
    let (whole, broken) = (folder_with(&[("t.csv", &text)]), folder_with(&[("t.csv", &text)]));
    let policies = "fifo/counting,srtf/best-fit,srtf/packed,srtf/random,srtf/first-fit";
    let args = ["simulate", "--trace", "t.csv", "--hosts", "4x8", "--policy", policies];
    let args = [&args[..], &["--seeds", "2", "--out", "o"]].concat();

    let mut child = Command::new(assert_cmd::cargo::cargo_bin("bandpilot"))
        .current_dir(broken.path())
        .args(&args)
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = broken.path().join("o/runs/fifo-counting-1.json.gz");
    while !first.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted after") && said.contains("--resume"), "{said}");
    let kept = || fs::read_dir(broken.path().join("o/runs")).unwrap().count();
    assert!((1..6).contains(&kept()), "{}", kept());
    assert!(
        !broken.path().join("o/jobs.csv").exists() && !broken.path().join("o/report.html").exists()
    );

    // What was done is not done again: a run that is there is taken as it is.
    let before = fs::metadata(&first).unwrap().modified().unwrap();
    let (code, _, err) = run(broken.path(), &[&args[..], &["--resume"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!((kept(), fs::metadata(&first).unwrap().modified().unwrap()), (6, before));
    let (code, ..) = run(whole.path(), &args);
    assert_eq!(code, 0);
    assert_eq!(results(&broken.path().join("o")), results(&whole.path().join("o")));
    // All is there: nothing is left to do, and nothing changes. A damaged run is run again.
    fs::write(&first, "damaged").unwrap();
    let (code, ..) = run(broken.path(), &[&args[..], &["--resume"]].concat());
    assert_eq!(code, 0);
    assert_eq!(results(&broken.path().join("o")), results(&whole.path().join("o")));
}

/// Rows of a CSV file by column, and the columns in order.
fn csv_rows(path: &Path) -> (Vec<String>, Vec<BTreeMap<String, String>>) {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let row = |row: csv::StringRecord| {
        names.iter().cloned().zip(row.iter().map(str::to_owned)).collect::<BTreeMap<_, _>>()
    };
    let rows = reader.records().map(|record| row(record.unwrap())).collect();
    (names, rows)
}

/// Columns that the reference page lists below a heading.
fn columns(heading: &str) -> Vec<String> {
    let page = crate::repository().join("docs/reference/simulate-files.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once(heading).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_series_says_how_the_hosts_stood() {
    // {8}{4,4} until 16, then {4}{4} until 64 while the 8 waits from 32 on.
    let rows = "submit_s,duration_s,gpus\n100,16,8\n100,16,4\n100,64,4\n116,64,4\n132,64,8\n";
    let folder = folder_with(&[("t.csv", rows)]);
    let args = ["simulate", "--trace", "t.csv", "--hosts", "2x8", "--out", "o", "--policy"];
    let (code, out, _) =
        run(folder.path(), &[&args[..], &["fifo/first-fit,fifo/counting"]].concat());
    assert_eq!(code, 0);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = out.lines().map(words).collect();
    for line in [
        "POLICY AFR N*SIF MOST ENL BLOCKED S",
        "fifo/first-fit 1.0000 2.00 2 1.00 32",
        "fifo/counting - - - - 0",
    ] {
        assert!(lines.iter().any(|printed| printed == line), "{line}: {out}");
    }
    let (names, rows) = csv_rows(&folder.path().join("o/series.csv"));
    assert_eq!(columns("## Rows of `series.csv`"), names);
    let of = |policy: &str| {
        let rows = rows.iter().filter(|row| row["policy"] == policy);
        let row = |row: &BTreeMap<String, String>| {
            let cells = ["to_s", "jobs_waiting", "hosts_full", "hosts_partial", "hosts_avoidable"];
            cells.map(|name| row[name].parse::<f64>().unwrap_or(-1.0))
        };
        rows.map(row).collect::<Vec<_>>()
    };
    let (fitted, counted) = (of("fifo/first-fit"), of("fifo/counting"));
    assert_eq!((fitted.len(), fitted[0][0]), (512, 100.25));
    let at = |second: usize| fitted[4 * second];
    assert_eq!(at(0)[1..], [0.0, 2.0, 0.0, 0.0]);
    assert_eq!(at(16)[1..], [0.0, 0.0, 2.0, 2.0]);
    assert_eq!(at(32)[1..], [1.0, 0.0, 2.0, 2.0]);
    assert_eq!(at(64)[1..], [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(at(80)[1..], [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(fitted[511][0], 228.0);
    assert!(counted.iter().all(|row| row[2..] == [-1.0; 3]));
}

#[test]
fn csv_and_parquet_hold_the_same_rows() {
    let rows = "job_id,submit_s,duration_s,gpus,tenant\n\"a, \"\"x\"\"\",0,100,8,ü\nb,10.5,100,16,\nc,20,0,4,t\nd,30,5,99,t\n";
    let folder = folder_with(&[("t.csv", rows)]);
    let args = ["simulate", "--trace", "t.csv", "--hosts", "2x8", "--out", "o", "--policy"];
    let args =
        [&args[..], &["srtf/best-fit,fifo/random", "--seeds", "3,18446744073709551615"]].concat();
    let (code, ..) = run(folder.path(), &args);
    assert_eq!(code, 6);
    let (names, rows) = csv_rows(&folder.path().join("o/jobs.csv"));
    assert_eq!(columns("## Rows of `jobs.csv`"), names);
    let file = fs::File::open(folder.path().join("o/jobs.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let mut count = 0;
    for (row, expected) in reader.get_row_iter(None).unwrap().zip(&rows) {
        let row = row.unwrap();
        let columns: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(columns, names.iter().collect::<Vec<_>>());
        for (name, field) in row.get_column_iter() {
            let text = &expected[name];
            match field {
                Field::Null => assert_eq!(text, "", "{name}"),
                Field::Str(value) => assert_eq!(text, value, "{name}"),
                Field::ULong(value) => assert_eq!(text, &value.to_string(), "{name}"),
                Field::Double(value) => assert_eq!(text.parse(), Ok(*value), "{name}"),
                other => panic!("{name} is {other:?}"),
            }
        }
        count += 1;
    }
    // Four jobs with one policy that no seed changes, and one that each does.
    assert_eq!((count, rows.len()), (12, 12));
    let of = |at: usize, name: &str| rows[at][name].as_str();
    let first = [
        "policy",
        "seed",
        "job_id",
        "tenant",
        "line",
        "jct_s",
        "wait_s",
        "slowdown",
        "gpus",
        "hosts",
        "gpu_seconds",
    ];
    let first = first.map(|name| of(0, name));
    assert_eq!(
        first,
        ["srtf/best-fit", "3", "a, \"x\"", "ü", "2", "100", "0", "1", "8", "1", "800"]
    );
    assert_eq!((of(1, "submit_s"), of(1, "finish_s"), of(1, "wait_s")), ("10.5", "200", "89.5"));
    // A job without a duration has no slowdown; one that fits nowhere has nothing.
    assert_eq!((of(2, "jct_s"), of(2, "slowdown")), ("0", ""));
    assert_eq!((of(3, "first_start_s"), of(3, "jct_s"), of(3, "gpu_seconds")), ("", "", "0"));
    assert_eq!(of(11, "seed"), "18446744073709551615");
}

#[test]
fn a_folder_with_other_results_is_left_alone() {
    let folder = folder_with(&[("t.csv", &trace(50)), ("u.csv", &trace(49))]);
    let path = folder.path();
    let base = ["simulate", "--hosts", "2x8", "--out", "o", "--trace"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let (code, ..) = run(path, &with(&["t.csv", "--policy", "fifo/random"]));
    assert_eq!(code, 0);
    fs::write(path.join("o/mine.txt"), "mine").unwrap();
    let before = results(&path.join("o"));

    let (err, answer) = refused(path, &with(&["t.csv", "--policy", "fifo/random"]), 3);
    assert!(err.contains("o: error: it holds results already (simulate.json)"), "{err}");
    assert_eq!(answer["file"], "o");
    for (args, differs) in [
        (
            &["u.csv", "--policy", "fifo/random"][..],
            "trace (t.csv there, u.csv now), trace_sha256 (",
        ),
        (
            &["t.csv", "--policy", "fifo/packed"],
            "policies ([\"fifo/random\"] there, [\"fifo/packed\"] now)",
        ),
        (&["t.csv", "--policy", "fifo/random", "--seed", "2"], "seeds ([1] there, [2] now)"),
        (
            &["t.csv", "--policy", "fifo/random", "--preemption-cost", "5", "--host-mtbf", "3h"],
            "host_mtbf_s (null there, 10800.0 now), preemption_cost_s (0.0 there, 5.0 now)",
        ),
        (
            &["t.csv", "--policy", "fifo/random", "--comm-share", "0.5"],
            "comm_share (0.0 there, 0.5 now)",
        ),
    ] {
        let (err, _) = refused(path, &[&with(args)[..], &["--resume"]].concat(), 3);
        assert!(err.contains("of another command: ") && err.contains(differs), "{args:?}\n{err}");
    }
    assert_eq!(results(&path.join("o")), before);
    // Results without runs are somebody else's, also for --resume.
    fs::create_dir(path.join("p")).unwrap();
    fs::write(path.join("p/jobs.csv"), "theirs").unwrap();
    let args = [
        "simulate",
        "--hosts",
        "2x8",
        "--trace",
        "t.csv",
        "--policy",
        "fifo/packed",
        "--out",
        "p",
        "--resume",
    ];
    let (err, _) = refused(path, &args, 3);
    assert!(err.contains("(jobs.csv)"), "{err}");
    assert_eq!(fs::read_to_string(path.join("p/jobs.csv")).unwrap(), "theirs");

    let (code, ..) = run(path, &with(&["u.csv", "--policy", "fifo/packed", "--force"]));
    assert_eq!(code, 0);
    assert_ne!(results(&path.join("o")), before);
    assert_eq!(fs::read_to_string(path.join("o/mine.txt")).unwrap(), "mine");
    let runs = fs::read_dir(path.join("o/runs")).unwrap();
    let runs: Vec<_> = runs.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(runs, ["fifo-packed-1.json.gz"]);
    for (args, code) in [
        (&["--resume"][..], 2),
        (&["--out", "q", "--resume", "--force"], 2),
        (&["--out", "t.csv"], 5),
        (&["--out", "t.csv/x"], 5),
        (&["--out", "new", "--report", "none/r.html"], 5),
        (&["--report", "o"], 3),
        (&["--report", "t.csv"], 3),
        (&["--seeds", "0"], 2),
        (&["--seeds", "3", "--seed", "1"], 2),
    ] {
        let base = ["simulate", "--hosts", "2x8", "--trace", "t.csv", "--policy", "fifo/packed"];
        refused(path, &[&base[..], args].concat(), code);
    }
    assert!(fs::read_to_string(path.join("t.csv")).unwrap().starts_with("job_id"));
    assert!(!path.join("new").exists(), "a wrong --report is found before anything is done");
}

#[test]
fn only_runs_of_the_same_command_are_trusted() {
    let folder = folder_with(&[("t.csv", &trace(50)), ("u.csv", &trace(60))]);
    let path = folder.path();
    let play = |trace: &str, out: &str, more: &[&str]| {
        let args = ["simulate", "--hosts", "2x8", "--policy", "fifo/random", "--trace", trace];
        run(path, &[&args[..], &["--out", out], more].concat())
    };
    for (trace, out) in [("t.csv", "o"), ("u.csv", "other")] {
        assert_eq!(play(trace, out, &[]).0, 0);
    }
    let kept = |out: &str| path.join(out).join("runs/fifo-random-1.json.gz");
    let whole = results(&path.join("o"));
    let good = fs::read(kept("o")).unwrap();
    let mut cut = good.clone();
    cut.truncate(good.len() / 2);
    let other = fs::read(kept("other")).unwrap();
    for (bytes, why) in [(&cut, "it is damaged"), (&other, "it is of another command")] {
        fs::write(kept("o"), bytes).unwrap();
        let (code, _, err) = play("t.csv", "o", &["--resume"]);
        let said = format!("fifo-random-1.json.gz: note: {why}: it was run again");
        assert!(code == 0 && err.contains(&said), "{err}");
        assert!(results(&path.join("o")) == whole && fs::read(kept("o")).unwrap() == good);
    }
    // What a killed program leaves is removed, what is somebody else's is not.
    let (left, mine) =
        (path.join("o/runs/fifo-random-1.json.gz.7.tmp"), path.join("o/runs/my.tmp"));
    fs::write(&left, "").unwrap();
    fs::write(&mine, "").unwrap();
    assert_eq!(
        play("t.csv", "o", &["--resume"]),
        (0, play("t.csv", "o", &["--resume"]).1, String::new())
    );
    assert!(!left.exists() && mine.exists());
    let about = path.join("o/simulate.json");
    fs::write(&about, "{").unwrap();
    let (code, _, err) = play("t.csv", "o", &["--resume"]);
    assert!(
        code == 3 && err.contains("simulate.json, which says what its runs are of, cannot be read"),
        "{err}"
    );
    fs::remove_file(&about).unwrap();
    let (code, _, err) = play("t.csv", "o", &["--resume"]);
    assert!(
        code == 3 && err.contains("but no simulate.json") && !err.contains("--resume"),
        "{err}"
    );
    let (_, _, err) = play("t.csv", "t.csv", &[]);
    assert!(err.contains("it is a file, not a folder"), "{err}");
}

#[test]
fn figures_of_several_seeds_are_means_of_their_runs() {
    let folder = folder_with(&[("t.csv", &trace(150))]);
    let args =
        ["simulate", "--trace", "t.csv", "--hosts", "4x8", "--policy", "fifo/random,srtf/packed"];
    let with = |more: &[&str]| run_json(folder.path(), &[&args[..], more].concat()).1;
    let many = with(&["--seeds", "7,3"]);
    assert_eq!((&many["seed"], &many["seeds"]), (&7.into(), &serde_json::json!([7, 3])));
    let random = &many["policies"][0];
    let alone = ["7", "3"].map(|seed| with(&["--seed", seed])["policies"][0].clone());
    for (at, alone) in alone.iter().enumerate() {
        assert_eq!(random["runs"][at], alone["runs"][0]);
        for key in ["avg_jct_s", "median_jct_s", "makespan_s", "preemptions", "jobs"] {
            assert_eq!(alone["runs"][0][key], alone[key], "{key}");
        }
    }
    let mean = |key: &str| {
        let of = |at: usize| alone[at][key].as_f64().unwrap();
        f64::midpoint(of(0), of(1))
    };
    for key in ["avg_jct_s", "median_jct_s", "p99_jct_s", "avg_wait_s", "head_blocked_s"] {
        assert_eq!(random[key].as_f64(), Some(mean(key)), "{key}");
    }
    assert_ne!(alone[0]["avg_jct_s"], alone[1]["avg_jct_s"]);
    // A policy without randomness is run once, unless faults or the mix depend on the seed.
    let packed = &many["policies"][1];
    assert_eq!(
        (packed["runs"].as_array().unwrap().len(), &packed["seeded"]),
        (1, &Value::from(false))
    );
    for more in [["--mix", "50%"], ["--host-mtbf", "1h"]] {
        let packed = &with(&[&["--seeds", "2"], &more[..]].concat())["policies"][1];
        let jct = |at: usize| packed["runs"][at]["avg_jct_s"].as_f64().unwrap();
        assert!(jct(0) != jct(1) && packed["seeded"] == true, "{packed}");
    }
    for policy in many["policies"].as_array().unwrap() {
        for key in ["avg_jct_s", "median_jct_s", "avg_wait_s"] {
            let end = |end: &str| policy["intervals"][key][end].as_f64().unwrap();
            let value = policy[key].as_f64().unwrap();
            assert!(end("low") < value && value < end("high"), "{key} {policy}");
        }
    }
    let less = packed["avg_jct_s"].as_f64().unwrap() - random["avg_jct_s"].as_f64().unwrap();
    assert_eq!(packed["avg_jct_less_first_s"].as_f64(), Some(less));
    let (_, out, _) = run(folder.path(), &[&args[..], &["--seeds", "7,3"]].concat());
    assert!(out.contains("run once, as no seed changes them: srtf/packed"), "{out}");
}

fn parsed(html: &str) -> roxmltree::Document<'_> {
    let options =
        roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(html, options).unwrap()
}

#[cfg(unix)]
#[test]
fn the_report_is_one_page_that_shows_every_policy() {
    let hostile = "<script>alert('$1$')&\".csv";
    let none = "submit_s,duration_s,gpus,job_id\n0,5,99,<b>\n";
    let folder = folder_with(&[(hostile, &trace(1)), ("none.csv", none), ("t.csv", &trace(200))]);
    let policies = "fifo/counting,fifo/best-fit,fifo-skip/packed,sjf-strict/compact,sjf-skip/random,srtf/packed,srtf/random,easy/first-fit,easy/best-fit,easy/random";
    for (trace, code) in [("t.csv", 0), (hostile, 0), ("none.csv", 6)] {
        let args = ["simulate", "--trace", trace, "--hosts", "5x8", "--policy", policies];
        let files = ["--out", "o", "--report", "r.html", "--force", "--json"];
        let (is, out, err) = run(folder.path(), &[&args[..], &files].concat());
        assert_eq!(is, code, "{err}");
        let html = fs::read_to_string(folder.path().join("r.html")).unwrap();
        assert_eq!(html, fs::read_to_string(folder.path().join("o/report.html")).unwrap());
        assert_eq!(out, fs::read_to_string(folder.path().join("o/summary.json")).unwrap());
        let document = parsed(&html);
        let texts = |tag: &str| -> Vec<String> {
            let tags = document.descendants().filter(|node| node.tag_name().name() == tag);
            let text = |node: roxmltree::Node<'_, '_>| {
                node.descendants()
                    .filter(roxmltree::Node::is_text)
                    .filter_map(|text| text.text())
                    .collect()
            };
            tags.map(text).collect()
        };
        let names: Vec<&str> = policies.split(',').collect();
        assert_eq!(texts("h3"), names);
        // The tables of resources and of fragmentation are left out where all of them is 0 or missing.
        assert_eq!(texts("tr").len(), if trace == "t.csv" { 33 } else { 11 });
        assert!(
            texts("code")[0].starts_with("bandpilot simulate --trace ")
                && !html.contains("--force")
        );
        assert!(texts("title")[0].starts_with(trace) && texts("script").is_empty());
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("://"));
        let strips =
            document.descendants().filter(|node| node.tag_name().name() == "image").count();
        // One for each policy but counting, if any job ran.
        assert_eq!(strips, if code == 0 { 9 } else { 0 });
        assert_eq!(html.contains("No job fits on this cluster"), code == 6);
    }
    let args = ["simulate", "--trace", "t.csv", "--hosts", "5x8", "--policy", "fifo/packed"];
    let (err, _) = refused(folder.path(), &[&args[..], &["--report", "r.html"]].concat(), 3);
    assert!(err.contains("r.html: error: there is a file of this name"), "{err}");
}

#[test]
fn files_do_not_depend_on_threads() {
    let folder = folder_with(&[("t.csv", &trace(300))]);
    let mut all = Vec::new();
    for threads in ["1", "7"] {
        let args = [
            "simulate",
            "--trace",
            "t.csv",
            "--hosts",
            "4x8",
            "--policy",
            "fifo/random,easy/random,srtf/packed",
        ];
        let args = [&args[..], &["--seeds", "4", "--out", "o", "--force"]].concat();
        let output = bandpilot(folder.path()).args(args).env("RAYON_NUM_THREADS", threads).output();
        assert!(output.unwrap().status.success());
        all.push(results(&folder.path().join("o")));
    }
    assert_eq!(all[0], all[1]);
}

/// The last job fits where it may be split (or GPUs are only counted), not as two instances of 8: see `HOSTS`.
const UNEVEN: &str = "submit_s,duration_s,gpus\n0,100,8\n10,100,12\n20,50,4\n30,900,16\n";
const HOSTS: &str = "1x8,2x4";

/// JSON, text and report of a simulation.
fn told(folder: &Path, trace: &str, policies: &str) -> (Value, String, String) {
    let args = ["simulate", "--trace", trace, "--hosts", HOSTS, "--policy", policies];
    let json = run_json(folder, &args).1;
    let (_, out, _) = run(folder, &[&args[..], &["--report", "r.html", "--force"]].concat());
    (json, out, fs::read_to_string(folder.join("r.html")).unwrap())
}

#[test]
fn policies_are_compared_over_the_jobs_that_both_ran() {
    let folder = folder_with(&[("t.csv", UNEVEN)]);
    let (json, out, html) = told(folder.path(), "t.csv", "fifo/compact,fifo/packed,easy/packed");
    let of = |at: usize, key: &str| json["policies"][at][key].clone();
    assert_eq!([0, 1, 2].map(|at| of(at, "jobs")), [4, 3, 3]);
    assert_eq!([0, 1, 2].map(|at| of(at, "not_run")), [0, 1, 1]);
    assert_eq!([0, 1, 2].map(|at| of(at, "less_first_jobs")), [4, 3, 3]);
    // With both of fifo the first three run alike, whoever waits behind them; with easy the third one overtakes.
    let less_s = [0, 1, 2].map(|at| of(at, "avg_jct_less_first_s").as_f64().unwrap());
    assert!(less_s[0] == 0.0 && less_s[1] == 0.0 && (less_s[2] + 80.0 / 3.0).abs() < 1e-9);
    assert!(of(1, "avg_jct_s").as_f64() < of(0, "avg_jct_s").as_f64());
    assert_eq!(json["winner"], Value::Null);
    let caution = "fifo/packed, easy/packed: ran 3 of 4 jobs that others ran";
    assert!(out.contains(caution) && html.contains(caution), "{out}");
    assert!(!html.contains("soonest") && !html.contains("class=\"best\""));
    let lead = "With fifo/compact jobs take 6.2 min";
    assert!(html.contains(lead) && html.contains("the only policy here that can be the best"));
}

#[test]
fn what_only_counts_gpus_is_never_the_best() {
    let folder = folder_with(&[("t.csv", UNEVEN), ("u.csv", &trace(300))]);
    let (json, out, html) = told(folder.path(), "t.csv", "fifo/packed,srtf/counting");
    assert_eq!((&json["policies"][1]["bound"], &json["winner"]), (&true.into(), &Value::Null));
    assert!(out.contains("srtf/counting: no placement that a cluster could have"), "{out}");
    assert!(out.contains("srtf/counting: ran 4 jobs where others ran 3 at most"), "{out}");
    assert!(html.contains("With fifo/packed jobs take") && !html.contains("class=\"best\""));
    let (_, _, html) = told(folder.path(), "u.csv", "fifo/counting,srtf/counting");
    assert!(html.contains("so none is the best") && !html.contains("class=\"best\""));
    let (json, _, html) = told(folder.path(), "u.csv", "fifo/compact,srtf/compact,srtf/counting");
    assert_eq!(json["winner"], "srtf/compact");
    assert!(html.contains("Jobs are done soonest with srtf/compact"));
}

#[test]
fn a_trace_that_does_not_decide_names_no_winner() {
    let three = "submit_s,duration_s,gpus\n0,100,8\n10,100,12\n20,50,4\n";
    let folder = folder_with(&[("t.csv", three)]);
    let (json, _, html) = told(folder.path(), "t.csv", "fifo/packed,fifo/first-fit");
    assert_eq!(json["winner"], Value::Null);
    assert!(html.contains("every job takes the same time with fifo/packed and fifo/first-fit"));
    let (json, _, html) = told(folder.path(), "t.csv", "fifo/packed,easy/packed");
    assert_eq!(json["winner"], Value::Null);
    assert!(
        html.contains("This trace does not decide")
            && html.contains("chance against fifo/packed: ")
    );
}

#[test]
fn without_a_finished_job_there_are_no_times() {
    let folder = folder_with(&[("t.csv", "submit_s,duration_s,gpus\n0,5,99\n")]);
    let (json, out, _) = told(folder.path(), "t.csv", "fifo/packed,fifo/compact");
    for key in ["avg_jct_s", "median_jct_s", "makespan_s", "avg_wait_s", "avg_jct_less_first_s"] {
        assert_eq!(json["policies"][1][key], Value::Null, "{key}");
    }
    assert!(
        out.contains(" fifo/packed   0     1        -           -       -    -    -       -"),
        "{out}"
    );
}

#[test]
fn tables_are_no_wider_than_a_terminal_and_nothing_has_the_sign_of_a_rounded_zero() {
    let folder = folder_with(&[("t.csv", &trace(400))]);
    let policies = "sjf-strict/bandpilot-whole,fifo/compact,srtf/repack,easy/counting";
    let args = ["simulate", "--trace", "t.csv", "--hosts", "4x8", "--policy", policies];
    let more = ["--comm-share", "30%", "--host-mtbf", "2d", "--seeds", "2"];
    let (_, out, _) = run(folder.path(), &[&args[..], &more].concat());
    assert!(out.lines().skip(3).all(|line| line.chars().count() <= 120), "{out}");
    assert!(out.split_whitespace().all(|word| !matches!(word, "-0" | "-0.00")), "{out}");
}
