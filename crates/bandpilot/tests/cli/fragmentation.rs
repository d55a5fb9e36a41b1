use std::fmt::Write as _;

use serde_json::Value;

use crate::{docs_folder, folder_with, refused, run, run_json};

const COMMAND: [&str; 6] =
    ["cluster", "fragmentation", "--cluster", "cluster.toml", "--state", "state.toml"];

/// A cluster file of so many hosts of 8 GPUs and, if any, of so many of 4.
pub fn cluster(eights: usize, fours: usize) -> String {
    let mut text = "name = 'big'\n".to_owned();
    for (name, model, gpus, hosts) in [("e", "H100", 8, eights), ("f", "A10", 4, fours)] {
        if hosts > 0 {
            writeln!(text, "[[host_type]]\nname = '{name}'\ngpu_model = '{model}'\ngpus = {gpus}\nlinks = 'nvswitch'\nrails = {{ gbit_per_s = 200 }}").unwrap();
            writeln!(text, "[[hosts]]\nnames = '{name}[1-{hosts}]'\ntype = '{name}'").unwrap();
        }
    }
    text
}

pub fn job(name: &str, placement: &str, more: &str) -> String {
    format!("[[job]]\nname = '{name}'\nplacement = '{placement}'\n{more}\n")
}

fn of(cluster: &str, state: &str) -> (String, Value) {
    let folder = folder_with(&[("cluster.toml", cluster), ("state.toml", state)]);
    let (code, out, err) = run(folder.path(), &COMMAND);
    assert_eq!((code, err.as_str()), (0, ""));
    (out, run_json(folder.path(), &COMMAND).1)
}

#[test]
fn hosts_and_measures_of_two_pools() {
    let state = job("a", "e[1-2]:0-3", "")
        + &job("b", "e3:1-6", "instance_gpus = 2\npinned = true")
        + &job("c", "f1:0-1", "")
        + "";
    let state = "unavailable = 'e4:0-7,f2:3'\n".to_owned() + &state;
    let (out, value) = of(&cluster(4, 2), &state);
    for line in [
        "   e1    4444....  partial   a 4",
        "   e3    .222222.  partial   b 2+2+2 pinned",
        "   e4    --------  unusable",
        "   f1    22..  partial  c 2",
        "   f2    ...-  empty",
    ] {
        assert!(out.lines().any(|is| is == line), "{line}\n{out}");
    }
    let total = &value["total"];
    let is = |key: &str| total[key].as_i64().unwrap();
    // 4+4 and 2+2+2 beside a 2 of the other pool, which cannot come.
    assert_eq!((is("hosts"), is("hosts_partial"), is("phi"), is("n_sif")), (5, 4, 2, 2));
    assert_eq!((is("enl"), is("n_sif_movable"), is("gpus"), is("gpus_held")), (1, 2, 31, 16));
    let pools = value["pools"].as_array().unwrap();
    assert_eq!((&pools[0]["pool"], &pools[1]["pool"]), (&"H100 x 8".into(), &"A10 x 4".into()));
    assert_eq!(pools[1]["n_sif"], 0);
    assert_eq!(value["hosts"][2]["instances"][1]["gpus"], "3-4");
    assert_eq!(value["hosts"][2]["instances"][1]["pinned"], true);
}

#[test]
fn a_large_cluster_is_folded_into_groups_of_alike_hosts() {
    let mut state = String::new();
    for host in 1..=1_200 {
        match host % 6 {
            0 => state += &job(&format!("whole{host}"), &format!("e{host}:0-7"), ""),
            // Where a job lies on a host makes no difference.
            1 => state += &job(&format!("low{host}"), &format!("e{host}:0-2"), ""),
            2 => state += &job(&format!("high{host}"), &format!("e{host}:5-7"), ""),
            3 => state += &job(&format!("held{host}"), &format!("e{host}:0-2"), "pinned = true"),
            _ => {}
        }
    }
    let (out, value) = of(&cluster(1_200, 0), &state);
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    assert!(out.lines().count() < 25, "{out}");
    let groups =
        ["400    333.....  partial  -", "200    333.....  partial  3", "200    88888888  full"];
    for group in groups {
        assert!(out.contains(group), "{group}\n{out}");
    }
    assert!(out.contains(" more\n"), "{out}");
    // Pairs of 3 and 3 leave 2 idle; nothing completes them.
    let is = |key: &str| value["total"][key].as_i64().unwrap();
    assert_eq!((is("hosts_partial"), is("phi"), is("n_sif"), is("enl")), (600, 300, 300, 300));
    assert_eq!((is("n_sif_movable"), is("wcc_slack")), (300, -600));
    assert_eq!(
        (&value["total"]["wcc"], &value["total"]["phi_proof"]),
        (&false.into(), &"exact".into())
    );
    assert_eq!(value["hosts"].as_array().unwrap().len(), 1_200);
}

