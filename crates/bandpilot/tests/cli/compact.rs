use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng as _;
use serde_json::Value;

use crate::fragmentation::{cluster, job};
use crate::{docs_folder, folder_with, refused, run, run_json};

const CLUSTER: &str = "name = 'c'\n[[host_type]]\nname = 'e'\ngpu_model = 'H100'\ngpus = 8\nlinks = 'nvswitch'\nrails = { gbit_per_s = 200 }\n[[hosts]]\nnames = 'e[1-4]'\ntype = 'e'\n";
const STATE: &str = "[[job]]\nname = 'a'\nplacement = 'e1:0-3'\n[[job]]\nname = 'b'\nplacement = 'e2:4-7'\n[[job]]\nname = 'c'\nplacement = 'e3:0-1,e4:0-1'\ninstance_gpus = 2\n";

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["compact", "--cluster", "cluster.toml", "--state", "state.toml"];
    words.extend(more);
    words
}

const FILES: &str = "--cluster cluster.toml --state";

fn compact(folder: &Path, state: &str, more: &str) -> (i32, Value) {
    let line = format!("compact {FILES} {state} {more}");
    run_json(folder, &line.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn what_is_advised_leaves_nothing_to_advise() {
    let folder = folder_with(&[("cluster.toml", CLUSTER), ("state.toml", STATE)]);
    let (code, value) = run_json(folder.path(), &words(&["--out", "after.toml"]));
    assert_eq!((code, value["verdict"].as_str()), (0, Some("moves")), "{value:#}");
    assert_eq!(value["before"]["n_sif"], 3, "{value:#}");
    assert_eq!(value["after"]["n_sif"], 0, "{value:#}");
    assert_eq!(value["after"]["in_use"], 2, "{value:#}");
    fs::rename(folder.path().join("after.toml"), folder.path().join("state.toml")).unwrap();
    let (code, again) = run_json(folder.path(), &words(&[]));
    assert_eq!((code, again["verdict"].as_str()), (0, Some("nothing_to_do")), "{again:#}");
    assert_eq!(again["before"], value["after"]);
}

#[test]
fn a_job_fits_after_the_cheapest_move_and_only_if_it_pays() {
    let folder = folder_with(&[("cluster.toml", CLUSTER), ("state.toml", STATE)]);
    let (code, value) = run_json(folder.path(), &words(&["--for", "8"]));
    // The four GPUs of a or b, or those of c, which stop as a whole: four in any case, 8 s each.
    assert_eq!((code, &value["cost_gpu_s"]), (0, &32.0.into()), "{value:#}");
    assert_eq!(
        (value["fits"].as_array().unwrap().len(), &value["fits"][0]["gpus"]),
        (1, &8.into())
    );
    // Worth 8 GPUs x 3 s.
    let (code, value) = run_json(folder.path(), &words(&["--for", "8", "--expected-wait", "3s"]));
    assert_eq!((code, value["verdict"].as_str()), (0, Some("does_not_pay")), "{value:#}");
    assert_eq!((&value["would_cost_gpu_s"], &value["worth_gpu_s"]), (&32.0.into(), &24.0.into()));
    assert!(value["moves"].as_array().unwrap().is_empty());
    let (code, value) = run_json(folder.path(), &words(&["--for", "2x4"]));
    assert_eq!((code, value["verdict"].as_str()), (0, Some("nothing_to_do")), "{value:#}");
    let (code, value) = run_json(folder.path(), &words(&["--for", "3x8"]));
    assert_eq!((code, value["verdict"].as_str()), (4, Some("nothing_helps")), "{value:#}");
    let (code, value) = run_json(folder.path(), &words(&["--for", "8", "--pin", "a,b,c"]));
    assert_eq!((code, value["verdict"].as_str()), (4, Some("nothing_helps")), "{value:#}");
    assert_eq!(value["before"], value["after"]);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = folder_with(&[("cluster.toml", CLUSTER), ("state.toml", STATE)]);
    let path = folder.path();
    let (code, _, err) = run(path, &words(&["--for", "4by8"]));
    assert!(code == 2 && err.contains("such as 4x8"), "{err}");
    let (code, _, err) = run(path, &words(&["--pin", "nobody"]));
    assert!(
        code == 2 && err.contains("no job is named 'nobody'") && err.contains("a, b, c"),
        "{err}"
    );
    let (code, _, err) = run(path, &words(&["--for", "2x16"]));
    assert!(code == 4 && err.contains("no host has as many GPUs"), "{err}");
    let (code, _, err) = run(path, &words(&["--for", "0"]));
    assert_eq!(code, 2, "{err}");
}

#[test]
fn pinned_for_one_run_is_not_pinned_for_good_and_files_are_not_overwritten() {
    let folder = docs_folder();
    let path = folder.path();
    let (_, value) = compact(path, "fragmented.toml", "--for 8 --pin vision --out after.toml");
    let moves = value["moves"].as_array().unwrap();
    assert!(!moves.is_empty() && moves.iter().all(|step| step["job"] != "vision"), "{value}");
    let after = fs::read_to_string(path.join("after.toml")).unwrap();
    assert_eq!(after.matches("pinned = true").count(), 1, "{after}");
    let again = [
        "compact",
        "--cluster",
        "cluster.toml",
        "--state",
        "fragmented.toml",
        "--for",
        "8",
        "--out",
        "after.toml",
    ];
    let (err, _) = refused(path, &again, 3);
    assert!(err.contains("after.toml") && err.contains("--force"), "{err}");
    assert_eq!(fs::read_to_string(path.join("after.toml")).unwrap(), after);
    assert_eq!(run(path, &[&again[..], &["--force"]].concat()).0, 0);
    // A job that cannot be helped leaves no file.
    let (code, value) = compact(path, "fragmented.toml", "--for 16 --out none.toml");
    assert_eq!((code, &value["out"], path.join("none.toml").exists()), (4, &Value::Null, false));
    // Where nothing may move, nothing better is no failure.
    let (code, value) = compact(path, "fragmented.toml", "--pin vision,llm,rl,sweep");
    assert_eq!((code, &value["verdict"]), (0, &"nothing_helps".into()));
}

#[test]
fn a_job_on_hosts_of_two_models_costs_all_its_gpus() {
    let state = job("both", "e1:0-3,f1", "") + &job("stays", "e2:0-3", "pinned = true");
    let files = [("cluster.toml", &*cluster(2, 1)), ("state.toml", &*state)];
    let folder = folder_with(&files);
    let (_, value) = compact(folder.path(), "state.toml", "--for 8");
    assert_eq!((&value["gpus"], &value["cost_gpu_s"]), (&8.into(), &64.0.into()), "{value}");
    let (_, value) = compact(folder.path(), "state.toml", "--for 8 --expected-wait 7s");
    assert_eq!(
        (&value["verdict"], &value["would_cost_gpu_s"]),
        (&"does_not_pay".into(), &64.0.into())
    );
}

#[test]
fn an_instance_gets_the_gpus_that_reach_each_other_best() {
    let links = "['X NODE NV4 NODE', 'NODE X NODE NV4', 'NV4 NODE X NODE', 'NODE NV4 NODE X']";
    let text = format!(
        "name = 'm'\n[[host_type]]\nname = 'e'\ngpu_model = 'A6000'\ngpus = 4\nlinks = {links}\nnics = [{{ name = 'n', gbit_per_s = 100, gpus = '0-3' }}]\n[[hosts]]\nnames = 'e[1-3]'\ntype = 'e'\n"
    );
    let state =
        job("a", "e1:0,e1:2", "") + &job("b", "e2:3", "pinned = true") + &job("c", "e3", "");
    let folder = folder_with(&[("cluster.toml", &*text), ("state.toml", &*state)]);
    let (code, out, err) = run(
        folder.path(),
        &["compact", "--cluster", "cluster.toml", "--state", "state.toml", "--for", "4"],
    );
    assert!(code == 0 && out.contains("e1:0,2  e2:0,2"), "{out}{err}");
}

#[test]
fn instances_that_meet_on_a_host_stay_apart_in_the_state() {
    let state = job("pair", "e1:0-3,e2:4-7", "") + &job("pin", "e3:0-1", "pinned = true");
    let files = [("cluster.toml", &*cluster(3, 0)), ("state.toml", &*state)];
    let folder = folder_with(&files);
    let path = folder.path();
    let (_, value) = compact(path, "state.toml", "--out after.toml");
    assert_eq!((&value["verdict"], &value["after"]["n_sif"]), (&"moves".into(), &0.into()));
    let after = std::fs::read_to_string(path.join("after.toml")).unwrap();
    assert!(after.contains("instance_gpus = 4") && after.contains("pinned = true"), "{after}");
    let (_, value) = compact(path, "after.toml", "");
    assert_eq!(value["verdict"], "nothing_to_do");
    // Of several sizes, the state cannot say so.
    let state = job("odd", "e1:0-3,e2:4-6", "") + &job("more", "e3:0", "");
    std::fs::write(path.join("state.toml"), state).unwrap();
    let (_, value) = compact(path, "state.toml", "--tau 0");
    assert_eq!(value["verdict"], "moves");
    let met = value["moves"].as_array().unwrap().iter().any(|step| step["job"] == "odd");
    let told = value["diagnostics"].as_array().unwrap().iter().any(|remark| {
        remark["message"].as_str().unwrap().contains("job 'odd' has instances of several sizes")
    });
    assert_eq!(met, told, "{value}");
}

/// A state of many small jobs on two pools; some GPUs are not usable.
fn scattered(random: &mut Pcg64, eights: usize, fours: usize, pinned: bool) -> String {
    let mut state = String::new();
    let mut gone = Vec::new();
    for (name, gpus, hosts) in [("e", 8, eights), ("f", 4, fours)] {
        for host in 1..=hosts {
            let mut at = 0;
            while at < gpus {
                let size = [1, 1, 1, 2, 2, 3, 4, 5][random.random_range(0..8)].min(gpus - at);
                let last = at + size - 1;
                match random.random_range(0..10) {
                    0 => gone.push(format!("{name}{host}:{at}")),
                    1..=5 => {
                        let pin = pinned && random.random_range(0..5) == 0;
                        let more = format!("pinned = {pin}");
                        state += &job(
                            &format!("j{name}{host}-{at}"),
                            &format!("{name}{host}:{at}-{last}"),
                            &more,
                        );
                    }
                    _ => {}
                }
                at += size;
            }
        }
    }
    format!("unavailable = '{}'\n{state}", gone.join(","))
}

/// Job, size and host of every instance, by what the state file of a run says.
fn instances(folder: &Path, state: &str) -> (BTreeMap<(String, u64), Vec<String>>, Value) {
    let line = format!("cluster fragmentation {FILES} {state}");
    let (code, value) = run_json(folder, &line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(code, 0, "{value}");
    let mut found: BTreeMap<(String, u64), Vec<String>> = BTreeMap::new();
    for host in value["hosts"].as_array().unwrap() {
        for part in host["instances"].as_array().unwrap() {
            let key = (part["job"].as_str().unwrap().to_owned(), part["count"].as_u64().unwrap());
            found.entry(key).or_default().push(host["host"].as_str().unwrap().to_owned());
        }
    }
    (found, value["total"].clone())
}

#[test]
fn states_after_moves_hold_what_was_said_and_need_no_more() {
    let mut random = Pcg64::seed_from_u64(1);
    let mut moved = [0; 2];
    for round in 0..60 {
        let state = scattered(&mut random, 6, 3, round % 2 == 0);
        let files = [("cluster.toml", &*cluster(6, 3)), ("state.toml", &*state)];
        let folder = folder_with(&files);
        let path = folder.path();
        let (before, _) = instances(path, "state.toml");
        for (at, more) in ["--tau 0", "--for 1x8"].into_iter().enumerate() {
            let (code, value) =
                compact(path, "state.toml", &format!("{more} --out after.toml --force"));
            if code == 4 {
                continue;
            }
            let (after, total) = instances(path, "after.toml");
            for (key, is) in [("hosts_partial", "partial"), ("n_sif", "n_sif"), ("enl", "enl")] {
                assert_eq!(total[key], value["after"][is], "{state}\n{value}");
            }
            assert!(before.keys().eq(after.keys()), "{state}");
            let pinned = |key: &(String, u64)| {
                state.contains(&format!("name = '{}'\n", key.0))
                    && state.split("[[job]]").any(|part| {
                        part.contains(&format!("name = '{}'\n", key.0))
                            && part.contains("pinned = true")
                    })
            };
            for (key, hosts) in &before {
                assert!(!pinned(key) || after[key] == *hosts, "{key:?} moved\n{state}");
            }
            let steps = value["moves"].as_array().unwrap();
            let changed = before.iter().filter(|(key, hosts)| after[*key] != **hosts).count();
            assert_eq!(changed, steps.len(), "{state}\n{value}");
            moved[at] += usize::from(!steps.is_empty());
            let (_, again) = compact(path, "after.toml", more);
            assert_eq!(again["moves"], Value::Array(vec![]), "{more}\n{state}\n{value}\n{again}");
        }
    }
    assert!(moved[0] > 20 && moved[1] > 5, "{moved:?}");
}

#[test]
fn a_large_cluster_is_compacted() {
    let mut random = Pcg64::seed_from_u64(2);
    let state = scattered(&mut random, 1_000, 200, false);
    let files = [("cluster.toml", &*cluster(1_000, 200)), ("state.toml", &*state)];
    let folder = folder_with(&files);
    let path = folder.path();
    let (code, value) = compact(path, "state.toml", "--for 4x8");
    assert_eq!((code, value["fits"].as_array().unwrap().len()), (0, 4));
    let (code, value) = compact(path, "state.toml", "--tau 10");
    assert_eq!((code, &value["verdict"]), (0, &"moves".into()));
    let is = |side: &str| value[side]["n_sif"].as_u64().unwrap();
    assert!(is("before") > 100 && is("after") <= 40, "{} {}", is("before"), is("after"));
}
