//! Damaged input: whatever is cut, dropped, blown up or mixed in, no reader panics, and what is still
//! read of a cut file is what the whole file says.

use std::collections::BTreeSet;

use bandpilot_core::{Cluster, ClusterBuilder, Measurement};
use bandpilot_readers::cluster_import::{self, ClusterOptions, HostName, Source};
use bandpilot_readers::{
    Import, ImportOptions, MissingBytes, cluster_file, coverage, csv_tables, hostlist, import,
    nccl_tests, openb, placement, state_file, store, trace_file,
};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Cuts of one benchmark output that are tried at most; enough for every line of every field file.
const MAX_CUTS: usize = 150;
/// The same for the tables, which have hundreds of rows that are all alike.
const MAX_TABLE_CUTS: usize = 25;
/// Random inputs for each reader.
const ROUNDS: usize = 4000;

fn options() -> Vec<ImportOptions> {
    let told = |op: &str, place: &str| ImportOptions {
        op: op.parse().ok(),
        placement: Some(placement::by_name(place).value).filter(|place| !place.is_empty()),
        bytes: MissingBytes::Unknown,
        ..ImportOptions::default()
    };
    vec![
        ImportOptions { bytes: MissingBytes::Unknown, ..ImportOptions::default() },
        told("all_reduce", ""),
        told("all_reduce", "h[1-2]:0-7"),
        told("all_gather", "h[1-2]:0-7"),
        ImportOptions { cluster: Some(std::sync::Arc::new(cluster())), ..told("all_reduce", "") },
    ]
}

/// Name and text of every real table and benchmark output.
fn real_files(test: &str) -> Option<Vec<(String, String)>> {
    let data = bandpilot_testdata::require_data(test)?;
    let mut files = Vec::new();
    for folder in ["field-files/nccl-tests", "nccl-bandpilot", "eval"] {
        for path in bandpilot_testdata::files(&data.join(folder)) {
            let name = path.file_name()?.to_string_lossy().into_owned();
            files.push((name, bandpilot_testdata::read(&path)?));
        }
    }
    assert!(files.len() > 45);
    Some(files)
}

/// Reads a text with every reader of measurements and matrices; gives what the importer made of it.
fn read_all(text: &str, options: &ImportOptions) -> Import {
    let _ = csv_tables::read_links(text);
    let _ = csv_tables::read_masks(text);
    let read = import("f", text, options);
    assert!(!read.refused || read.measurements.is_empty());
    let _ = coverage::summarise(&read.measurements);
    let _ = csv_tables::read("f", text, options);
    let _ = bandpilot_readers::nccl_tests::read("f", text, options);
    read
}

/// Options under which each benchmark output gives its measurements.
fn right_options() -> Vec<ImportOptions> {
    let mut all = vec![ImportOptions::default()];
    for (op, place) in [
        ("all_reduce", ""),
        ("all_gather", ""),
        ("all_reduce", "h1:0-7"),
        ("alltoall", "h1:0-7"),
        ("reduce_scatter", "h1:0-7"),
        ("all_reduce", "h1:0-3"),
        ("all_reduce", "h[1-2]:0-7"),
        ("all_gather", "h[1-2]:0-7"),
        ("all_reduce", "h[1-12]:0-7"),
        ("all_reduce", "h[1-16]:0-7"),
        ("all_reduce", "h[1-360]:0-3"),
    ] {
        all.push(ImportOptions {
            op: op.parse().ok(),
            placement: Some(placement::by_name(place).value).filter(|place| !place.is_empty()),
            ..ImportOptions::default()
        });
    }
    let cluster = Some(std::sync::Arc::new(cluster()));
    all.push(ImportOptions { cluster, op: "all_reduce".parse().ok(), ..ImportOptions::default() });
    all
}

/// What a measurement says, without the line, which a changed file may have shifted. A changed device list
/// may be another one that is sound by itself; then only the number of GPUs is held against it.
fn facts(import: &Import, with_place: bool) -> BTreeSet<String> {
    let place = |m: &Measurement| {
        if with_place { placement::format(&m.placement) } else { m.gpus().to_string() }
    };
    import
        .measurements
        .iter()
        .map(|m| format!("{} {:?} {} {}", m.collective, m.bytes, place(m), m.busbw_gbytes_per_s))
        .collect()
}

