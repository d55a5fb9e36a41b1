#![expect(clippy::format_collect, reason = "texts of tests are short")]

use std::fmt::Write as _;

use bandpilot_core::LinkClass;
use proptest::prelude::*;

use super::*;
use crate::Severity;

fn plain() -> TopoOptions {
    TopoOptions::default()
}

fn rails() -> TopoOptions {
    TopoOptions { rails: true, ..TopoOptions::default() }
}

fn words(links: &Links, gpus: usize) -> String {
    let Links::Matrix(cells) = links else { return "links nvswitch\n".to_owned() };
    let mut text = "links\n".to_owned();
    for (a, row) in cells.chunks(gpus).enumerate() {
        let word = |(b, class): (usize, &LinkClass)| {
            if a == b { "X".to_owned() } else { class.to_string() }
        };
        let row: Vec<String> = row.iter().enumerate().map(word).collect();
        writeln!(text, "  {}", row.join(" ")).unwrap();
    }
    text
}

/// Everything that was read and said, as text.
fn shown(read: &Parsed<Vec<Section>>) -> String {
    let mut text = String::new();
    for Section { dump, facts } in &read.value {
        if let Some(dump) = dump {
            writeln!(text, "line {}: {} GPUs, hosts {:?}", dump.line, dump.gpus, dump.hosts)
                .unwrap();
            writeln!(text, "prompt {:?} {:?}", dump.prompt_host, dump.command).unwrap();
            text += &words(&dump.links, dump.gpus);
            for nic in &dump.nics {
                writeln!(text, "nic {} serves {}", nic.name, nic.gpus).unwrap();
            }
        }
        if !facts.is_empty() {
            writeln!(text, "models {:?}", facts.models).unwrap();
            writeln!(text, "ids {:?} rates {:?}", facts.ids, facts.rates).unwrap();
        }
    }
    for remark in &read.diagnostics {
        writeln!(text, "{}", remark.display("f")).unwrap();
    }
    text
}

/// The only dump of a text that must be read without a warning.
fn good(text: &str) -> Dump {
    let read = read(text, &plain());
    assert!(read.diagnostics.iter().all(|d| d.severity == Severity::Note), "{}", shown(&read));
    assert_eq!(read.value.len(), 1, "{}", shown(&read));
    read.value.into_iter().next().unwrap().dump.unwrap()
}

fn field_files(test: &str) -> Vec<(String, String)> {
    let Some(data) = bandpilot_testdata::require_data(test) else { return Vec::new() };
    let paths = bandpilot_testdata::files(&data.join("field-files/nvidia-smi-topo"));
    let files: Vec<(String, String)> = paths
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, bandpilot_testdata::read(path).unwrap())
        })
        .collect();
    assert!(files.len() >= 19);
    files
}

#[test]
fn every_field_file() {
    for (name, text) in field_files("topo::every_field_file") {
        let mut outcome = shown(&read(&text, &plain()));
        let told = shown(&read(&text, &rails()));
        if told != outcome {
            write!(outcome, "--- with --rails\n{told}").unwrap();
        }
        let name = name.trim_end_matches(".txt").replace(['.', ' '], "-");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "snapshots" }, {
            insta::assert_snapshot!(format!("topo_{name}"), outcome);
        });
    }
}

/// What a mutated dump must not change in silence.
fn essence(read: &Parsed<Vec<Section>>) -> Vec<(usize, Links, Vec<DumpNic>)> {
    let dumps = read.value.iter().filter_map(|section| section.dump.clone());
    dumps.map(|dump| (dump.gpus, dump.links, dump.nics)).collect()
}

/// A changed dump gives a warning or an error, or the same host.
fn check_mutant(name: &str, text: &str, original: &[(usize, Links, Vec<DumpNic>)]) {
    for options in [plain(), rails()] {
        let mutant = read(text, &options);
        let silent = mutant.diagnostics.iter().all(|d| d.severity == Severity::Note);
        if silent && options == plain() {
            assert_eq!(essence(&mutant), original, "{name}\n{text}");
        }
        for section in mutant.value {
            let Some(dump) = section.dump else { continue };
            let all = GpuMask::first(dump.gpus);
            assert!(dump.nics.iter().all(|nic| nic.gpus.is_subset_of(all)));
            assert!(!matches!(&dump.links, Links::Matrix(c) if c.len() != dump.gpus * dump.gpus));
        }
    }
    let _ = is_topo(text);
}