#[test]
fn idle_gpus_are_of_use_to_the_mix_or_not() {
    // Of two instances of 4 and one of 2, the 2 idle GPUs of a host are of use to the last only.
    let state = job("a", "e1:0-3", "") + &job("b", "e2:0-3", "") + &job("c", "e1:4-5", "");
    let (out, value) = of(&cluster(2, 0), &state);
    let unusable = value["total"]["f_gpus"].as_f64().unwrap();
    assert!((unusable - 2.0 * 2.0 / 3.0).abs() < 1e-9, "{unusable}");
    assert!(out.contains("of 6 GPUs idle, 1.3 on average"), "{out}");
    // The jobs of a trace: all of them want a whole host.
    let trace = "submit_s,duration_s,gpus\n0,10,8\n0,10,16\n";
    let files = [("cluster.toml", &*cluster(2, 0)), ("state.toml", &*state), ("t.csv", trace)];
    let folder = folder_with(&files);
    let args = [&COMMAND[..], &["--trace", "t.csv"]].concat();
    let (code, value) = run_json(folder.path(), &args);
    assert_eq!(
        (code, value["total"]["f_gpus"].as_f64(), &value["mix"]),
        (0, Some(6.0), &"t.csv".into())
    );
    assert!((value["total"]["f_share"].as_f64().unwrap() - 6.0 / 16.0).abs() < 1e-9);
}

#[test]
fn an_idle_cluster_has_nothing_to_mend() {
    let (out, value) = of(&cluster(3, 0), "");
    assert!(out.contains("not known: nothing runs"), "{out}");
    assert_eq!(value["total"]["f_gpus"], Value::Null);
    assert_eq!((&value["total"]["n_sif"], &value["total"]["wcc"]), (&0.into(), &true.into()));
}

#[test]
fn what_is_wrong_is_refused_with_file_and_line() {
    let folder = docs_folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("odd.toml", &job("a", "a1:0-3,a2:0-4", "instance_gpus = 2"));
    write("none.csv", "submit_s,duration_s,gpus\n0,10,0\n");
    write("broken.csv", "submit_s,duration_s,gpus\n0,10,four\n0,10,4\n");
    let with = |state: &str| -> Vec<String> {
        let args = ["cluster", "fragmentation", "--cluster", "cluster.toml", "--state", state];
        args.map(str::to_owned).to_vec()
    };
    let words = |args: &[String]| args.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let refuse = |line: &str, code: i32| {
        let args: Vec<&str> = line.split(' ').collect();
        refused(folder.path(), &args, code).0
    };
    let odd = refuse(&words(&with("odd.toml")), 3);
    assert!(
        odd.contains("odd.toml:4:17: error: job.instance_gpus: 2 does not divide the 5 GPUs on a2"),
        "{odd}"
    );
    assert!(refuse(&words(&with("absent.toml")), 5).contains("absent.toml"));
    let trace = |name: &str| words(&with("state.toml")) + " --trace " + name;
    assert!(refuse(&trace("none.csv"), 3).contains("no job of the trace asks for a GPU"));
    refuse("cluster fragmentation --cluster cluster.toml", 2);
    let line = trace("broken.csv");
    let (code, out, err) = run(folder.path(), &line.split(' ').collect::<Vec<_>>());
    assert!(
        code == 6 && err.contains("broken.csv:2") && out.contains("broken.csv"),
        "{code} {err}{out}"
    );
}