/// Calls `change` for every benchmark output and the options under which it gives measurements, with a
/// check that a changed text gives none that the whole file does not give.
fn for_each_benchmark(test: &str, change: impl Fn(&str, &dyn Fn(&str, bool))) {
    let Some(data) = bandpilot_testdata::require_data(test) else { return };
    let mut used = 0;
    for path in bandpilot_testdata::files(&data.join("field-files/nccl-tests")) {
        let text = bandpilot_testdata::read(&path).unwrap_or_default();
        let read = |text: &str, options: &ImportOptions| nccl_tests::read("f", text, options);
        let whole = |options: &ImportOptions| read(&text, options).measurements.len();
        // The options that give most, the first of several, and those that leave all to inference.
        let Some(best) = right_options().into_iter().rev().max_by_key(whole) else { continue };
        used += usize::from(whole(&best) > 0);
        let two_hosts =
            ClusterBuilder::new("two").host_type("dgx", "H100", 8).nvswitch().rails(400.0);
        let cluster = Some(std::sync::Arc::new(two_hosts.hosts("h", 1, 2).build()));
        let in_cluster = ImportOptions { cluster, ..ImportOptions::default() };
        // A log of other hosts that has lost its list may be one of the whole cluster: sound by itself.
        let in_cluster = Some(in_cluster).filter(|options| whole(options) > 0);
        for options in
            [Some(best), in_cluster, Some(ImportOptions::default())].into_iter().flatten()
        {
            let import = read(&text, &options);
            let known = [facts(&import, false), facts(&import, true)];
            change(&text, &|changed, with_place| {
                let found = facts(&read(changed, &options), with_place);
                let new = found.difference(&known[usize::from(with_place)]).next();
                let differs = changed.lines().zip(text.lines()).find(|(now, before)| now != before);
                assert!(new.is_none(), "{}: {new:?} by {differs:?}", path.display());
            });
        }
    }
    assert!(used >= 19, "only {used} benchmark outputs gave anything");
}

/// The numbers of a line, as byte ranges.
fn numbers(line: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, byte) in line.bytes().enumerate() {
        if !(byte.is_ascii_digit() || byte == b'.') {
            continue;
        }
        match found.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => found.push((at, at + 1)),
        }
    }
    found
}

/// A number in sizes that nothing has. A single digit is not made smaller: 0 instead of 1 may be a flag that
/// says the opposite, and a file that is sound by itself.
fn blown_up(number: &str) -> Vec<String> {
    let times = |factor: f64| {
        let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
        number.parse::<f64>().map(|value| format!("{:.decimals$}", value * factor)).ok()
    };
    let mut all =
        vec!["1e400".to_owned(), format!("{number}e99"), format!("-{number}"), "7".repeat(400)];
    all.extend([10.0, 1000.0].into_iter().filter_map(times));
    all.extend(times(0.1).filter(|_| number.len() > 1));
    all
}

#[test]
fn no_blown_up_number_becomes_a_measurement() {
    for_each_benchmark("damage::no_blown_up_number", |text, check| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (at, line) in lines.iter().enumerate() {
            let of_list = line.contains("Rank");
            for (start, end) in numbers(line) {
                for with in blown_up(&line[start..end]) {
                    let changed = [&line[..start], &with, &line[end..]].concat();
                    let before = lines[..at].concat();
                    check(
                        &[before.as_str(), &changed, &lines[at + 1..].concat()].concat(),
                        !of_list,
                    );
                }
            }
        }
    });
}

