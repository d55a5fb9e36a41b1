//! `explain`.

use serde_json::{Value, json};

use crate::dispatch::{H100, many_hosts, many_jobs, near};
use crate::{docs_folder, folder_with, refused, run, run_json};

const LAB: [&str; 5] = ["explain", "--cluster", "cluster.toml", "--state", "state.toml"];

#[test]
fn a_worse_set_is_told_the_best_one() {
    let folder = folder_with(&[]);
    let (code, answer) = run_json(folder.path(), &["explain", "--placement", "h1:0-7,h2:0"]);
    assert_eq!(code, 0, "{answer}");
    near(&answer["busbw_gbytes_per_s"]["isolated"], 84.0, 0.06);
    assert_eq!(answer["request"]["gpus"], 9);
    let better = &answer["better"];
    assert_eq!((&better["gap"], better["placement"].as_object().unwrap().len()), (&json!(0.0), 2));
    assert!(better["gain"].as_f64().unwrap() > 2.0, "{better}");
    assert!(answer["bottleneck"].as_str().unwrap().contains("NICs of h2: 1 rail"));
    let hosts = answer["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
    assert_eq!(hosts[1]["inside_gbytes_per_s"], Value::Null);
    assert_eq!((&hosts[1]["nics"], &hosts[1]["nics_gbytes_per_s"]), (&json!(1), &json!(50.0)));
    // The eight GPUs of h1 alone; h2 has a single one.
    assert!(hosts[1]["without_gbytes_per_s"].as_f64().unwrap() > 400.0);
    assert_eq!(hosts[0]["without_gbytes_per_s"], Value::Null);
    let (_, out, _) = run(folder.path(), &["explain", "--placement", "h1:0-7,h2:0"]);
    assert!(out.contains("better      h1:0-4,h2:0-3 reaches "), "{out}");
}

#[test]
fn the_best_set_is_said_to_be_the_best() {
    let folder = folder_with(&[]);
    let args = ["explain", "--placement", "h1:0-5,h2:0-5"];
    let (_, out, _) = run(folder.path(), &args);
    assert!(out.contains("better      nothing: it is the best under the model\n"), "{out}");
    assert!(out.contains("certificate no set of 12 GPUs is above "), "{out}");
    assert_eq!(run_json(folder.path(), &args).1["better"]["gain"], 0.0);
}

#[test]
fn a_running_job_is_explained_as_if_it_came_anew() {
    let folder = docs_folder();
    let (code, answer) = run_json(folder.path(), &[&LAB[..], &["--job", "train-a"]].concat());
    assert_eq!(code, 0, "{answer}");
    assert_eq!(answer["request"]["job"], "train-a");
    assert_eq!(answer["harm"], json!([]));
    let busbw = &answer["busbw_gbytes_per_s"];
    assert_eq!(busbw["isolated"], busbw["effective"]);
    assert!(answer["better"]["gain"].as_f64().unwrap() > 0.1, "{answer}");
    // The same by its GPUs.
    let (_, same) = run_json(folder.path(), &[&LAB[..], &["--placement", "a[3-4]:4-7"]].concat());
    assert_eq!(same, answer);
    let (_, out, _) = run(folder.path(), &[&LAB[..], &["--job", "train-a"]].concat());
    assert!(out.contains("8 GPUs of job 'train-a' with all_reduce of 2GiB"), "{out}");
    assert!(out.contains("23 of 32 GPUs free, 1 running job\n"), "{out}");
}

#[test]
fn jobs_beside_it_are_named_with_what_they_cost() {
    let folder = docs_folder();
    let args = [&LAB[..], &["--placement", "a3:0-3,a1:0-3"]].concat();
    let (_, answer) = run_json(folder.path(), &args);
    let hosts = answer["hosts"].as_array().unwrap();
    assert_eq!((&hosts[0]["jobs"], &hosts[1]["jobs"]), (&json!([]), &json!(["train-a"])));
    let busbw = |key: &str| answer["busbw_gbytes_per_s"][key].as_f64().unwrap();
    assert!(busbw("effective") <= busbw("isolated"));
    assert_eq!(answer["harm"][0]["job"], "train-a");
}

#[test]
fn a_single_gpu_is_no_fault() {
    let folder = folder_with(&[]);
    let (code, out, err) = run(folder.path(), &["explain", "--placement", "h1:3"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("1 GPU with all_reduce") && out.contains("none: a single GPU"), "{out}");
    assert!(!out.contains("0.0 GB/s") && !out.contains("better"), "{out}");
    let (code, answer) = run_json(folder.path(), &["explain", "--placement", "h1:3"]);
    assert_eq!((code, &answer["better"]["gain"]), (0, &Value::Null));
}

#[test]
fn other_collectives_and_sizes_are_explained_too() {
    let folder = folder_with(&[]);
    let args = ["explain", "--placement", "h1,h2", "--op", "alltoall", "--bytes", "1GiB"];
    let (_, answer) = run_json(folder.path(), &args);
    near(&answer["busbw_gbytes_per_s"]["isolated"], 89.0, 0.03);
    assert_eq!(answer["request"]["collective"], "alltoall");
    assert_eq!(answer["request"]["bytes"], 1 << 30);
    assert_eq!(answer["diagnostics"][0]["file"], "--op");
}

#[test]
fn gpus_that_cannot_be_explained_are_named() {
    let sick = H100.replace("names = \"h[1-4]\"", "names = \"h[1-4]\"\nunhealthy_gpus = \"3\"");
    let folder = folder_with(&[("sick", &sick)]);
    for (args, says) in [
        ("--placement h3:4-5,h1:0", "job 'background' holds h3:4-5"),
        ("--placement h9:0", "host 'h9' is not in cluster"),
        ("--placement h1:8", "has no GPU 8"),
        ("--placement h1:0,h1:0", "stands twice"),
        ("--placement h1:3 --cluster sick", "h1:3 is unhealthy"),
        ("--placement=", "a host name is missing"),
        ("--job none", "no running job is called 'none'"),
        ("--job none --cluster sick", "no running job is called 'none'"),
    ] {
        let args: Vec<&str> = ["explain"].into_iter().chain(args.split(' ')).collect();
        let (err, error) = refused(folder.path(), &args, 3);
        assert!(err.contains(says), "{args:?}\n{err}");
        assert_eq!(error["kind"], "bad_input");
    }
    let (_, error) = refused(folder.path(), &["explain", "--placement", "h3:4"], 3);
    assert!(error["help"].as_str().unwrap().contains("--job 'background'"), "{error}");
    let (_, error) = refused(folder.path(), &["explain", "--job", "none"], 3);
    assert!(error["help"].as_str().unwrap().contains("background"), "{error}");
    for args in [
        "",
        " --placement h1 --job background",
        " --job background --free h1",
        " --placement h1 --op all",
        " --placement h1 --bytes 0",
        " --placement h1 --deadline-ms -1",
    ] {
        let args = format!("explain{args}");
        refused(folder.path(), &args.split(' ').collect::<Vec<_>>(), 2);
    }
    refused(folder.path(), &["explain", "--placement", "h1", "--cluster", "none"], 5);
}

#[test]
fn gpus_that_are_taken_out_are_explained_with_a_remark() {
    let folder = docs_folder();
    let args = [&LAB[..], &["--placement", "a2:4-7"]].concat();
    let (code, _, err) = run(folder.path(), &args);
    assert_eq!(code, 0);
    assert_eq!(err, "--placement: note: a2:7 is not free; explained as if it were\n");
}

#[test]
fn the_same_input_gives_the_same_bytes_and_deadlines_hold() {
    let folder = folder_with(&[("c", &many_hosts()), ("s", &many_jobs())]);
    let base = ["explain", "--cluster", "c", "--state", "s", "--json"];
    for set in [["--job", "j9"], ["--placement", "h[1-5]:0"]] {
        let args = [&base[..], &set].concat();
        let first = run(folder.path(), &args);
        assert_eq!(first.0, 0, "{set:?}\n{}", first.1);
        assert_eq!(run(folder.path(), &args), first, "{set:?}");
        let (code, out, _) = run(folder.path(), &[&args[..], &["--deadline-ms", "0"]].concat());
        assert_eq!(code, 0, "{set:?}\n{out}");
    }
}
