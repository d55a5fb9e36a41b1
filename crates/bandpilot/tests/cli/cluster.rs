use crate::{folder_with, run};

/// A cluster file with everything in it.
pub const GOOD: &str = r#"name = "demo"
[[host_type]]
name = "dgx"
gpu_model = "H100"
gpus = 8
links = "nvswitch"
rails = { gbit_per_s = 400 }
memory = "2TiB"
[[host_type]]
name = "pair"
gpu_model = "A6000"
gpus = 2
links = ["X NV4", "NV4 X"]
nics = [{ name = "mlx5_0", gbit_per_s = 100, gpus = "0-1" }]
[[hosts]]
names = "h[01-03]"
type = "dgx"
leaf = "leaf1"
[[hosts]]
names = "a1"
type = "pair"
unhealthy_gpus = "1"
unhealthy_nics = ["mlx5_0"]
"#;

#[test]
fn show_prints_the_whole_cluster() {
    let folder = folder_with(&[("c.toml", GOOD)]);
    let (code, out, err) = run(folder.path(), &["cluster", "show", "c.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "cluster 'demo': 4 hosts, 26 GPUs, 25 healthy",
        "h[01-03]",
        "8 x 400 Gbit/s",
        "2048GiB",
        "leaf1",
        "NV4",
        "mlx5_0",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let (code, out, _) = run(folder.path(), &["cluster", "show", "c.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["hosts"][3]["unhealthy_gpus"], "1");
    assert_eq!(json["host_types"][1]["links"][0][1], "NV4");
}

#[test]
fn check_lists_everything_and_exits_with_3() {
    let bad =
        GOOD.replace("\"pair\"\nunhealthy", "\"par\"\nunhealthy").replace("gpus = 8", "gpus = 80");
    let folder = folder_with(&[("good.toml", GOOD), ("bad.toml", &bad)]);
    let (code, out, _) = run(folder.path(), &["cluster", "check", "good.toml"]);
    assert_eq!(code, 0);
    assert!(out.contains("good.toml: 0 errors, 0 warnings"), "{out}");
    let (code, out, err) = run(folder.path(), &["cluster", "check", "bad.toml"]);
    assert_eq!((code, err.as_str()), (3, ""));
    assert!(out.contains("bad.toml:5:8: error: host_type.gpus: 80 is out of range"), "{out}");
    assert!(out.contains("help: did you mean 'pair'?"), "{out}");
    assert!(out.contains("bad.toml: 2 errors"), "{out}");
    let (code, out, _) = run(folder.path(), &["cluster", "check", "bad.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, json["errors"].as_u64()), (3, Some(2)));
}

#[test]
fn show_of_a_bad_file_prints_nothing_on_stdout() {
    let folder = folder_with(&[("bad.toml", "name = 3\n")]);
    let (code, out, err) = run(folder.path(), &["cluster", "show", "bad.toml"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("bad.toml:1:8: error: name: is an integer, not a string"), "{err}");
    let (code, _, err) = run(folder.path(), &["cluster", "show", "none.toml"]);
    assert_eq!(code, 5);
    assert!(err.contains("none.toml: error: failed to read it"), "{err}");
}