#[test]
fn cut_and_shortened_field_files_never_change_in_silence() {
    for (name, text) in field_files("topo::cut_and_shortened") {
        let original = essence(&read(&text, &plain()));
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            check_mutant(&name, &text[..cut], &original);
        }
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for at in 0..lines.len() {
            check_mutant(&name, &lines[at..].concat(), &original);
            check_mutant(&name, &[&lines[..at], &lines[at + 1..]].concat().concat(), &original);
            check_mutant(&name, &[&lines[..=at], &lines[at..]].concat().concat(), &original);
        }
        for column in 0..14 {
            let without = |line: &str| {
                let words = line.split_whitespace().enumerate();
                let kept: Vec<&str> = words.filter(|(at, _)| *at != column).map(|w| w.1).collect();
                kept.join(" ") + "\n"
            };
            let changed: String = text.lines().map(without).collect();
            check_mutant(&name, &changed, &original);
        }
    }
}

#[test]
fn changed_cells_never_change_a_host_in_silence() {
    let others =
        ["", "junk", "NV0", "NV999", "X", "N/A", "0", "PIX", "SYS", "NV3", "OK", "GPU1", "0-11"];
    for (name, text) in field_files("topo::changed_cells") {
        let original = essence(&read(&text, &plain()));
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            for column in 0..words.len() {
                for other in others {
                    let mut words = words.clone();
                    words[column] = other;
                    let mut lines: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
                    lines[at] = words.join("\t");
                    check_mutant(&name, &(lines.join("\n") + "\n"), &original);
                }
            }
        }
        for (from, to) in [
            ("1", "99999999999999999999999"),
            ("NV", "NV9"),
            ("8", "NaN"),
            ("2", "\u{663}"),
            ("0", "-0"),
            (" ", ""),
            ("\t", ""),
            ("\n", "\r\n"),
        ] {
            let changed = text.replace(from, to);
            let has_nvlink = text
                .split_whitespace()
                .any(|word| matches!(LinkClass::parse(word), Some(LinkClass::Nv(_))));
            if to == "NV9" && has_nvlink {
                // All cells changed alike would be another good dump, but no GPU has so many links.
                let read = read(&changed, &plain());
                let said = read.diagnostics.iter().any(|d| d.severity > Severity::Note);
                assert!(said, "{name}\n{}", shown(&read));
            }
            check_mutant(&name, &changed, &original);
        }
    }
}

#[test]
fn random_changes_never_change_a_host_in_silence() {
    use rand::RngExt as _;
    use rand_pcg::rand_core::SeedableRng as _;
    let mut rng = rand_pcg::Pcg64::seed_from_u64(20_261_130);
    let files = field_files("topo::random_changes");
    for (name, text) in &files {
        let original = essence(&read(text, &plain()));
        for _ in 0..400 {
            let mut chars: Vec<char> = text.chars().collect();
            let at = rng.random_range(0..chars.len());
            let end = (at + rng.random_range(0..4_usize)).min(chars.len());
            let with: Vec<char> = match rng.random_range(0..4) {
                0 => Vec::new(),
                1 => chars[at..end].repeat(2),
                2 => vec!['\n'],
                _ => vec![char::from(rng.random_range(32..127_u8))],
            };
            chars.splice(at..end, with);
            check_mutant(name, &chars.into_iter().collect::<String>(), &original);
        }
    }
}

/// A dump of `gpus` GPUs with these NIC columns, in the way of nvidia-smi.
struct Rendered {
    gpus: usize,
    links: Vec<LinkClass>,
    nics: Vec<String>,
    /// Row-major GPUs x NICs.
    near: Vec<LinkClass>,
}

#[derive(Debug, Clone, Copy)]
enum Look {
    Tabs,
    Spaces,
    Ansi,
}

impl Rendered {
    fn switched(gpus: usize, links: u8, nics: &[&str]) -> Self {
        let near = (0..gpus).flat_map(|gpu| {
            let count = nics.len();
            (0..count).map(move |nic| if nic == gpu { LinkClass::Pix } else { LinkClass::Node })
        });
        Self {
            gpus,
            links: vec![LinkClass::Nv(links); gpus * gpus],
            nics: nics.iter().map(|nic| (*nic).to_owned()).collect(),
            near: near.collect(),
        }
    }

