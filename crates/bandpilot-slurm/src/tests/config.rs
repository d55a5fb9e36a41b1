use bandpilot_core::ClusterBuilder;
use bandpilot_readers::Severity;

use super::*;

const SLURM: &str = r#"# A site.
ClusterName=site
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES = gres/gpu:h100
GRESTYPES=gpu,shard   # both
SelectTypeParameters=CR_Socket_Memory
NodeName=DEFAULT Sockets=2 CoresPerSocket=48 Gres=gpu:h100:4 \
   Features=ib
nodename=gpu[001-064] State=UNKNOWN Reason="new # ones"
NodeName=a[1-2] Gres=gpu:a100:2,shard:16 Feature=eth,A100
PartitionName=gpu Nodes=ALL
"#;

const GRES: &str = "AutoDetect=nvml
NodeName=gpu[001-064] Name=gpu Type=h100 File=/dev/nvidia[0-1] Cores=0-47
NodeName=gpu[001-064] Name=gpu Type=h100 File=/dev/nvidia[2-3] COREs=48-95 Flags=nvidia_gpu_env
NodeName=a[1-2] Name=gpu Type=a100 File=/dev/nvidia0 Links=-1,4
NodeName=a[1-2] Name=gpu Type=a100 File=/dev/nvidia1 Links=4,-1
NodeName=a[1-2] Name=shard Count=16
";

fn files<'a>(slurm: &'a str, gres: &'a str) -> Input<'a> {
    Input {
        slurm: Some(Text { file: "slurm.conf", text: slurm }),
        gres: (!gres.is_empty()).then_some(Text { file: "gres.conf", text: gres }),
        ..Input::default()
    }
}

fn island() -> Options {
    Options { granularity: Granularity::Island, ..Options::default() }
}

/// Errors and warnings as they are shown.
fn said(remarks: &[Remark]) -> String {
    let shown = remarks.iter().filter(|(_, remark)| remark.severity > Severity::Note);
    shown.map(|(file, remark)| remark.display(file).to_string() + "\n").collect()
}

fn refused(input: &Input, words: &[&str]) {
    let (fragments, remarks) = config(input, &Options::default());
    let said = said(&remarks);
    assert!(fragments.is_none(), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}\n{said}");
    }
}

#[test]
fn a_site_keeps_all_but_its_gpu_types() {
    let (fragments, remarks) = config(&files(SLURM, GRES), &Options::default());
    let made = fragments.unwrap();
    let expected = "GresTypes=gpu,shard
SelectType=select/cons_tres
SelectTypeParameters=CR_Socket_Memory
AccountingStorageTRES=gres/gpu:h100,gres/gpu,gres/gpu:g0,gres/gpu:g1,gres/gpu:g2,gres/gpu:g3
NodeName=DEFAULT Sockets=2 CoresPerSocket=48
NodeName=gpu[001-064] State=UNKNOWN Reason=\"new # ones\" Feature=ib,h100 Gres=gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1
NodeName=a[1-2] Feature=eth,A100,a100 Gres=gpu:g0:1,gpu:g1:1,shard:16
";
    assert_eq!(made.slurm_conf.split_once('\n').unwrap().1, expected);
    let expected = "AutoDetect=off
NodeName=gpu[001-064] Name=gpu Type=g0 File=/dev/nvidia0 Cores=0-47
NodeName=gpu[001-064] Name=gpu Type=g1 File=/dev/nvidia1 Cores=0-47
NodeName=gpu[001-064] Name=gpu Type=g2 File=/dev/nvidia2 Cores=48-95 Flags=nvidia_gpu_env
NodeName=gpu[001-064] Name=gpu Type=g3 File=/dev/nvidia3 Cores=48-95 Flags=nvidia_gpu_env
NodeName=a[1-2] Name=gpu Type=g0 File=/dev/nvidia0 Links=-1,4
NodeName=a[1-2] Name=gpu Type=g1 File=/dev/nvidia1 Links=4,-1
NodeName=a[1-2] Name=shard Count=16
";
    assert_eq!(made.gres_conf.split_once('\n').unwrap().1, expected);
    assert_eq!(made.topology_conf, None);
    assert!(said(&remarks).contains("gres.conf:1: warning: AutoDetect: AutoDetect=nvml"));
    let of_old: Vec<&str> = made
        .changes
        .iter()
        .filter(|change| change.what == "--gres=gpu:a100:4")
        .map(|change| change.instead.as_str())
        .collect();
    assert!(of_old[0].starts_with("--gres=gpu:4 -C a100;"), "{of_old:?}");
    assert!(made.changes.iter().any(|change| change.what.contains("gres/gpu:h100=8")));
}

