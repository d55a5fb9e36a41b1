use bandpilot_core::{ClusterBuilder, GpuIdentity, GpuMask, LinkClass};
use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"name = "demo"

[[host_type]]
name = "dgx"
gpu_model = "H100"
gpus = 8
links = "nvswitch"
rails = { gbit_per_s = 400 }
cores = 112
memory = "2TiB"

[[host_type]]
name = "pair"
gpu_model = "A6000"
gpus = 2
links = """
X   NV4
NV4 X
"""
nics = [{ name = "mlx5_0", gbit_per_s = 100.5, gpus = "0-1" }]

[[hosts]]
names = "h[01-03]"
type = "dgx"
leaf = "leaf1"

[[hosts]]
names = "a1"
type = "pair"
unhealthy_gpus = "1"
unhealthy_nics = ["mlx5_0"]
pci_bus_ids = ["0000:1b:00.0", ""]
uuids = ["GPU-a", "GPU-b"]
"#;

fn shown(text: &str) -> String {
    let read = read(text);
    let lines: Vec<String> =
        read.diagnostics.iter().map(|d| d.display("c.toml").to_string()).collect();
    lines.join("\n")
}

#[test]
fn reads_the_documented_form() {
    let read = read(GOOD);
    assert_eq!(read.diagnostics, []);
    let cluster = read.value;
    assert_eq!(cluster.gpu_count(), 26);
    let a1 = cluster.find_host("a1").unwrap();
    assert_eq!(cluster.healthy_gpus(a1), GpuMask(1));
    assert_eq!(cluster.host(a1).unhealthy_nics, [0]);
    assert_eq!(cluster.host(a1).gpu_ids[0].pci_bus_id.as_deref(), Some("0000:1b:00.0"));
    assert_eq!(cluster.host(a1).gpu_ids[1].pci_bus_id, None);
    assert_eq!(cluster.type_of(a1).link(0, 1), Some(LinkClass::Nv(4)));
    assert_eq!(cluster.host_types[0].memory_bytes, Some(2 << 40));
    assert_eq!(cluster.host_types[0].nics.len(), 8);
    assert_eq!(super::read(&write(&cluster)).value, cluster);
}

