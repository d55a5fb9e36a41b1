#![expect(clippy::format_collect, reason = "texts of tests are short")]

use std::fmt::Write as _;

use bandpilot_core::{GpuMask, LinkClass, Links};
use proptest::prelude::*;

use super::*;
use crate::cluster_file;

/// A dump of 8 GPUs behind NVSwitch with a NIC each; `lost` has no NVLink, `without` lacks its NIC.
fn dump(gpus: usize, lost: Option<usize>, without: Option<usize>) -> String {
    let nics: Vec<usize> = (0..gpus).filter(|nic| Some(*nic) != without).collect();
    let mut text = String::from("GPU 0: NVIDIA H100 80GB HBM3\n\t");
    for gpu in 0..gpus {
        write!(text, "GPU{gpu}\t").unwrap();
    }
    for nic in 0..nics.len() {
        write!(text, "NIC{nic}\t").unwrap();
    }
    text += "CPU Affinity\tNUMA Affinity\n";
    let nic_word = |gpu: usize, nic: usize| if gpu == nic { "PIX" } else { "NODE" };
    for a in 0..gpus {
        write!(text, "GPU{a}").unwrap();
        for b in 0..gpus {
            let word = match (a == b, lost == Some(a) || lost == Some(b)) {
                (true, _) => "X",
                (_, true) => "SYS",
                _ => "NV18",
            };
            write!(text, "\t{word}").unwrap();
        }
        for nic in &nics {
            write!(text, "\t{}", nic_word(a, *nic)).unwrap();
        }
        text += "\t0-55\t0\n";
    }
    for (at, nic) in nics.iter().enumerate() {
        write!(text, "NIC{at}").unwrap();
        for gpu in 0..gpus {
            write!(text, "\t{}", nic_word(gpu, *nic)).unwrap();
        }
        for other in 0..nics.len() {
            write!(text, "\t{}", if other == at { "X" } else { "NODE" }).unwrap();
        }
        text += "\n";
    }
    text + "\nNIC Legend:\n\n" + &legend(&nics)
}

fn legend(nics: &[usize]) -> String {
    nics.iter().enumerate().map(|(at, nic)| format!("  NIC{at}: mlx5_{nic}\n")).collect()
}

fn in_folder(name: &str, text: &str) -> Source {
    let host = HostName::Folder(name.to_owned());
    Source { file: format!("d/{name}.txt"), text: text.to_owned(), host }
}

fn file(name: &str, text: &str) -> Source {
    Source { file: name.to_owned(), text: text.to_owned(), host: HostName::Unknown }
}

fn options() -> ClusterOptions {
    ClusterOptions {
        name: "demo".to_owned(),
        gpu_model: Some("H100".to_owned()),
        nic_gbit_per_s: Some(400.0),
        ..ClusterOptions::default()
    }
}

fn on(hosts: &str) -> ClusterOptions {
    ClusterOptions { hosts: Some(crate::hostlist::expand(hosts).unwrap()), ..options() }
}

fn said(imported: &Imported) -> String {
    let lines: Vec<String> = imported
        .remarks
        .iter()
        .filter(|(_, remark)| !remark.message.starts_with("only GPUs 0 of"))
        .map(|(file, remark)| {
            remark.display(if file.is_empty() { "all" } else { file }).to_string()
        })
        .collect();
    lines.join("\n")
}

/// The cluster, which must read back.
fn cluster(imported: &Imported) -> &Cluster {
    let cluster = imported.cluster.as_ref().unwrap_or_else(|| panic!("{}", said(imported)));
    let toml = cluster_file::write(cluster);
    let back = cluster_file::read(&toml);
    assert!(!back.has_errors(), "{toml}");
    assert_eq!(&back.value, cluster, "{toml}");
    cluster
}