    fn set(mut self, a: usize, b: usize, class: LinkClass) -> Self {
        self.links[a * self.gpus + b] = class;
        self.links[b * self.gpus + a] = class;
        self
    }

    fn word(&self, a: usize, b: usize) -> String {
        let (gpus, nics) = (self.gpus, self.nics.len());
        match (a < gpus, b < gpus) {
            _ if a == b => " X ".to_owned(),
            (true, true) => self.links[a * gpus + b].to_string(),
            (true, false) => self.near[a * nics + b - gpus].to_string(),
            (false, true) => self.near[b * nics + a - gpus].to_string(),
            (false, false) => "SYS".to_owned(),
        }
    }

    fn text(&self, look: Look, legend: &[&str]) -> String {
        let width = self.gpus + self.nics.len();
        let label = |at: usize| {
            if at < self.gpus { format!("GPU{at}") } else { self.nics[at - self.gpus].clone() }
        };
        let mut rows = vec![(0..width).map(label).collect::<Vec<_>>()];
        rows[0].insert(0, String::new());
        rows[0].extend(["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"].map(ToOwned::to_owned));
        for a in 0..width {
            let mut row = vec![label(a)];
            row.extend((0..width).map(|b| self.word(a, b)));
            if a < self.gpus {
                row.extend(["0-47,96-143", "0", "N/A"].map(ToOwned::to_owned));
            }
            rows.push(row);
        }
        let mut text = String::new();
        for (at, row) in rows.iter().enumerate() {
            let line = match look {
                Look::Spaces => row.iter().map(|cell| format!("{cell:<10}")).collect::<String>(),
                Look::Tabs | Look::Ansi => row.join("\t"),
            };
            let ansi = matches!(look, Look::Ansi) && at == 0;
            let line = if ansi { format!("\t\u{1b}[4m{}\u{1b}[0m", line.trim()) } else { line };
            writeln!(text, "{line}").unwrap();
        }
        text +=
            "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n  NV#  = NVLinks\n";
        if !legend.is_empty() {
            text += "\nNIC Legend:\n\n";
            for (at, name) in legend.iter().enumerate() {
                writeln!(text, "  NIC{at}: {name}").unwrap();
            }
        }
        text
    }
}

fn served(dump: &Dump) -> Vec<String> {
    dump.nics.iter().map(|nic| format!("{}={}", nic.name, nic.gpus)).collect()
}