#[test]
fn what_was_made_is_made_again() {
    let once = config(&files(SLURM, GRES), &Options::default()).0.unwrap();
    let conf = format!("AccountingStorageType=x/slurmdbd\n{}", once.slurm_conf);
    let (twice, remarks) = config(&files(&conf, &once.gres_conf), &Options::default());
    let twice = twice.unwrap();
    assert_eq!((&twice.slurm_conf, &twice.gres_conf), (&once.slurm_conf, &once.gres_conf));
    assert_eq!(said(&remarks), "");
    assert!(!twice.changes.iter().any(|change| change.subject == "limits"));
}

#[test]
fn islands_are_those_of_links_or_cores() {
    let made = config(&files(SLURM, GRES), &island()).0.unwrap();
    assert!(made.slurm_conf.contains("Gres=gpu:g0:2,gpu:g1:2\n"), "{}", made.slurm_conf);
    assert!(made.slurm_conf.contains("Gres=gpu:g0:2,shard:16\n"), "{}", made.slurm_conf);
    let pairs = ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"];
    let sockets = ["X NODE SYS", "NODE X SYS", "SYS SYS X"];
    let mesh = ["X NV1 SYS NV1", "NV1 X NV2 SYS", "SYS NV2 X NV1", "NV1 SYS NV1 X"];
    let builder = ClusterBuilder::new("c");
    let builder = builder.host_type("p", "RTX A6000", 4).matrix(&pairs).host("p1");
    let builder = builder.host_type("s", "T4", 3).matrix(&sockets).host("s1");
    let builder = builder.host_type("m", "V100", 4).matrix(&mesh).host("m1");
    let cluster = builder.host_type("h", "H100", 8).nvswitch().hosts("h", 1, 2).build();
    let input = Input { cluster: Some(&cluster), ..Input::default() };
    let (made, remarks) = config(&input, &island());
    let made = made.unwrap();
    for line in [
        "NodeName=p1 Feature=rtx_a6000 Gres=gpu:g0:2,gpu:g1:2\n",
        "NodeName=s1 Feature=t4 Gres=gpu:g0:2,gpu:g1:1\n",
        "NodeName=m1 Feature=v100 Gres=gpu:g0:4\n",
        "NodeName=h[1-2] Feature=h100 Gres=gpu:g0:8\n",
    ] {
        assert!(made.slurm_conf.contains(line), "{line}\n{}", made.slurm_conf);
    }
    assert!(made.gres_conf.contains("NodeName=p1 Name=gpu Type=g1 File=/dev/nvidia2\n"));
    assert!(said(&remarks).contains("m1 and hosts like it are one island"));
    // Slurm would number the GPUs of such islands anew.
    let crossed = ["X SYS NV4 SYS", "SYS X SYS NV4", "NV4 SYS X SYS", "SYS NV4 SYS X"];
    let crossed =
        ClusterBuilder::new("c").host_type("x", "A6000", 4).matrix(&crossed).host("x1").build();
    let input = Input { cluster: Some(&crossed), ..Input::default() };
    let (made, remarks) = config(&input, &island());
    assert!(made.is_none() && said(&remarks).contains("x1: the GPUs of an island do not follow"));
    assert!(config(&input, &Options::default()).0.is_some());
    let gap = "Name=gpu File=/dev/nvidia[0,2]\n";
    let (made, remarks) = config(&files("NodeName=a1 Gres=gpu:2\n", gap), &Options::default());
    assert!(made.is_some() && said(&remarks).contains("a1: /dev/nvidia2 is GPU 1 for Slurm"));
}

#[test]
fn the_cluster_file_gives_leaves_and_models() {
    let cluster = ClusterBuilder::new("c").host_type("h", "H100 80GB", 2).nvswitch();
    let mut cluster = cluster.hosts("a", 1, 4).build();
    for (at, host) in cluster.hosts.iter_mut().enumerate() {
        host.leaf = Some(format!("leaf{}", at / 2 + 1));
    }
    let conf = "NodeName=a[1-5] Gres=gpu:2 NodeAddr=10.0.0.[1-5] Weight=3\n";
    let input = Input { cluster: Some(&cluster), ..files(conf, "") };
    // The fifth host has no model, and the addresses cannot be divided.
    refused(
        &input,
        &["slurm.conf:1: error: NodeName: the hosts of this line differ, and NodeAddr"],
    );
    let conf = "NodeName=a[1-5] Gres=gpu:2 Weight=3\n";
    let input = Input { cluster: Some(&cluster), ..files(conf, "") };
    let made = config(&input, &Options::default()).0.unwrap();
    let lines = "TopologyPlugin=topology/tree
NodeName=a[1-4] Weight=3 Feature=h100_80gb Gres=gpu:g0:1,gpu:g1:1
NodeName=a5 Weight=3 Gres=gpu:g0:1,gpu:g1:1
";
    assert!(made.slurm_conf.ends_with(lines), "{}", made.slurm_conf);
    let topology = "SwitchName=leaf1 Nodes=a[1-2]
SwitchName=leaf2 Nodes=a[3-4]
SwitchName=spine Switches=leaf[1-2]
";
    assert!(made.topology_conf.unwrap().ends_with(topology));
    cluster.hosts[3].leaf = None;
    let input = Input { cluster: Some(&cluster), ..Input::default() };
    let (made, remarks) = config(&input, &Options::default());
    assert_eq!(made.unwrap().topology_conf, None);
    assert!(said(&remarks).contains("a4 have no leaf: no topology.conf is written"));
}