#[test]
fn a_folder_of_four_hosts_of_which_one_lost_nvlink() {
    let good = dump(8, None, None);
    let sick = dump(8, Some(5), None);
    let sources: Vec<Source> = [("h1", &good), ("h2", &good), ("h10", &sick), ("h3", &good)]
        .map(|(name, text)| in_folder(name, text))
        .to_vec();
    let imported = import(&sources, &options());
    insta::assert_snapshot!(said(&imported), @r"
    d/h1.txt:2: note: links: NVSwitch: every pair has NV18, which only a switch explains (and 2 times more)
    d/h10.txt:2: warning: GPU5: GPU5 reaches the others by SYS, while they have NV18 among themselves: it has lost NVLinks; the host is not taken as NVSwitch
      help: check it with nvidia-smi nvlink -s
    d/h10.txt:2: warning: host: h10 differs from its peers h[1-3]: GPU5 reaches the others by SYS, not NVSwitch
      help: it becomes a type of its own; check the host
    ");
    insta::assert_snapshot!(cluster_file::write(cluster(&imported)), @r#"
    name = "demo"

    [[host_type]]
    name = "h100-8"
    gpu_model = "H100"
    gpus = 8
    links = "nvswitch"
    nics = [
      { name = "mlx5_0", gbit_per_s = 400.0, gpus = "0" },
      { name = "mlx5_1", gbit_per_s = 400.0, gpus = "1" },
      { name = "mlx5_2", gbit_per_s = 400.0, gpus = "2" },
      { name = "mlx5_3", gbit_per_s = 400.0, gpus = "3" },
      { name = "mlx5_4", gbit_per_s = 400.0, gpus = "4" },
      { name = "mlx5_5", gbit_per_s = 400.0, gpus = "5" },
      { name = "mlx5_6", gbit_per_s = 400.0, gpus = "6" },
      { name = "mlx5_7", gbit_per_s = 400.0, gpus = "7" },
    ]

    [[host_type]]
    name = "h100-8-h10"
    gpu_model = "H100"
    gpus = 8
    links = """
    X    NV18 NV18 NV18 NV18 SYS  NV18 NV18
    NV18 X    NV18 NV18 NV18 SYS  NV18 NV18
    NV18 NV18 X    NV18 NV18 SYS  NV18 NV18
    NV18 NV18 NV18 X    NV18 SYS  NV18 NV18
    NV18 NV18 NV18 NV18 X    SYS  NV18 NV18
    SYS  SYS  SYS  SYS  SYS  X    SYS  SYS
    NV18 NV18 NV18 NV18 NV18 SYS  X    NV18
    NV18 NV18 NV18 NV18 NV18 SYS  NV18 X
    """
    nics = [
      { name = "mlx5_0", gbit_per_s = 400.0, gpus = "0" },
      { name = "mlx5_1", gbit_per_s = 400.0, gpus = "1" },
      { name = "mlx5_2", gbit_per_s = 400.0, gpus = "2" },
      { name = "mlx5_3", gbit_per_s = 400.0, gpus = "3" },
      { name = "mlx5_4", gbit_per_s = 400.0, gpus = "4" },
      { name = "mlx5_5", gbit_per_s = 400.0, gpus = "5" },
      { name = "mlx5_6", gbit_per_s = 400.0, gpus = "6" },
      { name = "mlx5_7", gbit_per_s = 400.0, gpus = "7" },
    ]

    [[hosts]]
    names = "h[1-3]"
    type = "h100-8"

    [[hosts]]
    names = "h10"
    type = "h100-8-h10"
    "#);
}

#[test]
fn a_missing_nic_is_an_unhealthy_one() {
    let good = dump(8, None, None);
    let lacks = dump(8, None, Some(3));
    let mut sources: Vec<Source> = ["h1", "h2"].map(|name| in_folder(name, &good)).to_vec();
    sources.push(in_folder("h3", &lacks));
    let imported = import(&sources, &options());
    let made = cluster(&imported);
    assert_eq!(made.host_types.len(), 1);
    assert_eq!(made.hosts[2].unhealthy_nics, [3]);
    assert!(
        said(&imported).contains("warning: NIC: h3 lacks NIC mlx5_3 that its peers h[1-2] have"),
        "{}",
        said(&imported)
    );
    // Without a legend the numbers move up: then the GPU that is served tells.
    let unnamed = |text: &str| text.split("\nNIC Legend").next().unwrap().to_owned();
    let mut sources: Vec<Source> = ["h1", "h2"].map(|n| in_folder(n, &unnamed(&good))).to_vec();
    sources.push(in_folder("h3", &unnamed(&lacks)));
    assert_eq!(cluster(&import(&sources, &options())).hosts[2].unhealthy_nics, [3]);
}

#[test]
fn another_gpu_count_is_named_and_a_tie_blames_nobody() {
    let (eight, seven) = (dump(8, None, None), dump(7, None, None));
    let mut sources: Vec<Source> = ["h1", "h2"].map(|name| in_folder(name, &eight)).to_vec();
    sources.push(in_folder("h3", &seven));
    let imported = import(&sources, &options());
    assert!(
        said(&imported)
            .contains("d/h3.txt:2: warning: host: h3 differs from its peers h[1-2]: 7 GPUs, not 8"),
        "{}",
        said(&imported)
    );
    assert_eq!(cluster(&imported).host_types[1].name, "h100-7");
    let tie = import(&sources[1..], &options());
    assert!(!said(&tie).contains("warning"), "{}", said(&tie));
    assert!(said(&tie).contains("all: note: host_type: hosts with H100 differ, and no kind is the most frequent: h2 and h3 become"), "{}", said(&tie));
    assert_eq!(cluster(&tie).host_types.len(), 2);
}

#[test]
fn one_dump_with_slurm_files_makes_a_cluster() {
    let topology = "SwitchName=leaf1 Nodes=h[1-2]\nSwitchName=leaf2 Nodes=h[3-5]\nSwitchName=top Switches=leaf[1-2]\n";
    let slurm = "NodeName=h[1-4] Sockets=2 CoresPerSocket=56 RealMemory=2097152 Gres=gpu:h100:8\nNodeName=h6 Gres=gpu:h100:8\n";
    let sources = [
        file("topo.txt", &dump(8, None, None)),
        file("topology.conf", topology),
        file("slurm.conf", slurm),
    ];
    let imported = import(&sources, &on("h[1-4]"));
    insta::assert_snapshot!(said(&imported), @r"
    topo.txt:2: note: links: NVSwitch: every pair has NV18, which only a switch explains
    topology.conf:3: note: SwitchName: a cluster file knows leaves only: switches above them are not used
    topo.txt:2: note: --hosts: this one dump stands for 4 hosts
    slurm.conf:2: error: host: no dump describes h6: links are not known
      help: add their nvidia-smi topo -m output, or give --hosts if one dump stands for all
    topology.conf:2: warning: host: no dump describes h5: left out
      help: add their dumps, or give --hosts if one dump stands for all
    ");
    insta::assert_snapshot!(cluster_file::write(cluster(&imported)), @r#"
    name = "demo"

    [[host_type]]
    name = "h100-8"
    gpu_model = "H100"
    gpus = 8
    links = "nvswitch"
    nics = [
      { name = "mlx5_0", gbit_per_s = 400.0, gpus = "0" },
      { name = "mlx5_1", gbit_per_s = 400.0, gpus = "1" },
      { name = "mlx5_2", gbit_per_s = 400.0, gpus = "2" },
      { name = "mlx5_3", gbit_per_s = 400.0, gpus = "3" },
      { name = "mlx5_4", gbit_per_s = 400.0, gpus = "4" },
      { name = "mlx5_5", gbit_per_s = 400.0, gpus = "5" },
      { name = "mlx5_6", gbit_per_s = 400.0, gpus = "6" },
      { name = "mlx5_7", gbit_per_s = 400.0, gpus = "7" },
    ]
    cores = 112
    memory = "2048GiB"

    [[hosts]]
    names = "h[1-2]"
    type = "h100-8"
    leaf = "leaf1"

    [[hosts]]
    names = "h[3-4]"
    type = "h100-8"
    leaf = "leaf2"
    "#);
    let without = import(&sources, &options());
    assert!(without.cluster.is_none());
    assert!(
        said(&without).contains("help: give the names with --hosts; the other files know 'h[1-6]'"),
        "{}",
        said(&without)
    );
}

#[test]
fn gres_conf_alone_is_enough_if_it_has_links() {
    let row = |gpu: usize| {
        let links: Vec<&str> = (0..4).map(|other| if other == gpu { "-1" } else { "18" }).collect();
        format!(
            "NodeName=h[1-2] Name=gpu Type=h100 File=/dev/nvidia{gpu} Links={}\n",
            links.join(",")
        )
    };
    let text: String = (0..4).map(row).collect();
    let told = ClusterOptions { gpu_model: None, rails: true, ..options() };
    let imported = import(&[file("gres.conf", &text)], &told);
    let made = cluster(&imported);
    assert_eq!(made.hosts.len(), 2);
    assert_eq!(
        (made.host_types[0].gpu_model.as_str(), &made.host_types[0].links),
        ("h100", &Links::NvSwitch)
    );
    assert_eq!(made.host_types[0].nics.len(), 4);
    let plain = "NodeName=h[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n";
    let unknown = import(&[file("gres.conf", plain)], &options());
    assert!(unknown.cluster.is_none() && unknown.has_errors());
    assert!(
        said(&unknown).contains("gres.conf:1: error: host: no dump describes h[1-2]: links"),
        "{}",
        said(&unknown)
    );
    let some = format!("{text}NodeName=h[7-8] Name=gpu Type=h100 File=/dev/nvidia[0-3]\n");
    let imported = import(&[file("gres.conf", &some)], &told);
    assert_eq!(cluster(&imported).hosts.len(), 2);
    assert!(imported.has_errors());
    assert!(
        said(&imported).contains("gres.conf:5: error: host: no dump describes h[7-8]"),
        "{}",
        said(&imported)
    );
}

#[test]
fn hosts_without_nics_are_said() {
    let text = "GPU 0: NVIDIA A100\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-31\nGPU1\tNV4\t X \t0-31\n";
    let sources = [in_folder("h1", text), in_folder("h2", text)];
    let imported = import(&sources, &options());
    insta::assert_snapshot!(said(&imported), @r"
    d/h1.txt:2: warning: --gpu-model: the GPUs are 'A100', but 'H100' was given (and 1 time more)
      help: leave --gpu-model out
    d/h1.txt:2: warning: NIC: h[1-2]: no NIC is known; taken to have one 10 Gbit/s Ethernet card
      help: say --rails --nic-gbit-per-s RATE if each GPU has a NIC of its own
    all: warning: --nic-gbit-per-s: not used, since no NIC was found
      help: say --rails as well if each GPU has a NIC of its own
    ");
    let silent = ClusterOptions { nic_gbit_per_s: None, ..options() };
    assert!(!said(&import(&sources, &silent)).contains("--nic-gbit-per-s: not used"));
    let rails = ClusterOptions { rails: true, ..options() };
    assert!(!said(&import(&sources, &rails)).contains("NIC"));
}

#[test]
fn hosts_that_differ_alike_are_one_remark() {
    let (good, seven) = (dump(8, None, None), dump(7, None, None));
    let (no_3, no_4) = (dump(8, None, Some(3)), dump(8, None, Some(4)));
    let memory: String =
        (1..=12).map(|h| format!("NodeName=h{h} RealMemory={}\n", 9000.max(8995 + h))).collect();
    let mut sources: Vec<Source> =
        (1..=8).map(|host| in_folder(&format!("h{host}"), &good)).collect();
    for (name, text) in [("h9", &no_3), ("h10", &no_3), ("h11", &no_4), ("h12", &seven)] {
        sources.push(in_folder(name, text));
    }
    let warnings = |sources: &[Source]| {
        let imported = import(sources, &options());
        cluster(&imported);
        let lines = said(&imported);
        let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("note")).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(warnings(&sources), @r"
    d/h12.txt:2: warning: host: h12 differs from its peers h[1-8]: 7 GPUs, not 8
      help: it becomes a type of its own; check the host
    d/h9.txt:2: warning: NIC: h[9-10] lack NIC mlx5_3 that their peers h[1-8] have
      help: it is written as unhealthy_nics; check the hosts
    d/h11.txt:2: warning: NIC: h11 lacks NIC mlx5_4 that its peers h[1-8] have
      help: it is written as unhealthy_nics; check the host
    ");
    sources.truncate(8);
    sources.push(file("slurm.conf", &memory));
    insta::assert_snapshot!(warnings(&sources), @r"
    d/h6.txt:2: warning: host: h[6-8] differ from their peers h[1-5]: another amount of memory
      help: they become 3 types of their own; check the hosts
    ");
}

#[test]
fn the_gpu_count_of_slurm_is_compared_with_the_dump() {
    let sources = [
        in_folder("h1", &dump(8, None, None)),
        file("slurm.conf", "NodeName=h1 Gres=gpu:h100:4\n"),
    ];
    let imported = import(&sources, &options());
    assert!(
        said(&imported).contains("h1 has 8 GPUs in its dump, but 4 in slurm.conf:1"),
        "{}",
        said(&imported)
    );
}

#[test]
fn nothing_is_made_up() {
    let text = dump(8, None, None).replace("GPU 0: NVIDIA H100 80GB HBM3\n", "");
    let refused = |options: ClusterOptions, part: &str| {
        let imported = import(&[in_folder("h1", &text)], &options);
        assert!(imported.cluster.is_none());
        assert!(said(&imported).contains(part), "{part}\n{}", said(&imported));
    };
    refused(
        ClusterOptions { gpu_model: None, ..options() },
        "d/h1.txt:1: error: gpu_model: nothing tells the GPU model",
    );
    refused(
        ClusterOptions { nic_gbit_per_s: None, ..options() },
        "error: gbit_per_s: nothing tells the line rate of NIC mlx5_0",
    );
    let rails = ClusterOptions { nic_gbit_per_s: None, rails: true, ..options() };
    refused(rails, "error: --rails: the line rate of the NICs is not given");
    let rates: String =
        (0..8).map(|n| format!("CA 'mlx5_{n}'\n State: Active\n Rate: 200\n")).collect();
    let told = ClusterOptions { nic_gbit_per_s: None, ..options() };
    let imported = import(&[in_folder("h1", &(text.clone() + &rates))], &told);
    assert!(cluster(&imported).host_types[0].nics.iter().all(|nic| nic.gbit_per_s == 200.0));
    // PCIe paths of GPUs that are only sold with NVLink.
    let pcie = "GPU 0: NVIDIA H20-3e\n\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n";
    let none = ClusterOptions { gpu_model: None, ..options() };
    let imported = import(&[in_folder("h1", pcie)], &none);
    assert!(
        said(&imported).contains("error: links: no NVLink in the matrix, but 'H20-3e' has NVLink"),
        "{}",
        said(&imported)
    );
    let down = format!("$ nvidia-smi topo -m\n{pcie}");
    let imported = import(
        &[in_folder("h1", &down.replace("GPU 0: NVIDIA H20-3e\n", ""))],
        &ClusterOptions { gpu_model: Some("H20-3e".to_owned()), ..options() },
    );
    assert!(
        said(&imported).contains("warning: links: no NVLink in the matrix"),
        "{}",
        said(&imported)
    );
    let nothing = import(&[file("notes.txt", "hello\n")], &options());
    assert!(said(&nothing).contains("notes.txt: error: it is of no kind that is read here"));
}

#[test]
fn names_of_hosts() {
    let text = dump(8, None, None);
    let pair = [file("a", &text), file("b", &text)];
    let names = |imported: &Imported| -> Vec<String> {
        cluster(imported).hosts.iter().map(|host| host.name.clone()).collect()
    };
    assert_eq!(names(&import(&pair, &on("x1,x2"))), ["x1", "x2"]);
    let many = import(&pair, &on("x[1-3]"));
    assert!(
        said(&many).contains("all: error: --hosts: it names 3 hosts for 2 dumps"),
        "{}",
        said(&many)
    );
    let twice = import(&[in_folder("h1", &text), in_folder("h1", &text)], &options());
    assert!(said(&twice).contains("error: host: host 'h1' is described in d/h1.txt:2 already"));
    let bad = import(&[in_folder("h 1", &text)], &options());
    assert!(said(&bad).contains("error: host: 'h 1' cannot be a host name"));
    let by_file = Source { host: HostName::File("h9".to_owned()), ..file("h9.txt", &text) };
    let by_file = import(&[by_file], &options());
    assert_eq!(names(&by_file), ["h9"]);
    assert!(said(&by_file).contains("note: host: the host is named 'h9' after the file"));
}

#[test]
fn ids_are_taken_over_for_one_host_only() {
    let ids: String =
        (0..8).map(|gpu| format!("GPU {gpu}: NVIDIA H100 (UUID: GPU-{gpu})\n")).collect();
    let text = dump(8, None, None).replace("GPU 0: NVIDIA H100 80GB HBM3\n", "") + &ids;
    let one = import(&[in_folder("h1", &text)], &options());
    assert_eq!(cluster(&one).hosts[0].gpu_ids[7].uuid.as_deref(), Some("GPU-7"));
    let copy = import(&[in_folder("h1", &text), in_folder("h2", &text)], &options());
    assert!(said(&copy).contains("warning: GPU: h2 has the GPU GPU-0 of h1: is the file a copy?"));
    let many = import(&[file("t", &text)], &on("h[1-2]"));
    assert!(cluster(&many).hosts[0].gpu_ids.is_empty());
    assert!(said(&many).contains("note: GPU: UUIDs and PCI bus ids are not taken over"));
    // In files of their own: the names of one host's GPUs beside its matrix.
    let matrix = dump(8, None, None).replace("GPU 0: NVIDIA H100 80GB HBM3\n", "");
    let beside = import(
        &[in_folder("h1", &matrix), in_folder("h1", &ids)],
        &ClusterOptions { gpu_model: None, ..options() },
    );
    assert_eq!(cluster(&beside).host_types[0].gpu_model, "H100");
}

#[test]
fn a_leaf_map_and_one_dump_for_all() {
    let mut map = "node,ASW,PSW\n".to_owned();
    for host in 0..40 {
        writeln!(map, "n-{host:03},S{},P1", host % 4).unwrap();
    }
    let sources = [file("topo.txt", &dump(8, None, None)), file("map.csv", &map)];
    let imported = import(&sources, &on("n-[000-041]"));
    let made = cluster(&imported);
    assert_eq!(made.hosts.len(), 42);
    assert_eq!(made.hosts[0].leaf.as_deref(), Some("S0"));
    assert!(
        said(&imported).contains("all: warning: leaf: no source gives the leaf of n-[040-041]"),
        "{}",
        said(&imported)
    );
    let two = import(
        &[file("a.csv", "node,ASW\nh1,S1\n"), file("b.conf", "SwitchName=S2 Nodes=h1\n")],
        &options(),
    );
    assert!(
        said(&two).contains("b.conf:1: error: leaf: h1 is on 'S2', but on 'S1' in a.csv:2"),
        "{}",
        said(&two)
    );
}

#[test]
fn texts_that_are_not_read_are_named() {
    let yaml = "---\n- topology: main\n  tree:\n    switches:\n      - switch: s1\n        nodes: h[1-2]\n";
    let dump = dump(4, None, None);
    let wide: Vec<u8> = dump.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = String::from_utf8_lossy(&wide);
    let imported = import(&[file("topology.yaml", yaml), file("w.txt", &wide)], &on("h1"));
    insta::assert_snapshot!(said(&imported), @r"
    topology.yaml:2: error: Slurm's topology.yaml is not read
      help: give Slurm's topology.conf, the output of scontrol show topology, or a table of node,ASW
    w.txt:1: error: the text is UTF-16, not UTF-8
      help: it may be from PowerShell; convert it with iconv -f UTF-16 -t UTF-8
    ");
    let old = import(&[file("h1.txt", &dump.replace('\n', "\r"))], &on("h1"));
    assert_eq!(cluster(&old).gpu_count(), 4);
}

#[test]
fn numbers_in_names_count() {
    let mut names = ["h10", "h2", "a", "h2b", "h1"];
    names.sort_by_key(|name| types::natural(name));
    assert_eq!(names, ["a", "h1", "h2", "h2b", "h10"]);
}

/// One type's dump as pdsh gives it.
fn rendered(kind: &[LinkClass], gpus: usize, hosts: &[String]) -> String {
    let mut rows = vec![(0..gpus).map(|gpu| format!("\tGPU{gpu}")).collect::<String>()];
    for a in 0..gpus {
        let word = |b: usize| if a == b { "X".to_owned() } else { kind[a * gpus + b].to_string() };
        rows.push(
            format!("GPU{a}") + &(0..gpus).map(|b| format!("\t{}", word(b))).collect::<String>(),
        );
    }
    let lines =
        rows.iter().flat_map(|row| hosts.iter().map(move |host| format!("{host}: {row}\n")));
    lines.collect()
}

proptest! {
    #[test]
    fn clusters_come_back(
        types in prop::collection::vec((2_usize..=8, any::<u64>(), 1_usize..5), 1..4),
    ) {
        let classes = [LinkClass::Sys, LinkClass::Node, LinkClass::Pix, LinkClass::Nv(2)];
        let mut text = String::new();
        let mut expected = std::collections::BTreeMap::new();
        for (at, (gpus, seed, hosts)) in types.iter().enumerate() {
            let mut links = vec![LinkClass::Sys; gpus * gpus];
            for a in 0..*gpus {
                for b in a + 1..*gpus {
                    let class = classes[(seed >> ((a * 7 + b * 3) % 60) & 3) as usize];
                    links[a * gpus + b] = class;
                    links[b * gpus + a] = class;
                }
            }
            let names: Vec<String> = (0..*hosts).map(|n| format!("t{at}-{n}")).collect();
            text += &rendered(&links, *gpus, &names);
            expected.extend(names.into_iter().map(|name| (name, Links::Matrix(links.clone()))));
        }
        let imported = import(&[file("all.txt", &text)], &ClusterOptions { nic_gbit_per_s: None, ..options() });
        let made = cluster(&imported);
        prop_assert_eq!(made.hosts.len(), expected.len());
        for host in made.host_ids() {
            prop_assert_eq!(&made.type_of(host).links, &expected[&made.host(host).name]);
            prop_assert!(made.healthy_gpus(host) == GpuMask::first(made.type_of(host).gpus));
        }
    }
}