#[test]
fn sixteen_gpus_and_columns_named_after_the_nics() {
    let names: Vec<String> = (0..16).map(|n| format!("mlx5_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for look in [Look::Tabs, Look::Spaces, Look::Ansi] {
        let dump = good(&Rendered::switched(16, 6, &names).text(look, &[]));
        assert_eq!((dump.gpus, &dump.links), (16, &Links::NvSwitch));
        assert_eq!(dump.nics.len(), 16);
        assert_eq!(served(&dump)[11], "mlx5_11=11");
    }
}

#[test]
fn the_legend_names_the_nics() {
    let rendered = Rendered::switched(4, 18, &["NIC0", "NIC1", "NIC2"]);
    let dump = good(&rendered.text(Look::Tabs, &["mlx5_0", "mlx5_3", "mlx5_bond_0"]));
    assert_eq!(served(&dump), ["mlx5_0=0", "mlx5_3=1", "mlx5_bond_0=2"]);
    let read = read(&rendered.text(Look::Tabs, &["mlx5_0", "mlx5_0", "mlx5_1"]), &plain());
    assert!(shown(&read).contains("warning: NIC Legend"), "{}", shown(&read));
}

#[test]
fn far_nics_are_left_out_and_said() {
    let mut rendered = Rendered::switched(2, 12, &["NIC0", "NIC1", "NIC2"]);
    let read_it = |r: &Rendered, options: &TopoOptions| read(&r.text(Look::Tabs, &[]), options);
    let found = read_it(&rendered, &plain());
    assert!(shown(&found).contains("f:1: note: NIC: NIC2 left out"), "{}", shown(&found));
    let all = Some(["NIC2", "NIC0"].map(ToOwned::to_owned).to_vec());
    let chosen = read_it(&rendered, &TopoOptions { nics: all, rails: false });
    assert_eq!(served(chosen.value[0].dump.as_ref().unwrap()), ["NIC0=0", "NIC2="]);
    let unknown = TopoOptions { nics: Some(vec!["mlx5_9".to_owned()]), rails: false };
    assert!(shown(&read_it(&rendered, &unknown)).contains("error: --nics: the dump has no NIC"));
    rendered.near = vec![LinkClass::Pix; 6];
    assert!(shown(&read_it(&rendered, &plain())).contains("warning: NIC: 3 NICs for 2 GPUs"));
    rendered.near = vec![LinkClass::Sys; 6];
    let hidden = shown(&read_it(&rendered, &plain()));
    assert!(hidden.contains("error: NIC: none of the 3 NICs is near a GPU"), "{hidden}");
    let told = TopoOptions { nics: Some(vec!["NIC1".to_owned()]), rails: false };
    assert_eq!(served(read_it(&rendered, &told).value[0].dump.as_ref().unwrap()), ["NIC1=0-1"]);
    rendered.near[0] = LinkClass::Node;
    rendered.near[4] = LinkClass::Node;
    let by_node = read_it(&rendered, &plain());
    assert!(shown(&by_node).contains("warning: NIC: no NIC is near a GPU: each is taken"));
    assert_eq!(served(by_node.value[0].dump.as_ref().unwrap()), ["NIC0=0", "NIC1=1"]);
}

#[test]
fn a_gpu_that_lost_nvlink_is_named() {
    let mut rendered = Rendered::switched(8, 18, &[]);
    for other in (0..8).filter(|other| *other != 5) {
        rendered = rendered.set(5, other, LinkClass::Sys);
    }
    let read = read(&rendered.text(Look::Tabs, &[]), &plain());
    let text = shown(&read);
    assert!(
        text.contains("warning: GPU5: GPU5 reaches the others by SYS, while they have NV18"),
        "{text}"
    );
    assert!(matches!(read.value[0].dump.as_ref().unwrap().links, Links::Matrix(_)));
    // Bridged pairs on eight GPUs are no switch, and nothing is lost.
    let mut pairs = Rendered::switched(8, 4, &[]);
    pairs.links = vec![LinkClass::Sys; 64];
    for a in [0, 2, 4, 6] {
        pairs = pairs.set(a, a + 1, LinkClass::Nv(4));
    }
    assert!(matches!(good(&pairs.text(Look::Spaces, &[])).links, Links::Matrix(_)));
}

#[test]
fn old_words_and_split_gpus() {
    let dump = good(
        "\tGPU0\tGPU1\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-9\nGPU1\tSOC\t X \tSOC\t10-19\nmlx4_0\tPHB\tSOC\t X \n",
    );
    assert!(matches!(&dump.links, Links::Matrix(cells) if cells[1] == LinkClass::Sys));
    assert_eq!(served(&dump), ["mlx4_0=0"]);
    let split = read("GPU 0: A (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-b)\n", &plain());
    assert!(shown(&split).contains("f:2: warning: MIG"), "{}", shown(&split));
}

/// Every line with the name of a host in front.
fn prefixed(host: &str, text: &str) -> String {
    text.lines().map(|line| format!("{host}: {line}\n")).collect()
}

#[test]
fn outputs_of_several_hosts_are_told_apart() {
    let text = Rendered::switched(4, 18, &["NIC0"]).text(Look::Tabs, &["mlx5_0"]);
    // Lines of pdsh come as they arrive.
    let (a, b) = (prefixed("h1", &text), prefixed("h2", &text));
    let mixed: String = a.lines().zip(b.lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect();
    let hosts = |text: &str| -> Vec<Vec<String>> {
        let read = read(text, &plain());
        assert!(read.diagnostics.iter().all(|d| d.severity == Severity::Note), "{}", shown(&read));
        let dumps = read.value.iter().filter_map(|section| section.dump.as_ref());
        dumps
            .map(|dump| {
                assert_eq!(dump.links, Links::NvSwitch);
                dump.hosts.clone()
            })
            .collect()
    };
    assert_eq!(hosts(&mixed), [["h1"], ["h2"]]);
    let ruler = "-".repeat(16);
    let banner = |hosts: &str| format!("{ruler}\n{hosts}\n{ruler}\n");
    let dshbak = format!("{}{text}{}{text}", banner("h[1-3]"), banner("h4"));
    assert_eq!(hosts(&dshbak), [vec!["h1", "h2", "h3"], vec!["h4"]]);
    let clush = format!("{}{text}", banner("h[1-2] (2)"));
    assert_eq!(hosts(&clush), [["h1", "h2"]]);
    let ansible = format!("h1 | CHANGED | rc=0 >>\n{text}h2 | SUCCESS | rc=0 >>\n{text}");
    assert_eq!(hosts(&ansible), [["h1"], ["h2"]]);
    let prompts =
        format!("root@h7:~# nvidia-smi topo -m\n{text}[me@h8 ~]$ nvidia-smi topo -m\n{text}");
    let session = |host: &str| {
        format!(
            "me@{host}:~$ nvidia-smi -L\nGPU 0: A (UUID: GPU-{host})\nme@{host}:~$ nvidia-smi topo -m\n{text}"
        )
    };
    let sessions = super::read(&(session("h1") + &session("h2")), &plain());
    let ids: Vec<_> =
        sessions.value.iter().map(|s| s.facts.ids[&0].uuid.clone().unwrap()).collect();
    assert_eq!(ids, ["GPU-h1", "GPU-h2"]);
    let read = read(&prompts, &plain());
    let names: Vec<_> =
        read.value.iter().map(|s| s.dump.as_ref().unwrap().prompt_host.clone().unwrap()).collect();
    assert_eq!(names, ["h7", "h8"]);
}

#[test]
fn a_host_without_a_driver_is_not_passed_over() {
    let text = Rendered::switched(4, 18, &[]).text(Look::Tabs, &[]);
    for failure in [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "bash: line 1: nvidia-smi: command not found",
        "No devices were found",
    ] {
        let read = read(&format!("{}h2: {failure}\n", prefixed("h1", &text)), &plain());
        assert_eq!(read.value.len(), 1);
        let said = shown(&read);
        assert!(said.contains("warning: a host could not be looked at: 'h2: "), "{said}");
        assert!(is_topo(failure));
    }
}

#[test]
fn names_ids_and_rates() {
    let text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)\n\
        index, name, pci.bus_id, uuid\n0, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, GPU-a\n1, NVIDIA H100 80GB HBM3, 00000000:43:00.0, GPU-b\n\
        CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tRate: 10\n";
    let read = read(text, &plain());
    let facts = &read.value[0].facts;
    assert_eq!(facts.models[&1], "H100 80GB HBM3");
    assert_eq!(facts.ids[&0].pci_bus_id.as_deref(), Some("0000:1b:00.0"));
    assert_eq!(facts.ids[&1].uuid.as_deref(), Some("GPU-b"));
    assert_eq!(facts.rates.get("mlx5_0"), Some(&400.0));
    assert_eq!(facts.rates.len(), 1);
    assert!(shown(&read).contains("f:13: warning: Rate: the port of mlx5_1 is not active"));
    let twice = super::read("GPU 0: A (UUID: GPU-a)\nGPU 1: A (UUID: GPU-a)\n", &plain());
    assert!(twice.value[0].facts.ids.is_empty() && shown(&twice).contains("warning: GPU"));
    let changed = super::read("GPU 0: A\nGPU 0: B\n", &plain());
    assert!(shown(&changed).contains("f:2: error: GPU: GPU 0 is 'B' here and 'A' above"));
}

fn rocm(kind: &str, hops: &str, weight: &str) -> String {
    let section = |title: &str, word: &str| {
        format!(
            "==== {title} ====\n       GPU0         GPU1\nGPU0   0     {word}\nGPU1   {word}    0\n\n"
        )
    };
    section("Weight between two GPUs", weight)
        + &section("Hops between two GPUs", hops)
        + &section("Link Type between two GPUs", kind)
}

#[test]
fn rocm_links_are_read_where_there_is_a_word_for_them() {
    let links = |text: &str| {
        let read = read(text, &plain());
        let dump = read.value.first().and_then(|section| section.dump.clone());
        (dump.map(|dump| dump.links), shown(&read))
    };
    let xgmi = links(&rocm("XGMI", "1", "15"));
    assert!(matches!(xgmi.0, Some(Links::Matrix(cells)) if cells[1] == LinkClass::Nv(1)));
    assert!(xgmi.1.contains("warning: links: XGMI links are written as NV1"));
    let near = links(&rocm("PCIE", "2", "40"));
    assert!(matches!(near.0, Some(Links::Matrix(cells)) if cells[1] == LinkClass::Node));
    let far = links(&rocm("XGMI", "1", "30"));
    assert!(
        far.0.is_none() && far.1.contains("error: GPU0/GPU1: a link of type 'XGMI'"),
        "{}",
        far.1
    );
}

fn any_class() -> impl Strategy<Value = LinkClass> {
    prop_oneof![
        Just(LinkClass::Sys),
        Just(LinkClass::Node),
        Just(LinkClass::Phb),
        Just(LinkClass::Pxb),
        Just(LinkClass::Pix),
        (1_u8..=18).prop_map(LinkClass::Nv),
    ]
}

fn any_rendered() -> impl Strategy<Value = Rendered> {
    let far =
        prop::sample::select(vec![LinkClass::Sys, LinkClass::Node, LinkClass::Phb, LinkClass::Pix]);
    (1_usize..=16, 0_usize..=8, any::<bool>()).prop_flat_map(move |(gpus, nics, uniform)| {
        let links = prop::collection::vec(any_class(), gpus * gpus);
        let near = prop::collection::vec(far.clone(), gpus * nics);
        (links, near).prop_map(move |(links, near)| {
            let mut rendered = Rendered {
                gpus,
                links: links.clone(),
                nics: (0..nics).map(|nic| format!("NIC{nic}")).collect(),
                near,
            };
            for a in 0..gpus {
                for b in a..gpus {
                    let class = if a == b { LinkClass::Sys } else { links[a * gpus + b] };
                    let class = if uniform && a != b { LinkClass::Nv(18) } else { class };
                    rendered = rendered.set(a, b, class);
                }
            }
            rendered
        })
    })
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Look::Spaces, &[]))
    }
}

