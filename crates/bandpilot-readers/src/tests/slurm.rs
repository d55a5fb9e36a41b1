use bandpilot_core::LinkClass;
use proptest::prelude::*;

use super::*;
use crate::Severity;

fn shown(read: &Parsed<SlurmFile>) -> String {
    let lines: Vec<String> =
        read.diagnostics.iter().map(|remark| remark.display("f").to_string()).collect();
    lines.join("\n")
}

#[test]
fn leaves_of_a_tree() {
    let text = "# fabric\nSwitchName=leaf1 Nodes=h[1-4] LinkSpeed=400\nswitchname=leaf2 \\\n  NODES=h[5-8],login\nSwitchName=spine Switches=leaf[1-2] # top\n";
    let read = read(text);
    assert_eq!(
        shown(&read),
        "f:5: note: SwitchName: a cluster file knows leaves only: switches above them are not used"
    );
    assert_eq!(read.value.leaves.len(), 9);
    assert_eq!(read.value.leaves["h8"], Leaf { name: "leaf2".to_owned(), line: 3 });
}

#[test]
fn the_output_of_scontrol_has_levels() {
    let text = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=h[1-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=h[3-4]\nSwitchName=top Level=1 LinkSpeed=1 Nodes=h[1-4] Switches=s[0-1]\n";
    let found = read(text);
    assert_eq!(found.value.leaves["h4"].name, "s1");
    assert_eq!(
        shown(&found),
        "f:3: note: SwitchName: a cluster file knows leaves only: switches above them are not used"
    );
}

#[test]
fn blocks_take_the_place_of_leaves() {
    let read = read("BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18\n");
    assert_eq!(shown(&read), "f:1: note: BlockName: blocks take the place of leaf switches");
    assert_eq!(read.value.leaves["n19"].name, "b2");
}

#[test]
fn what_is_wrong_in_a_topology_is_said_where_it_is() {
    let text = "SwitchName=a Node=h1\nSwitchName=b Nodes=h[2-1]\nSwitchName=c Nodes=h3\nSwitchName=d Nodes=h3\nSwitchName=s[1-2] Nodes=h4\nSwitchName=e oops Nodes=h5\n";
    let read = read(text);
    insta::assert_snapshot!(shown(&read), @r"
    f:1: warning: node: unknown key, not used
      help: did you mean 'nodes'?
    f:1: error: Nodes: the switch has neither Nodes nor Switches
      help: write for example SwitchName=leaf1 Nodes=h[1-16]
    f:2: error: nodes: range '2-1' runs backwards
      help: write for example h1, h[1-4] or h[01-08,10]
    f:4: error: Nodes: h3 stand under another leaf above
      help: a host has one leaf in a cluster file: keep one of the lines
    f:5: error: switchname: 's[1-2]' is not the name of one switch or block
      help: give each its own line
    f:6: warning: 'oops' is not a Key=Value pair, not used
    ");
}

#[test]
fn gpus_and_links_of_gres_conf() {
    let row = |gpu: usize| {
        let links: Vec<&str> = (0..4).map(|other| if other == gpu { "-1" } else { "18" }).collect();
        format!(
            "NodeName=h[1-2] Name=gpu Type=h100 File=/dev/nvidia{gpu} Cores=0-55 Links={}\n",
            links.join(",")
        )
    };
    let switched: String = (0..4).map(row).collect();
    let read_it = read(&switched);
    let note = "f:1: note: Links: NVSwitch: every pair has NV18, which only a switch explains";
    assert_eq!(shown(&read_it), note);
    let h2 = &read_it.value.nodes["h2"];
    assert_eq!((h2.gpus, h2.gpu_type.as_deref()), (Some(4), Some("h100")));
    assert_eq!(h2.links, Some(Links::NvSwitch));
    let pair = "NodeName=a1 Name=gpu Type=a6000 File=/dev/nvidia0 Links=-1,4,0\nNodeName=a1 Name=gpu Type=a6000 File=/dev/nvidia1 Links=4,-1,0\nNodeName=a1 Name=gpu Type=a6000 File=/dev/nvidia2 Links=0,0,-1\n";
    let pair = read(pair);
    assert!(
        shown(&pair).contains("f:1: warning: Links: a1: no NVLink between 2 pairs of GPUs"),
        "{}",
        shown(&pair)
    );
    let Some(Links::Matrix(cells)) = &pair.value.nodes["a1"].links else { panic!() };
    assert_eq!(cells[1], LinkClass::Nv(4));
    let folded = read(
        "AutoDetect=nvml\nNodeName=h[1-9] Name=gpu Type=h100 File=/dev/nvidia[0-7]\nName=shard Count=8\n",
    );
    assert_eq!(folded.value.nodes["h9"].gpus, Some(8));
    assert_eq!(folded.value.nodes["h9"].links, None);
    assert!(shown(&folded).contains("f:1: note: AutoDetect"));
    let wrong = read(
        "NodeName=a Name=gpu File=/dev/nvidia0 Links=-1,2\nNodeName=a Name=gpu File=/dev/nvidia1 Links=3,-1\nNodeName=b Name=gpu Count=99999999999999999999\nNodeName=c Name=gpu File=/dev/nvidia[0-99]\nNodeName=d Name=gpu File=/dev/nvidia0 Links=x\n",
    );
    insta::assert_snapshot!(shown(&wrong), @r"
    f:1: error: Links: a: GPU 0 to 1 and GPU 1 to 0 differ
      help: write the NVLinks to each GPU, -1 for itself: Links=-1,18,18
    f:3: error: Count: is not a number of GPUs up to 64
    f:4: error: File: the list stands for more than 64 hosts
      help: write for example File=/dev/nvidia[0-7]
    f:5: error: Links: is not a list of numbers
      help: write the NVLinks to each GPU, -1 for itself: Links=-1,18,18
    ");
    let local = read("Name=gpu Type=h100 File=/dev/nvidia[0-3]\n");
    assert_eq!(local.value.local.unwrap().gpus, Some(4));
}

#[test]
fn nodes_of_slurm_conf() {
    let text = "SlurmctldHost=head\nNodeName=DEFAULT Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2048000\nNodeName=h[1-2] CPUs=224 Gres=gpu:h100:8(S:0-1),shard:16 State=UNKNOWN\nNodeName=m1 CPUs=128 Gres=gpu:g0:1,gpu:g1:1\nPartitionName=all Nodes=ALL\nNodeName=c1 RealMemory=zero\n";
    let read = read(text);
    let h1 = &read.value.nodes["h1"];
    assert_eq!((h1.gpus, h1.gpu_type.as_deref(), h1.cores), (Some(8), Some("h100"), Some(112)));
    assert_eq!(h1.memory_bytes, Some(2_048_000 << 20));
    assert_eq!((read.value.nodes["m1"].gpus, &read.value.nodes["m1"].gpu_type), (Some(2), &None));
    assert_eq!(shown(&read), "f:6: warning: realmemory: 'zero' is not a number above 0, not used");
    assert!(is_slurm(text) && !is_slurm("GPU0 GPU1\n"));
}

#[test]
fn a_short_file_cannot_list_names_without_end() {
    let text = "NodeName=h[1-99999] Gres=gpu:8\n".repeat(400);
    let read = read(&text);
    assert!(read.has_errors());
    assert_eq!(read.value.nodes.len(), 99_999);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(NodeName=|SwitchName=|BlockName=|Nodes=|Switches=|Name=gpu|File=/dev/nvidia|Links=|Count=|Gres=gpu:|CPUs=|RealMemory=|h\\[1-4\\]|DEFAULT|[0-9]{1,20}|-1|[ \n\\\\#:,=]){0,60}") {
        let _ = is_slurm(&text);
        let read = read(&text);
        let sound = |n: &NodeFacts| n.gpus.is_none_or(|gpus| (1..=64).contains(&gpus));
        prop_assert!(read.value.nodes.values().all(sound));
        prop_assert!(read.diagnostics.iter().all(|d| d.severity >= Severity::Note));
    }
}
