use serde_json::Value;

use crate::{bandpilot, folder_with, run, run_json};

const NODES: &str =
    "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,393216,8,T4\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    p,6000,12288,1,460,\nq,12000,16384,1,1000,T4\nr,1000,1024,0,0,\ns,8000,8192,2,1000,P100|T4\n";

fn openb(file: &str) -> Option<String> {
    let data = bandpilot_testdata::require_data("cli::fill_openb")?;
    Some(data.join("traces/openb").join(file).to_string_lossy().into_owned())
}

#[test]
fn the_published_lists_give_the_published_order() {
    let Some(nodes) = openb("openb_node_list_gpu_node.csv.gz") else { return };
    let Some(pods) = openb("openb_pod_list_default.csv.gz") else { return };
    let folder = folder_with(&[]);
    let args = ["fill", "--nodes", &nodes, "--pods", &pods, "--seeds", "42-43"];
    let (code, report) = run_json(folder.path(), &args);
    assert_eq!(
        (code, report["gpus"].as_u64(), report["bad_rows"].as_u64()),
        (0, Some(6212), Some(0))
    );
    assert_eq!(format!("{:.2}", report["empty_frag_pct"].as_f64().unwrap()), "13.94");
    for (at, policy, alloc_pct) in [(0, "fgd", 95.39), (1, "best-fit", 93.08), (2, "random", 87.47)]
    {
        let row = &report["policies"][at];
        assert_eq!(row["policy"], policy);
        let found = row["alloc_pct"]["mean"].as_f64().unwrap();
        assert!((found - alloc_pct).abs() < 0.7, "{policy}: {found}");
        assert_eq!(row["points"].as_array().unwrap().len(), 13);
    }
    let (_, out, _) = run(folder.path(), &args);
    assert!(out.contains("1213 nodes, 6212 GPUs") && out.contains("13.94 % fragmented"), "{out}");
}

#[test]
fn threads_and_repetition_change_nothing_and_seeds_do() {
    let folder = folder_with(&[("n.csv", NODES), ("p.csv", PODS)]);
    let printed = |threads: &str, seeds: &str| {
        let args = ["fill", "--nodes", "n.csv", "--pods", "p.csv", "--json", "--seeds", seeds];
        let output =
            bandpilot(folder.path()).args(args).env("RAYON_NUM_THREADS", threads).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let one = printed("1", "1-20");
    assert_eq!(one, printed("8", "1-20"));
    let other: Value = serde_json::from_str(&printed("8", "21-40")).unwrap();
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_ne!(one["policies"], other["policies"]);
}

#[test]
fn wrong_rows_are_told_and_left_out() {
    let nodes = format!("{NODES}c,x,1,1,T4\n");
    let pods = format!("{PODS}t,1,1,2,500,\n");
    let folder = folder_with(&[("n.csv", &nodes), ("p.csv", &pods)]);
    let args = ["fill", "--nodes", "n.csv", "--pods", "p.csv", "--to", "80"];
    let (code, out, err) = run(folder.path(), &args);
    assert_eq!(code, 6);
    assert!(err.contains("n.csv:4: error: cpu_milli: 'x' is not a whole number"), "{err}");
    assert!(err.contains("p.csv:6: error: gpu_milli: 500 thousandths of 2 GPUs"), "{err}");
    assert!(out.contains("wrong rows, left out: 2") && !out.contains("AT 100"), "{out}");
    let (_, report) = run_json(folder.path(), &args);
    assert_eq!((report["bad_rows"].as_u64(), report["pods"].as_u64()), (Some(2), Some(4)));
    assert!(report["policies"][0]["alloc_at_100_pct"].is_null());
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = folder_with(&[
        ("n.csv", NODES),
        ("p.csv", PODS),
        ("cpu.csv", "name,cpu_milli,num_gpu,gpu_milli\np,1,0,0\n"),
        ("bare.csv", "sn,cpu_milli,gpu\na,1,0\n"),
        ("empty.csv", "sn,cpu_milli,gpu\n"),
    ]);
    for (args, code, part) in [
        (
            &["n.csv", "--pods", "p.csv", "--policy", "fdg"][..],
            3,
            "'fdg' is not a policy; there are fgd",
        ),
        (&["n.csv", "--pods", "p.csv", "--policy", "fgd,fgd"], 3, "stands twice"),
        (&["n.csv", "--pods", "p.csv", "--seeds", "9-1"], 2, "'9-1' ends before"),
        (&["n.csv", "--pods", "p.csv", "--to", "0"], 2, "--to"),
        (&["n.csv"], 2, "--pods"),
        (&["p.csv", "--pods", "n.csv"], 3, "p.csv:1: error: sn: the table has no such column"),
        (&["n.csv", "--pods", "cpu.csv"], 3, "cpu.csv: error: no pod asks for a GPU"),
        (&["bare.csv", "--pods", "p.csv"], 3, "bare.csv: error: no node has a GPU"),
        (&["empty.csv", "--pods", "p.csv"], 3, "the list has no node"),
        (&["none.csv", "--pods", "p.csv"], 5, "failed to read it"),
    ] {
        let args = [&["fill", "--nodes"], args].concat();
        let (found, out, err) = run(folder.path(), &args);
        assert_eq!((found, out.as_str()), (code, ""), "{args:?}\n{err}");
        assert!(err.contains(part), "{args:?}\n{err}");
        let (found, answer) = run_json(folder.path(), &args);
        assert_eq!(found, code);
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}