#[test]
fn no_lost_cell_or_line_makes_another_measurement() {
    for_each_benchmark("damage::no_lost_cell", |text, check| {
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            let mut changed = lines.clone();
            changed.remove(at);
            check(&changed.join("\n"), true);
            check(&lines[..at].join("\n"), true);
            check(&lines[at..].join("\n"), true);
            for column in 0..lines[at].split_whitespace().count().min(30) {
                let lost = without(lines[at], column, false);
                changed = lines.clone();
                changed[at] = &lost;
                check(&changed.join("\n"), true);
            }
        }
        for column in 0..16 {
            let changed: Vec<String> =
                lines.iter().map(|line| without(line, column, false)).collect();
            check(&changed.join("\n"), true);
        }
    });
}

#[test]
fn lines_torn_anywhere_make_no_other_measurement() {
    for_each_benchmark("damage::lines_torn", |text, check| {
        let noise = "\nh1:12:13 [0] NCCL INFO Bootstrap : Using eth0\n";
        for at in (0..text.len()).filter(|at| at % 5 == 0 && text.is_char_boundary(*at)) {
            check(&[&text[..at], noise, &text[at..]].concat(), false);
            check(&text[..at], false);
        }
    });
}

fn is_table(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|extension| extension == "csv")
}

/// How far apart the cuts of a file are, and the options that make a difference for its kind.
fn plan(name: &str, length: usize) -> (usize, Vec<ImportOptions>) {
    if is_table(name) {
        (length.div_ceil(MAX_TABLE_CUTS).max(1), options().into_iter().take(1).collect())
    } else {
        (length.div_ceil(MAX_CUTS).max(1), options())
    }
}

#[test]
fn files_cut_at_a_line() {
    let Some(files) = real_files("damage::files_cut_at_a_line") else { return };
    for (name, text) in files {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (stride, options) = plan(&name, lines.len());
        for options in options {
            let whole = import("f", &text, &options);
            for cut in (0..lines.len()).step_by(stride) {
                let head = read_all(&lines[..cut].concat(), &options);
                // A refused file may have been refused for what comes after the cut.
                assert!(
                    whole.refused || whole.measurements.starts_with(&head.measurements),
                    "{name} {cut}"
                );
                read_all(&lines[cut..].concat(), &options);
            }
        }
    }
}

#[test]
fn files_cut_inside_a_line() {
    let Some(files) = real_files("damage::files_cut_inside_a_line") else { return };
    for (name, text) in files {
        let (stride, options) = plan(&name, text.len());
        for options in options {
            let whole = import("f", &text, &options);
            for cut in (0..text.len()).step_by(stride).filter(|cut| text.is_char_boundary(*cut)) {
                let head = read_all(&text[..cut], &options);
                if is_table(&name) {
                    continue; // The last number of a CSV row may be cut and still be a number.
                }
                assert!(
                    whole.refused || whole.measurements.starts_with(&head.measurements),
                    "{name} {cut}"
                );
            }
        }
    }
}

#[test]
fn files_with_a_column_less() {
    let Some(files) = real_files("damage::files_with_a_column_less") else { return };
    for (name, text) in files {
        let comma = csv_tables::is_table(&text);
        for column in 0..14 {
            let changed: Vec<String> =
                text.lines().map(|line| without(line, column, comma)).collect();
            for options in plan(&name, 0).1 {
                read_all(&changed.join("\n"), &options);
            }
        }
    }
}

fn without(line: &str, column: usize, comma: bool) -> String {
    let cells: Vec<&str> =
        if comma { line.split(',').collect() } else { line.split_whitespace().collect() };
    let kept = cells.iter().enumerate().filter(|(at, _)| *at != column).map(|(_, cell)| *cell);
    kept.collect::<Vec<_>>().join(if comma { "," } else { " " })
}

#[test]
fn files_with_numbers_blown_up() {
    let Some(files) = real_files("damage::files_with_numbers_blown_up") else { return };
    for (name, text) in files {
        for (from, to) in [
            ("1", "99999999999999999999999999"),
            (".", "e308."),
            ("0", "-0"),
            ("8", "NaN"),
            (".", ".0000000000000000000000000000000000000000000000000001"),
            ("2", "\u{663}"),
            (" ", ""),
            (",", ",,"),
        ] {
            for options in plan(&name, 0).1 {
                read_all(&text.replace(from, to), &options);
                read_all(&text.replacen(from, to, 40), &options);
            }
        }
    }
}

