//! What a request can say beyond a number of GPUs: collectives, instances, limits, rules to compare with.

use std::fs;

use serde_json::{Value, json};

use crate::dispatch::{H100, counts, many_hosts, many_jobs, near};
use crate::{docs_folder, folder_with, refused, run, run_json};

/// Two hosts with NVLink between GPU i and GPU i + 4 only.
const MESH: &str = r#"name = "mesh"
[[host_type]]
name = "v100"
gpu_model = "V100"
gpus = 8
links = """
X   SYS SYS SYS NV2 SYS SYS SYS
SYS X   SYS SYS SYS NV2 SYS SYS
SYS SYS X   SYS SYS SYS NV2 SYS
SYS SYS SYS X   SYS SYS SYS NV2
NV2 SYS SYS SYS X   SYS SYS SYS
SYS NV2 SYS SYS SYS X   SYS SYS
SYS SYS NV2 SYS SYS SYS X   SYS
SYS SYS SYS NV2 SYS SYS SYS X
"""
rails = { gbit_per_s = 100 }
[[hosts]]
names = "v[1-2]"
type = "v100"
"#;

fn answer(args: &[&str]) -> Value {
    let folder = folder_with(&[("h100", H100), ("mesh", MESH)]);
    let (code, out, err) = run(folder.path(), &[&["dispatch", "--json"], args].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}\n{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn every_collective_has_its_own_physics() {
    for (op, expected) in [
        ("all_reduce", 455.0),
        ("all_gather", 328.0),
        ("reduce_scatter", 328.0),
        ("alltoall", 89.0),
        ("broadcast", 328.0),
        ("sendrecv", 47.5),
    ] {
        let full = answer(&["--gpus", "16", "--op", op, "--free", "h1,h2"]);
        near(&full["busbw_gbytes_per_s"]["isolated"], expected, 0.03);
        assert_eq!(full["request"]["collective"], op);
        assert_eq!(full["evidence"], "closed_form");
        let remarks = full["diagnostics"].as_array().unwrap();
        assert_eq!(remarks.is_empty(), op == "all_reduce", "{op}: {remarks:?}");
    }
}

/// A folder with models of two collectives of the lab cluster: two full hosts were measured with each.
fn two_models() -> tempfile::TempDir {
    let folder = docs_folder();
    let path = folder.path();
    for (op, model) in [("all_reduce", "reduce.json"), ("all_gather", "gather.json")] {
        let reading = json!({
            "op": op,
            "bytes": 2_u64 << 30,
            "placement": "a1:0-7,a2:0-7",
            "busbw_gbytes_per_s": 150.0,
            "source": "t",
            "line": 1,
        });
        let store = format!("{op}.jsonl");
        fs::write(path.join(&store), format!("# bandpilot measurements v1\n{reading}\n")).unwrap();
        let args = ["fit", "--measurements", &store, "--cluster", "cluster.toml", "--op", op];
        let (code, _, err) = run(path, &[&args[..], &["--out", model]].concat());
        assert_eq!(code, 0, "{err}");
    }
    folder
}

#[test]
fn the_model_of_the_asked_collective_is_used() {
    let folder = two_models();
    let base = ["dispatch", "--gpus", "16", "--cluster", "cluster.toml"];
    let both = ["--model", "gather.json", "--model", "reduce.json"];
    let ask = |extra: &[&str]| {
        let (code, answer) = run_json(folder.path(), &[&base[..], extra].concat());
        assert_eq!(code, 0, "{answer}");
        answer
    };
    for op in ["all_gather", "all_reduce"] {
        let full = ["--include", "a1,a2", "--op", op];
        let measured = ask(&[&both[..], &full].concat());
        assert_eq!(measured["evidence"], "measured", "{op}");
        assert_eq!(measured["diagnostics"], json!([]), "{op}");
    }
    // The constants of all_reduce, also where its model is not the first.
    let model = |answer: &Value| answer["model"].as_str().unwrap().to_owned();
    let other = ask(&[&both[..], &["--op", "alltoall"]].concat());
    assert!(model(&other).starts_with("physics of alltoall, not measured"), "{other}");
    assert_eq!(model(&other), model(&ask(&["--model", "reduce.json", "--op", "alltoall"])));
    assert_eq!(other["diagnostics"][0]["file"], "--op");
    let first = ask(&["--model", "gather.json"]);
    assert!(model(&first).starts_with("physics of all_reduce, not measured"), "{first}");
}

#[test]
fn two_models_of_a_collective_are_refused_by_name() {
    let folder = two_models();
    let args = [
        "dispatch",
        "--gpus",
        "8",
        "--cluster",
        "cluster.toml",
        "--model",
        "reduce.json",
        "--model",
    ];
    let (err, error) = refused(folder.path(), &[&args[..], &["reduce.json"]].concat(), 2);
    assert!(err.contains("reduce.json and reduce.json are both models of all_reduce"), "{err}");
    assert_eq!(error["file"], "--model");
}

#[test]
fn instances_stay_inside_hosts() {
    let four = answer(&["--instances", "4", "--gpus-per-instance", "4"]);
    let instances = four["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 4);
    assert!(instances.iter().all(|one| one["gpus"].as_array().unwrap().len() == 4), "{four}");
    assert!(counts(&four).iter().all(|count| count % 4 == 0));
    assert_eq!(
        (&four["request"]["gpus"], &four["request"]["gpus_per_instance"]),
        (&json!(16), &json!(4))
    );
    // Five instances of three do not pack into two hosts of eight.
    assert_eq!(
        answer(&["--instances", "5", "--gpus-per-instance", "3"])["placement"]
            .as_object()
            .unwrap()
            .len(),
        3
    );
    let single = answer(&["--instances", "3", "--gpus-per-instance", "1"]);
    assert_eq!(single["instances"][2]["inside_gbytes_per_s"], Value::Null);
    assert_eq!(answer(&["--gpus", "8"])["instances"], json!([]));
}

#[test]
fn instances_follow_the_links_of_a_host() {
    let pairs = answer(&[
        "--cluster",
        "mesh",
        "--free",
        "v1",
        "--instances",
        "4",
        "--gpus-per-instance",
        "2",
    ]);
    for instance in pairs["instances"].as_array().unwrap() {
        let gpus = instance["gpus"].as_array().unwrap();
        assert_eq!(gpus[0].as_u64().unwrap() + 4, gpus[1].as_u64().unwrap(), "{pairs}");
        assert!(instance["inside_gbytes_per_s"].as_f64().unwrap() > 20.0, "{instance}");
    }
    // Ranks are counted through the instances.
    let ranks = pairs["launch"]["ranks"].as_array().unwrap();
    let gpus: Vec<u64> = ranks.iter().take(4).map(|rank| rank["gpu"].as_u64().unwrap()).collect();
    assert_eq!(gpus, [0, 4, 1, 5]);
}

#[test]
fn per_host_says_the_number_of_hosts_or_of_gpus() {
    assert_eq!(counts(&answer(&["--gpus", "12", "--per-host", "4"])), [4, 4, 4]);
    assert_eq!(counts(&answer(&["--hosts", "2", "--per-host", "6"])), [6, 6]);
    let both = ["--instances", "4", "--gpus-per-instance", "2", "--per-host", "4"];
    assert_eq!(counts(&answer(&both)), [4, 4]);
}

#[test]
fn contradictions_are_wrong_usage() {
    let folder = folder_with(&[]);
    for (args, says) in [
        ("--per-host 4", "it does not say how many GPUs"),
        ("--gpus 10 --per-host 4", "10 GPUs cannot be 4 on every host"),
        ("--gpus 8 --per-host 4 --hosts 3", "are on 2 hosts, not on --hosts 3"),
        ("--gpus 16 --per-host 4 --max-hosts 3", "above --max-hosts 3"),
        ("--instances 2 --gpus-per-instance 4 --per-host 2", "no whole number of instances of 4"),
        ("--hosts 18446744073709551615 --per-host 2", "more than any cluster has"),
        ("--instances 18446744073709551615 --gpus-per-instance 2", "more than any cluster has"),
        ("--instances 2", "--gpus-per-instance"),
        ("--gpus-per-instance 2", "--instances"),
        ("--gpus 4 --instances 2 --gpus-per-instance 2", "cannot be used with"),
        ("--gpus 4 --gpus-per-instance 2", "how many instances"),
        ("--instances 0 --gpus-per-instance 2", "at least 1"),
        ("--instances 2 --gpus-per-instance -1", "unexpected argument"),
        ("--hosts 2 --per-host 0", "at least 1"),
        ("--gpus 8 --protect 5", "did you mean 5%?"),
        ("--gpus 8 --protect=-1%", "between 0% and 100%"),
        ("--gpus 8 --protect NaN", "such as 5%"),
        ("--gpus 8 --spare-hosts -1", "unexpected argument"),
        ("--gpus 8 --spare-hosts many", "invalid digit"),
        ("--gpus 8 --op all", "is not a collective"),
        ("--gpus 8 --compare best", "the rules are topo, default, balanced, most-compact"),
        ("--gpus 8 --compare topo,", "the rules are"),
        ("--hosts 2", "--gpus"),
    ] {
        let args: Vec<&str> = ["dispatch"].into_iter().chain(args.split(' ')).collect();
        let (err, error) = refused(folder.path(), &args, 2);
        assert!(err.contains(says), "{args:?}\n{err}");
        assert_eq!(error["kind"], "usage");
    }
    let (_, error) = refused(folder.path(), &["dispatch", "--gpus", "8", "--op", "all"], 2);
    assert_eq!(error["file"], "--op");
}

#[test]
fn what_cannot_be_met_names_what_can() {
    let folder = folder_with(&[]);
    for (args, option, possible) in [
        ("--instances 7 --gpus-per-instance 4", "--instances", "at most 6 instances of 4"),
        ("--instances 5 --gpus-per-instance 5", "--instances", "at most 2 instances of 5"),
        ("--instances 3 --gpus-per-instance 8", "--gpus-per-instance", "at most 2 instances of 8"),
        ("--hosts 3 --per-host 8", "--per-host", "at most 16 GPUs with --per-host 8"),
        ("--gpus 16 --per-host 16", "--per-host", "16 GPUs with --per-host 8"),
        ("--gpus 24 --per-host 8", "--per-host", "at most 16 GPUs with --per-host 8"),
        ("--hosts 9 --per-host 4", "--per-host", "at most 24 GPUs"),
        ("--gpus 24 --protect 1%", "--protect", "--protect 9.9%"),
        ("--gpus 16 --spare-hosts 2", "--spare-hosts", "--spare-hosts 1"),
        ("--gpus 8 --spare-hosts 18446744073709551615", "--spare-hosts", "--spare-hosts 2"),
        (
            "--instances 4 --gpus-per-instance 4 --protect 5% --spare-hosts 1",
            "--protect",
            "--protect 9.7%; or --spare-hosts 0",
        ),
        ("--gpus 16 --protect 0 --spare-hosts 3", "--spare-hosts", "--spare-hosts"),
    ] {
        let args: Vec<&str> = ["dispatch"].into_iter().chain(args.split(' ')).collect();
        let (_, error) = refused(folder.path(), &args, 4);
        assert_eq!(
            (&error["kind"], &error["field"]),
            (&json!("impossible"), &json!(option)),
            "{args:?} {error}"
        );
        let help = error["help"].as_str().unwrap();
        assert!(help.starts_with("possible: ") && help.contains(possible), "{args:?} {help}");
    }
}

#[test]
fn what_is_said_to_be_possible_is() {
    for args in [
        &["--gpus", "24", "--protect", "9.9%"][..],
        &["--instances", "6", "--gpus-per-instance", "4"],
        &["--gpus", "16", "--spare-hosts", "1"],
        &["--gpus", "16", "--per-host", "4", "--protect", "46.2%"],
        &[
            "--instances",
            "4",
            "--gpus-per-instance",
            "4",
            "--protect",
            "9.7%",
            "--spare-hosts",
            "1",
        ],
        &["--instances", "4", "--gpus-per-instance", "4", "--protect", "5%"],
        &["--gpus", "16", "--per-host", "8"],
    ] {
        answer(args);
    }
}

#[test]
fn running_jobs_are_protected() {
    let free = answer(&["--gpus", "20"]);
    let loss = |answer: &Value| {
        let value = |key: &str| answer["harm"][0][key].as_f64().unwrap();
        1.0 - value("after_gbytes_per_s") / value("before_gbytes_per_s")
    };
    for share in ["5%", "0.05"] {
        let kept = answer(&["--gpus", "20", "--protect", share]);
        near(&kept["request"]["protect"], 0.05, 1e-12);
        assert!(loss(&kept) <= 0.05 && kept["gap"] == json!(0.0), "{kept}");
        let effective =
            |answer: &Value| answer["busbw_gbytes_per_s"]["effective"].as_f64().unwrap();
        assert!(effective(&kept) <= effective(&free));
    }
}

#[test]
fn spare_hosts_are_named_with_their_gpus() {
    let spared = answer(&["--gpus", "8", "--spare-hosts", "2"]);
    let spares = spared["spares"].as_object().unwrap();
    let largest = counts(&spared)[0];
    assert_eq!(spares.len(), 2);
    for (host, gpus) in spares {
        assert_eq!(gpus.as_array().unwrap().len(), largest);
        assert!(spared["placement"].get(host).is_none(), "{spared}");
    }
    assert_eq!(answer(&["--gpus", "8"])["spares"], json!({}));
}

#[test]
fn rules_are_compared_with_the_choice() {
    let rules = ["--compare", "topo,default,balanced,most-compact,topo"];
    let compared = answer(&[&["--gpus", "12"], &rules[..]].concat());
    let rows = compared["compared"].as_array().unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["policy"]).collect();
    assert_eq!(names, ["topo", "default", "balanced", "most-compact"]);
    for row in rows {
        assert!(row["of_chosen"].as_f64().unwrap() <= 1.0 + 1e-9, "{row}");
        assert_eq!(row["meets_request"], true);
    }
    near(&rows[2]["of_chosen"], 1.0, 1e-9);
    assert!(rows[3]["of_chosen"].as_f64().unwrap() < 0.9, "{rows:?}");
    let uniform = answer(&[&["--gpus", "12", "--uniform"], &rules[..]].concat());
    assert_eq!(uniform["compared"][3]["meets_request"], false);
    let sure = answer(&[&["--gpus", "12", "--min-busbw", "350"], &rules[..]].concat());
    assert_eq!(sure["compared"][3]["meets_request"], false);
    // A single GPU has no bandwidth to be a share of.
    let single = answer(&["--gpus", "1", "--compare", "topo"]);
    assert_eq!(single["compared"][0]["of_chosen"], Value::Null);
}

#[test]
fn people_see_all_of_it() {
    let folder = folder_with(&[]);
    let ask = |args: &str| {
        let args: Vec<&str> = ["dispatch"].into_iter().chain(args.split(' ')).collect();
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!(code, 0, "{err}");
        out
    };
    let out =
        ask("--instances 2 --gpus-per-instance 4 --protect 5% --spare-hosts 1 --compare topo");
    for part in [
        "8 GPUs in 2 instances of 4 for all_reduce",
        "protection  no running job loses more than 0.0 % (5.0 % allowed)",
        "spare       h2:0-7",
        " INSTANCE  HOST  GPUS  INSIDE",
        " 1         h1    4-7   ",
        " RULE  GPUS    ISOLATED  EFFECTIVE  OF CHOSEN  GREATEST LOSS",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(
        ask("--gpus 12 --uniform --compare most-compact").contains("does not meet the request")
    );
    assert!(ask("--gpus 1").contains("bandwidth   none: a single GPU exchanges nothing"));
}

#[test]
fn the_same_input_gives_the_same_bytes_and_deadlines_hold() {
    let folder = folder_with(&[("c", &many_hosts()), ("s", &many_jobs())]);
    let base = ["dispatch", "--cluster", "c", "--state", "s", "--json"];
    for args in [
        &["--instances", "9", "--gpus-per-instance", "4", "--compare", "topo,balanced"][..],
        &["--gpus", "37", "--op", "alltoall"],
        &["--gpus", "16", "--protect", "60%"],
        &["--gpus", "32", "--per-host", "4", "--spare-hosts", "2"],
    ] {
        let args = [&base[..], args].concat();
        let first = run(folder.path(), &args);
        assert_eq!(first.0, 0, "{args:?}\n{}", first.1);
        assert_eq!(run(folder.path(), &args), first, "{args:?}");
        let (code, out, _) = run(folder.path(), &[&args[..], &["--deadline-ms", "0"]].concat());
        assert_eq!(code, 0, "{args:?}\n{out}");
    }
}

#[test]
fn an_assumed_plateau_is_said() {
    let other = H100.replace("\"H100\"", "\"Other 9000\"");
    assert!(other.contains("Other 9000"));
    let folder = folder_with(&[("c", &other), ("h100", H100)]);
    let ask =
        |cluster: &str| run(folder.path(), &["dispatch", "--gpus", "12", "--cluster", cluster]);
    let (code, _, err) = ask("c");
    assert!(code == 0 && err.contains("nothing is known of NVSwitch with 'Other 9000'"), "{err}");
    assert_eq!(ask("h100").2, "");
}

#[test]
fn numbers_that_cannot_be_are_wrong_usage() {
    let folder = folder_with(&[]);
    for (args, part) in [
        (&["--gpus", "8", "--hosts", "2", "--max-hosts", "1"][..], "--max-hosts is 1"),
        (&["--gpus", "8", "--hosts", "0"], "--hosts"),
        (&["--gpus", "8", "--max-hosts", "0"], "--max-hosts"),
        (&["--gpus", "-1"], "'-1'"),
        (&["--gpus", "8", "--protect", "-5%"], "'-5%'"),
    ] {
        let (code, out, err) = run(folder.path(), &[&["dispatch"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}\n{err}");
        assert!(err.contains(part), "{args:?}\n{err}");
    }
    let (code, error) = run_json(folder.path(), &["dispatch"]);
    assert_eq!(code, 2);
    assert!(error["error"]["message"].as_str().unwrap().contains("--gpus"), "{error}");
    let args = ["dispatch", "--instances", "2", "--gpus-per-instance", "9"];
    let (code, _, err) = run(folder.path(), &args);
    assert!(code == 4 && err.contains("no host has more than 8 GPUs to give"), "{err}");
}

#[test]
fn a_host_stands_once_in_the_hostfile() {
    let folder = folder_with(&[]);
    let args = ["dispatch", "--parallel", "tp=2,pp=2,dp=5", "--traffic", "dp=0"];
    let (code, answer) = run_json(folder.path(), &args);
    assert_eq!(code, 0);
    let hostfile = answer["launch"]["hostfile"].as_str().unwrap();
    let hosts: Vec<&str> = hostfile.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let mut once = hosts.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(hosts.len(), once.len(), "{hostfile}");
    let slots = hostfile.lines().map(|line| line.rsplit('=').next().unwrap());
    assert_eq!(slots.map(|slots| slots.parse::<usize>().unwrap()).sum::<usize>(), 20);
}