#[test]
fn a_given_topology_is_checked_and_stays() {
    let with = |text: &'static str| {
        let topology = Some(Text { file: "topology.conf", text });
        let input = Input { topology, ..files("NodeName=a[1-4] Gres=gpu:2\n", "") };
        let (made, remarks) = config(&input, &Options::default());
        (made.map(|made| made.topology_conf), said(&remarks))
    };
    let block = "BlockName=b1 Nodes=a[1-2]\nBlockName=b2 Nodes=a[3-4]\nBlockSizes=2,4\n";
    assert_eq!(with(block), (Some(None), String::new()));
    assert_eq!(with("SwitchName=s Nodes=a[1-4]\n"), (Some(None), String::new()));
    assert!(with("SwitchName=s Nodes=a[1-3]\n").1.contains("a4 hang at no switch"));
    let (made, said) = with("SwitchName=s Nodes=a[1-\n");
    assert!(made.is_none() && said.contains("topology.conf:1"), "{said}");
    assert!(with("# nothing\n").1.contains("has no switch or block with Nodes"));
    assert_eq!(with("- topology: t\n  tree:\n    switches:\n").0, Some(None));
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let cases: [(&str, &str, &str); 11] = [
        ("NodeName=a[1- Gres=gpu:2\n", "", "slurm.conf:1: error: NodeName"),
        ("NodeName=a1 Gres=gpu:x:y:z:1\n", "", "slurm.conf:1: error: Gres"),
        ("NodeName=a1 Gres=gpu:2 oops\n", "", "slurm.conf:1: error: NodeName: 'oops' is not"),
        (
            "NodeName=a1 Gres=gpu:2\nNodeName=a[1-2]\n",
            "",
            "slurm.conf:2: error: NodeName: a1 stands",
        ),
        ("NodeName=a1\n", "", "no host with GPUs is in the files"),
        ("", "", "no host with GPUs is in the files"),
        (
            "\nNodeName=a1 Gres=gpu:3\n",
            "Name=gpu File=/dev/nvidia[0-1]\n",
            "slurm.conf:2: error: Gres: a1: 3 GPUs are declared, and gres.conf has 2",
        ),
        (
            "NodeName=a1 Gres=gpu:1\n",
            "\nName=gpu Count=1\n",
            "gres.conf:2: error: File: the GPUs have no device",
        ),
        (
            "NodeName=a1 Gres=gpu:1\n",
            "Name=gpu File=nvidia0\n",
            "gres.conf:1: error: File: is not a path",
        ),
        (
            "NodeName=a1 Gres=gpu:1\n",
            "Name=gpu File=/dev/gpu\n",
            "gres.conf:1: error: File: 'gpu' has no number",
        ),
        (
            "NodeName=a1 Gres=gpu:2\n",
            "Name=gpu File=/dev/nvidia[0-1] Links=-1,2\n",
            "gres.conf:1: error: Links",
        ),
    ];
    for (slurm, gres, words) in cases {
        refused(&files(slurm, gres), &[words]);
    }
    let options = Options { type_prefix: "8g".to_owned(), ..Options::default() };
    let (made, remarks) = config(&files(SLURM, GRES), &options);
    assert!(made.is_none() && said(&remarks).contains("--type-prefix: error"));
    let included = "Include nodes.conf\nNodeName=a1 Gres=gpu:1,mps:100\n";
    let (made, remarks) = config(&files(included, ""), &Options::default());
    assert!(made.is_some());
    for words in ["slurm.conf:1: warning: Include: nodes.conf is not read", "mps was not tried"] {
        assert!(said(&remarks).contains(words), "{}", said(&remarks));
    }
}
