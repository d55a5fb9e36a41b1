//! `dispatch --parallel`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::dispatch::{H100, counts, many_hosts, many_jobs};
use crate::{folder_with, refused, run};

fn answer(args: &[&str]) -> Value {
    let folder = folder_with(&[("c", H100)]);
    let (code, out, err) =
        run(folder.path(), &[&["dispatch", "--json", "--parallel"], args].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}\n{out}");
    serde_json::from_str(&out).unwrap()
}

/// Every rank has its own GPU of the placement, and every tensor group one host.
fn check_ranks(answer: &Value, sizes: [u64; 3]) {
    let ranks = answer["ranks"].as_array().unwrap();
    assert_eq!(ranks.len() as u64, sizes.iter().product::<u64>());
    let mut gpus = BTreeSet::new();
    let mut places = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for (at, rank) in ranks.iter().enumerate() {
        let number = |key: &str| rank[key].as_u64().unwrap();
        let host = rank["host"].as_str().unwrap();
        assert_eq!(number("rank"), at as u64);
        assert!(answer["placement"][host].as_array().unwrap().contains(&rank["gpu"]), "{rank}");
        let place = ["tensor", "pipeline", "data"].map(number);
        assert!(place.iter().zip(sizes).all(|(at, size)| *at < size), "{rank}");
        gpus.insert((host, number("gpu")));
        places.insert(place);
        hosts.insert((number("pipeline"), number("data"), host));
    }
    assert_eq!((gpus.len(), places.len()), (ranks.len(), ranks.len()));
    assert_eq!(hosts.len() as u64, sizes[1] * sizes[2], "a tensor group spans hosts");
}

#[test]
fn tensor_groups_of_eight_take_whole_hosts_only() {
    let four = answer(&["tp=8,dp=4", "--cluster", "c"]);
    assert_eq!(counts(&four), [8, 8, 8, 8]);
    check_ranks(&four, [8, 1, 4]);
    assert_eq!(four["rank_order"], "tp-pp-dp");
    assert_eq!((&four["gap"], &four["pipelines_cross_hosts"]), (&json!(0.0), &json!(false)));
    // One NIC for each of eight rings: a little below 50 GB/s.
    let ring = four["groups"]["data"]["effective_gbytes_per_s"].as_f64().unwrap();
    assert!((45.0..50.0).contains(&ring), "{ring}");
    let step = |part: &str| four["step_seconds"][part].as_f64().unwrap();
    assert!((step("total") - step("tensor") - step("pipeline") - step("data")).abs() < 1e-12);
    assert_eq!(step("pipeline"), 0.0);
    assert_eq!(four["groups"]["pipeline"]["isolated_gbytes_per_s"], Value::Null);
}

#[test]
fn keys_come_in_any_order_and_traffic_has_defaults() {
    let default = answer(&["dp=2,tp=4"]);
    assert_eq!(default, answer(&["tp=4,pp=1,dp=2", "--traffic", "dp=1x2GiB,tp=64x128MiB"]));
    let traffic = |kind: &str| {
        let group = &default["groups"][kind];
        (group["messages"].as_u64().unwrap(), group["bytes"].as_u64().unwrap())
    };
    assert_eq!(traffic("tensor"), (64, 128 << 20));
    assert_eq!(traffic("pipeline"), (16, 64 << 20));
    assert_eq!(traffic("data"), (1, 2 << 30));
    for none in ["tp=0", "tp=0x1GiB"] {
        let quiet = answer(&["dp=2,tp=4", "--traffic", none]);
        assert_eq!(quiet["step_seconds"]["tensor"], 0.0, "{none}");
        assert_eq!(quiet["groups"]["tensor"]["effective_gbytes_per_s"], Value::Null);
    }
}