fn cluster() -> Cluster {
    ClusterBuilder::new("demo")
        .host_type("dgx", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, 4)
        .build()
}

const STATE: &str =
    "free = 'h1:0-3'\n[[job]]\nname = 'a'\nplacement = 'h[2-3]:0-7'\ndemand = 0.5\n";

/// Small good inputs of every kind that damage starts from.
fn seeds() -> Vec<String> {
    let table = "host,gpus,num_gpus,bitmask,message_bytes,busbw_GBps\nh1,0 1,2,3,1024,9.5\n";
    let rows = import("t.csv", table, &ImportOptions::default()).measurements;
    vec![
        "h[001-128,130],gpu-[1-2]x[0-3],login".to_owned(),
        "h1:0-3,5,h[2-3]:0-7,h4".to_owned(),
        cluster_file::write(&cluster()),
        STATE.to_owned(),
        table.to_owned(),
        "gpu,GPU0,GPU1\nGPU0,X,NV4\nGPU1,NV4,X\n".to_owned(),
        "m0,m1,m2,m3\n166,22,0,64\n".to_owned(),
        "# Collective test starting: all_reduce_perf\n# Using devices\n#  Rank  0 Group  0 Pid 1 on h1 device  0 [0x0f] H100\n#  Rank  1 Group  0 Pid 1 on h1 device  1 [0x0f] H100\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n     1048576        262144     float     sum      -1   339.61    3.09    3.09       0   335.85    3.12    3.12       0\n".to_owned(),
        "{\"args\":[\"all_reduce_perf\"],\"config\":{\"nthreads\":1,\"ngpus\":2,\"devices\":[{\"rank\":0,\"hostname\":\"h1\",\"device\":0,\"device_hex\":\"0000:0f:00\"}]},\"results\":[{\"size\":1000000,\"count\":250000,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"-1\",\"out_of_place\":{\"time\":100.0,\"alg_bw\":10.0,\"bus_bw\":10.0,\"nwrong\":0.0},\"in_place\":null}]}".to_owned(),
        "{\"#wrong\":\"0\",\"algBw\":10.0,\"busBw\":15.0,\"gpus\":4,\"inPlace\":0,\"name\":\"AllReduce\",\"size\":1000000,\"time\":100.0}\n".to_owned(),
        "# bytes N type op time algbw busbw res time algbw busbw res\n  1000000 250000 float sum 0.100 10.00 10.00 0e+00h1:2:3 [0] NCCL INFO x\n 0.100 10.00 10.00 0e+00\n".to_owned(),
        store::append_text("", &rows).map(|addition| addition.text).unwrap_or_default(),
        "h1: \tGPU0\tGPU1\tNIC0\tCPU Affinity\nh1: GPU0\t X \tNV4\tPIX\t0-3\nh1: GPU1\tNV4\t X \tPIX\t0-3\nh1: NIC0\tPIX\tPIX\t X \n".to_owned(),
        "SwitchName=s1 Nodes=h[1-2]\nNodeName=h1 Name=gpu Type=a File=/dev/nvidia0 Links=-1,4\nNodeName=h1 Name=gpu Type=a File=/dev/nvidia1 Links=4,-1\n".to_owned(),
        "node,ASW\nh1,S1\nh2,S2\n".to_owned(),
        "job_id,submit_s,duration_s,gpus,gpu_milli,gpu_type,qos,tenant\na,0,1.5,8,,,,t\nb,7,20,1,500,V100,p0,t\n".to_owned(),
    ]
}

