use std::fs;

use crate::{folder_with, run, run_json};

const CLUSTER: &str = "name = 'c'\n[[host_type]]\nname = 'e'\ngpu_model = 'H100'\ngpus = 8\nlinks = 'nvswitch'\nrails = { gbit_per_s = 200 }\n[[hosts]]\nnames = 'e[1-4]'\ntype = 'e'\n";
const STATE: &str = "[[job]]\nname = 'a'\nplacement = 'e1:0-3'\n[[job]]\nname = 'b'\nplacement = 'e2:4-7'\n[[job]]\nname = 'c'\nplacement = 'e3:0-1,e4:0-1'\ninstance_gpus = 2\n";

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["compact", "--cluster", "cluster.toml", "--state", "state.toml"];
    words.extend(more);
    words
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
