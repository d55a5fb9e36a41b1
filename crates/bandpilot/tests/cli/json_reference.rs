//! The reference pages list the keys of the JSON output and of the model file: all of them, and no others.
//!
//! A page has tables with the columns key, type and meaning. Keys that are names of hosts and the like
//! are in capitals there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::cluster::GOOD;
use crate::slurm::{CLUSTER, RECORDING};
use crate::slurm_trace::RECORDING as HISTORY;
use crate::slurm_verify::{AUDIT, RECORDING as VERIFY, driver, here};
use crate::{docs_folder, folder_with, repository, run};

/// Objects whose keys are data, and what the pages call those keys.
const BY_NAME: [(&str, &str); 14] = [
    ("states", "STATE"),
    ("jobs[].gpus", "HOST"),
    ("placement", "HOST"),
    ("alternatives[].placement", "HOST"),
    ("compared[].placement", "HOST"),
    ("flat.placement", "HOST"),
    ("better.placement", "HOST"),
    ("spares", "HOST"),
    ("launch.environment", "HOST"),
    ("launch.torchrun", "HOST"),
    ("commands[].environment", "VARIABLE"),
    ("modes", "MODE"),
    ("modes.MODE", "POLICY"),
    ("cross_validation.groups", "GROUP"),
];

type Keys = BTreeMap<String, BTreeSet<&'static str>>;

/// Paths of everything that holds no further keys, with the types that occur.
fn collect(value: &Value, path: &str, keys: &mut Keys) {
    match value {
        Value::Object(members) => {
            let by_name = BY_NAME.iter().find(|(of, _)| *of == path).map(|(_, name)| *name);
            for (key, member) in members {
                let key = by_name.unwrap_or(key);
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                collect(member, &path, keys);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for item in items {
                collect(item, &format!("{path}[]"), keys);
            }
        }
        Value::Array(items) if items.is_empty() => {}
        leaf => {
            let kind = match leaf {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(number) if number.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(_) => "text",
                _ => "list",
            };
            keys.entry(path.to_owned()).or_default().insert(kind);
        }
    }
}

/// Keys and types in the tables of one section (heading without `##`) of a page.
fn documented(page: &str, section: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(repository().join("docs/reference").join(page)).unwrap();
    let heading = format!("\n## {section}\n");
    let (_, after) = text.split_once(&heading).unwrap_or_else(|| panic!("{page}: no {section}"));
    let part = after.split("\n## ").next().unwrap_or("");
    part.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.strip_suffix('`')?;
            Some((key.to_owned(), cells.next()?.trim().to_owned()))
        })
        .collect()
}

pub fn compare(page: &str, section: &str, values: &[Value]) {
    let mut keys = Keys::new();
    for value in values {
        collect(value, "", &mut keys);
    }
    let documented = documented(page, section);
    let is: Vec<&String> = keys.keys().collect();
    let told: Vec<&String> = documented.keys().collect();
    assert_eq!(is, told, "keys of {page}, {section} (left: printed, right: documented)");
    for (key, kinds) in keys {
        let told: BTreeSet<&str> = documented[&key].split(" or ").collect();
        let fits = |kind: &&&str| told.iter().any(|word| word.starts_with(**kind));
        assert!(kinds.iter().all(|kind| fits(&kind)), "{page}: {key} is {kinds:?}, not {told:?}");
    }
}

fn json(folder: &std::path::Path, command: &str) -> Value {
    let mut args: Vec<&str> = command.split(' ').collect();
    args.push("--json");
    let (_, out, err) = run(folder, &args);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{command}: {error}\n{out}{err}"))
}

/// A store with one reading of 2 GiB for each placement.
fn store(placements: impl IntoIterator<Item = String>) -> String {
    let mut text = "# bandpilot measurements v1\n".to_owned();
    for (line, placement) in placements.into_iter().enumerate() {
        writeln!(
            text,
            r#"{{"op":"all_reduce","bytes":2147483648,"placement":"{placement}","busbw_gbytes_per_s":9.5,"source":"t","line":{line}}}"#
        )
        .unwrap();
    }
    text
}