#[test]
fn every_mistake_names_line_column_key_and_mend() {
    let cases = [
        (
            "gpus = 8",
            "gpus = 65",
            "c.toml:6:8: error: host_type.gpus: 65 is out of range\n  help: it must be 1..=64",
        ),
        (
            "gpus = 8",
            "gpus = \"8\"",
            "c.toml:6:8: error: host_type.gpus: is a string, not a whole number\n  help: write a whole number",
        ),
        (
            "gbit_per_s = 400",
            "gbit_per_s = nan",
            "c.toml:8:24: error: host_type.rails.gbit_per_s: nan is out of range\n  help: it must be a finite number above 0",
        ),
        (
            "gbit_per_s = 400",
            "gbit_per_s = -1",
            "c.toml:8:24: error: host_type.rails.gbit_per_s: -1 is out of range\n  help: it must be a finite number above 0",
        ),
        (
            "NV4 X",
            "SYS X",
            "c.toml:18:1: error: host_type.links: GPU 1 to 0 is SYS, but GPU 0 to 1 is NV4\n  help: make the matrix symmetric",
        ),
        (
            "X   NV4",
            "X   NVX",
            "c.toml:17:5: error: host_type.links: 'NVX' is not a link word\n  help: the words are X, NV1, NV2, ..., PIX, PXB, PHB, NODE and SYS",
        ),
        (
            "links = \"nvswitch\"",
            "links = \"nvlink\"",
            "c.toml:7:9: error: host_type.links: 'nvlink' is neither nvswitch nor a matrix\n  help: write \"nvswitch\" or one row a GPU as nvidia-smi topo -m prints it",
        ),
        (
            "gpus = \"0-1\"",
            "gpus = \"0-2\"",
            "c.toml:20:55: error: host_type.nics.gpus: there is no GPU 2\n  help: the GPUs are 0-1",
        ),
        (
            "memory = \"2TiB\"",
            "memory = \"2XiB\"",
            "c.toml:10:10: error: host_type.memory: '2XiB' is not a size: unknown unit\n  help: write for example \"512GiB\" or \"2TiB\"",
        ),
        (
            "h[01-03]",
            "h[03-01]",
            "c.toml:23:12: error: hosts.names: range '03-01' runs backwards\n  help: write for example h1, h[1-4] or h[01-08,10]",
        ),
        (
            "names = \"a1\"",
            "names = \"h02\"",
            "c.toml:28:9: error: hosts.names: host h02 stands twice in the file\n  help: name each host once",
        ),
        (
            "type = \"pair\"",
            "type = \"piar\"",
            "c.toml:29:8: error: hosts.type: 'piar' is not a host type of this file\n  help: did you mean 'pair'?",
        ),
        (
            "unhealthy_gpus = \"1\"",
            "unhealthy_gpus = \"2\"",
            "c.toml:30:18: error: hosts.unhealthy_gpus: there is no GPU 2\n  help: the GPUs are 0-1",
        ),
        (
            "[\"mlx5_0\"]",
            "[\"mlx5_1\"]",
            "c.toml:31:19: error: hosts.unhealthy_nics: type 'pair' has no NIC 'mlx5_1'\n  help: its NICs are mlx5_0",
        ),
        (
            "\"GPU-a\", ",
            "",
            "c.toml:33:9: error: hosts.uuids: has 1 values for 2 GPUs\n  help: give one value a GPU, \"\" if unknown",
        ),
        (
            "leaf =",
            "leav =",
            "c.toml:25:1: warning: hosts.leav: unknown key, not used\n  help: did you mean 'leaf'?",
        ),
        (
            "gpu_model = \"H100\"\n",
            "",
            "c.toml:3:1: error: host_type.gpu_model: is missing\n  help: add 'gpu_model = ...' to this entry",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let found = shown(&GOOD.replacen(from, to, 1));
        assert!(found.contains(expected), "{to}: found\n{found}");
    }
}

#[test]
fn mistakes_do_not_hide_each_other() {
    let text =
        GOOD.replace("gpus = 8", "gpus = 0").replace("\"1\"", "\"7\"").replace("leaf =", "laef =");
    let found = shown(&text);
    assert_eq!(found.matches("error").count(), 2, "{found}");
    assert_eq!(found.matches("warning").count(), 1, "{found}");
}

#[test]
fn syntax_errors_are_reported_alone() {
    let found = shown("name = \"x\nhost_type = 3\n");
    assert!(found.contains("c.toml:1:10: error: not valid TOML"), "{found}");
    assert!(!found.contains("host_type.gpus"), "{found}");
    assert!(shown("").contains("host_type: is missing"));
}

#[test]
fn expansion_is_limited() {
    let found = shown(&GOOD.replace("h[01-03]", "h[1-999999999]"));
    assert!(found.contains("more than 100000 hosts"), "{found}");
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let host_type = (1_usize..9, any::<bool>(), any::<u64>(), 0_usize..3, 1.0_f64..1000.0);
    let host = (any::<u16>(), prop::option::of("[a-z0-9 \"\\\\]{1,5}"), any::<u64>(), 0_usize..4);
    (
        "[a-z\"\\\\\n'é]{0,6}",
        prop::collection::vec(host_type, 1..4),
        prop::collection::vec(host, 0..12),
    )
        .prop_map(|(name, types, hosts)| build(&name, &types, hosts))
}

type TypeSeed = (usize, bool, u64, usize, f64);
type HostSeed = (u16, Option<String>, u64, usize);

fn build(name: &str, types: &[TypeSeed], hosts: Vec<HostSeed>) -> Cluster {
    let mut builder = ClusterBuilder::new(name);
    for (at, (gpus, switched, bits, nics, rate)) in types.iter().enumerate() {
        builder = builder.host_type(&format!("type {at}"), "H\"100", *gpus);
        builder = match (*switched, *nics) {
            (true, 0) => builder.nvswitch(),
            (_, 1) => builder.rails(*rate),
            _ => builder
                .matrix(&symmetric(*gpus, *bits).iter().map(String::as_str).collect::<Vec<_>>()),
        };
    }
    let mut cluster = builder.build();
    for (host_type, (_, _, bits, nics, rate)) in cluster.host_types.iter_mut().zip(types) {
        if *nics == 2 {
            let gpus = GpuMask(*bits).intersection(GpuMask::first(host_type.gpus));
            host_type.nics = vec![
                bandpilot_core::Nic { name: "m\t0".into(), gbit_per_s: *rate, gpus },
                bandpilot_core::Nic {
                    name: "m1".into(),
                    gbit_per_s: *rate / 3.0,
                    gpus: GpuMask::EMPTY,
                },
            ];
            host_type.cores = Some(*bits as u32 % 1000 + 1);
            host_type.memory_bytes = Some(bits % (1 << 49) + 1);
        }
    }
    for (at, (pick, leaf, bits, ids)) in hosts.into_iter().enumerate() {
        let id = pick as usize % cluster.host_types.len();
        let host_type = &cluster.host_types[id];
        let identity = |gpu: usize| GpuIdentity {
            pci_bus_id: (bits >> gpu & 1 == 1 && ids & 1 == 1).then(|| format!("0000:{gpu:02x}")),
            uuid: (ids & 2 == 2).then(|| format!("GPU-{gpu}")),
        };
        let host = bandpilot_core::Host {
            name: format!("h{}", at / 2 * 3 + at),
            host_type: bandpilot_core::HostTypeId(id as u16),
            leaf,
            unhealthy_gpus: GpuMask(bits >> 8 & bits).intersection(GpuMask::first(host_type.gpus)),
            unhealthy_nics: (0..host_type.nics.len()).filter(|n| bits >> n & 3 == 3).collect(),
            gpu_ids: if ids == 0 {
                Vec::new()
            } else {
                (0..host_type.gpus).map(identity).collect()
            },
        };
        cluster.hosts.push(host);
    }
    cluster
}

/// Words for a symmetric matrix out of random bits.
fn symmetric(gpus: usize, bits: u64) -> Vec<String> {
    let words = ["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV18", "NV4"];
    let cell = |a: usize, b: usize| {
        let (low, high) = (a.min(b), a.max(b));
        words[(bits.rotate_left((low * 9 + high * 5) as u32) & 7) as usize]
    };
    let row =
        |a| (0..gpus).map(|b| if a == b { "X" } else { cell(a, b) }).collect::<Vec<_>>().join(" ");
    (0..gpus).map(row).collect()
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(cluster in any_cluster()) {
        let text = write(&cluster);
        let back = read(&text);
        prop_assert_eq!(back.value, cluster, "{}", text);
    }

    #[test]
    fn cut_and_changed_files_never_panic(at in 0_usize..GOOD.len(), with in "[\\[\\]{}=\"',.0-9a-z\\\\\n-]{0,3}") {
        let mut text = GOOD.to_owned();
        text.replace_range(at..=at, &with);
        let _ = read(&text);
        let _ = read(&GOOD[..at]);
    }
}