#[test]
fn pipelines_are_placed_and_sendrecv_is_said_not_to_be_measured() {
    let folder = folder_with(&[("c", H100)]);
    let args = ["dispatch", "--parallel", "tp=2,pp=4,dp=3", "--cluster", "c"];
    let (code, out, err) = run(folder.path(), &args);
    assert_eq!(code, 0, "{err}");
    assert!(err.starts_with("--parallel: note: sendrecv was not measured"), "{err}");
    for part in [
        "24 GPUs: 3 replicas of 4 pipeline stages of 2 tensor ranks inside a host (tp=2, pp=4, dp=3)",
        "traffic of a step: tp 64 x 128MiB all_reduce, pp 16 x 64MiB sendrecv, dp 1 x 2GiB all_reduce",
        " by the uncalibrated bands: tensor ",
        "pipelines   ",
        "certificate no placement has a step below ",
        "flat view   one all_reduce over all ranks would take ",
        " SLOWEST GROUP  RANKS  ISOLATED  EFFECTIVE ",
        "rank order tp-",
        " RANKS ",
        "OpenMPI",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let (_, out, err) = run(folder.path(), &[&args[..], &["--json"]].concat());
    assert_eq!(err, "");
    let answer: Value = serde_json::from_str(&out).unwrap();
    check_ranks(&answer, [2, 4, 3]);
    let steps = ["total", "pipeline"].map(|part| answer["step_seconds"][part].as_f64().unwrap());
    assert!(steps[0] > steps[1] && steps[1] > 0.0, "{answer}");
    let bound = answer["lower_bound_seconds"].as_f64().unwrap();
    assert!(bound <= steps[0] && bound > 0.0);
}

#[test]
fn the_flat_view_is_worse_or_the_same() {
    // 12 GPUs: flat takes 6 + 6, into which groups of four do not fit.
    let groups = answer(&["tp=4,dp=3"]);
    let flat = &groups["flat"];
    assert_eq!(flat["placement"]["h1"].as_array().unwrap().len(), 6);
    assert_eq!((&flat["step_seconds"], &flat["longer"]), (&Value::Null, &Value::Null));
    let folder = folder_with(&[]);
    let (_, out, _) = run(folder.path(), &["dispatch", "--parallel", "tp=4,dp=3"]);
    assert!(out.contains("would take h1:0-5,h2:0-5: the groups do not fit into it"), "{out}");
    let pairs = answer(&["tp=2,dp=6"]);
    assert!(pairs["flat"]["longer"].as_f64().unwrap() >= 0.0, "{pairs}");
}

#[test]
fn other_options_narrow_the_choice() {
    let on = |extra: &[&str]| counts(&answer(&[&["tp=2,dp=6"], extra].concat()));
    assert_eq!(on(&["--hosts", "3", "--uniform"]), [4, 4, 4]);
    assert_eq!(on(&["--per-host", "6"]), [6, 6]);
    assert_eq!(on(&["--max-hosts", "2", "--exclude", "h1"]), [8, 4]);
    let kept = answer(&["tp=4,dp=2", "--spare-hosts", "1", "--protect", "0"]);
    assert_eq!(kept["spares"].as_object().unwrap().len(), 1);
    assert_eq!(kept["request"]["protect"], 0.0);
    assert_eq!(answer(&["tp=1"])["ranks"].as_array().unwrap().len(), 1);
}

#[test]
fn parts_that_are_wrong_are_pointed_at() {
    let folder = folder_with(&[]);
    for (parallel, traffic, column, field) in [
        ("tp=8,pp=0", None, 6, "pp=0"),
        ("tp=8,ep=2", None, 6, "ep=2"),
        ("tp=8,tp=8", None, 6, "tp=8"),
        ("tp=8,dp=x", None, 6, "dp=x"),
        ("tp=8,dp", None, 6, "dp"),
        ("tp=2", Some("tp=64"), 1, "tp=64"),
        ("tp=2", Some("dp=0,tp=1x1Q"), 6, "tp=1x1Q"),
        ("tp=2", Some("dp=0,cp=0"), 6, "cp=0"),
        ("tp=2", Some("tp=-1x1GiB"), 1, "tp=-1x1GiB"),
    ] {
        let mut args = vec!["dispatch", "--parallel", parallel];
        args.extend(traffic.iter().flat_map(|text| ["--traffic", text]));
        let option = args[args.len() - 2];
        let (err, error) = refused(folder.path(), &args, 2);
        assert!(err.starts_with(&format!("{option}:1:{column}: error: {field}: ")), "{err}");
        assert_eq!((&error["field"], &error["column"]), (&json!(field), &json!(column)));
    }
}

#[test]
fn bad_requests_are_refused_with_the_option() {
    let folder = folder_with(&[]);
    for args in [
        "--parallel tp=4294967296,dp=4294967296",
        "--parallel tp=1000000,pp=1000000",
        "--parallel tp=2 --gpus 2",
        "--parallel tp=2 --instances 1 --gpus-per-instance 2",
        "--parallel tp=2 --op alltoall",
        "--parallel tp=2 --bytes 1GiB",
        "--parallel tp=2 --min-busbw 10",
        "--parallel tp=2 --compare topo",
        "--parallel tp=4,dp=3 --per-host 6",
        "--parallel tp=4,dp=3 --per-host 8",
        "--gpus 2 --traffic tp=0",
        "--parallel",
        "--parallel=",
    ] {
        let args: Vec<&str> = ["dispatch"].into_iter().chain(args.split(' ')).collect();
        refused(folder.path(), &args, 2);
    }
    for (args, option, possible) in [
        ("tp=8,dp=3", "--parallel", "at most 2 instances of 8 GPUs"),
        ("tp=8,dp=4", "--parallel", "at most 24 GPUs"),
        ("tp=16", "--parallel", "possible: "),
        ("tp=4,dp=2 --hosts 3", "--hosts", "possible: "),
        ("tp=4,dp=6 --protect 0", "--protect", "--protect "),
        ("tp=8,dp=2 --spare-hosts 1", "--spare-hosts", "--spare-hosts 0"),
        ("tp=4,dp=2 --include h9", "", ""),
    ] {
        let args: Vec<&str> =
            ["dispatch", "--parallel"].into_iter().chain(args.split(' ')).collect();
        let code = if option.is_empty() { 3 } else { 4 };
        let (_, error) = refused(folder.path(), &args, code);
        if code == 4 {
            assert_eq!(error["field"], option, "{args:?} {error}");
            assert!(error["help"].as_str().unwrap().contains(possible), "{args:?} {error}");
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_and_deadlines_hold() {
    let folder = folder_with(&[("c", &many_hosts()), ("s", &many_jobs())]);
    let base = ["dispatch", "--cluster", "c", "--state", "s", "--json", "--parallel"];
    for groups in ["tp=4,dp=10", "tp=2,pp=4,dp=6"] {
        let args = [&base[..], &[groups]].concat();
        let first = run(folder.path(), &args);
        assert_eq!(first.0, 0, "{groups}\n{}", first.1);
        assert_eq!(run(folder.path(), &args), first, "{groups}");
        let (code, out, _) = run(folder.path(), &[&args[..], &["--deadline-ms", "0"]].concat());
        assert_eq!(code, 0, "{groups}\n{out}");
    }
}