/// A folder with the examples, a fitted model, and a cluster file with a remark.
fn prepared() -> tempfile::TempDir {
    let folder = docs_folder();
    let path = folder.path();
    json(path, "measure import nccl-a1.txt nccl-a1-a2.txt --out store.jsonl");
    json(path, "fit --measurements store.jsonl --cluster cluster.toml --out model.json");
    let text = fs::read_to_string(path.join("cluster.toml")).unwrap();
    fs::write(path.join("remark.toml"), text + "leef = 'x'\n").unwrap();
    let ids = "\nleef = 'x'\npci_bus_ids = ['0000:1b:00.0', '']\nuuids = ['GPU-a', '']\n";
    fs::write(path.join("shown.toml"), GOOD.to_owned() + ids).unwrap();
    folder
}

#[test]
fn dispatch() {
    let folder = prepared();
    let path = folder.path();
    let values = [
        json(path, "dispatch --gpus 12"),
        json(
            path,
            "dispatch --gpus 20 --cluster remark.toml --model model.json --state state.toml --protect 90%",
        ),
        json(
            path,
            "dispatch --instances 2 --gpus-per-instance 1 --spare-hosts 1 --compare topo --uniform",
        ),
        json(path, "dispatch --gpus 1 --compare topo"),
        json(path, "dispatch --gpus 12 --tradeoff 3%"),
    ];
    compare("dispatch-json.md", "Result", &values);
    let errors = [
        json(path, "dispatch --gpus 99"),
        json(path, "dispatch --gpus 9 --cluster state.toml"),
        json(path, "dispatch --gpus nine"),
    ];
    compare("dispatch-json.md", "Error", &errors);
}

#[test]
fn fragmentation() {
    let folder = prepared();
    let path = folder.path();
    fs::write(path.join("nothing.toml"), "").unwrap();
    let one = "[[host_type]]\nname = 'six'\ngpu_model = 'L40'\ngpus = 6\nlinks = 'nvswitch'\n[[hosts]]\nnames = 's1'\ntype = 'six'\n";
    fs::write(path.join("six.toml"), one).unwrap();
    let values = [
        json(path, "cluster fragmentation --cluster remark.toml --state fragmented.toml"),
        json(
            path,
            "cluster fragmentation --cluster cluster.toml --state nothing.toml --trace trace.csv",
        ),
        json(path, "cluster fragmentation --cluster six.toml --state nothing.toml"),
    ];
    compare("fragmentation.md", "JSON", &values);
}

#[test]
fn compact() {
    let folder = prepared();
    let path = folder.path();
    let lab = "compact --cluster remark.toml --state fragmented.toml";
    let values = [
        json(path, &format!("{lab} --out moved.toml")),
        json(path, &format!("{lab} --for 8 --expected-wait 10m")),
        json(path, &format!("{lab} --for 8 --expected-wait 1s")),
    ];
    compare("compact.md", "JSON", &values);
}

#[test]
fn parallel() {
    let folder = prepared();
    let path = folder.path();
    let lab = "--cluster remark.toml --model model.json --state state.toml";
    let values = [
        json(path, &format!("dispatch --parallel tp=2,pp=2,dp=5 {lab} --protect 90%")),
        json(path, "dispatch --parallel dp=2 --spare-hosts 1 --exclude h3,h4 --traffic dp=0"),
    ];
    compare("parallel-json.md", "Result", &values);
}

#[test]
fn explain() {
    let folder = prepared();
    let path = folder.path();
    let lab = "--cluster remark.toml --model model.json --state state.toml";
    let values = [
        json(path, &format!("explain --placement a1:0-3,a3:0 {lab}")),
        json(path, &format!("explain --job train-a {lab}")),
        json(path, "explain --placement h1:0"),
    ];
    compare("explain-json.md", "Result", &values);
}

#[test]
fn evaluate() {
    let folder = folder_with(&[]);
    let value = json(folder.path(), "evaluate --cluster h100-32 --repeats 1");
    compare("evaluate-json.md", "Result", &[value]);
}