/// One random change: a byte run removed, doubled, replaced by something nasty, or another seed mixed in.
fn damage(rng: &mut Pcg64, text: &str, others: &[String]) -> String {
    const NASTY: [&str; 16] = [
        "[",
        "]",
        "[1-999999999]",
        "99999999999999999999",
        "-",
        ",",
        ":",
        "\n",
        "\"",
        "\"\"\"",
        "é",
        "\u{0}",
        "NaN",
        "{",
        "#torn",
        "= ",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..=chars.len());
        let end = (at + rng.random_range(0..12_usize)).min(chars.len());
        let with: Vec<char> = match rng.random_range(0..4) {
            0 => Vec::new(),
            1 => chars[at..end].repeat(rng.random_range(2..5)),
            2 => NASTY[rng.random_range(0..NASTY.len())].chars().collect(),
            _ => others[rng.random_range(0..others.len())].chars().take(200).collect(),
        };
        chars.splice(at..end, with);
    }
    chars.into_iter().collect()
}

#[test]
fn thousands_of_random_inputs_for_each_reader() {
    let mut rng = Pcg64::seed_from_u64(20_260_101);
    let (seeds, cluster, options) = (seeds(), cluster(), options());
    for round in 0..ROUNDS {
        let seed = &seeds[round % seeds.len()];
        let text = if round % 5 == 0 {
            let length = rng.random_range(0..200);
            (0..length).map(|_| char::from(rng.random_range(0..128_u8))).collect()
        } else {
            damage(&mut rng, seed, &seeds)
        };
        check_one(&text, &cluster, &options[round % options.len()]);
    }
}

/// A cluster that is made of a text, beside a good dump and without one, reads back from its file.
fn imported_cluster(text: &str) {
    let good = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";
    let source = |name: &str, text: &str| Source {
        file: name.to_owned(),
        text: text.to_owned(),
        host: HostName::Folder(name.to_owned()),
    };
    let options = ClusterOptions {
        name: "f".to_owned(),
        gpu_model: Some("H100".to_owned()),
        nic_gbit_per_s: Some(400.0),
        ..ClusterOptions::default()
    };
    for sources in [vec![source("h9", text)], vec![source("h9", text), source("h1", good)]] {
        if let Some(cluster) = cluster_import::import(&sources, &options).cluster {
            let toml = cluster_file::write(&cluster);
            let read = cluster_file::read(&toml);
            assert!(!read.has_errors(), "{text}\n{toml}");
            assert_eq!(read.value, cluster, "{text}\n{toml}");
        }
    }
}

/// Every reader on one text, and what must hold of each value whatever the text is.
fn check_one(text: &str, cluster: &Cluster, options: &ImportOptions) {
    if let Ok(names) = hostlist::expand(text) {
        assert!(names.len() <= hostlist::MAX_HOSTS);
        let again = hostlist::compress(names.iter().map(String::as_str));
        assert_eq!(hostlist::expand(&again).as_ref(), Ok(&names), "{text}");
    }
    let named = placement::by_name(text).value;
    assert!(named.is_sorted_by(|a, b| a.0 < b.0) && named.iter().all(|(_, mask)| !mask.is_empty()));
    let placed = placement::on_cluster(text, cluster).value;
    assert!(
        placed.shares().iter().all(|(host, mask)| mask.is_subset_of(cluster.healthy_gpus(*host)))
    );
    let read = cluster_file::read(text).value;
    assert!(read.hosts.iter().all(|host| read.host_types.get(host.host_type.0 as usize).is_some()));
    assert_eq!(cluster_file::read(&cluster_file::write(&read)).value, read, "{text}");
    let state = state_file::read(text, cluster).value;
    assert_eq!(state.free.len(), cluster.hosts.len());
    let _ = state_file::free_form(text, cluster);
    read_all(text, options);
    imported_cluster(text);
    let trace = trace_file::read(text);
    assert!(trace.value.jobs.is_sorted_by(|a, b| (a.submit_s, a.line) < (b.submit_s, b.line)));
    let (nodes, pods) = (openb::read_nodes(text), openb::read_pods(text));
    assert!(nodes.value.bad_rows == 0 || !nodes.diagnostics.is_empty());
    assert!(pods.value.bad_rows == 0 || !pods.diagnostics.is_empty());
    let stored = store::parse(text);
    if let Ok(addition) = store::append_text(text, &stored.value) {
        assert_eq!(addition.added, 0, "{text}");
    }
}
