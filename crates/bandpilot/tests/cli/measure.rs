use std::fmt::Write as _;
use std::fs;

use crate::{bandpilot, docs_folder, folder_with, run, table};

const TABLE: &str = "host,num_gpus,bitmask,gpus,message_bytes,busbw_GBps\nh1,2,5,0 2,1024,9.5\nh1,2,5,0 1,1024,9.5\nh1,1,1,0,1024,0\n";

fn import_all(
    folder: &std::path::Path,
    data: &std::path::Path,
    extra: &[&str],
) -> (i32, String, String) {
    let files: Vec<String> = [
        "cross_H100_32gpu.csv",
        "host_H100_26.csv",
        "host_H100_27.csv",
        "host_H100_28.csv",
        "host_H100_29.csv",
    ]
    .iter()
    .map(|name| table(data, name).to_string_lossy().into_owned())
    .collect();
    let mut args = vec!["measure", "import"];
    args.extend(files.iter().map(String::as_str));
    args.extend(["--out", "store.jsonl"]);
    args.extend(extra);
    run(folder, &args)
}

#[test]
fn real_tables_are_imported_once_and_summarised() {
    let Some(data) = bandpilot_testdata::require_data("cli::real_tables") else { return };
    let folder = folder_with(&[]);
    let (code, out, err) = import_all(folder.path(), &data, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{err}");
    assert!(out.contains("store.jsonl: 2982 measurements added, 0 there already"), "{out}");
    let (_, out, _) = import_all(folder.path(), &data, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((json["added"].as_u64(), json["already_present"].as_u64()), (Some(0), Some(2982)));
    assert_eq!(json["files"][1]["skipped"], 16);
    let (code, out, err) = run(folder.path(), &["measure", "show", "store.jsonl"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("not like its peers: 6 readings"), "{out}");
    assert!(out.contains("H100_28:6-7"), "{out}");
    let (_, out, _) = run(folder.path(), &["measure", "show", "store.jsonl", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["outliers"].as_array().unwrap().len(), 6);
}

#[test]
fn a_refused_file_stops_everything_unless_told_otherwise() {
    let Some(data) = bandpilot_testdata::require_data("cli::a_refused_file") else { return };
    let folder = folder_with(&[("t.csv", TABLE)]);
    let v100 = table(&data, "host_V100.csv").to_string_lossy().into_owned();
    let base = ["measure", "import", "t.csv", v100.as_str(), "--out", "s"];
    let (code, out, err) = run(folder.path(), &base);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("no message size in 247 rows"), "{err}");
    assert!(!folder.path().join("s").exists());
    let (code, out, _) = run(folder.path(), &[&base[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 3);
    assert_eq!(json["error"]["kind"], "bad_input");
    assert_eq!(json["error"]["field"], "message_bytes");
    assert_eq!(json["error"]["line"], 10);
    let (code, out, _) = run(folder.path(), &[&base[..], &["--keep-going"]].concat());
    assert_eq!(code, 6);
    assert!(out.contains("s: 1 measurement added"), "{out}");
    let (code, out, _) = run(folder.path(), &[&base[..], &["--bytes", "unknown"]].concat());
    assert_eq!(code, 6);
    assert!(out.contains("s: 247 measurements added, 1 there already"), "{out}");
}

#[test]
fn refused_rows_are_named_and_counted() {
    let folder = folder_with(&[("t.csv", TABLE)]);
    let (code, out, _) =
        run(folder.path(), &["measure", "import", "t.csv", "--out", "s", "--hosts", "h1=x"]);
    assert_eq!(code, 6);
    assert!(out.contains("t.csv:3: error: bitmask: 5 is GPUs '0,2', but gpus says '0-1'"), "{out}");
    assert!(fs::read_to_string(folder.path().join("s")).unwrap().contains("\"x:0,2\""));
}

#[test]
fn hosts_without_gpus_and_folders_are_told() {
    let folder = docs_folder();
    let import = |more: &[&str]| {
        run(
            folder.path(),
            &[&["measure", "import", "--out", "s", "--op", "all_reduce"], more].concat(),
        )
    };
    let (code, _, err) = import(&["slurm-42.out", "--placement", "a1,a2"]);
    assert_eq!(code, 2);
    assert!(err.contains("'a1' has no GPUs") && err.contains("or give --cluster"), "{err}");
    let told = ["--cluster", "cluster.toml", "--placement"];
    let (code, _, err) = import(&[&["slurm-42.out"], &told[..], &["a1,zz"]].concat());
    assert_eq!(code, 2);
    assert!(err.contains("host 'zz' is not in cluster"), "{err}");
    let (code, out, err) = import(&[&["slurm-42.out"], &told[..], &["a[1-4]"]].concat());
    assert_eq!(code, 6, "{out}{err}");
    assert!(out.contains("s: 4 measurements added"), "{out}");
    let (code, _, err) = import(&["."]);
    assert_eq!(code, 5);
    assert!(err.contains("is a folder") && err.contains("help: give its files: ./*"), "{err}");
}

#[test]
fn nccl_tests_output_needs_what_it_does_not_say() {
    let Some(data) = bandpilot_testdata::require_data("cli::nccl_tests_output") else { return };
    let field = data.join("field-files/nccl-tests");
    let path = field.join(
        "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README.md-L157.txt",
    );
    let path = path.to_string_lossy();
    let folder = folder_with(&[]);
    let base = ["measure", "import", &path, "--out", "s"];
    let (code, _, err) = run(folder.path(), &base);
    assert_eq!(code, 3);
    assert!(err.contains("the file does not list its devices; its rows are of 16 GPUs"), "{err}");
    let told = [&base[..], &["--op", "all_reduce", "--placement", "h[1-2]:0-7"]].concat();
    let (code, out, _) = run(folder.path(), &told);
    assert_eq!(code, 0, "{out}");
    let wrong = [&base[..], &["--op", "all_reduce", "--placement", "h1:0-7"]].concat();
    let (code, _, err) = run(folder.path(), &wrong);
    assert_eq!(code, 3);
    assert!(err.contains("busbw / algbw is"), "{err}");
    let elided = field.join("coreweave-nccl-tests-README.md-L298.txt");
    let elided = elided.to_string_lossy();
    let base = ["measure", "import", &elided, "--out", "s", "--op", "all_reduce", "--placement"];
    let (code, _, err) = run(folder.path(), &[&base[..], &["h[1-350]:0-3"]].concat());
    assert_eq!(code, 3);
    assert!(err.contains("names rank 1439, so 1440 or more GPUs ran"), "{err}");
    assert_eq!(run(folder.path(), &[&base[..], &["h[1-360]:0-3"]].concat()).0, 0);
    let cut = field.join("json-of-unmerged-pr318-TRUNCATED.json.txt");
    let cut = cut.to_string_lossy();
    let told = ["--op", "all_reduce", "--placement", "h1:0-7", "--keep-going"];
    let args = [&["measure", "import", &cut, "--out", "s"], &told[..]].concat();
    assert_eq!(run(folder.path(), &args).0, 6);
}

/// A cluster file of two hosts of eight H100 with these names and PCI bus ids.
fn two_hosts(names: [&str; 2], ids: &str) -> String {
    let mut text = "name = \"c\"\n[[host_type]]\nname = \"t\"\ngpu_model = \"H100\"\ngpus = 8\nlinks = \"nvswitch\"\nrails = { gbit_per_s = 400 }\n".to_owned();
    for name in names {
        writeln!(text, "[[hosts]]\nnames = \"{name}\"\ntype = \"t\"").unwrap();
        if !ids.is_empty() {
            let ids = ids.split(' ').map(|id| format!("\"0000:{id}:00.0\"")).collect::<Vec<_>>();
            writeln!(text, "pci_bus_ids = [{}]", ids.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn a_cluster_file_settles_where_a_real_log_ran() {
    let Some(data) = bandpilot_testdata::require_data("cli::a_cluster_file_settles") else {
        return;
    };
    let field = data.join("field-files/nccl-tests");
    let file = |name: &str| field.join(name).to_string_lossy().into_owned();
    let unlisted = file(
        "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README.md-L157.txt",
    );
    let listed = file("oracle-quickstart-oci-hpc-documentation-Troubleshooting.md-L146.txt");
    let reversed = "d8 c0 a8 89 5b 44 2d 0f";
    let folder = folder_with(&[
        ("short.toml", &two_hosts(["h1", "h2"], "")),
        ("reversed.toml", &two_hosts(["host1-xxxxxxxxxx", "host2-xxxxxxxxxxx"], reversed)),
        (
            "other.toml",
            &two_hosts(["host1-xxxxxxxxxx", "host2-xxxxxxxxxxx"], "01 02 03 04 05 06 07 08"),
        ),
        ("near.toml", &two_hosts(["host1-xxxxxxxxx", "host2-xxxxxxxxxxx"], "")),
    ]);
    let import = |file: &str, extra: &[&str]| {
        run(folder.path(), &[&["measure", "import", file, "--out", "s"], extra].concat())
    };
    let (code, out, err) = import(&unlisted, &["--cluster", "short.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "note: op: all_reduce, the only collective with these numbers",
        "its rows are of 16 GPUs, which are all of the cluster",
        "note: skipped: 6 rows with a printed bandwidth of 0",
        "s: 23 measurements added",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, out, _) = import(&listed, &["--cluster", "reversed.toml"]);
    assert_eq!(code, 0);
    assert!(out.contains("s: 5 measurements added"), "{out}");
    for (cluster, part) in [
        ("other.toml", "the PCI bus id 0x0f is of no GPU of host1-xxxxxxxxxx in the cluster file"),
        ("near.toml", "--hosts host1-xxxxxxxxxx=host1-xxxxxxxxx renames the log's host"),
        ("short.toml", "the log ran on 'host1-xxxxxxxxxx', which is no host of the cluster"),
    ] {
        let (code, _, err) = import(&listed, &["--cluster", cluster]);
        assert_eq!(code, 3);
        assert!(err.contains(part), "{part}: {err}");
    }
    let renamed = ["--cluster", "near.toml", "--hosts", "host1-xxxxxxxxxx=host1-xxxxxxxxx"];
    assert_eq!(import(&listed, &renamed).0, 0);
    assert_eq!(import(&listed, &["--cluster", "none.toml"]).0, 5);
}

#[test]
fn each_real_log_is_imported_or_refused_by_name() {
    let Some(data) = bandpilot_testdata::require_data("cli::each_real_log") else { return };
    let files: Vec<String> = bandpilot_testdata::files(&data.join("field-files/nccl-tests"))
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let folder = folder_with(&[]);
    let mut args = vec!["measure", "import", "--out", "s", "--keep-going"];
    args.extend(files.iter().map(String::as_str));
    let (code, out, _) = run(folder.path(), &args);
    assert_eq!(code, 6);
    for (part, times) in [
        ("NVSHMEM perftest", 6),
        ("as all_reduce_bench prints them", 1),
        ("'XXXXX' is masked", 12),
        ("the test failed here", 1),
    ] {
        assert_eq!(out.matches(part).count(), times, "{part}: {out}");
    }
    let (_, out, _) = run(folder.path(), &[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    for file in json["files"].as_array().unwrap() {
        let explained = !file["diagnostics"].as_array().unwrap().is_empty();
        assert!(explained || file["imported"].as_u64() > Some(0), "{file}");
    }
}

#[test]
fn wrong_arguments_and_stores_are_refused() {
    let folder = folder_with(&[
        ("t.csv", TABLE),
        ("other.txt", "hello\n"),
        ("new", "# bandpilot measurements v9\n"),
    ]);
    for (extra, code, part) in [
        (&["--out", "s", "--op", "all"][..], 2, "--op: error: 'all' is not a collective"),
        (
            &["--out", "s", "--placement", "h1:9-1"],
            2,
            "--placement:1:1: error: h1:9-1: range '9-1' runs backwards",
        ),
        (&["--out", "s", "--bytes", "x"], 2, "--bytes: error"),
        (&["--out", "s", "--hosts", "a=b c"], 2, "--hosts: error: hosts: 'b c' is not a host name"),
        (&["--out", "other.txt"], 3, "other.txt:1:1: error: the file is not a measurement store"),
        (&["--out", "new"], 3, "new:1:1: error: the store is of version '9'"),
        (&["--out", "none/s"], 5, "none/s: error: failed to write it"),
        (&[], 2, "--out <STORE>"),
    ] {
        let (found, out, err) =
            run(folder.path(), &[&["measure", "import", "t.csv"], extra].concat());
        assert_eq!((found, out.as_str()), (code, ""), "{extra:?}: {err}");
        assert!(err.contains(part), "{extra:?}: {err}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("other.txt")).unwrap(), "hello\n");
}

#[test]
fn a_torn_store_is_shown_and_mended() {
    let folder =
        folder_with(&[("t.csv", TABLE), ("s", "# bandpilot measurements v1\n{\"op\":\"all_re")]);
    let (code, _, err) = run(folder.path(), &["measure", "show", "s"]);
    assert_eq!(code, 0);
    assert!(err.contains("s:2: warning: the last line is torn"), "{err}");
    assert_eq!(run(folder.path(), &["measure", "import", "t.csv", "--out", "s"]).0, 6);
    let text = fs::read_to_string(folder.path().join("s")).unwrap();
    assert!(text.contains("{\"op\":\"all_re#torn\n{\"op\":\"all_reduce\""), "{text}");
    let (_, out, err) = run(folder.path(), &["measure", "show", "s"]);
    assert!(out.contains("1 measurement") && err.contains("s:2: note: a torn line"), "{out}{err}");
}

#[test]
fn imports_at_once_lose_nothing() {
    let folder = folder_with(&[]);
    let path = folder.path();
    std::thread::scope(|scope| {
        for part in 0..6_u32 {
            scope.spawn(move || {
                let mut text = "host,gpus,message_bytes,busbw_GBps\n".to_owned();
                for row in 1..200_u32 {
                    writeln!(text, "h{part},0 1,{row},9.5").unwrap();
                }
                let name = format!("t{part}.csv");
                fs::write(path.join(&name), text).unwrap();
                let status =
                    bandpilot(path).args(["measure", "import", &name, "--out", "s"]).status_ok();
                assert!(status);
            });
        }
    });
    let text = fs::read_to_string(path.join("s")).unwrap();
    assert_eq!(text.lines().count(), 1 + 6 * 199);
    assert_eq!(text.matches("# bandpilot").count(), 1);
}

trait StatusOk {
    fn status_ok(&mut self) -> bool;
}

impl StatusOk for assert_cmd::Command {
    fn status_ok(&mut self) -> bool {
        self.output().is_ok_and(|output| output.status.success())
    }
}

/// A slip in a host name must not get into an append-only store.
#[test]
fn host_names_that_match_nothing_are_refused() {
    let folder = crate::docs_folder();
    for hosts in ["aa1=h1", "h1", "h[1-4]"] {
        let args = ["measure", "import", "nccl-a1.txt", "--out", "s", "--hosts", hosts];
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!((code, out.as_str()), (2, ""), "{hosts}");
        assert!(err.contains("is no host of these files, which have a1"), "{err}");
        assert!(!folder.path().join("s").exists());
    }
    let args = ["measure", "import", "nccl-a1.txt", "--out", "s", "--hosts", "a1=h1"];
    assert_eq!(run(folder.path(), &args).0, 0);
}