#[test]
fn simulate() {
    let rows = "job_id,submit_s,duration_s,gpus,gpu_milli,gpu_type\na,0,10,8,,\nb,1,10,8,,\nc,2,x,1,,\nd,3,1,99,,\ne,4,10,8,,\n";
    let folder =
        folder_with(&[("t.csv", rows), ("calm.csv", "submit_s,duration_s,gpus\n0,1.5,1\n")]);
    let command = "simulate --hosts 1x8 --policy fifo/counting,srtf/best-fit --trace";
    let values = ["t.csv", "calm.csv", "calm.csv --mix 100% --seeds 2"]
        .map(|trace| json(folder.path(), &format!("{command} {trace}")));
    compare("simulate-json.md", "Result", &values);
}

#[test]
fn windows() {
    let rows = "submit_s,duration_s,gpus\n0,9.5,8\n1,9,8\n2,8,9\n3,x,1\n400,9,8\n401,9,8\n500,1,1\n500,1,1\n";
    let folder = folder_with(&[("t.csv", rows)]);
    let command = "windows --trace t.csv --window 100s --eta 0.5 --least-jobs 2 --policy fifo/best-fit,fifo/counting,fifo/random";
    let values = ["--seeds 2", "--mix 100%", "--least-jobs 4"]
        .map(|more| json(folder.path(), &command.replace("--least-jobs 2", more)));
    let value = json(folder.path(), command);
    compare("windows.md", "JSON", &[&values[..], &[value]].concat());
}

#[test]
fn fill() {
    let nodes = "sn,cpu_milli,gpu\na,9000,4\nb,9000,4\nc,x,4\n";
    let pods = "name,cpu_milli,num_gpu,gpu_milli\np,10,1,500\nq,10,2,1000\n";
    let folder = folder_with(&[("n.csv", nodes), ("p.csv", pods)]);
    let command = "fill --nodes n.csv --pods p.csv --seeds 1-3 --to";
    let values = ["130", "90"].map(|to| json(folder.path(), &format!("{command} {to}")));
    compare("fill.md", "JSON", &values);
}

#[test]
fn slurm_verify() {
    let odd = AUDIT.replace("\"user\":", "\"shoe\":1,\"user\":");
    let twice = VERIFY.replace("(IDX:6)", "(IDX:3)");
    let files = [("a", odd.as_str()), ("r", VERIFY), ("t", &twice), ("d", &driver())];
    let folder = folder_with(&files);
    let path = folder.path();
    let looked =
        ["r", "t"].map(|file| json(path, &format!("slurm verify --audit a --replay {file}")));
    compare("slurm-verify.md", "JSON", &looked);
    let job = [("SLURM_JOB_ID", "1"), ("SLURMD_NODENAME", "h1")];
    let within = |args: &[&str], more: &[(&str, &str)]| -> Value {
        let args = [args, &["--replay", "d", "--json"]].concat();
        let (_, out, err) = here(path, &args, &[&job, more].concat());
        assert_eq!(err, "", "{out}");
        serde_json::from_str(&out).unwrap()
    };
    let looked = [
        within(&["--audit", "a"], &[("CUDA_VISIBLE_DEVICES", "3,5")]),
        within(&["--audit", "a"], &[("CUDA_VISIBLE_DEVICES", "3")]),
        within(&[], &[("BANDPILOT_GPUS", "h1:3,5")]),
    ];
    compare("slurm-verify.md", "JSON of `--here`", &looked);
}

#[test]
fn slurm_state() {
    let reserved = "ReservationName=m StartTime=2026-11-30T18:34:20 EndTime=Unknown\\n   Nodes=h1 Users=ann State=ACTIVE";
    let recording = RECORDING.replace("No reservations in the system", reserved);
    let folder = folder_with(&[("s.jsonl", &recording), ("c.toml", CLUSTER)]);
    let command = "slurm state --replay s.jsonl";
    let values = [command.to_owned(), format!("{command} --cluster c.toml --out s.toml")]
        .map(|command| json(folder.path(), &command));
    compare("slurm.md", "JSON", &values);
}