proptest! {
    #[test]
    fn what_would_be_printed_is_read_exactly(
        rendered in any_rendered(),
        look in prop::sample::select(vec![Look::Tabs, Look::Spaces, Look::Ansi]),
        prefix in any::<bool>(),
    ) {
        let text = rendered.text(look, &[]);
        let text = if prefix { prefixed("gpu-07", &text) } else { text };
        let read = read(&text, &plain());
        let (gpus, nics) = (rendered.gpus, rendered.nics.len());
        let near = |gpu: usize, nic: usize| rendered.near[gpu * nics + nic];
        let any_near = (0..gpus).any(|g| (0..nics).any(|n| near(g, n) >= LinkClass::Phb));
        if !any_near && nics > 1 {
            // Nodes tell, or nobody does; in silence neither.
            prop_assert!(read.diagnostics.iter().any(|d| d.severity > Severity::Note));
            return Ok(());
        }
        prop_assert!(read.value.len() == 1, "{}", shown(&read));
        let dump = read.value[0].dump.as_ref().unwrap();
        prop_assert_eq!(dump.hosts.len(), usize::from(prefix));
        match &dump.links {
            Links::Matrix(cells) => prop_assert_eq!(cells, &rendered.links),
            Links::NvSwitch => {
                let first = rendered.links[1];
                prop_assert!((0..gpus * gpus).all(|i| i / gpus == i % gpus || rendered.links[i] == first));
            }
        }
        for nic in &dump.nics {
            let at: usize = nic.name["NIC".len()..].parse().unwrap();
            for gpu in 0..gpus {
                let best = (0..nics).map(|n| near(gpu, n)).max().unwrap();
                let serves = if any_near { best >= LinkClass::Phb && near(gpu, at) == best } else { true };
                prop_assert_eq!(nic.gpus.contains(gpu), serves);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(GPU[0-9]{1,3}|NIC[0-9]|mlx5_0|X|PIX|SYS|NV[0-9]{1,3}|CPU Affinity|OK|h[12]: |----|\u{1b}\\[4m|[ \t\n:|,]|GPU 0: A|index, name){0,60}") {
        let _ = is_topo(&text);
        let _ = read(&text, &plain());
        let _ = read(&text, &rails());
    }
}