#[test]
fn slurm_trace() {
    let folder = folder_with(&[("a.jsonl", HISTORY), ("s.jsonl", RECORDING)]);
    let json = |command: &str| json(folder.path(), command);
    let taken = json("slurm trace --replay s.jsonl --sample q.jsonl");
    compare("slurm-trace.md", "JSON of a sample", &[taken]);
    // A sample that is torn gives a remark.
    let torn = fs::read_to_string(folder.path().join("q.jsonl")).unwrap() + "{";
    fs::write(folder.path().join("q.jsonl"), torn).unwrap();
    let values =
        [json("slurm trace --replay a.jsonl --out t.csv"), json("slurm trace --samples q.jsonl")];
    compare("slurm-trace.md", "JSON", &values);
}

#[test]
fn slurm_config_and_doctor() {
    let folder = folder_with(&[
        ("s.jsonl", RECORDING),
        ("c.toml", CLUSTER),
        ("l.toml", &(CLUSTER.to_owned() + "leef = 1\n")),
    ]);
    let path = folder.path();
    let values = ["--out new", "--granularity island"]
        .map(|more| json(path, &format!("slurm config --cluster c.toml {more}")));
    compare("slurm-config.md", "JSON", &values);
    let value = json(path, "slurm doctor --replay s.jsonl --cluster l.toml");
    compare("slurm-doctor.md", "JSON", std::slice::from_ref(&value));
    let ids: Vec<&str> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    let told = documented("slurm-doctor.md", "Checks");
    assert_eq!(
        ids.iter().copied().collect::<BTreeSet<_>>(),
        told.keys().map(String::as_str).collect()
    );
}

#[test]
fn other_commands() {
    let folder = prepared();
    let path = folder.path();
    let mut table = "host,gpus,message_bytes,busbw_GBps\n".to_owned();
    for a in 0..8 {
        for b in a + 1..8 {
            let busbw = if (a, b) == (6, 7) { 4.0 } else { 9.5 };
            writeln!(table, "a1,{a} {b},1024,{busbw}").unwrap();
        }
    }
    fs::write(path.join("pairs.csv"), table + "a1,0 1,1024,9.6\na1,0 1 2,1024\n").unwrap();
    let imported = json(path, "measure import pairs.csv --out pairs.jsonl");
    compare("json.md", "measure import", &[imported]);
    let text = fs::read_to_string(path.join("pairs.jsonl")).unwrap();
    fs::write(path.join("pairs.jsonl"), text + "{\"op\":").unwrap();
    let shown = [json(path, "measure show pairs.jsonl"), json(path, "measure show store.jsonl")];
    compare("json.md", "measure show", &shown);
    let uneven = (1..=8).flat_map(|a| (1..=a).map(move |b| format!("a1:0-{a},a2:0-{b}")));
    fs::write(path.join("twenty.jsonl"), store(uneven.filter(|set| !set.contains('8')))).unwrap();
    let fitted = [
        json(path, "fit --measurements store.jsonl --cluster remark.toml --out model.json"),
        json(path, "fit --measurements twenty.jsonl --cluster cluster.toml --out twenty.json"),
    ];
    compare("json.md", "fit", &fitted);
    let imported = [
        json(path, "cluster import dumps topology.conf --nic-gbit-per-s 400"),
        json(
            path,
            "cluster import dumps remark.toml --nic-gbit-per-s 400 --out b.toml --keep-going",
        ),
    ];
    compare("json.md", "cluster import", &imported);
    compare("json.md", "cluster check", &[json(path, "cluster check remark.toml")]);
    compare("json.md", "man", &[json(path, "man"), json(path, "man --dir pages")]);
    compare("json.md", "cluster show", &[json(path, "cluster show shown.toml")]);
}

#[test]
fn model_file() {
    let folder = prepared();
    let path = folder.path();
    let sets = ["a1:0-1", "a1:0-1,h01:0-1", "h01:0-3,h02:0-3"].map(ToOwned::to_owned);
    fs::write(path.join("mixed.jsonl"), store(sets)).unwrap();
    json(path, "fit --measurements mixed.jsonl --cluster shown.toml --out mixed.json");
    let text = fs::read_to_string(path.join("mixed.json")).unwrap();
    compare("model-file.md", "Keys", &[serde_json::from_str(&text).unwrap()]);
}
